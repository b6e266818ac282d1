"""Files through a channel: both ends over a real pair of sockets; lies, and lines that break."""

import asyncio
import hashlib
import os
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from broker.forwards import copying
from broker.forwards.copying import (
    MAX_WORD,
    Comes,
    Deed,
    Done,
    FileService,
    Get,
    Have,
    Put,
    Sum,
    Talk,
    Turns,
    offer,
    receive,
    send,
)
from broker.forwards.folders import FileFault, FilePart, FirstBytes, local_part, local_source
from config.channels import Folder
from sapwood.channels.pipes import PIECE, Pipe, PipeBroken, TcpPipe

BODY = os.urandom(700_000)
NOTHING = Have(0, hashlib.sha256().hexdigest())


def summed(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Served:
    """A folder of a node, that somebody asks for one file. `why`: it failed."""

    turns = Turns()

    def __init__(self, folder: Path, *, max_file: int = 10**9, refused: str = "", reserve: int = 0) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        shared = Folder(name="files", path=folder, max_file=max_file)

        def found(deed: Deed) -> Folder:
            if refused:
                raise FileFault(refused)
            return shared

        self.service = FileService("files", "hq", found, reserve)
        self.why = "not over"

    @asynccontextmanager
    async def talk(self) -> AsyncIterator[Talk]:
        near, far = map(TcpPipe, socket.socketpair())

        async def serve() -> None:
            with ThreadPoolExecutor(1) as threads:
                self.why = await self.service.serve(far, threads, self.turns)

        task = asyncio.create_task(serve())
        talk = Talk(near)
        try:
            async with asyncio.timeout(60):
                yield talk
        finally:
            with suppress(PipeBroken):
                await talk.end()
            await task


def begin_new(served: Served, data: bytes) -> None:
    """A part of the file `new` is there already."""
    (served.folder / ".new.part").write_bytes(data)


async def bring(served: Served, file: Path, path: str = "new") -> list[int]:
    """As a person's command does. Returns where it was, again and again."""
    seen: list[int] = []
    source = local_source(file)
    try:
        async with served.talk() as talk:
            await talk.say(Put(path, source.size))
            await send(talk, source, await talk.hear(Have), lambda there, size: seen.append(there))
    finally:
        source.close()
    return seen


async def fetch(served: Served, path: str, file: Path) -> list[int]:
    seen: list[int] = []
    part = local_part(file)
    try:
        async with served.talk() as talk:
            await talk.say(Get(path))
            await talk.say(await offer(talk, part))
            comes = await talk.hear(Comes)
            await receive(talk, part, comes, 0, lambda there, size: seen.append(there))
    finally:
        part.close()
    return seen


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine").write_bytes(BODY)
    return tmp_path / "mine"


@pytest.mark.parametrize("body", [b"", b"x", BODY])
async def test_a_file_is_brought_and_fetched(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "mine").write_bytes(body)
    served = Served(tmp_path / "shared")
    seen = await bring(served, tmp_path / "mine")
    assert (seen[0], seen[-1], served.why, served.service.size) == (0, len(body), "", len(body))
    assert (tmp_path / "shared" / "new").read_bytes() == body
    again = Served(tmp_path / "shared")
    await fetch(again, "new", tmp_path / "back")
    assert (again.why, again.service.size) == ("", len(body))
    assert (tmp_path / "back").read_bytes() == body


@pytest.mark.parametrize(
    ("part", "begins"),
    [(BODY[:300_000], 300_000), (BODY, len(BODY)), (BODY[:-1] + b"!", 0), (BODY + b"more", 0), (b"other", 0)],
    ids=["a part", "all but its place", "another file of that size", "more than there is", "another"],
)
async def test_what_is_there_is_not_copied_again_if_it_is_of_the_same_file(
    tmp_path: Path, mine: Path, part: bytes, begins: int
) -> None:
    served = Served(tmp_path / "shared")
    begin_new(served, part)
    assert (await bring(served, mine))[0] == begins
    assert (tmp_path / "shared" / "new").read_bytes() == BODY
    (tmp_path / ".back.part").write_bytes(part)
    assert (await fetch(Served(tmp_path / "shared"), "new", tmp_path / "back"))[0] == begins
    assert (tmp_path / "back").read_bytes() == BODY
    assert not (tmp_path / ".back.part").exists()


async def test_no_more_is_summed_than_may_be_proven_and_the_copy_goes_on_there(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.forwards.folders.PROVEN", 100_000)
    served = Served(tmp_path / "shared")
    begin_new(served, BODY[:300_000])
    assert (await bring(served, mine))[0] == 100_000
    assert (tmp_path / "shared" / "new").read_bytes() == BODY
    (tmp_path / ".back.part").write_bytes(BODY[:300_000])
    assert (await fetch(Served(tmp_path / "shared"), "new", tmp_path / "back"))[0] == 100_000
    assert (tmp_path / "back").read_bytes() == BODY
    async with Served(tmp_path / "shared").talk() as talk:
        await talk.say(Get("new"))
        await talk.say(Have(100_001, summed(BODY[:100_001])))
        assert await talk.hear(Comes) == Comes(len(BODY), 0)


async def test_whoever_lets_much_be_summed_keeps_nobody_waiting_and_is_given_up_when_gone(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, pieces = FirstBytes.add, 0

    def endless(first: FirstBytes) -> None:
        nonlocal pieces
        if first.size == 600_000:
            pieces += 1
        else:
            add(first)

    monkeypatch.setattr(FirstBytes, "add", endless)
    others = Served(tmp_path / "shared")
    (tmp_path / "shared" / "large").write_bytes(BODY)
    begin_new(others, BODY[:300_000])
    hostile = Served(tmp_path / "shared")
    async with hostile.talk() as talk:
        await talk.say(Get("large"))
        await talk.say(Have(600_000, "0" * 64))
        while not pieces:
            await asyncio.sleep(0.01)
        assert (await bring(others, mine))[0] == 300_000
    assert hostile.why == "the other end has gone before all was copied"


async def test_whoever_says_much_while_it_is_to_wait_is_given_up(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirstBytes, "add", lambda first: None)
    served = Served(tmp_path / "shared")
    (tmp_path / "shared" / "large").write_bytes(BODY)
    async with served.talk() as talk:
        await talk.say(Get("large"))
        await talk.say(Have(600_000, "0" * 64))
        await talk.give(b"x" * (MAX_WORD + 1))
        with pytest.raises(FileFault, match="does not wait"):
            await talk.hear(Comes)
    assert served.why == "the other end does not wait for an answer"


async def test_a_line_that_breaks_leaves_a_part_and_no_file(tmp_path: Path) -> None:
    served = Served(tmp_path / "shared")
    async with served.talk() as talk:
        await talk.say(Put("new", len(BODY)))
        await talk.hear(Have)
        await talk.say(Comes(len(BODY), 0))
        await talk.give(BODY[:200_000])
    assert served.why == "the other end has gone before all was copied"
    assert os.listdir(tmp_path / "shared") == [".new.part"]
    assert (tmp_path / "shared" / ".new.part").read_bytes() == BODY[:200_000]


async def test_a_source_that_goes_leaves_a_part_and_no_file(tmp_path: Path) -> None:
    near, far = map(TcpPipe, socket.socketpair())
    part = local_part(tmp_path / "new")
    here = Talk(near)
    await far.write(b"abc")
    await far.close()
    with pytest.raises(PipeBroken):
        await receive(here, part, Comes(9, 0), 0, lambda there, size: None)
    part.close()
    await near.close()
    assert os.listdir(tmp_path) == [".new.part"]


async def test_what_is_refused_is_said_before_anything_is_sent(tmp_path: Path, mine: Path) -> None:
    for served, why in (
        (Served(tmp_path / "a", max_file=1000), "new has 700000 bytes: files takes files of 1000 at most"),
        (Served(tmp_path / "b", refused="PERMIT: no"), "PERMIT: no"),
        (Served(tmp_path / "c", reserve=2**60), "700000 bytes are missing, and the disk has room for 0"),
    ):
        with pytest.raises(FileFault, match=why):
            await bring(served, mine)
        assert served.why == why
        assert not os.listdir(served.folder)


@pytest.mark.parametrize(("files", "left", "fits"), [(0, 0, True), (10**6, 9_999, False), (2000, 100, True)])
async def test_very_many_small_files_leave_the_node_its_own(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, files: int, left: int, fits: bool
) -> None:
    """However small they are: a disk has places for so many files. One that counts none takes all."""
    found = os.fstatvfs
    counts = {"f_files": files, "f_favail": left}

    def counted(descriptor: int) -> SimpleNamespace:
        real = found(descriptor)
        return SimpleNamespace(f_bavail=real.f_bavail, f_frsize=real.f_frsize, **counts)

    monkeypatch.setattr(os, "fstatvfs", counted)
    served = Served(tmp_path / "shared")
    if fits:
        await bring(served, mine)
        return
    with pytest.raises(FileFault, match="the disk has places for few files more"):
        await bring(served, mine)
    assert not os.listdir(tmp_path / "shared")


async def test_one_that_is_refused_while_it_is_sent_says_so(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_check_room", fails_after(3))
    with pytest.raises(FileFault, match="the disk is full"):
        await bring(Served(tmp_path / "shared"), mine)


class Ended:
    """A pipe that the other end has ended: who writes is told nothing, and who reads is told why, later."""

    async def write(self, data: bytes) -> None:
        if b"comes" not in data:
            raise PipeBroken("the line has gone")

    async def read(self, most: int) -> bytes:
        for _ in range(10):
            await asyncio.sleep(0)
        raise PipeBroken("shop offers nothing as files")


async def test_whoever_writes_on_a_line_that_has_gone_is_told_why_it_was_ended(mine: Path) -> None:
    source = local_source(mine)
    try:
        with pytest.raises(PipeBroken, match="shop offers nothing as files"):
            await send(Talk(cast("Pipe", Ended())), source, NOTHING, lambda *_: None)
    finally:
        source.close()


def fails_after(times: int) -> object:
    left = [times]

    def check(*_: object) -> None:
        left[0] -= 1
        if not left[0]:
            raise FileFault("the disk is full")

    return check


async def test_somebody_who_goes_is_waited_for_by_the_next(tmp_path: Path, mine: Path) -> None:
    served = Served(tmp_path / "shared")
    first = local_part(tmp_path / "shared" / "new")
    asyncio.get_running_loop().call_later(0.3, first.close)
    await bring(served, mine)
    assert served.why == ""


async def test_two_who_bring_the_same_do_not_mix(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_AGAIN", 0.001)
    first = local_part(tmp_path / "new")
    with pytest.raises(FileFault, match="new is being brought by somebody else"):
        await bring(Served(tmp_path), mine)
    first.close()


def whole(word: str) -> bytes:
    return word.encode() + b"\n"


LIES = [
    b"\n",
    b"{}\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff" * 100 + b"\n",
    b"[" * 5000 + b"\n",
    b"x" * (MAX_WORD + 1),
    whole('{"type":"put","path":"new","size":-1}'),
    whole('{"type":"put","path":"new","size":1e400}'),
    whole('{"type":"put","path":7,"size":1}'),
    whole('{"type":"done"}'),
    whole('{"type":"get","path":"../secret"}')
    + whole(f'{{"type":"have","size":0,"sha256":"{summed(b"")}"}}'),
    whole('{"type":"get","path":"new"}') + whole('{"type":"have","size":0,"sha256":"x"}'),
    whole('{"type":"put","path":"../secret","size":6}'),
    whole('{"type":"fault","text":"never mind"}'),
]


@pytest.mark.parametrize("said", LIES, ids=range(len(LIES)))
async def test_a_liar_is_told_and_nothing_is_made(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "secret").write_text("secret")
    served = Served(tmp_path / "shared")
    async with served.talk() as talk:
        await talk.give(said)
        with pytest.raises(FileFault):
            await talk.hear(Done)
    assert served.why not in ("", "not over")
    assert os.listdir(tmp_path / "shared") == []
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize(
    "words",
    [
        [Comes(5, 0)],
        [Comes(4, 3)],
        [Comes(4, 0), Sum("0" * 64)],
        [Sum("0" * 64)],
        [Done()],
    ],
    ids=["another size", "not behind the part", "no bytes", "no size", "done without doing"],
)
async def test_a_liar_in_the_middle_brings_no_file(tmp_path: Path, words: list[copying.Word]) -> None:
    served = Served(tmp_path / "shared")
    async with served.talk() as talk:
        await talk.say(Put("new", 4))
        await talk.hear(Have)
        for word in words:
            await talk.say(word)
        with pytest.raises((FileFault, PipeBroken)):
            await talk.hear(Done)
    assert not (tmp_path / "shared" / "new").exists()


async def test_other_bytes_than_their_sum_are_no_file(tmp_path: Path) -> None:
    served = Served(tmp_path / "shared")
    async with served.talk() as talk:
        await talk.say(Put("new", 4))
        await talk.hear(Have)
        await talk.say(Comes(4, 0))
        await talk.give(b"abcd")
        await talk.say(Sum(summed(b"abce")))
        with pytest.raises(FileFault, match="is not what was sent"):
            await talk.hear(Done)
    assert os.listdir(tmp_path / "shared") == []


async def test_bytes_beyond_the_size_are_no_part_of_it(tmp_path: Path) -> None:
    served = Served(tmp_path / "shared")
    async with served.talk() as talk:
        await talk.say(Put("new", 4))
        await talk.hear(Have)
        await talk.say(Comes(4, 0))
        await talk.give(b"abcd" + b"e" * 100_000)
        with pytest.raises((FileFault, PipeBroken)):
            await talk.hear(Done)
    assert not (tmp_path / "shared" / "new").exists()
    assert all(file.stat().st_size <= 4 for file in (tmp_path / "shared").iterdir())


async def test_who_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "SILENCE", 0.05)
    monkeypatch.setattr(copying, "_LAST_WORDS", 0.05)
    served = Served(tmp_path / "shared")
    async with served.talk() as talk:
        await talk.say(Put("new", 4))
        while served.why == "not over":
            await asyncio.sleep(0.01)
            with suppress(PipeBroken, FileFault):
                await talk.hear(Done)
    assert served.why == "nothing was heard of the other end for 0.05 s"
    assert os.listdir(tmp_path / "shared") == []


async def test_nobody_waits_for_an_answer_while_the_file_is_still_sent(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that takes longer than `SILENCE` broke then, and a large one never came to its end."""
    write, pieces, most = FilePart.write, 0, 0

    def written(part: FilePart, data: bytes) -> None:
        nonlocal pieces
        pieces += 1
        write(part, data)

    @asynccontextmanager
    async def patience(seconds: float) -> AsyncIterator[None]:
        nonlocal most
        began = pieces
        yield
        if seconds == copying.SILENCE:
            most = max(most, pieces - began)

    monkeypatch.setattr(FilePart, "write", written)
    monkeypatch.setattr(copying, "patience", patience)
    await bring(Served(tmp_path / "shared"), mine)
    await fetch(Served(tmp_path / "shared"), "new", tmp_path / "back")
    assert pieces >= 2 * len(BODY) // PIECE
    assert most < len(BODY) // PIECE // 2


async def test_whoever_never_says_that_all_came_is_given_up(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "WORK", 0.05)
    monkeypatch.setattr(copying, "_LAST_WORDS", 0.05)
    served = Served(tmp_path)
    async with served.talk() as talk:
        await talk.say(Get("mine"))
        await talk.say(NOTHING)
        with suppress(PipeBroken):
            while True:
                await talk.take(PIECE)
    assert served.why == "nothing was heard of the other end for 0.05 s"
