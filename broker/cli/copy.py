"""`sapwood copy`: a file to a folder of another node, or from one, through the links that are there.

A line that breaks in the middle is tried again, and what is there already stays. So it is when the command
itself is killed: the same command goes on.
"""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from broker.cli.channel_door import ChannelDoor
from broker.cli.errors import FAILED, WRONG_USE, CommandError
from broker.cli.node_api import NodeApi
from broker.cli.output import note, print_json, printable
from broker.cli.status import size as shown
from broker.forwards.copying import WORK, Comes, Get, Have, Put, Talk, offer, receive, send
from broker.forwards.folders import FileFault, OtherFault, local_part, local_source
from sapwood.channels.pipes import PipeBroken

_OFTEN: Final = 0.5
_LATER: Final = 5.0
_LONGEST_PAUSE: Final = 5.0
_RESERVE: Final = 0


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """`file` here, and `path` within the folder of the node. `brings`: it goes there."""

    node: str
    path: str
    file: Path
    brings: bool


def plan(source: str, target: str) -> CopyPlan:
    """Reads both words of the command line. Raises `CommandError`."""
    from_node, to_node = _remote(source), _remote(target)
    if (from_node is None) == (to_node is None):
        text = "expected FILE NODE: or NODE:FILE FOLDER, one of them with a node"
        raise CommandError(f"{text}; a file whose name has ':' is written ./NAME", WRONG_USE)
    if to_node is not None:
        node, path = to_node
        file = Path(source)
        return CopyPlan(node, f"{path}{file.name}" if path[-1:] in ("", "/") else path, file, brings=True)
    assert from_node is not None
    node, path = from_node
    name = PurePosixPath(path).name
    if not name or path.endswith("/"):
        raise CommandError(f"{source!r} names no file of {node}", WRONG_USE)
    file = Path(target)
    is_folder = target.endswith("/") or file.is_dir()
    return CopyPlan(node, path, file / name if is_folder else file, brings=False)


def _remote(text: str) -> tuple[str, str] | None:
    node, colon, path = text.partition(":")
    return (node, path) if colon and "/" not in node else None


def copy(api: NodeApi, source: str, target: str, folder: str, wait: float, *, as_json: bool) -> None:
    """Copy one file. `wait`: seconds to try again after the last progress. Raises `CommandError`."""
    planned = plan(source, target)
    door = ChannelDoor(api, planned.node, folder)
    work = _Copy(door, planned, wait, _Progress(as_json=as_json))
    try:
        size = asyncio.run(work.run())
    except OtherFault as fault:
        raise CommandError(f"{door}: {fault}") from None
    except FileFault as fault:
        raise CommandError(f"on this machine: {fault}") from None
    except PipeBroken as error:
        rest = "; the same command goes on where it was" if work.moved else ""
        raise CommandError(f"{door}: {error}{rest}", FAILED) from None
    except KeyboardInterrupt:
        raise CommandError("stopped; the same command goes on where it was") from None
    if as_json:
        print_json({"node": planned.node, "folder": folder, "path": planned.path, "size": size})
    else:
        there, here = f"{planned.node}:{planned.path}", planned.file
        ways = (here, there) if planned.brings else (there, here)
        print(printable(f"{ways[0]} is copied to {ways[1]}: {shown(size)}"))


class _Copy:
    """`moved`: has anything come?"""

    def __init__(self, door: ChannelDoor, planned: CopyPlan, wait: float, progress: "_Progress") -> None:
        self._door = door
        self._plan = planned
        self._wait = wait
        self._progress = progress
        self.moved = False
        self._until = 0.0

    async def run(self) -> int:
        """The size of what was copied. Raises `FileFault`, `PipeBroken`."""
        size = 0
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(PipeBroken),
            stop=self._is_late,
            wait=wait_random_exponential(max=_LONGEST_PAUSE),
            before_sleep=_say_again,
            reraise=True,
        ):
            with attempt:
                size = await self._once()
        return size

    def _is_late(self, _: RetryCallState) -> bool:
        """Nobody tries again whoever was refused, or heard nothing, from the beginning."""
        return not self.moved or time.monotonic() > self._until

    async def _once(self) -> int:
        pipe = await self._door.reach()
        talk = Talk(pipe)
        try:
            return await (self._bring(talk) if self._plan.brings else self._fetch(talk))
        finally:
            await talk.end()

    async def _bring(self, talk: Talk) -> int:
        source = await talk.work(local_source, self._plan.file)
        try:
            await talk.say(Put(self._plan.path, source.size))
            await send(talk, source, await talk.hear(Have, WORK), self._tell)
            return source.size
        finally:
            source.close()

    async def _fetch(self, talk: Talk) -> int:
        part = await talk.work(local_part, self._plan.file)
        try:
            have = await offer(talk, part)
            await talk.say(Get(self._plan.path))
            await talk.say(have)
            comes = await talk.hear(Comes, WORK)
            await receive(talk, part, comes, _RESERVE, self._tell)
            return comes.size
        finally:
            part.close()

    def _tell(self, there: int, size: int) -> None:
        self.moved = True
        self._until = time.monotonic() + self._wait
        self._progress(there, size)


def _say_again(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    note(f"! {error}: trying again")


class _Progress:
    """How far it is: one line that changes on a terminal, else a line now and then; JSON has none of it."""

    def __init__(self, *, as_json: bool) -> None:
        self._silent = as_json
        self._on_terminal = sys.stderr.isatty()
        self._began: tuple[float, int] | None = None
        self._next = 0.0

    def __repr__(self) -> str:
        return f"<_Progress terminal={self._on_terminal}>"

    def __call__(self, there: int, size: int) -> None:
        now = time.monotonic()
        if self._began is None:
            self._began = now, there
            self._next = now + (0 if self._on_terminal else _LATER)
        if self._silent or (now < self._next and not (self._on_terminal and there == size)):
            return
        self._next = now + (_OFTEN if self._on_terminal else _LATER)
        began, first = self._began
        rate = (there - first) / max(now - began, 0.001)
        text = f"{there * 100 // max(size, 1)} %, {shown(there)} of {shown(size)}, {shown(int(rate))}/s"
        if self._on_terminal:
            sys.stderr.write(f"\r{text:<50}{os.linesep if there == size else ''}")
            sys.stderr.flush()
        else:
            note(text)
