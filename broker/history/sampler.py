"""Takes a sample of the node every few seconds, keeps it, and tells whoever watches the figures.

When a longer step has ended, its row is folded from the rows of the shorter one on disk: a restart in the
middle of a step loses nothing of it.

Law: charts never stop a node. A disk that takes nothing costs the samples of that time. One that does not
answer holds up nobody who watches the figures, for it may be what is to be told.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from broker.history.ring import Level, Ring, Row
from broker.history.series import NAMES, beginning, between, figures, folded
from broker.report import NodeReport
from broker.threads import Threads
from sapwood.protocol.errors import SapwoodError

_log = logging.getLogger("sapwood.history")
MOST_POINTS: Final = 500
HOURS: Final = 168.0
FILE: Final = "history.ring"
Result = TypeVar("Result")
Watcher = Callable[[Mapping[str, float]], None]


def levels(every: float) -> tuple[Level, ...]:
    """An hour or more of the shortest step, a day of three minutes, a week of a quarter of an hour.

    Each step is a multiple of the one before: a row is made of whole rows.
    """
    return Level(every, max(360, math.ceil(3600 / every))), Level(180.0, 480), Level(900.0, 672)


class Course(NamedTuple):
    """How the series went: a row for each step; what is not there has no row."""

    step: float
    rows: list[Row]


class Sampler:
    """Of one node. `error`: why the latest sample is not on disk, '' = it is. Caller's duty: `close`.

    `watchers`: each is told the latest numbers by series, also where none could be kept.
    """

    def __init__(
        self,
        report: NodeReport,
        folder: Path,
        every: float,
        *,
        clock: Callable[[], float] = time.time,
        running: Callable[[], float] = time.monotonic,
    ) -> None:
        self.error = ""
        self.watchers: list[Watcher] = []
        self._report = report
        self._every = every
        self._clock, self._running = clock, running
        self._ring = Ring(folder / FILE, NAMES, levels(every))
        self._before = beginning(running())
        self._folded_at: float | None = None
        self._thread: Executor | None = None
        self._keeping: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Sampler every {self._every:g} s {self._ring!r}>"

    def warnings(self) -> list[str]:
        """For who looks at the node."""
        return [f"no charts: {self.error}"] if self.error else []

    async def run(self) -> None:
        """Until cancelled."""
        self._on_disk(self._ring.load)
        while True:
            await asyncio.sleep(self._every)
            await self.sample()

    async def sample(self) -> None:
        """Look at the node, tell what was seen, and keep it."""
        try:
            found = await figures(self._report, self._running())
        except SapwoodError as error:  # the store cannot be asked, which is in the log
            self._say(str(error))
            return
        values = between(self._before, found)
        self._before = found
        for watcher in self.watchers:
            watcher(dict(zip(NAMES, values, strict=True)))
        row = Row(self._clock(), values)
        keeping = self._on_disk(lambda: self._keep(row))
        await asyncio.wait((keeping,), timeout=self._every)
        if keeping.done():
            keeping.result()  # what is no fault of a disk is not passed over

    def _on_disk(self, call: Callable[[], None]) -> "asyncio.Future[None]":
        """Begin this, unless what was begun last is under way still, which is returned then."""
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.ensure_future(self._tried(call))
        return self._keeping

    async def _tried(self, call: Callable[[], None]) -> None:
        try:
            await self._in_thread(call)
            self._say("")
        except (OSError, SapwoodError) as error:
            self._say(str(error))

    def _say(self, error: str) -> None:
        if error and error != self.error:
            _log.warning("! samples for charts are not kept: %s", error)
        self.error = error

    def _keep(self, row: Row) -> None:
        """In the thread."""
        ring, before = self._ring, self._folded_at
        ring.load()
        if before is None:  # the first since the start: a step may have ended meanwhile
            latest = ring.latest()
            before = latest.at if latest is not None else row.at
        for level, each in enumerate(ring.levels[1:]):
            start = before // each.step * each.step
            if row.at >= start + each.step:
                parts = [one.values for one in ring.rows(level) if start <= one.at < start + each.step]
                if parts:
                    ring.add(level + 1, Row(start, folded(parts)))
        ring.add(0, row)
        self._folded_at = row.at

    def course(self, hours: float) -> Course:
        """The latest hours, in so many points at most."""
        ring, now, span = self._ring, self._clock(), hours * 3600
        level = next((n for n, each in enumerate(ring.levels) if each.span >= span), len(ring.levels) - 1)
        step = ring.levels[level].step
        step *= math.ceil(span / step / MOST_POINTS)
        parts: dict[float, list[tuple[float, ...]]] = {}
        since = now - span
        for place in reversed(range(level + 1)):
            rows = [row for row in ring.rows(place) if since <= row.at <= now]
            for row in rows:
                at = row.at if step == ring.levels[0].step else row.at // step * step
                parts.setdefault(at, []).append(row.values)
            # A step that has not ended yet is told by the shorter ones.
            since = max((row.at + ring.levels[place].step for row in rows), default=since)
        return Course(step, [Row(at, folded(parts[at])) for at in sorted(parts)])

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        if self._thread is None:
            self._thread = Threads("sapwood-history")
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._ring.close()
