"""The webhook against a real receiver: signed, again until it is taken, bounded, and discreet."""

import asyncio
import hashlib
import hmac
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from waiting import until

from broker.alarms import webhook
from broker.alarms.webhook import AlarmWebhook, Receiver, receiver_of
from config.alarms import Alarms
from config.alarms import WebhookTarget as Settings
from config.errors import ConfigurationError
from config.model import Site


@dataclass
class Taker:
    """Takes events. `answers`: what it says to the next requests; then 204."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    location: str = ""

    async def take(self, request: web.Request) -> web.Response:
        self.requests.append((dict(request.headers), await request.read()))
        self.came.set()
        status = self.answers.pop(0) if self.answers else 204
        return web.Response(status=status, headers={"Location": self.location} if self.location else {})

    @property
    def ids(self) -> list[str]:
        return [json.loads(body)["id"] for _, body in self.requests]


@asynccontextmanager
async def listening(taker: Taker, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Taker]:
    app = web.Application()
    app.router.add_post("/{path:.*}", taker.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    taker.url = f"http{'s' if tls else ''}://127.0.0.1:{port}/hooks/a-secret-part"
    try:
        yield taker
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(made: AlarmWebhook) -> AsyncIterator[AlarmWebhook]:
    task = asyncio.ensure_future(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def to(uri: str, key: str = "", token: str = "") -> Receiver:
    return Receiver(uri=uri, host="http://127.0.0.1", token=token, key=key, tls=None)


def event(number: int) -> dict[str, Any]:
    return {"id": f"event-{number}", "alarm": "backlog"}


async def test_an_event_is_signed_as_the_documents_say() -> None:
    async with listening(Taker()) as taker:
        made = AlarmWebhook(to(taker.url, "the key", "the token"), [event(1)], clock=lambda: 1_800_000_000.9)
        async with running(made):
            await until(lambda: made.sent == 1)
    ((headers, body),) = taker.requests
    assert json.loads(body) == event(1)
    assert headers["Authorization"] == "Bearer the token"
    assert headers["Idempotency-Key"] == "event-1"
    assert headers["Sapwood-Timestamp"] == "1800000000"
    expected = hmac.new(b"the key", b"1800000000." + body, hashlib.sha256).hexdigest()
    assert headers["Sapwood-Signature"] == f"sha256={expected}"
    assert made.waiting == []


async def test_it_is_told_again_until_it_is_taken_and_in_order() -> None:
    taker = Taker(answers=[500, 429, 503])
    async with listening(taker):
        made = AlarmWebhook(to(taker.url), [event(1), event(2)], first_pause=0.01)
        async with running(made):
            await until(lambda: made.sent == 2)
    assert taker.ids == ["event-1"] * 4 + ["event-2"]
    assert (made.refused, made.error) == (0, "")


async def test_what_will_never_be_taken_holds_nothing_up() -> None:
    taker = Taker(answers=[404])
    async with listening(taker):
        made = AlarmWebhook(to(taker.url), [event(1), event(2)])
        async with running(made):
            await until(lambda: made.sent == 1)
    assert (taker.ids, made.refused, made.waiting) == (["event-1", "event-2"], 1, [])


@pytest.mark.parametrize(("answer", "says"), [(b"", "without an answer"), (b"220 smtp\r\n", "no HTTP")])
async def test_a_receiver_that_is_none_is_told_in_words(answer: bytes, says: str) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answers, "127.0.0.1", 0) as server:
        uri = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/a-secret-part"
        made = AlarmWebhook(to(uri), [event(1)])
        async with running(made):
            await until(lambda: made.error)
    assert says in made.error
    assert "a-secret-part" not in made.error


async def test_an_address_is_in_no_word_of_a_connection_that_ends_as_an_event_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one does that was kept open, and that the receiver gives up at that moment."""

    async def fails(*_: object) -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr("aiohttp.payload.BytesPayload.write_with_length", fails)
    monkeypatch.setattr("aiohttp.payload.BytesPayload.write", fails)
    async with listening(Taker()) as taker:
        made = AlarmWebhook(to(f"{taker.url}/a-secret-part"), [event(1)])
        async with running(made):
            await until(lambda: made.error)
    assert made.error == "it ended the connection without an answer"


async def test_a_receiver_that_is_away_gets_it_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with listening(Taker()) as first:
        port = int(first.url.split(":")[2].split("/")[0])
    made = AlarmWebhook(to(first.url), [event(1)], first_pause=0.01)
    async with running(made):
        await until(lambda: made.error)
        async with listening(Taker(), port) as second:
            await until(lambda: made.sent == 1)
    assert second.ids == ["event-1"]
    assert "takes alarms again" in caplog.text
    assert "a-secret-part" not in caplog.text


@pytest.mark.parametrize("status", [301, 307, 308])
async def test_a_redirect_is_neither_followed_nor_asked_for_again(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(Taker()) as elsewhere:
        taker = Taker(answers=[status, status], location=elsewhere.url)
        async with listening(taker):
            made = AlarmWebhook(to(taker.url, token="the token"), [event(1), event(2)], first_pause=0.01)
            async with running(made):
                await until(lambda: made.refused == 2)
                assert "nobody follows a redirect" in made.error
                made.tell(event(3))
                await until(lambda: made.sent == 1)
    assert elsewhere.requests == []
    assert taker.ids == ["event-1", "event-2", "event-3"]
    assert caplog.text.count("does not take alarms") == 1


async def test_a_receiver_that_is_named_meanwhile_gets_what_waits_at_once() -> None:
    made = AlarmWebhook(to("http://127.0.0.1:9/"), [event(1)], first_pause=10_000.0)
    async with listening(Taker()) as taker, running(made):
        await until(lambda: made.error)
        made.configure(to(taker.url))
        await until(lambda: made.sent == 1)
        made.configure(None)
        made.tell(event(2))
        assert (made.is_named, made.waiting) == (False, [])
        made.configure(to(taker.url))
        made.tell(event(3))
        await until(lambda: made.sent == 2)
    assert taker.ids == ["event-1", "event-3"]


async def test_of_too_many_the_oldest_go_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "MOST", 3)
    made = AlarmWebhook(to("http://127.0.0.1:9/"))
    for number in range(5):
        made.tell(event(number))
    assert [each["id"] for each in made.waiting] == ["event-2", "event-3", "event-4"]
    assert (made.dropped, made.status()["waiting"]) == (2, 3)


async def test_an_event_that_was_pushed_out_while_it_was_told_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "MOST", 2)
    taker = Taker(answers=[500])
    async with listening(taker):
        made = AlarmWebhook(to(taker.url), [event(1), event(2)], first_pause=0.2)
        async with running(made):
            await taker.came.wait()
            made.tell(event(3))
            await until(lambda: made.sent == 3)
    assert taker.ids == ["event-1", "event-1", "event-2", "event-3"]


@pytest.mark.parametrize("trusted", [True, False])
async def test_https_only_with_a_certificate_that_is_trusted(tmp_path: Path, trusted: bool) -> None:
    authority, other = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    (authority if trusted else other).cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "token").write_text("the token\n")
    (tmp_path / "token").chmod(0o600)
    async with listening(Taker(), tls=context) as taker:
        settings = Settings(uri=taker.url, ca=tmp_path / "ca.pem", token_file=tmp_path / "token")
        receiver = receiver_of(Site(name="hq", alarms=Alarms(webhook=settings)))
        assert receiver is not None
        assert (receiver.token, "a-secret-part" in repr(receiver)) == ("the token", False)
        made = AlarmWebhook(receiver, [event(1)], first_pause=0.01)
        async with running(made):
            await until(lambda: made.sent if trusted else made.error)
    assert len(taker.requests) == trusted
    assert trusted or "certificate" in made.error


@pytest.mark.parametrize(
    "uri", ["http://alerts.example.com/a-secret-part", "ftp://x/a-secret-part", "https://me:a-secret-part@x/"]
)
def test_an_address_from_a_file_is_checked_and_never_repeated(tmp_path: Path, uri: str) -> None:
    (tmp_path / "uri").write_text(uri)
    (tmp_path / "uri").chmod(0o600)
    with pytest.raises(ConfigurationError) as error:
        receiver_of(Site(name="hq", alarms=Alarms(webhook=Settings(uri_file=tmp_path / "uri"))))
    assert "a-secret-part" not in str(error.value)
