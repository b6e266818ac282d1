"""A chain of three Sapwood nodes, leaf - branch - root, as the benchmark's system under test."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.processes import PATIENCE, Process, Processes, free_port, get_json, line_bytes, until

NAMES = ("root", "branch", "leaf")
LINES = (("leaf", "branch"), ("branch", "root"))


class SapwoodChain:
    """Start with `start`; everything ends with the `Processes` that it was given."""

    title = "Sapwood"
    module = "benchmarks.sapwood_worker"
    node_module = "benchmarks.node_process"

    def __init__(self, processes: Processes, directory: Path, profile: str = "") -> None:
        self._processes = processes
        self._directory = directory
        self._profile = profile
        self.limits: dict[str, int] = {}
        self.ports = {name: free_port() for name in NAMES}
        self.servers: dict[str, Process] = {}

    def __repr__(self) -> str:
        return f"<SapwoodChain {self.ports}>"

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def start(self) -> None:
        """Start the nodes and wait until both links are up."""
        for index, name in enumerate(NAMES):
            file = self._directory / f"{name}.yaml"
            file.write_text(json.dumps(self._site(name, NAMES[index - 1] if index else "")))
            arguments = [str(file)]
            if name == self._profile:
                arguments += ["--profile", str(self.profile_file)]
            self.servers[name] = self._processes.python(name, self.node_module, *arguments)
        for name in NAMES[1:]:
            until(f"the link from {name} up", partial(self._is_up, name), PATIENCE)

    @property
    def profile_file(self) -> Path:
        return self._directory / f"profile-{self._profile}.txt"

    def _site(self, name: str, parent: str) -> dict[str, Any]:
        """A configuration with everything as by default, but for what a flood from one producer needs."""
        site: dict[str, Any] = {
            "name": name,
            "data": str(self._directory / name),
            "listener": {"port": self.ports[name]},
            "limits": {"queue_quota": 100_000_000} | self.limits,
            "log": {"level": "warning"},
        }
        if name != "leaf":
            site["permits"] = {"consume": ["#"], "send": ["#", "#@*"], "nodes": ["*"]}  # all of it is checked
        if parent:
            nodetype = "leaf" if name == "leaf" else "branch"
            uri = f"ws://127.0.0.1:{self.ports[parent]}/link"
            site["tree_connectors"] = [{"nodetype": nodetype, "uri": uri}]
        return {"broker": site}

    def _status(self, name: str) -> dict[str, Any]:
        return get_json(f"{self.url(name)}/api/status") or {}

    def _is_up(self, name: str) -> bool:
        parent = self._status(name).get("parent") or {}
        return parent.get("state") == "running"

    def prepare(self, entry: str, destinations: int) -> None:
        """Wait until `entry` knows all destinations."""
        until(f"{destinations} routes at {entry}", lambda: self._routes(entry) >= destinations, PATIENCE)

    def _routes(self, entry: str) -> int:
        routes = self._status(entry).get("routes", {})
        return sum(count for name, count in routes.items() if name.startswith("queue/"))

    def line_bytes(self) -> dict[str, int]:
        """Bytes carried so far, both directions, by line."""
        return {
            f"{child}-{parent}": line_bytes(self.servers[child].pid, self.ports[parent])
            for child, parent in LINES
        }

    def options(self) -> dict[str, str]:
        return {}

    def details(self) -> dict[str, Any]:
        """What the nodes say of their work: commits, bundles."""
        return {name: self._detail(self._status(name)) for name in NAMES}

    @staticmethod
    def _detail(status: dict[str, Any]) -> dict[str, Any]:
        links = [*status.get("children", []), *([status["parent"]] if status.get("parent") else [])]
        return {
            "commits": status.get("store", {}).get("commits"),
            "commit_ms": round(status.get("store", {}).get("commit_s", 0) * 1000, 3),
            "in": sum(link.get("in", 0) for link in links),
            "in_bundles": sum(link.get("in_bundles", 0) for link in links),
            "out_bundles": sum(link.get("out_bundles", 0) for link in links),
            "refusing": status.get("refusing"),
            "counters": status.get("counters"),
        }
