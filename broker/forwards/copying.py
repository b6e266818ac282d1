"""How a file is copied through a channel: one end is a folder of a node, the other a person's command.

A *word* is a line of JSON. The receiver says `Have`: how much is there already, and the sum of that. The
sender answers `Comes`: the whole size, and where it begins, which is behind what is there if the sum is that
of its own first bytes. The bytes follow, then `Sum`, that of the whole; then the receiver says `Done`.

    fetch    Get, Have    ->      bring    Put            ->
             <- Comes, bytes, Sum          <- Have
             Done         ->               Comes, bytes, Sum ->
                                           <- Done

Law: no word has more than `MAX_WORD` bytes, nobody is waited for longer than `SILENCE`, or `WORK` where it
has something to do first, and a file has no more bytes than were said before. A `CopyFault` may stand in
place of any word.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Annotated, Any, Final, Literal, ParamSpec, TypeVar

import msgspec

from broker.forwards.folders import (
    FileBusy,
    FileFault,
    FilePart,
    FileSource,
    FirstBytes,
    OtherFault,
    SharedFolder,
)
from config.channels import Folder
from sapwood.channels.pipes import PIECE, Pipe, PipeBroken, until_first
from sapwood.protocol.packets import Bytes

MAX_WORD: Final = 8 * 1024
SILENCE: Final = 120.0
WORK: Final = 3600.0
"""Seconds for the next bytes, and for an answer before which the other end sums what it has, or brings to
its disk what is still under way to it.
"""
_LAST_WORDS: Final = 10.0
_LONGEST: Final = 1000
_PAUSE: Final = 2
"""Times as long as a piece of a sum took, until the next: a third of a core at most sums what is there."""
_GONE: Final = "the other end has gone before all was copied"
_TRIES: Final = 20
_AGAIN: Final = 0.1
Given = ParamSpec("Given")
Result = TypeVar("Result")
Size = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Progress = Callable[[int, int], None]
"""Is told how many bytes are there, of how many."""


class Get(msgspec.Struct, tag="get"):
    path: str


class Put(msgspec.Struct, tag="put"):
    """`size`: of the whole file, so that it is refused before it is sent."""

    path: str
    size: Size


class Have(msgspec.Struct, tag="have"):
    size: Size
    sha256: Digest


class Comes(msgspec.Struct, tag="comes"):
    size: Size
    begins: Size


class Sum(msgspec.Struct, tag="sum"):
    sha256: Digest


class Done(msgspec.Struct, tag="done"): ...


class CopyFault(msgspec.Struct, tag="fault"):
    text: str


Deed = Literal["read", "write"]
Word = Get | Put | Have | Comes | Sum | Done | CopyFault
Said = TypeVar("Said", Get, Put, Have, Comes, Sum, Done)
_write: Final = msgspec.json.Encoder().encode
_read: Final = msgspec.json.Decoder(Word).decode


class Turns:
    """All copies of one node read what is there one at a time, in turn, a piece each, with pauses."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Turns {'taken' if self._lock.locked() else 'free'}>"

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        async with self._lock:
            began = time.monotonic()
            yield
            await asyncio.sleep(_PAUSE * (time.monotonic() - began))


class Talk:
    """Words and bytes over a pipe. All raise `PipeBroken`. `executor`: of threads that wait for the disk.
    `turns`: of the node, if it is one that copies.
    """

    def __init__(self, pipe: Pipe, executor: Executor | None = None, turns: Turns | None = None) -> None:
        self._pipe = pipe
        self._executor = executor
        self._turns = turns
        self._came = bytearray()

    def __repr__(self) -> str:
        return f"<Talk over {self._pipe!r}>"

    async def say(self, word: Word) -> None:
        await self.give(_write(word) + b"\n")

    async def hear(self, kind: type[Said], within: float | None = None) -> Said:
        """The next word, which is of this kind. Raises `FileFault`, as the other end said or should have."""
        async with patience(SILENCE if within is None else within):
            return await self.answer(kind)

    async def answer(self, kind: type[Said]) -> Said:
        """As `hear`, whenever it comes."""
        found: Said = await self._hear(kind)
        return found

    async def request(self) -> Get | Put:
        async with patience(SILENCE):
            word = await self._hear((Get, Put))
        assert isinstance(word, Get | Put)
        return word

    async def _hear(self, kind: Any) -> Any:
        while (end := self._came.find(b"\n")) < 0:
            if len(self._came) > MAX_WORD:
                raise OtherFault("the other end does not copy files: no end of a word")
            self._came += await self._more()
        line = bytes(self._came[:end])
        del self._came[: end + 1]
        try:
            word = _read(line)
        except (msgspec.DecodeError, ValueError) as error:
            raise OtherFault(f"the other end does not copy files: {str(error)[:200]}") from None
        if isinstance(word, CopyFault):
            raise OtherFault(word.text[:_LONGEST])
        if not isinstance(word, kind):
            raise OtherFault(f"the other end said {type(word).__name__} at the wrong time")
        return word

    async def take(self, most: int) -> bytes:
        """Bytes that come next, 1 at least."""
        if not self._came:
            async with patience(SILENCE):
                self._came += await self._more()
        data = bytes(self._came[:most])
        del self._came[:most]
        return data

    async def _more(self) -> Bytes:
        data = await self._pipe.read(PIECE)
        if not data:
            raise PipeBroken(_GONE)
        return data

    async def give(self, data: bytes) -> None:
        async with patience(SILENCE):
            await self._pipe.write(data)

    async def work(self, call: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Let a thread do it, and wait for that even if cancelled: no file is closed under a thread."""
        assert not named
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._executor, call, *given)
        try:
            return await asyncio.shield(future)
        except OSError as error:
            raise FileFault(str(error.strerror or error)) from None
        finally:
            if not future.done():
                await asyncio.wait([future])

    async def sum(self, first: FirstBytes) -> None:
        """All of them, a piece at a time, for as long as the other end waits for that."""
        if first.left:
            await until_first(self._sum(first), self._until_gone())

    async def _sum(self, first: FirstBytes) -> None:
        while first.left:
            async with self._turns.turn() if self._turns is not None else nullcontext():
                await self.work(first.add)

    async def _until_gone(self) -> None:
        while len(self._came) <= MAX_WORD:
            data = await self._pipe.read(PIECE)
            if not data:
                raise PipeBroken(_GONE)
            self._came += data
        raise OtherFault("the other end does not wait for an answer")

    async def end(self) -> None:
        """Nothing follows; wait a little until the other end has heard all."""
        try:
            with suppress(PipeBroken, TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
                    await self._pipe.finish()
                    while await self._pipe.read(PIECE):
                        pass  # sent before it knew
        finally:
            await self._pipe.close()


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Raises `PipeBroken`: the other end is waited for no longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise PipeBroken(f"nothing was heard of the other end for {seconds:g} s") from None


async def send(talk: Talk, source: FileSource, have: Have, progress: Progress) -> None:
    """Send a file to whoever has a part of it. Raises `FileFault`, `PipeBroken`."""
    first = source.first(have.size)
    await talk.sum(first)
    begins = await talk.work(source.begin, first, have.sha256)
    await talk.say(Comes(source.size, begins))
    sent = begins
    progress(sent, source.size)
    answer = asyncio.ensure_future(talk.answer(Done))  # or why not, before all was sent
    try:
        while sent < source.size and not answer.done():
            data = await talk.work(source.read, min(PIECE, source.size - sent))
            await talk.give(data)
            sent += len(data)
            progress(sent, source.size)
        if not answer.done():
            await talk.say(Sum(source.digest))
        async with patience(WORK):
            await asyncio.shield(answer)
    except PipeBroken:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await answer  # it raises why, where that came; who writes knows only that the line has gone
        raise
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)


async def offer(talk: Talk, part: FilePart) -> Have:
    """All that is there, to be said. Raises `FileFault`, `PipeBroken`."""
    await talk.sum(part.first)
    return Have(part.size, part.first.sum.hexdigest())


async def receive(talk: Talk, part: FilePart, comes: Comes, room: int, progress: Progress) -> None:
    """Receive a file. `room`: of the disk, which is left free. Raises `FileFault`, `PipeBroken`."""
    if comes.begins not in (0, part.size) or comes.begins > comes.size:
        raise OtherFault(f"the other end begins at {comes.begins}: expected 0 or {part.size}")
    await talk.work(part.keep, comes.begins)
    progress(part.size, comes.size)
    _check_room(part, comes.size, room)
    while part.size < comes.size:
        await talk.work(part.write, await talk.take(min(PIECE, comes.size - part.size)))
        _check_room(part, comes.size, room)
        progress(part.size, comes.size)
    await talk.work(part.finish, (await talk.hear(Sum)).sha256)
    await talk.say(Done())


def _check_room(part: FilePart, size: int, room: int) -> None:
    free = part.free() - room
    if size - part.size > free:
        raise FileFault(f"{size - part.size} bytes are missing, and the disk has room for {max(free, 0)}")


class FileService:
    """One file of a folder, for one channel. `found`: the folder, for whoever may `read` or `write` now; it
    raises `FileFault`. `reserve`: bytes of the disk that stay free. `asked`: the request, once it was heard.
    `size`: of the file.
    """

    def __init__(self, name: str, origin: str, found: Callable[[Deed], Folder], reserve: int) -> None:
        self._name = name
        self._origin = origin
        self._found = found
        self._reserve = reserve
        self.asked: Get | Put | None = None
        self.size = 0

    def __repr__(self) -> str:
        return f"<FileService {self._name} for {self._origin}>"

    def folder(self) -> Folder | None:
        """The folder as it is now, once something was asked of it. Raises `FileFault` if that may not be."""
        return None if self.asked is None else self._found("read" if isinstance(self.asked, Get) else "write")

    async def serve(self, pipe: Pipe, executor: Executor, turns: Turns) -> str:
        """Answer one request. Returns '' where the file was copied, else why not."""
        talk = Talk(pipe, executor, turns)
        try:
            await self._answer(talk)
        except PipeBroken as error:
            return str(error)
        except FileFault as fault:
            with suppress(PipeBroken):
                await talk.say(CopyFault(str(fault)[:_LONGEST]))
            return str(fault)
        finally:
            await talk.end()
        return ""

    async def _answer(self, talk: Talk) -> None:
        asked = self.asked = await talk.request()
        folder = self.folder()
        assert folder is not None
        if isinstance(asked, Get):
            have = await talk.hear(Have)
            source = await talk.work(SharedFolder(folder.path).source, asked.path)
            try:
                await send(talk, source, have, self._moved)
            finally:
                source.close()
        else:
            await self._take(talk, asked, folder)

    async def _take(self, talk: Talk, asked: Put, folder: Folder) -> None:
        if asked.size > folder.max_file:
            text = f"{asked.path} has {asked.size} bytes: {self._name} takes files of"
            raise FileFault(f"{text} {folder.max_file} at most")
        part = await self._part(talk, SharedFolder(folder.path), asked.path)
        try:
            if part.is_crowded:
                raise FileFault(f"{self._name}: the disk has places for few files more, of whatever size")
            await talk.say(await offer(talk, part))
            comes = await talk.hear(Comes)
            if comes.size != asked.size:
                raise FileFault(f"{asked.path} has {comes.size} bytes: {asked.size} were said before")
            await receive(talk, part, comes, self._reserve, self._moved)
        finally:
            part.close()

    @staticmethod
    async def _part(talk: Talk, shared: SharedFolder, path: str) -> FilePart:
        """Whoever had it before may not have heard yet that its line has broken."""
        for _ in range(_TRIES):
            with suppress(FileBusy):
                return await talk.work(shared.part, path)
            await asyncio.sleep(_AGAIN)
        return await talk.work(shared.part, path)

    def _moved(self, _: int, size: int) -> None:
        self.size = size
