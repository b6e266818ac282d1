"""The end of a channel at a node: bounds, and how it ends. The core and the pipe are played by the test."""

import asyncio
from typing import Any, cast

import pytest

from broker.core.neighbours.channels import Channel
from broker.forwards import local_end
from broker.forwards.local_end import LocalEnd, LocalEnds
from sapwood.channels.pipes import PipeBroken


class Played:
    """A core whose channels write down what they are told. Nobody asks for a commit."""

    def __init__(self) -> None:
        self.core = self.identity = self.channels = self.wires = self
        self.name = "york"
        self.told: list[tuple[Any, ...]] = []

    def now(self) -> float:
        return 0.0

    def advance(self, now: float) -> None: ...

    def flush(self) -> None: ...

    def arrived(self, side: LocalEnd, data: bytes) -> None:
        self.told.append(("arrived", len(data)))

    def passed(self, side: LocalEnd, size: int) -> None:
        self.told.append(("passed", size))

    def finished(self, side: LocalEnd) -> None:
        self.told.append(("finished",))

    def broken(self, side: LocalEnd, reason: str, text: str) -> None:
        self.told.append(("broken", reason, text))


class PlayedPipe:
    """`comes`: what is read, b'' ends it; then whatever the test puts there."""

    def __init__(self, *comes: bytes) -> None:
        self.comes: asyncio.Queue[bytes | PipeBroken] = asyncio.Queue()
        for each in comes:
            self.comes.put_nowait(each)
        self.written: list[bytes] = []
        self.asked: list[int] = []
        self.ended = ""

    async def read(self, most: int) -> bytes:
        self.asked.append(most)
        found = await self.comes.get()
        if isinstance(found, PipeBroken):
            raise found
        return found

    async def broken(self) -> None:
        await self.read(1)

    async def write(self, data: bytes) -> None:
        self.written.append(data)

    async def finish(self) -> None:
        self.written.append(b"")

    async def close(self) -> None:
        self.ended = "closed"

    async def abort(self, text: str) -> None:
        self.ended = text


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def ends(played: Played) -> LocalEnds:
    return LocalEnds(cast("Any", played), cast("Any", played))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_both_directions_end_and_it_is_closed(played: Played, ends: LocalEnds) -> None:
    end, pipe = LocalEnd(ends, "a till"), PlayedPipe(b"hello", b"")
    end.send(b"world")
    running = asyncio.ensure_future(end.run(pipe))
    await settle()
    assert not running.done()
    end.finish()
    await running
    assert (pipe.written, pipe.ended) == ([b"world", b""], "closed")
    assert sorted(played.told) == [("arrived", 5), ("finished",), ("passed", 5)]
    assert not ends.open


async def test_a_pipe_is_read_no_further_than_its_window(
    played: Played, ends: LocalEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_end, "WINDOW", 100_000)
    end, pipe = LocalEnd(ends, "a till"), PlayedPipe(*[b"x" * 50_000] * 10)
    running = asyncio.ensure_future(end.run(pipe))
    await settle()
    assert played.told == [("arrived", 50_000)] * 2
    end.passed(50_000)
    await settle()
    assert played.told == [("arrived", 50_000)] * 3
    assert pipe.asked == [100_000, 50_000, 50_000]
    end.reset("broken", "the link is broken")
    await running
    assert pipe.ended == "the link is broken"


async def test_a_pipe_is_read_in_large_pieces_though_little_is_passed_on_at_a_time(
    ends: LocalEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_end, "WINDOW", 100_000)
    end, pipe = LocalEnd(ends, "a till"), PlayedPipe(b"x" * 100_000)
    running = asyncio.ensure_future(end.run(pipe))
    for _ in range(5):
        await settle()
        assert pipe.asked == [100_000]
        end.passed(12_000)
    await settle()
    assert pipe.asked == [100_000, 60_000]
    running.cancel()
    await asyncio.wait([running])


async def test_a_pipe_that_breaks_breaks_the_channel(played: Played, ends: LocalEnds) -> None:
    end, pipe = LocalEnd(ends, "a till"), PlayedPipe(b"hello")
    pipe.comes.put_nowait(PipeBroken("the connection was lost"))
    await end.run(pipe)
    assert played.told[-1] == ("broken", "reset", "a till: the connection was lost")
    assert pipe.ended == "a till: the connection was lost"
    assert not ends.open


async def test_a_pipe_that_breaks_after_it_said_all_breaks_the_channel(
    played: Played, ends: LocalEnds
) -> None:
    end, pipe = LocalEnd(ends, "a till"), PlayedPipe(b"hello", b"")
    pipe.comes.put_nowait(PipeBroken("gone"))
    await end.run(pipe)
    assert played.told[-1] == ("broken", "reset", "a till: gone")


async def test_a_node_that_stops_breaks_it(played: Played, ends: LocalEnds) -> None:
    end, pipe = LocalEnd(ends, "a till"), PlayedPipe(b"hello")
    running = asyncio.ensure_future(end.run(pipe))
    await settle()
    running.cancel()
    await asyncio.wait([running])
    assert pipe.ended == "the node stops"
    assert played.told[-1] == ("broken", "reset", "the node stops")


async def test_what_does_not_open_in_time_is_over(played: Played, ends: LocalEnds) -> None:
    end = LocalEnd(ends, "a till")
    assert not await end.until_open(0)
    assert end.why == "no answer within 0 s"
    assert not ends.open


def test_all_ends_together_keep_so_much_and_each_has_a_little_of_its_own(ends: LocalEnds) -> None:
    made = [LocalEnd(ends, "a till") for _ in range(local_end.MOST)]
    for end in made:
        while (room := ends.room(end)) > 0:
            ends.took(end, room)
    assert made[0].unpassed == local_end.WINDOW
    assert min(end.unpassed for end in made) == local_end.LEAST
    assert local_end.ALL_BYTES / 2 < sum(end.unpassed for end in made) <= local_end.ALL_BYTES
    for end in made[:-1]:
        end.reset("broken", "the link is broken")
    assert ends.room(made[-1]) == local_end.WINDOW - local_end.LEAST
    made[-1].passed(local_end.LEAST)
    assert (ends._unpassed, repr(ends)) == (0, "<LocalEnds of york: 1>")


def test_a_node_has_so_many_ends_and_no_more(ends: LocalEnds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_end, "MOST", 2)
    LocalEnd(ends, "a till")
    assert not ends.why_none()
    LocalEnd(ends, "a till")
    assert ends.why_none() == "york has 2 ends of channels: none more now"


def test_a_neighbour_takes_half_of_the_ends_and_the_others_have_theirs(ends: LocalEnds) -> None:
    def takes(asker: str) -> int:
        before = len(ends.open)
        while not ends.why_none(asker):
            LocalEnd(ends, "a till", asker)
        return len(ends.open) - before

    assert takes("mallory") == local_end.MOST // 2
    assert ends.why_none("mallory") == (
        "mallory has 2048 of the 4096 ends of channels at york: none more of it now"
    )
    assert takes("leeds") == local_end.MOST // 4
    assert not ends.why_none(), "somebody here still has room"


def test_it_is_told_that_it_is_of_a_channel(ends: LocalEnds) -> None:
    end = LocalEnd(ends, "a till")
    end.channel = Channel(b"n", "york", "till", "hq", end, 0.0)
    assert end.channel.near.via == "a till"
    assert repr(end) == "<LocalEnd a till unpassed=0 outgoing=0>"


async def test_a_reset_that_gives_no_reason_is_an_error_too(played: Played, ends: LocalEnds) -> None:
    refused = LocalEnd(ends, "a till")
    refused.reset("", "")
    assert not await refused.until_open(1)
    end, pipe = LocalEnd(ends, "a till"), PlayedPipe(b"hello")
    running = asyncio.ensure_future(end.run(pipe))
    await settle()
    end.reset("", "")
    await running
    assert pipe.ended == "reset"


async def test_who_does_not_take_the_last_bytes_keeps_its_place(ends: LocalEnds) -> None:
    class Slow(PlayedPipe):
        async def close(self) -> None:
            await self.comes.get()

    end, pipe = LocalEnd(ends, "a till"), Slow(b"")
    running = asyncio.ensure_future(end.run(pipe))
    end.finish()
    await settle()
    assert (running.done(), len(ends.open)) == (False, 1)
    pipe.comes.put_nowait(b"")
    await running
    assert not ends.open
