"""Who gets in, by which proof, from where: every row of the table that the documentation has."""

import asyncio
import logging

import pytest

from broker.core.errors import NotLoggedIn, SwitchError
from broker.core.sessions.rights import CHANGED, FULL, Rights
from broker.core.sessions.sessions import Connection, Session
from broker.entrance.entrance import Caller, Entrance
from broker.entrance.passwords import Hashed, hashed, read
from broker.entrance.policy import EntrancePolicy, Known
from broker.entrance.tries import FREE, MOST_WAITING
from treeconnector.identity import Shown
from treeconnector.permits import Grant, Permit, Rules

WORD = "correct horse"
ACCOUNTS = {"till": Known(read(hashed(WORD), "till"), ("prices/#",), ("sales/#",))}
YORK = Shown(frozenset({"york"}), serial=7)
NOTHING = Shown()
BATH = Shown(frozenset({"bath"}), serial=8)


def holder(shown: Shown) -> str:
    if shown != YORK:
        raise NotLoggedIn("your certificate was revoked")
    return "york"


def permit_of(child: str) -> Permit:
    return Permit([Rules(Grant("hq", child, ("prices/#",), ("sales/#",)))])


def caller(*, near: bool = False, account: str = "", secret: str = "", shown: Shown = NOTHING) -> Caller:
    return Caller("http", "127.0.0.1:1" if near else "192.0.2.7:1", near, account, secret, shown)


async def found(policy: EntrancePolicy, asking: Caller) -> Rights | str:
    entrance = Entrance("hq", policy, holder, permit_of)
    try:
        return await entrance.admitted(asking)
    except SwitchError as error:
        return error.code
    finally:
        entrance.close()


@pytest.mark.parametrize(
    ("policy", "near", "far"),
    [
        (EntrancePolicy(), True, False),
        (EntrancePolicy("local"), True, False),
        (EntrancePolicy("open"), True, True),
        (EntrancePolicy(certificates=True), True, False),
        (EntrancePolicy(secret="word"), False, False),
        (EntrancePolicy(accounts=ACCOUNTS), False, False),
        (EntrancePolicy("local", accounts=ACCOUNTS), False, False),
    ],
)
async def test_without_a_proof(policy: EntrancePolicy, near: bool, far: bool) -> None:
    for is_near, gets_in in ((True, near), (False, far)):
        rights = await found(policy, caller(near=is_near))
        assert (rights.permit is None if isinstance(rights, Rights) else rights) == (
            gets_in or "NOT_LOGGED_IN"
        )


@pytest.mark.parametrize("near", [True, False])
async def test_the_session_secret_gives_every_right_under_any_name(near: bool) -> None:
    policy = EntrancePolicy(secret="word", accounts=ACCOUNTS)
    for name in ("", "anybody", "till"):
        rights = await found(policy, caller(near=near, account=name, secret="word"))
        assert isinstance(rights, Rights)
        assert (rights.permit, rights.who, rights.ended) == (None, "", False)
    assert await found(policy, caller(near=near, secret="wrong")) == "NOT_LOGGED_IN"
    assert await found(policy, caller(near=near, secret=WORD)) == "NOT_LOGGED_IN"


async def test_whoever_came_in_with_a_secret_that_is_another_one_by_now_logs_in_again() -> None:
    """Whoever had learned the old one stayed until his line broke."""
    ended: list[str] = []
    session = Session("1")
    entrance = Entrance("hq", EntrancePolicy(secret="word"), sessions=lambda: (session,))
    came = await entrance.admitted(caller(secret="word"))
    for rights in (came, FULL):
        session.connections[Connection(print, "there", rights=rights, end=ended.append)] = None
    entrance.configure(EntrancePolicy(secret="word", accounts=ACCOUNTS))
    assert (ended, came.ended) == ([], False)
    entrance.configure(EntrancePolicy(secret="another"))
    assert (ended, came.ended) == ([CHANGED], True)
    assert not (await entrance.admitted(caller(secret="another"))).ended
    entrance.close()


@pytest.mark.parametrize("policy", [EntrancePolicy(secret="word"), EntrancePolicy(accounts=ACCOUNTS)])
async def test_whoever_came_in_without_a_proof_gives_one_once_the_file_asks_for_it(
    policy: EntrancePolicy, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever was there read on with every right, until the line broke."""
    caplog.set_level(logging.INFO, "sapwood.entrance")
    ended: list[str] = []
    session = Session("1")
    entrance = Entrance("hq", EntrancePolicy(), sessions=lambda: (session,))
    came = await entrance.admitted(caller(near=True))
    session.connections[Connection(print, "here", rights=came, end=ended.append)] = None
    entrance.configure(EntrancePolicy(certificates=True))
    assert (ended, came.ended) == ([], False)
    entrance.configure(policy)
    assert (ended, came.ended) == ([CHANGED], True)
    assert "an application that had no proof to give at here" in caplog.text
    with pytest.raises(SwitchError, match="does not know who you are"):
        await entrance.admitted(caller(near=True))
    entrance.configure(EntrancePolicy())
    assert not (await entrance.admitted(caller(near=True))).ended
    entrance.close()


@pytest.mark.parametrize("near", [True, False])
async def test_an_account_gives_its_rights(near: bool) -> None:
    policy = EntrancePolicy(accounts=ACCOUNTS)
    rights = await found(policy, caller(near=near, account="till", secret=WORD))
    assert isinstance(rights, Rights)
    assert (rights.who, rights.space, rights.limited) == ("account till", "till/", True)
    for name, word in (("till", "wrong"), ("nobody", WORD), ("till", ""), ("", WORD)):
        assert await found(policy, caller(near=near, account=name, secret=word)) == "NOT_LOGGED_IN"


async def test_a_certificate_gives_its_child_s_rights_and_a_revoked_one_none() -> None:
    policy = EntrancePolicy(certificates=True)
    rights = await found(policy, caller(shown=YORK))
    assert isinstance(rights, Rights)
    assert (rights.who, rights.limited) == ("certificate york", True)
    assert await found(policy, caller(shown=BATH)) == "NOT_LOGGED_IN"
    assert await found(policy, caller(shown=BATH, near=True)) == "NOT_LOGGED_IN"
    assert await found(EntrancePolicy("local", certificates=True), caller(shown=YORK)) == "NOT_LOGGED_IN"


async def test_a_wrong_word_is_not_made_up_for_by_a_certificate() -> None:
    policy = EntrancePolicy(accounts=ACCOUNTS, certificates=True)
    assert await found(policy, caller(account="till", secret="wrong", shown=YORK)) == "NOT_LOGGED_IN"


async def test_local_takes_no_proof_from_elsewhere() -> None:
    policy = EntrancePolicy("local", secret="word", accounts=ACCOUNTS)
    assert await found(policy, caller(account="till", secret=WORD)) == "NOT_LOGGED_IN"
    assert isinstance(await found(policy, caller(near=True, account="till", secret=WORD)), Rights)


async def test_a_thousand_tills_that_come_at_once_cost_one_look_at_their_password() -> None:
    entrance = Entrance("hq", EntrancePolicy(accounts=ACCOUNTS))
    come = await asyncio.gather(
        *(entrance.admitted(caller(account="till", secret=WORD)) for _ in range(1000))
    )
    assert {rights.who for rights in come} == {"account till"}
    assert not entrance.failed
    entrance.close()


async def test_one_who_guesses_keeps_nobody_else_waiting() -> None:
    """Two hundred guesses of one address are under way: from another one the right password is let in."""
    entrance = Entrance("hq", EntrancePolicy(accounts=ACCOUNTS))
    guesses = [
        asyncio.ensure_future(entrance.admitted(caller(account="till", secret=f"guess {number}")))
        for number in range(200)
    ]
    await asyncio.sleep(0)
    more = await asyncio.gather(
        *(entrance.admitted(caller(account="till", secret=f"more {number}")) for number in range(200)),
        return_exceptions=True,
    )
    assert "BUSY" in {error.code for error in more if isinstance(error, SwitchError)}
    other = Caller("mqtt", "192.0.2.8:1", False, "till", WORD)
    assert (await entrance.admitted(other)).who == "account till"
    for guess in guesses:
        guess.cancel()
    await asyncio.gather(*guesses, return_exceptions=True)
    assert entrance.failed["http"] >= 200
    entrance.close()


async def test_who_guesses_through_a_proxy_slows_down_no_program_of_this_machine() -> None:
    policy = EntrancePolicy(accounts=ACCOUNTS)
    entrance = Entrance("hq", policy, holder, permit_of)
    try:
        here = caller(near=True, account="till", secret=WORD)
        beyond = here._replace(near=False, secret="guess")
        for _ in range(FREE + 1):
            entrance.wrong_token(beyond.address, near=False)
        waiting = [asyncio.create_task(entrance.admitted(beyond)) for _ in range(MOST_WAITING + 1)]
        await asyncio.sleep(0)
        assert entrance.status()["slowed_addresses"] == 1
        assert (await entrance.admitted(here)).who == "account till"
        done = [each for each in waiting if each.done()]
        assert [str(each.exception())[:8] for each in done] == ["too many"]
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    finally:
        entrance.close()


def test_the_names_of_an_account_s_sessions_are_known() -> None:
    names = {"till/1": "account till", "till": "", "tills/1": "", "mqtt/till/1": ""}

    async def owners() -> dict[str, str]:
        entrance = Entrance("hq", EntrancePolicy(secret="word", accounts=ACCOUNTS))
        return {name: entrance.owner_of(name) for name in names}

    assert asyncio.run(owners()) == names


async def test_a_password_that_cannot_be_looked_at_is_not_taken_for_a_wrong_one(monkeypatch) -> None:
    def no_memory(*_: object) -> bool:
        raise MemoryError

    monkeypatch.setattr(Hashed, "is_of", no_memory)
    entrance = Entrance("hq", EntrancePolicy(accounts=ACCOUNTS))
    for _ in range(30):
        with pytest.raises(SwitchError, match="cannot be looked at now: try again"):
            await entrance.admitted(caller(account="till", secret=WORD))
    monkeypatch.undo()
    assert (await entrance.admitted(caller(account="till", secret=WORD))).who == "account till"
    entrance.close()
