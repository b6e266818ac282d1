"""How many small messages wait in one queue of a small machine: `python -m benchmarks.waiting`.

One node, in a control group of 256 MiB where that can be made. A producer sends small messages that nobody
reads, the node is stopped and started, and a reader takes them all. The run fails unless every message comes
exactly once, in order, and the node lives through it. With `--alone` each message is a bundle of its own, as
where messages trickle in: it goes in turn to `queue:NAME` and `queue:NAME@NODE`, which have the same readers.

After each twentieth a line on standard error says the rate, the node's CPU a message and its memory since the
last one: a run that is stopped has said how far it came, and whether memory grew on the way.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import sapwood
from benchmarks.processes import BenchmarkFailed, Process, Processes, free_port, machine, until

_GROUPS: Final = Path("/sys/fs/cgroup")
_BATCH: Final = 256
_CREDIT: Final = 2000
_WORD: Final = b"%012d"
_SENDERS: Final = 16
_MARKS: Final = 20
QUEUE: Final = "queue:small"


def memory_groups(groups: Path = _GROUPS) -> tuple[Path, str] | None:
    """Where groups that bound memory are made, and the file for the bound: of cgroup v1, or else of v2."""
    if (groups / "memory" / "memory.limit_in_bytes").is_file():
        return groups / "memory", "memory.limit_in_bytes"
    try:
        controllers = (groups / "cgroup.controllers").read_text().split()
        given_on = (groups / "cgroup.subtree_control").read_text().split()
    except OSError:
        return None
    if "memory" not in controllers:
        return None
    if "memory" not in given_on:
        with contextlib.suppress(OSError):
            (groups / "cgroup.subtree_control").write_text("+memory")
    return groups, "memory.max"


@contextlib.contextmanager
def control_group(limit: int, groups: Path = _GROUPS) -> Iterator[Path | None]:
    """A group with so many bytes of memory; None where this user may make none."""
    found = memory_groups(groups)
    if found is None:
        yield None
        return
    group = found[0] / f"sapwood-waiting-{time.monotonic_ns()}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        yield group if _bound(group / found[1], limit) else None
    finally:
        group.rmdir()


def _bound(file: Path, limit: int) -> bool:
    try:
        file.write_text(str(limit))
    except OSError:
        return False
    return True


def peak(process: Process) -> int:
    """Most resident bytes that it has had."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def start(processes: Processes, file: Path, port: int, group: Path | None, turn: int) -> Process:
    node = processes.python(f"node-{turn}", "benchmarks.node_process", str(file))
    if group is not None:
        (group / "cgroup.procs").write_text(str(node.pid))
    until("the node answers", lambda: _answers(node, port), 3600.0)
    return node


def _answers(node: Process, port: int) -> bool:
    if not node.running:
        raise BenchmarkFailed(f"{node.name} has ended: {node.tail()}")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10.0):
            return True
    except OSError:
        return False


class Course:
    """How one half of a run goes on: what the node uses from one mark to the next."""

    def __init__(self, title: str, node: Process, count: int, group: Path | None) -> None:
        self._title = title
        self._node = node
        self._step = max(count // _MARKS, 1)
        self._usage = group / "memory.usage_in_bytes" if group is not None else None
        self._last = (0, time.monotonic(), node.cpu())
        self._marks = 0

    def __repr__(self) -> str:
        return f"<Course of {self._title}, {self._marks} marks>"

    def at(self, done: int) -> None:
        """So many messages have gone by."""
        before, then, used = self._last
        if done - before < self._step:
            return
        now, cpu, here = time.monotonic(), self._node.cpu(), self._node.memory()
        self._last = (done, now, cpu)
        self._marks += 1
        charged = ""
        if self._usage is not None and self._usage.is_file():
            charged = f", {int(self._usage.read_text()) / 2**20:.0f} MiB charged to its group"
        print(
            f"{self._title} {done}: {(done - before) / (now - then):.0f}/s, "
            f"{(cpu - used) / (done - before) * 1e6:.0f} us of CPU each, {here / 2**20:.1f} MiB{charged}",
            file=sys.stderr,
            flush=True,
        )


async def send(url: str, count: int, course: Course, *, alone: bool) -> float:
    began = time.monotonic()
    for sender, first in enumerate(range(0, count, -(-count // _SENDERS))):
        last = min(first + -(-count // _SENDERS), count)
        async with sapwood.connect(url, session=f"producer-{sender}", timeout=300.0) as client:
            await client.create("small")
            for number in range(first, last, _BATCH):
                batch = range(number, min(number + _BATCH, last))
                if alone:
                    for each in batch:
                        route = QUEUE if each % 2 else f"{QUEUE}@hq"
                        await client.send_many(route, [_WORD % each], wait=False)
                else:
                    await client.send_many(QUEUE, [_WORD % each for each in batch], wait=False)
                course.at(batch.stop)
            await client.flush()
    return time.monotonic() - began


async def drain(url: str, count: int, course: Course, *, alone: bool) -> float:
    """Every message exactly once; in order, where they wait in one queue."""
    seen, came, before = bytearray(count), 0, -1
    began = time.monotonic()
    async with sapwood.connect(url, session="consumer", timeout=300.0) as client:
        async for batch in client.subscribe(QUEUE, credit=_CREDIT).batches():
            for payload in batch.payloads:
                number = int(payload)
                assert not seen[number], f"message {number} came twice"
                assert alone or number > before, f"message {number} came after {before}"
                seen[number], before, came = 1, number, came + 1
            batch.ack()
            course.at(came)
            if came == count:
                break
    return time.monotonic() - began


def measure(folder: Path, count: int, limit: int, *, alone: bool) -> dict[str, Any]:
    port = free_port()
    file, url = folder / "hq.yaml", f"http://127.0.0.1:{port}"
    site = {"name": "hq", "tree": "bench", "data": str(folder / "data"), "listener": {"port": port}}
    delivery = {"destinations": [{"pattern": "queue:#", "max_messages": 2 * count + 1000}]}
    limits = {"queue_quota": count}
    file.write_text(json.dumps({"broker": site | {"limits": limits, "delivery": delivery}}))
    with control_group(limit) as group, Processes(folder) as processes:
        node = start(processes, file, port, group, 1)
        empty = node.memory()
        course = Course("sent", node, count, group)
        sending = asyncio.run(send(url, count, course, alone=alone))
        found: dict[str, Any] = {
            "messages": count,
            "alone": alone,
            "memory limit": limit if group is not None else "none: no right to make a control group",
            "sent/s": round(count / sending),
            "resident empty, MiB": round(empty / 2**20, 1),
            "peak while sent, MiB": round(peak(node) / 2**20, 1),
        }
        node.stop()
        disk = sum(each.stat().st_size for each in (folder / "data").rglob("*") if each.is_file())
        found["disk, bytes a message"] = round(disk / count, 1)
        began = time.monotonic()
        node = start(processes, file, port, group, 2)
        found["start, s"] = round(time.monotonic() - began, 1)
        course = Course("drained", node, count, group)
        draining = asyncio.run(drain(url, count, course, alone=alone))
        found["drained/s"] = round(count / draining)
        found["peak of the second start, MiB"] = round(peak(node) / 2**20, 1)
        node.stop()
    return found


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--memory", type=int, default=256, help="MiB of the node's control group")
    parser.add_argument("--alone", action="store_true", help="each message is a bundle of its own")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path, help="write everything there")
    options = parser.parse_args(arguments)
    about = machine()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        found = measure(Path(folder), options.messages, options.memory * 2**20, alone=options.alone)
    say(json.dumps(found | about, indent=2))
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "figures": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
