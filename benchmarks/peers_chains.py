"""Three sites in a row, leaf - branch - root, each with an unmodified broker: joined by what the brokers
bring with them, or by our nodes beside them.

All brokers are as the tests start them (`tests/brokers`), with what a durable chain needs and nothing tuned.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from benchmarks.processes import (
    PATIENCE,
    ROOT,
    BenchmarkFailed,
    Process,
    Processes,
    cpu_seconds,
    free_port,
    get_json,
    line_bytes,
    until,
)

sys.path.insert(0, str(ROOT / "tests" / "brokers"))

from mosquitto_server import MosquittoServer
from rabbitmq_server import RabbitServer

SITES: Final = ("root", "branch", "leaf")
LINES: Final = (("leaf", "branch"), ("branch", "root"))


class Chain:
    """Brokers at three sites. `cut_line`: the line from leaf to branch has a proxy that can be killed."""

    worker = ""
    options: ClassVar[dict[str, str]] = {}

    def __init__(self, processes: Processes, directory: Path, *, cut_line: bool) -> None:
        self._processes = processes
        self.directory = directory
        self._proxy: Process | None = None
        self._proxy_port = free_port() if cut_line else 0
        self.pids: dict[str, int] = {}
        self.lines: dict[str, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.directory}>"

    def start(self) -> None:
        """Start all and wait until they are joined."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the brokers; our own processes end with their `Processes`."""
        raise NotImplementedError

    def url(self, site: str) -> str:
        """What a worker at that site is told."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Would a message at the leaf find its way to the consumer at the root?"""
        return True

    # --- the line that can be cut

    def towards(self, child: str, port: int) -> int:
        """The port at which `child` reaches its parent's `port`."""
        if not self._proxy_port or child != "leaf":
            return port
        self._target = port
        self.restore()
        return self._proxy_port

    def cut(self) -> None:
        """Everything on the line is lost, and nothing can be dialled."""
        assert self._proxy is not None
        self._proxy.kill()

    def restore(self) -> None:
        pair = f"{self._proxy_port}:{self._target}"
        self._proxy = self._processes.python(
            f"proxy-{time.monotonic_ns()}", "benchmarks.delaying_proxy", "0", pair
        )
        self._proxy.answer()

    # --- figures

    def cpu(self) -> float:
        """CPU seconds of all brokers and nodes so far."""
        return sum(map(cpu_seconds, self.pids.values()))

    def line_bytes(self) -> dict[str, int]:
        return {name: line_bytes(pid, port) for name, (pid, port) in self.lines.items()}


class Mosquittos(Chain):
    """Mosquitto at each site; how they are joined is a subclass's."""

    worker = "benchmarks.mqtt_worker"
    settings = (
        "allow_anonymous true",
        "persistence true",
        "max_queued_messages 1000000",
        "max_inflight_messages 1000",
        "sys_interval 1",
        "log_dest topic",
        "log_type subscribe",
        "log_type unsubscribe",
        "log_type notice",
        "log_type error",
        "connection_messages true",
    )

    def __init__(self, processes: Processes, directory: Path, *, cut_line: bool) -> None:
        super().__init__(processes, directory, cut_line=cut_line)
        self.brokers: dict[str, MosquittoServer] = {}

    def start(self) -> None:
        for index, site in enumerate(SITES):
            folder = self.directory / site
            lines = (*self.settings, f"persistence_location {folder}/")
            if index:
                lines += tuple(self.bridge(site, self.brokers[SITES[index - 1]].port))
            self.brokers[site] = broker = MosquittoServer(folder, *lines)
            broker.start()
            self.pids[site] = broker.process.pid  # type: ignore[union-attr]

    def bridge(self, site: str, port: int) -> list[str]:
        """Further lines of a broker's configuration."""
        return []

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.stop()

    def url(self, site: str) -> str:
        return str(self.brokers[site].port)


class MosquittoBridges(Mosquittos):
    """Joined by Mosquitto's own bridges."""

    def bridge(self, site: str, port: int) -> list[str]:
        far = self.towards(site, port)
        return [
            f"connection {site}-up",
            f"address 127.0.0.1:{far}",
            "topic sales/# out 1",
            "cleansession false",
            "notifications false",
            "restart_timeout 1",
        ]

    def start(self) -> None:
        super().start()
        for child, parent in LINES:
            port = self._proxy_port if child == "leaf" and self._proxy_port else self.brokers[parent].port
            self.lines[f"{child}-{parent}"] = self.pids[child], port
        until("the bridges", self._joined, PATIENCE)

    def _joined(self) -> bool:
        return all(line_bytes(pid, port) for pid, port in self.lines.values())


class Rabbits(Chain):
    """RabbitMQ at each site; how they are joined is a subclass's."""

    worker = "benchmarks.amqp_worker"
    plugins: tuple[str, ...] = ("rabbitmq_management", "rabbitmq_event_exchange")

    def __init__(self, processes: Processes, directory: Path, *, cut_line: bool) -> None:
        super().__init__(processes, directory, cut_line=cut_line)
        self.brokers: dict[str, RabbitServer] = {}

    def start(self) -> None:
        for site in SITES:
            folder = self.directory / site
            folder.mkdir()
            self.brokers[site] = broker = RabbitServer(folder, self.plugins)
            broker.start()
            self.pids[site] = int((folder / "pid").read_text())
            broker.api("PUT", "/queues/%2f/sales", {"durable": True})

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.stop()

    def url(self, site: str) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.brokers[site].port}/%2f"


class RabbitShovels(Rabbits):
    """Joined by shovels, confirmed."""

    plugins = (*Rabbits.plugins, "rabbitmq_shovel", "rabbitmq_shovel_management")

    def start(self) -> None:
        super().start()
        for child, parent in LINES:
            port = self.towards(child, self.brokers[parent].port)
            shovel = {
                "src-protocol": "amqp091", "src-uri": "amqp://", "src-queue": "sales",
                "dest-protocol": "amqp091", "dest-uri": f"amqp://guest:guest@127.0.0.1:{port}",
                "dest-queue": "sales", "ack-mode": "on-confirm", "src-prefetch-count": 1000,
                "reconnect-delay": 1,
            }  # fmt: skip
            self.brokers[child].api("PUT", "/parameters/shovel/%2f/up", {"value": shovel})
            self.lines[f"{child}-{parent}"] = self.pids[child], port
        for child, _ in LINES:
            until(f"the shovel at {child}", partial(self._runs, child), PATIENCE)

    def _runs(self, site: str) -> bool:
        return any(each.get("state") == "running" for each in self.brokers[site].api("GET", "/shovels") or [])


class RabbitFederation(Rabbits):
    """Joined by a federated exchange: each parent's exchange draws from its child's. Queues cannot be: a
    federated queue does not draw for the sake of a federated queue above it, so two hops end at the first.
    """

    options: ClassVar = {"exchange": "sales"}

    plugins = (*Rabbits.plugins, "rabbitmq_federation", "rabbitmq_federation_management")

    def start(self) -> None:
        super().start()
        for broker in self.brokers.values():
            broker.api("PUT", "/exchanges/%2f/sales", {"type": "topic", "durable": True})
        for child, parent in LINES:
            port = self.towards(child, self.brokers[child].port)
            uri = f"amqp://guest:guest@127.0.0.1:{port}"
            upstream = {"uri": uri, "prefetch-count": 1000, "reconnect-delay": 1, "ack-mode": "on-confirm"}
            broker = self.brokers[parent]
            below = upstream | {"max-hops": 2}
            broker.api("PUT", "/parameters/federation-upstream/%2f/below", {"value": below})
            applied = {"pattern": "^sales$", "apply-to": "exchanges"}
            policy = applied | {"definition": {"federation-upstream": "below"}}
            broker.api("PUT", "/policies/%2f/below", policy)
            self.lines[f"{child}-{parent}"] = self.pids[parent], port
        self.brokers["root"].api("POST", "/bindings/%2f/e/sales/q/sales", {"routing_key": "#"})

    def ready(self) -> bool:
        return all(
            self.brokers[child].api("GET", "/exchanges/%2f/sales/bindings/source") for child, _ in LINES
        )


class _Nodes:
    """Our nodes beside the brokers of a chain."""

    def __init__(self, chain: Chain, broker_uri: Callable[[str], str]) -> None:
        self._chain = chain
        self._uri = broker_uri
        self.ports = {site: free_port() for site in SITES}

    def start(self, wanted: str) -> None:
        """Start them; the root's is told by its broker who reads `wanted`."""
        chain = self._chain
        for index, site in enumerate(SITES):
            file = chain.directory / f"{site}.yaml"
            file.write_text(json.dumps({"broker": self._site(site, SITES[index - 1] if index else "")}))
            node = chain._processes.python(f"node-{site}", "benchmarks.node_process", str(file))
            chain.pids[f"node-{site}"] = node.pid
        for child, parent in LINES:
            port = chain._proxy_port if child == "leaf" and chain._proxy_port else self.ports[parent]
            chain.lines[f"{child}-{parent}"] = chain.pids[f"node-{child}"], port
        for site in SITES:
            until(f"the node at {site}", partial(self._is_up, site), PATIENCE)

    def _site(self, site: str, parent: str) -> dict[str, Any]:
        made: dict[str, Any] = {
            "name": site,
            "data": str(self._chain.directory / f"data-{site}"),
            "listener": {"port": self.ports[site]},
            "site_broker": {"uri": self._uri(site)},
            "link": {"backoff_max": "1s"},
            "log": {"level": "warning"},
        }
        if "amqp" in self._uri(site):
            made["site_broker"] |= {"user": "guest", "secret_file": str(self._secret())}
        if site != "leaf":
            made["permits"] = {"consume": ["#"], "send": ["#", "#@*"], "nodes": ["*"]}
        if parent:
            port = self._chain.towards(site, self.ports[parent])
            nodetype = "leaf" if site == "leaf" else "branch"
            made["tree_connectors"] = [{"nodetype": nodetype, "uri": f"ws://127.0.0.1:{port}/link"}]
        return made

    def _secret(self) -> Path:
        file = self._chain.directory / "secret"
        file.write_text("guest\n")
        file.chmod(0o600)
        return file

    def status(self, site: str) -> dict[str, Any]:
        return get_json(f"http://127.0.0.1:{self.ports[site]}/api/status") or {}

    def _is_up(self, site: str) -> bool:
        status = self.status(site)
        linked = site == "root" or (status.get("parent") or {}).get("state") == "running"
        return linked and (status.get("site_broker") or {}).get("state") == "running"

    def knows(self, kind: str) -> bool:
        """Has the consumer at the root been heard of at the leaf?"""
        return any(name.startswith(kind) for name in self.status("leaf").get("routes", {}))


class SapwoodMosquitto(Mosquittos):
    """Joined by our nodes."""

    def start(self) -> None:
        super().start()
        self._nodes = _Nodes(self, lambda site: f"mqtt://127.0.0.1:{self.brokers[site].port}")
        self._nodes.start("topic:sales/#")

    def ready(self) -> bool:
        return self._nodes.knows("topic/")


class SapwoodRabbit(Rabbits):
    """Joined by our nodes."""

    def start(self) -> None:
        super().start()
        self._nodes = _Nodes(self, lambda site: f"amqp://127.0.0.1:{self.brokers[site].port}")
        self._nodes.start("queue:sales")

    def ready(self) -> bool:
        return self._nodes.knows("queue/")


CHAINS: Final[dict[str, type[Chain]]] = {
    "mosquitto-bridges": MosquittoBridges,
    "sapwood-mosquitto": SapwoodMosquitto,
    "rabbitmq-shovels": RabbitShovels,
    "rabbitmq-federation": RabbitFederation,
    "sapwood-rabbitmq": SapwoodRabbit,
}
__all__ = ["CHAINS", "BenchmarkFailed", "Chain"]
