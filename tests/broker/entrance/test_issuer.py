"""The issuer's keys: where they are fetched, what is refused there, and how long they count."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from token_issuer import SITE, Signer, jwks

from broker.entrance import issuer as issuers
from broker.entrance.issuer import Issuer
from broker.entrance.issuer_keys import MAX_DOCUMENT, IssuerError, fetch_keys
from broker.entrance.operators import Operators, TokenRefused
from config.oidc import Oidc

PATIENCE = 30
FIRST, SECOND = Signer("k1", "ES256"), Signer("k2", "ES256")


class Served:
    """An issuer in this process. `answers`: by path; `asked`: how often for keys."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, web.Response | bytes] = {}
        self.asked = 0
        self.held: asyncio.Event | None = None

    def become(self, *signers: Signer, **metadata: Any) -> None:
        said = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | metadata
        self.answers["/.well-known/openid-configuration"] = json.dumps(said).encode()
        self.answers["/keys"] = jwks(*[each.jwk() for each in signers])

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += request.path == "/keys"
        if self.held is not None:
            await self.held.wait()
        found = self.answers.get(request.path)
        return web.Response(body=found) if isinstance(found, bytes) else found or web.Response(status=404)

    @property
    def site(self) -> Oidc:
        return replace(SITE, issuer=self.url)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made, app = Served(), web.Application()
    app.router.add_get("/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    made.become(FIRST)
    yield made
    await runner.cleanup()


@contextlib.asynccontextmanager
async def running(operators: Operators) -> AsyncIterator[None]:
    task = asyncio.create_task(operators.run())
    try:
        async with asyncio.timeout(PATIENCE):
            yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def token(served: Served, signer: Signer, **claims: Any) -> str:
    return signer.token(iss=served.url, **claims)


async def test_keys_are_fetched_where_the_issuer_says(served: Served) -> None:
    assert [key.kid for key in await fetch_keys(served.site)] == ["k1"]


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        ("/.well-known/openid-configuration", web.Response(status=404), "HTTP 404"),
        ("/.well-known/openid-configuration", b"[" * 9000, "no description"),
        ("/.well-known/openid-configuration", b"{}", "no description"),
        ("/.well-known/openid-configuration", b'{"issuer":"https://x","jwks_uri":""}', "calls itself"),
        ("/keys", web.Response(status=302, headers={"Location": "/keys2"}), "HTTP 302"),
        ("/keys", b" " * (MAX_DOCUMENT + 1), "more than"),
        ("/keys", b"<html>", "no set of keys"),
        (
            "/keys",
            web.Response(body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}),
            "something packed",
        ),
        ("/keys", b'{"keys":[]}', "no key that may sign"),
    ],
)
async def test_an_issuer_that_answers_otherwise_is_refused(
    served: Served, path: str, answer: web.Response | bytes, why: str
) -> None:
    served.answers["/keys2"] = served.answers["/keys"]
    served.answers[path] = answer
    with pytest.raises(IssuerError, match=why):
        await fetch_keys(served.site)


@pytest.mark.parametrize("where", ["http://keys.example/keys", "file:///etc/passwd", "", "http://[::::]/"])
async def test_keys_come_over_no_open_line(served: Served, where: str) -> None:
    served.become(FIRST, jwks_uri=where)
    with pytest.raises(IssuerError, match="expected an https://"):
        await fetch_keys(served.site)


async def test_keys_that_are_said_to_be_packed_and_are_not_are_read(served: Served) -> None:
    """As a store of files says of each that it was given as utf-8."""
    for path, answer in served.answers.items():
        served.answers[path] = web.Response(body=answer, headers={"Content-Encoding": "utf-8"})
    assert [key.kid for key in await fetch_keys(served.site)] == ["k1"]


async def test_the_host_of_the_keys_is_said_where_it_is_the_one_that_is_away(
    served: Served, unused_tcp_port: int
) -> None:
    where = f"http://127.0.0.1:{unused_tcp_port}/keys"
    served.become(FIRST, jwks_uri=where)
    with pytest.raises(IssuerError, match=f"^{where} cannot be reached"):
        await fetch_keys(served.site)


async def test_certificates_that_cannot_be_read_are_said(served: Served, tmp_path: Path) -> None:
    with pytest.raises(IssuerError, match=r"gone\.pem"):
        await fetch_keys(replace(served.site, ca=tmp_path / "gone.pem"))
    half = tmp_path / "half.pem"
    half.write_text("-----BEGIN CERTIFICATE-----\nMII", encoding="utf-8")
    with pytest.raises(IssuerError, match=r"half\.pem"):
        await fetch_keys(replace(served.site, ca=half))


async def test_an_issuer_that_is_away_is_said_in_words(unused_tcp_port: int) -> None:
    with pytest.raises(IssuerError, match="cannot be reached"):
        await fetch_keys(replace(SITE, issuer=f"http://127.0.0.1:{unused_tcp_port}"))


async def test_an_issuer_without_tls_is_said_in_words(served: Served) -> None:
    with pytest.raises(IssuerError, match="TLS"):
        await fetch_keys(replace(SITE, issuer=served.url.replace("http:", "https:")))


async def test_a_first_token_waits_for_the_keys_and_those_after_it_for_nothing(served: Served) -> None:
    operators = Operators("", (), Issuer(served.site))
    given = token(served, FIRST)
    assert operators.holder(given) is None
    assert "not here yet" in operators.why_nobody(given)
    async with running(operators):
        await operators.ready(given)
        assert operators.holder(given) is not None
        await operators.ready(given)
    assert served.asked == 1
    assert operators.holder(given + "A") is None


async def test_a_new_key_is_fetched_for_its_first_token_and_the_old_one_goes(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "AGAIN", 0.01)
    operators, told = Operators("", (), Issuer(served.site)), []
    old, new = token(served, FIRST), token(served, SECOND)
    async with running(operators):
        await operators.ready(old)
        assert operators.holder(old) is not None
        served.become(SECOND)
        with operators.when_changed(lambda: told.append(operators.holder(old))):
            await operators.ready(new)
        assert operators.holder(new) is not None
    assert told == [None]


async def test_unknown_keys_make_the_node_ask_once_for_all(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "WAIT", 0.01)
    operators = Operators("", (), Issuer(served.site))
    async with running(operators):
        await operators.ready(token(served, FIRST))
        for each in range(20):
            await operators.ready(token(served, Signer(f"x{each}", "ES256")))
    assert served.asked <= 2


async def test_keys_stay_while_the_issuer_is_away(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "AGAIN", 0.01)
    operators = Operators("", (), Issuer(served.site))
    old = token(served, FIRST)
    async with running(operators):
        await operators.ready(old)
        served.answers["/keys"] = web.Response(status=500)
        await operators.ready(token(served, SECOND))
        assert operators.holder(old) is not None
        assert operators.why_nobody(token(served, SECOND)).startswith("the token is signed by no key")


async def test_keys_that_the_issuer_has_taken_back_end_though_it_has_no_others(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "AGAIN", 0.01)
    operators = Operators("", (), Issuer(served.site))
    old, told = token(served, FIRST), asyncio.Event()
    async with running(operators):
        await operators.ready(old)
        assert operators.holder(old) is not None
        served.become()
        with operators.when_changed(told.set):
            await operators.ready(token(served, SECOND))
            await told.wait()
        assert operators.holder(old) is None
        served.become(SECOND)
        await operators.ready(token(served, SECOND))
        assert operators.holder(token(served, SECOND)) is not None


async def test_an_issuer_that_does_not_answer_holds_up_no_other(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "WAIT", 0.05)
    served.held = asyncio.Event()
    operators = Operators("word", (), Issuer(served.site))
    async with running(operators):
        await operators.ready(token(served, FIRST))
        assert operators.holder(token(served, FIRST)) is None
        await operators.ready("word")
        assert operators.holder("word") is not None
        served.held.set()


async def test_other_roles_count_at_once_and_keep_the_keys(served: Served) -> None:
    operators = Operators("", (), Issuer(served.site))
    given = token(served, FIRST)
    async with running(operators):
        await operators.ready(given)
        operators.become(Operators("", (), Issuer(replace(served.site, roles=SITE.roles[:1]))))
        assert "no value" in operators.why_nobody(given)
        operators.become(Operators("", (), Issuer(served.site)))
        assert operators.holder(given) is not None
    assert served.asked == 1


async def test_another_issuer_is_asked_at_once_and_one_that_is_named_no_more_opens_nothing(
    served: Served,
) -> None:
    operators = Operators("", (), Issuer(replace(served.site, issuer="http://127.0.0.1:1")))
    given = token(served, FIRST)
    async with running(operators):
        while served.asked == 0:
            operators.become(Operators("", (), Issuer(served.site)))
            await operators.ready(given)
        assert operators.holder(given) is not None
        operators.become(Operators())
        assert operators.holder(given) is None
        assert operators.ask_all
        assert operators.is_nobody
        operators.become(Operators("", (), Issuer(served.site)))
        await operators.ready(given)
        assert operators.holder(given) is not None


async def test_a_token_that_was_good_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Issuer(served.site)
    operators = Operators("", (), made)
    given = token(served, FIRST)
    async with running(operators):
        await operators.ready(given)
        until = made.holder(given).until
        monkeypatch.setattr(issuers, "asker_of", ended)
        assert made.holder(given)
        monkeypatch.setattr(issuers.time, "time", lambda: until)
        with pytest.raises(TokenRefused, match="has ended"):
            made.holder(given)


def ended(*_: object) -> None:
    raise TokenRefused("has ended")


async def test_so_many_tokens_are_known_and_no_more(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "_MOST_KNOWN", 2)
    made, looked = Issuer(served.site), []
    look = issuers.asker_of
    monkeypatch.setattr(issuers, "asker_of", lambda *given: looked.append(given[0]) or look(*given))
    given = [token(served, FIRST, sub=each) for each in "abc"]
    async with running(Operators("", (), made)):
        await made.ready(given[0])
        for each in (*given, given[2], given[0]):
            assert made.holder(each)
    assert looked == [*given, given[0]]


async def test_a_refused_token_is_looked_at_once_for_all_that_ask_about_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look at a signature takes as long as a hundred requests without one."""
    operators, looked = Operators(issuer=Issuer(served.site)), 0
    look = issuers.asker_of

    def counted(*given: Any) -> Any:
        nonlocal looked
        looked += 1
        return look(*given)

    monkeypatch.setattr(issuers, "asker_of", counted)
    async with running(operators):
        good, ended = token(served, FIRST), token(served, FIRST, exp=1)
        await operators.ready(good)
        assert operators.holder(ended) is None
        assert "has ended" in operators.why_nobody(ended)
        assert "has ended" in operators.why_nobody(ended)
        assert looked == 1
        assert operators.holder(good) is not None
        monkeypatch.setattr(issuers, "_REFUSED", 0.0)
        early = token(served, FIRST, exp=2)
        assert operators.holder(early) is operators.holder(early) is None
        assert looked == 4, "after a moment its time may have come"


async def test_few_requests_wait_for_keys_however_many_ask(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "WAIT", float(PATIENCE))
    served.held = asyncio.Event()
    issuer = Issuer(served.site)
    async with running(Operators(issuer=issuer)):
        asked = [
            asyncio.create_task(issuer.ready(token(served, Signer(f"x{number}", "ES256"))))
            for number in range(issuers.MOST_WAITING + 36)
        ]
        done, waits = set[asyncio.Task[None]](), set(asked)
        while len(done) < 36:
            some, waits = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            done |= some
        assert (len(done), len(waits)) == (36, issuers.MOST_WAITING)
        served.held.set()
        await asyncio.gather(*waits)
        assert not issuer._waiting
