"""Channels over two hops: how fast, how late messages are beside one, a thousand at once, a slow reader.

`python -m benchmarks.channels --help`. Three nodes (leaf, branch, root); `sapwood forward` at the root leads
to a service at the leaf. Beside it, in the same run, two `socat` relays in a row to the same service. For
`latency` the line between leaf and branch has `--mbit`, and messages go up it at `--rate` while a channel
fills it. The line is the kernel's (`shaped_line`) where this user may make one, else a program's. Needs
socat.
"""

import argparse
import contextlib
import json
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from benchmarks.processes import (
    PATIENCE,
    BenchmarkFailed,
    Process,
    Processes,
    free_port,
    get_json,
    machine,
    raise_file_limit,
    until,
)
from benchmarks.sapwood_chain import NAMES, SapwoodChain
from benchmarks.shaped_line import own_network, shape
from benchmarks.worker import Task

WHAT: Final = ("throughput", "latency", "many", "slow")
_PIECE: Final = 256 * 1024
Row = dict[str, Any]


class ChannelChain(SapwoodChain):
    """The leaf offers `zeros`, which pours bytes, and `echo`. `mbit`: of its line, 0 = no bound.
    `shaped`: by the kernel, in a network of our own.
    """

    def __init__(
        self, processes: Processes, directory: Path, size: int, mbit: float = 0.0, *, shaped: bool = False
    ) -> None:
        super().__init__(processes, directory)
        self.services = {"zeros": free_port(), "echo": free_port()}
        self._mbit = mbit
        self._shaped = shaped
        self._line = self.ports["branch"] if shaped else free_port()
        zeros = f"head -c {size} /dev/zero"
        self._serve("zeros", f"SYSTEM:{zeros}")
        self._serve("echo", "PIPE")

    def _serve(self, name: str, what: str) -> None:
        listen = f"TCP-LISTEN:{self.services[name]},bind=127.0.0.1,reuseaddr,fork,backlog=1024"
        self._processes.start(name, ["socat", "-b", "65536", listen, what])

    def start(self) -> None:
        if self._mbit and self._shaped:
            shape(self._line, self._mbit)
        elif self._mbit:
            way = f"{self._line}:{self.ports['branch']}"
            self._processes.python("line", "benchmarks.limited_line", str(self._mbit), way).answer()
        super().start()
        until("the root has heard of the leaf", self._knows, PATIENCE)

    def _knows(self) -> bool:
        return "leaf" in str(get_json(f"{self.url('root')}/api/routes?kind=domain"))

    def _site(self, name: str, parent: str) -> Row:
        found: Row = super()._site(name, parent)
        site = found["broker"]
        if name == "leaf":
            services = self.services.items()
            site["forwards"] = [
                {"name": each, "to": f"127.0.0.1:{port}", "permit": ["root"]} for each, port in services
            ]
            if self._mbit:
                site["tree_connectors"][0]["uri"] = f"ws://127.0.0.1:{self._line}/link"
        else:
            site["permits"]["serves"] = ["*@leaf"]
        return found

    def forward(self, service: str) -> tuple[Process, int]:
        """`sapwood forward` at the root, and its port."""
        words = ("forward", "0", f"leaf:{service}", "--json", "--url", self.url("root"))
        process = self._processes.python(f"forward-{service}", "broker.cli", *words)
        return process, int(process.answer()["port"])

    def memory(self) -> dict[str, float]:
        """MiB that are resident."""
        return {name: round(self.servers[name].memory() / 2**20, 1) for name in NAMES}

    def cpu(self) -> dict[str, float]:
        """CPU seconds of each node so far."""
        return {name: server.cpu() for name, server in self.servers.items()}


@contextlib.contextmanager
def _dialled(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        yield line


def _drained(port: int) -> tuple[int, float]:
    """Bytes, and bytes a second, of all that a service pours."""
    buffer, total, start = bytearray(_PIECE), 0, time.monotonic()
    with _dialled(port) as line:
        while size := line.recv_into(buffer):
            total += size
    return total, total / (time.monotonic() - start)


def throughput(chain: ChannelChain, processes: Processes, options: argparse.Namespace) -> Row:
    ports = [free_port(), free_port()]
    for name, listen, to in (("far", ports[0], chain.services["zeros"]), ("near", ports[1], ports[0])):
        words = (f"TCP-LISTEN:{listen},bind=127.0.0.1,reuseaddr,fork", f"TCP:127.0.0.1:{to}")
        processes.start(f"relay-{name}", ["socat", "-b", "65536", *words])
    forward, port = chain.forward("zeros")
    rates: dict[str, list[float]] = {"relays": [], "channel": []}
    before = chain.cpu() | {"forward": forward.cpu()}
    for _ in range(options.rounds):
        for way, at in (("relays", ports[1]), ("channel", port)):
            size, rate = _drained(at)
            if size != options.size:
                raise BenchmarkFailed(f"{way}: {size} of {options.size} bytes came")
            rates[way].append(rate / 1e6)
    found = {way: round(median(each), 1) for way, each in rates.items()}
    used = chain.cpu() | {"forward": forward.cpu()}
    gb = options.size * options.rounds / 1e9
    cost = {name: round((seconds - before[name]) / gb, 2) for name, seconds in used.items()}
    return {"mb_s": found, "share": round(found["channel"] / found["relays"], 3), "cpu_s_gb": cost}


def latency(chain: ChannelChain, processes: Processes, options: argparse.Namespace) -> Row:
    """Idle, then beside a channel that goes up the same line."""
    found: Row = {}
    _, port = chain.forward("zeros")
    for way in ("idle", "full"):
        with contextlib.ExitStack() as stack:
            if way == "full":
                stack.enter_context(_pouring(port, processes))
            found[way] = _messages(chain, processes, options)
    found["share"] = round(found["full"]["p99_ms"] / max(found["idle"]["p99_ms"], 0.01), 2)
    return found


@contextlib.contextmanager
def _pouring(port: int, processes: Processes) -> Iterator[None]:
    """Somebody reads all that comes."""
    reader = processes.start("reader", ["socat", "-u", f"TCP:127.0.0.1:{port}", "OPEN:/dev/null"])
    try:
        time.sleep(1.0)
        yield
        if not reader.running:
            raise BenchmarkFailed("the channel had ended before the messages: give a larger --size")
    finally:
        reader.kill()


def _messages(chain: ChannelChain, processes: Processes, options: argparse.Namespace) -> Row:
    count = int(options.rate * options.seconds)
    task = Task(url="", count=count, kind="random", rate=options.rate, warm_up=count // 10)

    def worker(what: str, at: str) -> Process:
        given = msgspec.structs.replace(task, url=chain.url(at), options={"at": at})
        return processes.python(what, chain.module, what, msgspec.json.encode(given).decode())

    consumer = worker("consume", "root")
    consumer.answer()
    chain.prepare("leaf", 1)
    producer = worker("produce", "leaf")
    producer.answer()
    time.sleep(0.5)
    producer.tell(go=True)
    producer.answer()
    received = consumer.answer()
    if received["lost"] or received["duplicated"]:
        raise BenchmarkFailed(
            f"of the messages {received['lost']} were lost, {received['duplicated']} doubled"
        )
    return {each: round(received[each], 2) for each in ("p50_ms", "p99_ms")}


def many(chain: ChannelChain, _: Processes, options: argparse.Namespace) -> Row:
    """Each has its bytes back while all are open."""
    before, start = chain.memory(), time.monotonic()
    _, port = chain.forward("echo")
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(_dialled(port)) for _ in range(options.channels)]
        for number, line in enumerate(lines):
            line.sendall(number.to_bytes(8, "big") * 128)
        for number, line in enumerate(lines):
            data = b""
            while len(data) < 1024 and (more := line.recv(1024)):
                data += more
            if data != number.to_bytes(8, "big") * 128:
                raise BenchmarkFailed(f"channel {number} of {options.channels} gave back {len(data)} bytes")
        seconds = time.monotonic() - start
        open_now = {name: _listed(chain, name) for name in NAMES}
    return {"open": open_now, "seconds": round(seconds, 2), "mib_before": before, "mib": chain.memory()}


def _listed(chain: ChannelChain, name: str) -> int:
    found = get_json(f"{chain.url(name)}/api/channels?limit=1") or {}
    return len(found.get("channels", ())) + int(found.get("more", 0))


def slow(chain: ChannelChain, _: Processes, options: argparse.Namespace) -> Row:
    """Somebody opens channels that pour, and reads nothing."""
    before = chain.memory()
    _, port = chain.forward("zeros")
    with contextlib.ExitStack() as stack:
        for _ in range(options.readers):
            stack.enter_context(_dialled(port))
        seen = [-1, -2]
        while seen[-1] != seen[-2] or not seen[-1]:
            time.sleep(1.0)
            seen.append(int((get_json(f"{chain.url('leaf')}/api/channels") or {}).get("bytes", 0)))
        waiting = {name: _waiting(chain, name) for name in NAMES}
        return {"readers": options.readers, "waiting": waiting, "mib_before": before, "mib": chain.memory()}


def _waiting(chain: ChannelChain, name: str) -> int:
    listed = (get_json(f"{chain.url(name)}/api/channels?limit=1000") or {}).get("channels", ())
    return sum(each["waiting"] for each in listed)


def measure(what: str, options: argparse.Namespace) -> Row:
    """One measurement on a fresh chain."""
    mbit = options.mbit if what == "latency" else 0.0
    size = options.size if what == "throughput" else 2**50
    with contextlib.ExitStack() as stack:
        shaped = what == "latency" and options.line == "kernel" and stack.enter_context(own_network())
        folder = Path(stack.enter_context(TemporaryDirectory(dir=options.directory)))
        processes = stack.enter_context(Processes(folder))
        chain = ChannelChain(processes, folder, size, mbit, shaped=shaped)
        chain.start()
        row: Row = {
            "throughput": throughput,
            "latency": latency,
            "many": many,
            "slow": slow,
        }[what](chain, processes, options)
        line = {"line": "kernel" if shaped else "program"} if mbit else {}
        return {"what": what} | line | row


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT)
    parser.add_argument("--size", type=int, default=500_000_000, help="bytes of a round of throughput")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mbit", type=float, default=100.0, help="of the line for latency")
    parser.add_argument("--line", choices=("kernel", "program"), default="kernel", help="for latency")
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--channels", type=int, default=1000)
    parser.add_argument("--readers", type=int, default=8, help="that read nothing")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args(words)
    about = machine()
    if shutil.which("socat") is None:
        print("socat is not there: as root 'apt-get install -y socat'", file=sys.stderr)
        return 2
    raise_file_limit()
    rows = []
    for what in options.what:
        rows.append(measure(what, options))
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "rows": rows}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
