"""A journal loses nothing, whatever stops when; it repeats under the same message id, or not at all."""

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sapwood import Client, Unconfirmed, connect, sync
from sapwood.journal import Journal, _insert
from sapwood.protocol.bundles import Foreign, Message, decode_messages
from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.session_frames import Confirm, Reject, Send


def client_of(played: Any, **options: Any) -> Client:
    return connect(played.uri, session="till-7", producer="sales", **options)


def messages(frames: list[Send]) -> list[Message]:
    return [message for frame in frames for message in decode_messages(frame.body, frame.count)]


def payloads(played: Any) -> list[bytes]:
    return [message.payload for message in messages(played.kept)]


async def test_what_was_written_is_published_in_order_and_trimmed(played: Any, tmp_path: Path) -> None:
    with Journal(tmp_path / "sales") as journal:
        assert journal.append("queue:sales", b"0") == 1
        assert journal.append_many([("queue:sales", f"{number}") for number in range(1, 2500)]) == 2500
        assert len(journal) == 2500
        async with client_of(played) as client:
            assert await journal.publish(client) == 2500
            assert client.committed == 2500
            assert len(journal) == 0
            assert await journal.publish(client) == 0
    assert payloads(played) == [f"{number}".encode() for number in range(2500)]
    ids = {message.properties.message_id for message in messages(played.kept)}
    assert len(ids) == 2500


async def test_numbers_follow_the_journal_whatever_the_destinations(played: Any, tmp_path: Path) -> None:
    played.holding = True
    wanted = []
    with Journal(tmp_path / "sales") as journal:
        for number in range(12):
            name, persistent = "ab"[number % 2], number % 3 > 0
            journal.append(f"queue:{name}", f"{number}", persistent=persistent, message_id=f"id-{number}")
            wanted.append((name, persistent, f"{number}".encode(), f"id-{number}"))
        async with client_of(played) as client:
            publishing = asyncio.create_task(journal.publish(client))
            await played.until(lambda: len(messages(played.kept)) == 12)
            await played.say(Confirm(12))
            assert await publishing == 12
    found = [
        (frame.destination.name, frame.persistent, message.payload, message.properties.message_id)
        for frame in sorted(played.kept, key=lambda frame: frame.first)
        for message in decode_messages(frame.body, frame.count)
    ]
    assert found == wanted


async def test_entries_outlive_the_application(played: Any, tmp_path: Path) -> None:
    with Journal(tmp_path / "sales") as journal:
        journal.append("queue:sales", b"before")
    with Journal(tmp_path / "sales") as journal:
        assert len(journal) == 1
        async with client_of(played) as client:
            await journal.publish(client)
    assert payloads(played) == [b"before"]


@pytest.mark.parametrize("trust", [False, True])
async def test_what_was_under_way_at_a_stop(played: Any, tmp_path: Path, trust: bool) -> None:
    """The node has two of the three; the application is gone before it hears of it."""
    played.holding = True
    with Journal(tmp_path / "sales", trust=trust) as journal:
        journal.append_many([("queue:sales", payload) for payload in ("a", "b", "c")])
        client = await client_of(played).open()
        publishing = asyncio.create_task(journal.publish(client))
        await played.until(lambda: played.kept)
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        await client.close(wait=False)
    first_ids = [message.properties.message_id for message in messages(played.kept)]
    played.holding = False
    played.committed["sales"] = 2
    played.kept.clear()
    with Journal(tmp_path / "sales", trust=trust) as journal:
        async with client_of(played) as client:
            assert await journal.publish(client) == (1 if trust else 3)
        assert len(journal) == 0
    assert payloads(played) == ([b"c"] if trust else [b"a", b"b", b"c"])
    again = [message.properties.message_id for message in messages(played.kept)]
    assert again == first_ids[-len(again) :]


async def test_a_cancelled_publish_goes_on_with_the_same_client(played: Any, tmp_path: Path) -> None:
    """What is under way is waited for and not sent a second time; what had no room is sent."""
    played.holding = True
    with Journal(tmp_path / "sales") as journal:
        journal.append_many([("queue:sales", f"{number}") for number in range(10)])
        async with client_of(played, window_messages=4) as client:
            publishing = asyncio.create_task(journal.publish(client))
            await played.until(lambda: len(messages(played.kept)) == 4)
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
            again = asyncio.create_task(journal.publish(client))
            played.holding = False
            await played.say(Confirm(4))
            assert await again == 10
        assert len(journal) == 0
    assert payloads(played) == [f"{number}".encode() for number in range(10)]


async def test_a_full_queue_is_tried_again_and_what_cannot_be_taken_is_set_aside(
    played: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sapwood.journal._PAUSE", 0.0)
    played.holding = True
    with Journal(tmp_path / "sales") as journal:
        journal.append_many([("queue:sales", payload) for payload in ("good", "full", "bad")])
        async with client_of(played) as client:
            publishing = asyncio.create_task(journal.publish(client))
            await played.until(lambda: played.kept)
            played.holding = False
            full, bad = Reject(2, 2, "QUEUE_FULL", "no room"), Reject(3, 3, "REFUSED", "not here")
            await played.say(full, bad, Confirm(3))
            assert await publishing == 2
        assert payloads(played) == [b"good", b"full", b"bad", b"full"]
        ids = [message.properties.message_id for message in messages(played.kept)]
        assert ids[1] == ids[3]
        assert len(journal) == 0
        ((number, destination, payload, reason),) = journal.refused()
        assert (destination, payload, reason) == ("queue:sales", b"bad", "REFUSED")
        journal.forget(number)
        assert journal.refused() == []


async def test_an_entry_that_can_never_be_sent_does_not_stop_the_others(played: Any, tmp_path: Path) -> None:
    with Journal(tmp_path / "sales") as journal:
        journal.append("queue:sales", b"1")
        as_older_versions_did(journal, "nonsense", b"2", {})
        journal.append("queue:sales", b"x" * 17 * 1024 * 1024)
        as_older_versions_did(journal, "queue:sales", b"3", {"colour": "red"})
        journal.append("queue:sales", b"4")
        async with client_of(played) as client:
            assert await journal.publish(client) == 2
        assert [item.number for item in journal.refused()] == [2, 3, 4]
        assert "nonsense" in journal.refused()[0].reason
    assert payloads(played) == [b"1", b"4"]


def as_older_versions_did(
    journal: Journal, destination: str, payload: bytes, options: dict[str, Any]
) -> None:
    """Write an entry that nobody has looked at."""
    with journal._transaction() as database:
        _insert(database, destination, payload, msgspec.msgpack.encode(options))


@pytest.mark.parametrize(
    ("destination", "payload", "options"),
    [
        ("nonsense", b"x", {}),
        ("queue:sales", 7, {}),
        ("queue:sales", b"x", {"timestamp": "now"}),
        ("queue:sales", b"x", {"persistent": 1}),
        ("queue:sales", b"x", {"colour": "red"}),
        ("queue:sales", b"x", {"tell": True}),
    ],
)
def test_what_is_wrong_is_said_when_it_is_written(
    tmp_path: Path, destination: str, payload: Any, options: Any
) -> None:
    with Journal(tmp_path / "sales") as journal:
        with pytest.raises((TypeError, ValueError, SapwoodError)):
            journal.append_many([("queue:sales", b"right"), (destination, payload)], **options)
        assert len(journal) == 0


async def test_options_are_kept_as_they_are_sent(played: Any, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    foreign = Foreign(correlation=b"c", type="sale")
    with Journal(tmp_path / "sales") as journal:
        journal.append(
            "queue:sales",
            "x",
            timestamp=moment,
            expires_in=timedelta(seconds=90),
            foreign=foreign,
            headers={"a": 1},
        )
        async with client_of(played) as client:
            assert await journal.publish(client) == 1
    (found,) = messages(played.kept)
    said = found.properties
    assert (said.timestamp, said.expires_in) == (int(moment.timestamp()), 90_000)
    assert (said.foreign, said.headers) == (foreign, {"a": 1})


async def test_a_publish_ends_when_it_is_said_to_and_the_entries_stay(played: Any, tmp_path: Path) -> None:
    played.holding = True
    with Journal(tmp_path / "sales") as journal:
        journal.append_many([("queue:sales", b"1"), ("queue:sales", b"2")])
        async with client_of(played) as client:
            with pytest.raises(Unconfirmed, match="2 messages"):
                await journal.publish(client, timeout=0.05)
            assert len(journal) == 2
            await played.until(lambda: played.kept)
            played.holding = False
            await played.say(Confirm(2))
            assert await journal.publish(client, timeout=60) == 2


async def test_a_client_that_is_not_known_again_is_refused(played: Any, tmp_path: Path) -> None:
    with Journal(tmp_path / "sales") as journal:
        async with connect(played.uri, session="till-7") as client:
            with pytest.raises(ValueError, match="producer=…"):
                await journal.publish(client)


async def test_a_journal_runs_in_the_background(played: Any, tmp_path: Path) -> None:
    with Journal(tmp_path / "sales") as journal:
        async with client_of(played) as client:
            running = asyncio.create_task(journal.run(client, pause=0.001))
            journal.append("queue:sales", b"late")
            await played.until(lambda: played.kept)
            while len(journal):
                await asyncio.sleep(0.001)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert repr(journal.path.name) == "'sales'"


async def test_a_journal_without_asyncio(played: Any, tmp_path: Path) -> None:
    def work() -> int:
        with (
            Journal(tmp_path / "sales") as journal,
            sync.connect(played.uri, session="till-7", producer="sales") as client,
        ):
            journal.append("queue:sales", b"plain")
            return client.publish_journal(journal)

    assert await asyncio.to_thread(work) == 1
    assert payloads(played) == [b"plain"]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sapwood.journal._PATIENCE", 0.01)
    (tmp_path / "text").write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError, match=r"the journal .*text: file is not a database$"):
        Journal(tmp_path / "text")
    with pytest.raises(sqlite3.OperationalError, match=r"the journal .*missing.sales: unable to open"):
        Journal(tmp_path / "missing" / "sales")
    with (
        Journal(tmp_path / "sales"),
        pytest.raises(sqlite3.OperationalError, match="sales: database is locked: somebody else has it open"),
    ):
        Journal(tmp_path / "sales")
