"""A tree of real brokers, each a process of its own, and a node beside each.

    hq (RabbitMQ) <-amqp- north (Mosquitto) <-mqtt- york  (Mosquitto)
                                            <-ws--- leeds (Mosquitto)
                  <-ws--- south (RabbitMQ)  <-ws--- bath  (Mosquitto)

The link of north rides on the RabbitMQ of hq, that of york on the Mosquitto of north: who kills one of these
brokers takes a link away as well.
"""

import asyncio
from pathlib import Path
from typing import Any, Self

from harness import Network
from mosquitto_server import DISCOVERY, MosquittoServer
from quick import QUICK_SITE
from rabbitmq_server import RabbitServer

PARENTS = {"hq": "", "north": "hq", "south": "hq", "york": "north", "leeds": "north", "bath": "south"}
DEPTHS = {"hq": 0, "north": 1, "south": 1, "york": 2, "leeds": 2, "bath": 2}
RABBITS = ("hq", "south")
KEPT = ("autosave_on_changes true", "autosave_interval 1", "max_inflight_messages 1000")
"""With these a Mosquitto writes at once what it has acknowledged."""
Server = MosquittoServer | RabbitServer


class RealTree:
    """Six brokers and six nodes. An async context manager: all have gone when it ends."""

    def __init__(self, folder: Path) -> None:
        self.network = Network(folder)
        self.brokers: dict[str, Server] = {}
        for name in PARENTS:
            at = folder / f"broker-{name}"
            if name in RABBITS:
                plugins = ("rabbitmq_management", "rabbitmq_event_exchange")
                self.brokers[name] = RabbitServer(at, plugins)
            else:
                self.brokers[name] = MosquittoServer(at, *DISCOVERY, *KEPT)

    def __repr__(self) -> str:
        return f"<RealTree {self.network!r}>"

    async def __aenter__(self) -> Self:
        await self.network.__aenter__()
        try:
            await asyncio.gather(*(asyncio.to_thread(server.start) for server in self.brokers.values()))
            for name in PARENTS:
                self._add(name)
            await self.network.start()
            await self.until_joined(*PARENTS)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.network.__aexit__(*exception)
        for server in self.brokers.values():
            await asyncio.to_thread(server.stop)

    def rabbit(self, name: str) -> RabbitServer:
        server = self.brokers[name]
        assert isinstance(server, RabbitServer)
        return server

    def mosquitto(self, name: str) -> MosquittoServer:
        server = self.brokers[name]
        assert isinstance(server, MosquittoServer)
        return server

    def _add(self, name: str) -> None:
        server, parent = self.brokers[name], PARENTS[name]
        if isinstance(server, RabbitServer):
            site = {"uri": server.uri(), "management": server.management_uri}
        else:
            site = {"uri": server.uri}
        settings: dict[str, Any] = {"site_broker": site, **QUICK_SITE}
        if name in ("hq", "north"):
            settings["listener"] = {"link_brokers": [{"uri": self._carrier(name), "proves_names": True}]}
        role = "branch" if parent == "hq" else "leaf"
        if name in ("north", "york"):
            settings["tree_connectors"] = [{"nodetype": role, "uri": self._carrier(parent)}]
        self.network.add(name, parent, role=role, **settings)

    def _carrier(self, name: str) -> str:
        return f"{'amqp' if name in RABBITS else 'mqtt'}://127.0.0.1:{self.brokers[name].port}"

    async def until_joined(self, *names: str) -> None:
        """Wait until each is linked with its parent, and joined with its broker."""
        for name in names:
            await self.network.nodes.until_linked(name)
            await self.network.until(name, _joined, "joined with its broker")

    async def until_taking(self, name: str, what: str) -> None:
        """Wait until the node takes this from its broker: a queue's name, or a filter as it spells it."""

        def holds(status: dict[str, Any]) -> bool:
            site = status["site_broker"]
            return what in (site["taking_queues"] if name in RABBITS else site["taking"])

        await self.network.until(name, holds, f"taking {what}")

    async def kill_broker(self, name: str) -> None:
        """SIGKILL, and start it again. SIGTERM for a Mosquitto: it acknowledges before it writes."""
        server = self.brokers[name]
        await asyncio.to_thread(server.kill if name in RABBITS else server.stop)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(server.start)

    async def kill_node(self, name: str) -> None:
        self.network.kill(name)
        await asyncio.sleep(0.2)
        await self.network.launch(name)

    def cost(self, kind: str, name: str, op: str = "add") -> dict[str, int]:
        """How many advisories of a destination each node has received, by its own advisory log."""
        found: dict[str, int] = {}
        for node in PARENTS:
            rows = self.network.advisories(node, op)
            count = sum((row.kind, row.destination) == (kind, name) for row in rows)
            found |= {node: count} if count else {}
        return found


def _joined(status: dict[str, Any]) -> bool:
    site = status["site_broker"]
    complete = site.get("discovery") == "complete" or site.get("queues_known") is not None
    return bool(site["state"] == "running" and complete)
