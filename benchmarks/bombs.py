"""What a sibling notices of children that send bombs at full line rate.

`python -m benchmarks.bombs`. HQ, a store and one bomber or more (`benchmarks.bomber`) are processes of their
own. The store sends a queue's messages to HQ, 100 a second, while each kind of bomb is thrown in turn; what
is late, lost, or a link that was lost fails nothing here: it is printed. `SEND_TO` at HQ is read by a client
of this process, so a time is from the send at the store to the receipt at HQ.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.bomber import KINDS
from benchmarks.processes import Process, Processes, free_port, get_json, machine
from sapwood.client import Client, connect

STORE: Final = "leeds"
SEND_TO: Final = "queue:orders"
_PERMITS: Final = {"consume": ["{name}/#"], "send": ["{name}/#", SEND_TO]}


class Chain:
    """HQ and its store."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._processes = processes
        self._directory = directory
        self.ports = {"hq": free_port(), STORE: free_port()}

    def __repr__(self) -> str:
        return f"<Chain {self.ports}>"

    @property
    def link_uri(self) -> str:
        return f"ws://127.0.0.1:{self.ports['hq']}/link"

    async def start(self) -> None:
        self._launch("hq", permits=_PERMITS)
        await self._until("hq", lambda status: True)
        self._launch(STORE, tree_connectors=[{"nodetype": "leaf", "uri": self.link_uri}])
        await self._until("hq", lambda status: [each["name"] for each in status["children"]] == [STORE])

    def _launch(self, name: str, **settings: Any) -> None:
        site = {"name": name, "tree": "bombs", "data": str(self._directory / name), **settings}
        site["listener"] = {"port": self.ports[name]}
        file = self._directory / f"{name}.yaml"
        file.write_text(json.dumps({"broker": site}))
        self._processes.python(name, "benchmarks.node_process", str(file))

    async def status(self, name: str) -> dict[str, Any] | None:
        return await asyncio.to_thread(get_json, f"http://127.0.0.1:{self.ports[name]}/api/status")

    async def _until(self, name: str, holds: Any) -> None:
        async with asyncio.timeout(60):
            while True:
                status = await self.status(name)
                if status is not None and holds(status):
                    return
                await asyncio.sleep(0.1)

    def client(self, name: str) -> Client:
        return connect(f"http://127.0.0.1:{self.ports[name]}")

    async def up_since(self) -> dict[str, float]:
        """When the store's link came up, running time of HQ."""
        status = await self.status("hq") or {"children": []}
        found = [each for each in status["children"] if each["name"] == STORE and each["state"] == "running"]
        return {each["name"]: status["running_s"] - each["since_s"] for each in found}


async def measure(chain: Chain, seconds: float, rate: float) -> list[float]:
    """Send for so long, and wait for the last: how late each message was, in seconds."""
    late: list[float] = []
    count = int(seconds * rate)
    async with chain.client("hq") as hq, chain.client(STORE) as store:
        await hq.create(SEND_TO.removeprefix("queue:"))
        reading = await hq.subscribe(SEND_TO).ready()
        await asyncio.sleep(0.5)
        sending = asyncio.create_task(_send(store, count, rate))
        async with asyncio.timeout(seconds + 60):
            async for delivery in reading:
                late.append(time.monotonic() - float(delivery.payload))
                delivery.ack()
                if len(late) == count:
                    break
        await sending
    return late


async def _send(store: Client, count: int, rate: float) -> None:
    start = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(start + number / rate - time.monotonic(), 0))
        await store.publish(SEND_TO, repr(time.monotonic()).encode())
    await store.flush()


def share(late: Sequence[float], part: float) -> float:
    """The bound below which such a part lies, ms."""
    return 1000 * sorted(late)[min(int(part * len(late)), len(late) - 1)]


async def bombed(
    chain: Chain, processes: Processes, kind: str, bombers: int, seconds: float, rate: float
) -> dict[str, Any]:
    """One kind, or '' for none: what the sibling noticed, and what was thrown."""
    before = await chain.up_since()
    made = [
        processes.python(
            f"{kind}-{n}", "benchmarks.bomber", chain.link_uri, f"mallory-{kind}-{n}", kind, "bombs"
        )
        for n in range(bombers if kind else 0)
    ]
    for each in made:
        await asyncio.to_thread(each.answer)
    try:
        late = await measure(chain, seconds, rate)
        lost = before.keys() - {
            name for name, at in (await chain.up_since()).items() if abs(at - before.get(name, at)) < 0.1
        }
    finally:
        said = [await asyncio.to_thread(_end, each) for each in made]
    return {
        "kind": kind or "none",
        "p50_ms": round(share(late, 0.5), 1),
        "p99_ms": round(share(late, 0.99), 1),
        "worst_ms": round(share(late, 1.0), 1),
        "mib_per_s": round(sum(each["bytes"] for each in said) / seconds / 2**20, 1),
        "links_lost": sorted(lost) + [each["ended"] for each in said if each["ended"]],
    }


def _end(bomber: Process) -> dict[str, Any]:
    assert bomber.popen.stdin is not None
    bomber.popen.stdin.close()
    return bomber.answer()


async def run(options: argparse.Namespace, say: Callable[[str], None]) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder, Processes(Path(folder)) as processes:
        chain = Chain(processes, Path(folder))
        await chain.start()
        for kind in ["", *options.kinds]:
            found = await bombed(chain, processes, kind, options.bombers, options.seconds, options.rate)
            say(json.dumps(found))
            rows.append(found)
    return rows


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="*", default=sorted(KINDS), choices=sorted(KINDS))
    parser.add_argument("--bombers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--json", type=Path, help="write everything there")
    options = parser.parse_args(arguments)
    about = machine()
    say(json.dumps(about))
    rows = asyncio.run(run(options, say))
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
