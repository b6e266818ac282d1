"""One root, one branch and a thousand leaves: what a consumer costs, how soon everybody knows, what it takes.

`python -m benchmarks.thousand --help`. All nodes are real, with stores on disk and links on sockets; leaves
share a few processes. Counts come from the nodes' advisory logs, and a wrong count fails the run. With
`--delay` both lines, leaf to branch and branch to root, pass through a proxy that holds every byte for so
long, each way.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.leaf_host import Spec
from benchmarks.processes import (
    BenchmarkFailed,
    Process,
    Processes,
    free_port,
    get_json,
    machine,
    raise_file_limit,
    until,
)
from broker.advisory_log import LogRow, read_log

PROBES: Final = 10
_FILES_PER_LEAF: Final = 12
_POLL: Final = 0.1
Say = Callable[[str], None]


class Forest:
    """The tree under test, and what is known of it."""

    def __init__(self, processes: Processes, directory: Path, options: argparse.Namespace) -> None:
        self._processes = processes
        self._directory = directory
        self._limit = options.limit
        self._delay = options.delay
        self._profile, self._profile_directory = options.profile, options.profile_directory
        self._starts = 0
        self.leaves = [f"leaf-{number:04d}" for number in range(options.leaves)]
        self._shares = options.processes
        self.ports = {name: free_port() for name in ("root", "branch", "to-root", "to-branch")}
        self.servers: dict[str, Process] = {}
        self.hosts: list[Process] = []

    def __repr__(self) -> str:
        return f"<Forest of {len(self.leaves)} leaves>"

    # --- processes

    def start_proxy(self) -> None:
        if self._delay:
            pairs = [f"{self.ports['to-root']}:{self.ports['root']}"]
            pairs.append(f"{self.ports['to-branch']}:{self.ports['branch']}")
            proxy = self._processes.python("proxy", "benchmarks.delaying_proxy", str(self._delay), *pairs)
            proxy.answer()

    def start_server(self, name: str) -> None:
        """The root or the branch; returns when it answers."""
        file = self._directory / f"{name}.yaml"
        file.write_text(json.dumps(self._site(name)))
        self._starts += 1
        arguments = [str(file)]
        if name == self._profile:
            out = self._profile_directory / f"thousand-{name}-{self._starts}.txt"
            arguments += ["--profile", str(out.absolute())]
        self.servers[name] = self._processes.python(name, "benchmarks.node_process", *arguments)
        until(f"{name} to answer", lambda: get_json(self._url(name)), self._limit)

    def _site(self, name: str) -> dict[str, Any]:
        """As by default, but for a log that keeps everything and a branch that dials again soon."""
        site: dict[str, Any] = {
            "name": name,
            "data": str(self._directory / name),
            "listener": {"port": self.ports[name]},
            "advisory_log": {"max_files": 1000},
            "link": {"backoff_max": 2, "connect_timeout": 30},
            "log": {"level": "warning"},
        }
        site["permits"] = "open"  # the stores share queues; permits are not measured here
        if name == "branch":
            uri = f"ws://127.0.0.1:{self.ports['to-root' if self._delay else 'root']}/link"
            site["tree_connectors"] = [{"nodetype": "branch", "uri": uri}]
        return {"broker": site}

    def start_hosts(self) -> None:
        """The processes that will hold the leaves; no leaf yet."""
        uri = f"ws://127.0.0.1:{self.ports['to-branch' if self._delay else 'branch']}/link"
        for share in range(self._shares):
            spec = Spec(self.leaves[share :: self._shares], uri, str(self._directory))
            text = msgspec.json.encode(spec).decode()
            self.hosts.append(self._processes.python(f"leaves-{share}", "benchmarks.leaf_host", text))

    def all_hosts(self, **command: Any) -> list[dict[str, Any]]:
        """Tell all hosts the same at once; their answers."""
        for host in self.hosts:
            host.tell(**command)
        return [host.answer() for host in self.hosts]

    def restart(self, name: str, *, empty: bool) -> float:
        """Kill and start again; the time of the kill. `empty`: its database is lost, as by a new machine."""
        at = time.monotonic()
        if name == self._profile:
            self.servers[name].stop()
        self.servers[name].kill()
        if empty:
            shutil.rmtree(self._directory / name)
        self.start_server(name)
        return at

    # --- what it says

    def _url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}/api/status"

    def status(self, name: str) -> dict[str, Any]:
        return get_json(self._url(name)) or {}

    def routes(self, name: str, kind: str) -> int:
        """Routes of a kind at a node, learned from below."""
        routes = self.status(name).get("routes", {})
        return sum(
            count for key, count in routes.items() if key.startswith(f"{kind}/") and "local" not in key
        )

    def offered(self, name: str) -> int:
        """What a node offers its parent: all that it has from below, and itself."""
        return int(self.status(name).get("offered", {}).get("up", 0))

    def until_routes(self, name: str, kind: str, count: int) -> float:
        """Wait; the time when it was so."""
        what = f"{count} {kind} routes at the {name}"
        until(what, lambda: self.routes(name, kind) >= count, self._limit, _POLL)
        return time.monotonic()

    def until_all_up(self) -> float:
        """Wait until every leaf has its link, and the branch its own."""

        def all_up() -> bool:
            parent = self.status("branch").get("parent") or {}
            up = sum(answer["up"] for answer in self.all_hosts(do="status"))
            return up == len(self.leaves) and parent.get("state") == "running"

        until("all links up", all_up, self._limit, _POLL)
        return time.monotonic()

    # --- what they wrote down

    def rows(self, nodes: list[str]) -> Iterator[LogRow]:
        """All rows of these nodes' advisory logs so far."""
        for node in nodes:
            yield from read_log(self._directory / node / "advisories")

    def count(self, prefix: str, nodes: list[str]) -> int:
        """Advisories received by these nodes for queues of that prefix."""
        queues = (row for row in self.rows(nodes) if row.event == "advisory" and row.kind == "queue")
        return sum((row.destination or "").startswith(prefix) for row in queues)


class Run:
    """The phases, in order; each notes what it found."""

    def __init__(self, forest: Forest, options: argparse.Namespace, say: Say) -> None:
        self._forest = forest
        self._leaves = len(forest.leaves)
        self._interests = options.interests
        self._limit = options.limit
        self._say = say
        self.found: dict[str, Any] = {"words": {}}

    def __repr__(self) -> str:
        return f"<Run {list(self.found)}>"

    def all(self) -> None:
        self.grow()
        self.advise()
        self.probe()
        self.restart_branch()
        self.replace_branch()
        self.replace_root()

    def _note(self, name: str, value: object, text: str) -> None:
        self.found[name] = value
        self.found["words"][name] = text
        self._say(f"{text:66} {value}")

    def grow(self) -> None:
        """From nothing to all links up."""
        forest = self._forest
        forest.start_proxy()
        forest.start_server("root")
        forest.start_server("branch")
        forest.start_hosts()
        forest.all_hosts(do="status")
        self._empty = {name: forest.servers[name].memory() for name in forest.servers}
        start = time.monotonic()
        forest.all_hosts(do="start")
        forest.until_routes("root", "domain", self._leaves + 1)
        self._note("start_s", _seconds(start), f"{self._leaves} leaves started and known at the root, s")
        answers = forest.all_hosts(do="status")
        grown = sum(answer["memory"] - answer["before"] for answer in answers)
        self._note("leaf_kib", round(grown / self._leaves / 1024), "memory of a leaf, KiB")
        self._linked = {name: forest.servers[name].memory() for name in forest.servers}
        link = (self._linked["branch"] - self._empty["branch"]) / self._leaves
        self._note("link_kib", round(link / 1024, 1), "memory of a child's link at the branch, KiB")

    def advise(self) -> None:
        """Every leaf gets its consumers at once."""
        forest, routes = self._forest, self._leaves * self._interests
        before = sum(answer["memory"] for answer in forest.all_hosts(do="status"))
        start = time.monotonic()
        forest.all_hosts(do="interest", first=0, last=self._interests)
        at = forest.until_routes("root", "queue", routes)
        self._note("known_s", round(at - start, 2), f"{routes} interests known at the root, s")
        answers = forest.all_hosts(do="status")
        leaf = (sum(answer["memory"] for answer in answers) - before) / routes
        self._note("route_bytes_leaf", round(leaf), "memory of a queue with a consumer at its leaf, bytes")
        for name, server in forest.servers.items():
            route = (server.memory() - self._linked[name]) / routes
            self._note(f"route_bytes_{name}", round(route), f"memory of a route at the {name}, bytes")
        self._expect_advisories("orders-", routes)

    def probe(self) -> None:
        """One consumer more at some leaves: exactly what each costs, at whom."""
        leaves = self._probes = min(PROBES, len(self._forest.leaves) // len(self._forest.hosts)) or 1
        start = time.monotonic()
        self._forest.hosts[0].ask(do="one", leaves=leaves)
        at = self._forest.until_routes("root", "queue", self._leaves * self._interests + leaves)
        self._note("one_more_s", round(at - start, 2), f"{leaves} consumers more known at the root, s")
        self._expect_advisories("probe-", leaves)

    def _expect_advisories(self, prefix: str, consumers: int) -> None:
        """Two for each consumer, one at the branch and one at the root; none at any leaf."""
        forest, above = self._forest, ["branch", "root"]
        until(
            f"{2 * consumers} advisories in the logs",
            lambda: forest.count(prefix, above) >= 2 * consumers,
            self._limit,
            0.5,
        )
        time.sleep(1.0)
        by_node = {name: forest.count(prefix, [name]) for name in above}
        below = forest.count(prefix, forest.leaves)
        for_each = sum(by_node.values()) / consumers
        self._note(f"{prefix}advisories", for_each, f"advisories for each of {consumers} consumers")
        self._note(f"{prefix}spilled", below, f"of these at the {self._leaves} leaves")
        if set(by_node.values()) != {consumers} or below:
            raise BenchmarkFailed(f"advisories for {consumers} consumers: {by_node} above, {below} at leaves")

    def restart_branch(self) -> None:
        """Kill the branch and start it: it still has its routes, so the digests agree."""
        forest, before = self._forest, self._advisories_above()
        at = forest.restart("branch", empty=False)
        self._note("branch_ready_s", _seconds(at), "branch killed: it answers again, s")
        self._note("branch_resync_s", round(forest.until_all_up() - at, 2), "all links up again, s")
        time.sleep(2.0)
        again = self._advisories_above() - before
        self._note("branch_resync_advisories", again, "advisories that this cost, at branch and root")

    def _advisories_above(self) -> int:
        return self._forest.count("orders-", ["branch", "root"])

    def replace_branch(self) -> None:
        """Kill it and take its database away: every leaf tells it everything again."""
        forest, routes = self._forest, self._leaves * self._interests
        at = forest.restart("branch", empty=True)
        everything = routes + self._probes + self._leaves + 1
        until(
            f"{everything} offers of the branch",
            lambda: forest.offered("branch") == everything,
            self._limit,
            _POLL,
        )
        done = forest.until_all_up()
        text = f"branch killed, with an empty database: {routes} routes back, s"
        self._note("branch_replaced_s", round(done - at, 2), text)

    def replace_root(self) -> None:
        """The same at the root: one snapshot of everything over one line."""
        forest, routes = self._forest, self._leaves * self._interests
        wall = time.time()
        at = forest.restart("root", empty=True)
        done = forest.until_routes("root", "queue", routes)
        text = f"root killed, with an empty database: {routes} routes back, s"
        self._note("root_replaced_s", round(done - at, 2), text)
        time.sleep(1.0)
        self._note("snapshot_s", self._snapshot(wall), "of this from link up to the last route, s")

    def _snapshot(self, since: float) -> float:
        """From the root's log: from its link up to the last advisory that came with it."""
        up, last = 0.0, 0.0
        for row in self._forest.rows(["root"]):
            at = _timestamp(row.at)
            if at < since:
                continue
            if row.event == "link" and row.op == "up":
                up = at
            elif row.event == "advisory":
                last = at
        return round(last - up, 2)


def _timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _seconds(since: float) -> float:
    return round(time.monotonic() - since, 2)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--leaves", type=int, default=1000)
    parser.add_argument("--interests", type=int, default=20, help="queues with a consumer, at each leaf")
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds each way, on both lines")
    parser.add_argument("--processes", type=int, default=4, help="that share the leaves")
    parser.add_argument("--profile", choices=("root", "branch"), default="", help="profile this node")
    parser.add_argument("--profile-directory", type=Path, default=Path())
    parser.add_argument("--limit", type=float, default=180.0, help="seconds for one phase")
    parser.add_argument("--directory", type=Path, help="where the stores lie: a real disk, not tmpfs")
    parser.add_argument("--json", type=Path, help="write everything there")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None, say: Say = print) -> int:
    """Run all phases; 0 if every count was exact."""
    options = _options(arguments)
    files = raise_file_limit()
    if options.leaves * _FILES_PER_LEAF / options.processes > files:
        say(
            f"{options.leaves} leaves in {options.processes} processes: only {files} files may be open in one"
        )
        return 2
    found = {"machine": machine()}
    say(", ".join(f"{name} {value}" for name, value in found["machine"].items()))
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = Path(tempfile.mkdtemp(prefix="sapwood-thousand-", dir=options.directory))
    try:
        with Processes(directory) as processes:
            run = Run(Forest(processes, directory, options), options, say)
            try:
                run.all()
            except BenchmarkFailed as error:
                run.found["error"] = str(error)
                say(f"failed: {error}")
            finally:
                found |= run.found
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)
    if options.json:
        options.json.write_text(json.dumps(found | {"argv": sys.argv[1:]}, indent=1))
    return int("error" in found)


if __name__ == "__main__":
    sys.exit(main())
