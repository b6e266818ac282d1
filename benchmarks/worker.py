"""What producers and consumers of all systems share: their task, their clock, what they report.

A worker is a process that gets its task as one JSON argument and answers in lines of JSON: a consumer says
`ready` once it is subscribed, and at the end both say what they did. Times are CLOCK_MONOTONIC, which all
processes of a machine share.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Coroutine
from typing import Any, Final

import msgspec

from benchmarks import payloads

STALL: Final = 30.0
FIRST: Final = 120.0


class Task(msgspec.Struct):
    """`rate`: messages a second, 0 = as fast as it goes. `burst`: messages for one destination in a row."""

    url: str
    count: int
    destinations: int = 1
    kind: str = "json"
    rate: float = 0.0
    burst: int = 1
    warm_up: int = 0
    options: dict[str, str] = {}


def destination(index: int) -> str:
    return f"sales-{index:04d}"


def destinations(task: Task) -> list[str]:
    return [destination(index) for index in range(task.destinations)]


def cpu() -> float:
    """CPU seconds of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def say(**answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def wait_for_go() -> None:
    """Block until the parent says a line: the others are not ready yet."""
    sys.stdin.readline()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def task_of(arguments: list[str]) -> tuple[str, Task]:
    """(`produce` or `consume`, the task)."""
    return arguments[1], msgspec.json.decode(arguments[2], type=Task)


class Tally:
    """What a consumer has seen: numbers, and times where the messages carry them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._seen: list[bytes] = []
        self._latencies: list[int] = []
        self._cpu = 0.0
        self.first = self.last = 0.0
        self.complete = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Tally {len(self._seen)} of {self._task.count}>"

    def take(self, arrived: list[bytes]) -> None:
        """Messages have arrived now."""
        self.last = time.monotonic()
        if not self._seen:
            self.first, self._cpu = self.last, cpu()
        if self._task.rate:
            now = time.monotonic_ns()
            self._latencies += [now - payloads.stamp_of(payload) for payload in arrived]
        self._seen += payloads.numbers_of(arrived)
        if len(self._seen) >= self._task.count:
            self.complete.set()

    async def wait(self) -> None:
        """Until everything has come, or nothing came for `STALL` seconds; the first may take longer."""
        seen = -1
        while not self.complete.is_set() and len(self._seen) > seen:
            seen = len(self._seen)
            try:
                async with asyncio.timeout(STALL if seen else FIRST):
                    await self.complete.wait()
            except TimeoutError:
                continue

    def report(self) -> dict[str, Any]:
        latencies = sorted(self._latencies[self._task.warm_up :])
        return {
            **payloads.audit(self._seen, self._task.count),
            "first": self.first,
            "last": self.last,
            "cpu": cpu() - self._cpu,
            "p50_ms": percentile(latencies, 0.50) / 1e6,
            "p99_ms": percentile(latencies, 0.99) / 1e6,
        }


def percentile(ascending: list[int], share: float) -> float:
    """The value below which `share` of them lie; 0 for none."""
    return float(ascending[min(int(len(ascending) * share), len(ascending) - 1)]) if ascending else 0.0


async def paced(task: Task) -> "asyncio.Queue[bytes]":
    """A queue that gets the task's messages at its rate, each stamped with the time when it got there.

    Not when it was sent: a system that holds up its producer does not look faster for it. Nor when it was
    due: the event loop's timers have a grain of a millisecond, which is nobody's latency.
    """
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    made = payloads.make(task.kind, task.count)

    async def fill() -> None:
        start = time.monotonic_ns() + 50_000_000
        for index, payload in enumerate(made):
            due = start + int(index * 1e9 / task.rate)
            while (left := due - time.monotonic_ns()) > 0:
                await asyncio.sleep(left / 1e9)
            queue.put_nowait(payloads.stamped(payload, time.monotonic_ns()))

    queue.filling = asyncio.create_task(fill())  # type: ignore[attr-defined]
    return queue


def batches(task: Task, made: list[bytes]) -> list[tuple[str, list[bytes]]]:
    """All messages as (destination, messages in a row), destinations in turn."""
    names = destinations(task)
    starts = range(0, len(made), task.burst)
    return [(names[turn % len(names)], made[start : start + task.burst]) for turn, start in enumerate(starts)]
