"""The use of routes, written beside the advisory log: so that an audit can tell which routes nobody needs.

A file a day and node, `NODE.usage-20260314.jsonl`, lines of JSON: the first says since when and until when
was counted, each other one how many messages used a route. It is written anew, whole, a quarter of an hour
after messages went, and when the node stops.

Law: like the log, it never stops a node. What cannot be written stays counted, and is tried again.
"""

import asyncio
import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from broker.advisory_log import iso_time
from broker.core.policies.usage import RouteUsage
from broker.core.policy import Policy
from config.whole_files import put
from sapwood.protocol.destinations import Destination, Kind

if TYPE_CHECKING:
    from broker.core.node import NodeCore

EVERY: Final = 900.0
_MODE: Final = 0o640


class UsageRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the file. Without `kind` it is the first: counted from `since` to `until`.

    `whole`: every route that was used has a line; else there were too many.
    """

    node: str
    kind: str | None = None
    destination: str | None = None
    messages: int = 0
    since: str | None = None
    until: str | None = None
    whole: bool = True


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(UsageRow)


class UsageLog(Policy):
    """Counts and writes for one node. Caller's duty: `close`. `last_error`: why the last try failed, or ''.

    `most_files`: days that are kept. `clock`: wall clock, seconds since 1970.
    """

    def __init__(
        self, directory: Path, node: str, most_files: int, clock: Callable[[], float] = time.time
    ) -> None:
        self.last_error = ""
        self._directory, self._node, self._most_files = directory, node, most_files
        self._clock = clock
        self._usage: RouteUsage | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since = clock()

    def __repr__(self) -> str:
        return f"<UsageLog of {self._node} {self._usage!r}>"

    def follow(self, core: "NodeCore") -> None:
        """Count what leaves, on top of what was counted today before a restart."""
        self._usage = RouteUsage(core.table)
        self._load(self._usage)
        core.policies.add([self])
        self.write()

    def routed(self, destination: Destination, gateway: str, messages: int, pattern: str = "") -> None:
        assert self._usage is not None
        self._usage.routed(destination, gateway, messages, pattern)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self.write)

    def write(self) -> None:
        """Write today's file, whole."""
        self._timer = None
        usage = self._usage
        if usage is None:
            return
        now = self._clock()
        try:
            self._write(usage, now)
            self.last_error = ""
        except OSError as error:
            self.last_error = f"{self._path(now)}: {error.strerror or error}"
            return
        if self._day(now) != self._day(self._since):
            self._since, usage.used, usage.whole = now, {}, True
            self._remove_old()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.write()

    def _write(self, usage: RouteUsage, now: float) -> None:
        """The file is that of the day on which its counting began."""
        rows = [
            UsageRow(node=self._node, kind=key.kind, destination=key.name, messages=count)
            for key, count in usage.used.items()
        ]
        head = UsageRow(node=self._node, since=iso_time(self._since), until=iso_time(now), whole=usage.whole)
        path = self._path(self._since)
        self._directory.mkdir(parents=True, exist_ok=True)
        put(path, _encoder.encode_lines([head, *rows]), _MODE, durably=False)

    def _load(self, usage: RouteUsage) -> None:
        """Go on with today's file. One that cannot be read, or tells of another day, begins anew."""
        try:
            head, *rows = _decoder.decode_lines(self._path(self._since).read_bytes())
            used = {Destination(Kind(str(row.kind)), str(row.destination)): row.messages for row in rows}
            since = _seconds(str(head.since))
            if self._day(since) != self._day(self._since):
                return
        except (OSError, ValueError, OverflowError, msgspec.MsgspecError):
            return
        self._since, usage.used, usage.whole = since, used, head.whole

    def _remove_old(self) -> None:
        """Of finished days; today's file is one of `most_files`."""
        name = re.compile(re.escape(self._node) + r"\.usage-[0-9]{8}\.jsonl")
        files = sorted(path for path in self._directory.iterdir() if name.fullmatch(path.name))
        for path in files[: max(len(files) - self._most_files + 1, 0)]:
            path.unlink(missing_ok=True)

    def _path(self, at: float) -> Path:
        return self._directory / f"{self._node}.usage-{self._day(at)}.jsonl"

    @staticmethod
    def _day(at: float) -> str:
        return iso_time(at)[:10].replace("-", "")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
