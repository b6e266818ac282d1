"""The chain of three nodes, its two links over brokers: Mosquitto or RabbitMQ, as the tests start them.

Each parent has a broker, or a virtual host, of its own. Children log in there by name, so that they do not
find a WebSocket of their parent instead. The CPU time of the brokers is not counted.
"""

import sys
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT, Processes, line_bytes
from benchmarks.sapwood_chain import LINES, SapwoodChain

sys.path.insert(0, str(ROOT / "tests" / "brokers"))

from mosquitto_server import MosquittoServer
from rabbitmq_server import RabbitServer


class BrokeredChain(SapwoodChain):
    """Start with `start`, and end the brokers with `stop`. `scheme`: mqtt or amqp."""

    def __init__(self, processes: Processes, directory: Path, scheme: str) -> None:
        super().__init__(processes, directory)
        self._uris: dict[str, str] = {}
        self._broker_ports: dict[str, int] = {}
        self._brokers: list[MosquittoServer | RabbitServer] = []
        self._password = directory / "password"
        self._scheme = scheme

    def start(self) -> None:
        self._password.write_text("guest")
        if self._scheme == "mqtt":
            for parent in ("root", "branch"):
                self._add(parent, MosquittoServer(self._directory / f"broker-{parent}"))
        else:
            rabbit = RabbitServer(self._directory / "rabbitmq")
            rabbit.start()
            for parent in ("root", "branch"):
                rabbit.add_vhost(parent)
                self._add(parent, rabbit, f"/{parent}")
        super().start()

    def _add(self, parent: str, broker: MosquittoServer | RabbitServer, vhost: str = "") -> None:
        broker.start()
        self._brokers.append(broker)
        self._broker_ports[parent] = broker.port
        self._uris[parent] = f"{self._scheme}://127.0.0.1:{broker.port}{vhost}"

    def stop(self) -> None:
        """End the brokers."""
        for broker in self._brokers:
            broker.stop()

    def _site(self, name: str, parent: str) -> dict[str, Any]:
        site = super()._site(name, parent)
        broker = site["broker"]
        if name in self._uris:
            at = {"uri": self._uris[name], "proves_names": True}
            if self._scheme == "amqp":
                at |= {"user": "guest", "secret_file": str(self._password)}
            broker["listener"]["link_brokers"] = [at]
        if parent:
            login = {"user": "guest", "password_file": str(self._password)}
            broker["tree_connectors"][0] |= {"uri": self._uris[parent], **login}
        return site

    def line_bytes(self) -> dict[str, int]:
        """Of the child's connection to its parent's broker."""
        return {
            f"{child}-{parent}": line_bytes(self.servers[child].pid, self._broker_ports[parent])
            for child, parent in LINES
        }
