"""Nodes that invite and machines that join, for the numbered tests: real processes, and the command line.

host = Host(network, "hq")
await host.start(lifetime="1h")
token = await host.invite("york")
await join(token, network.folder / "york")
adopt(network, "york", network.folder / "york")
"""

import asyncio
from pathlib import Path
from typing import Any

from commands import ran
from harness import PATIENCE, LoadedNode, Network

from broker.cli.errors import CommandError
from broker.cli.http import ask
from broker.cli.tls import Tls
from sapwood.client import Client, connect

GENEROUS = 180.0
QUICK = "  link: {backoff_initial: 50ms, backoff_max: 500ms}\n"


class Host:
    """An inviting node of a network, asked over https."""

    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.name = name
        self.authority = network.folder / f"{name}-authority"

    @property
    def ca(self) -> Path:
        return self.authority / "authority.pem"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.network.ports[self.name]}"

    @property
    def way(self) -> str:
        return f"wss://127.0.0.1:{self.network.ports[self.name]}/link"

    async def start(self, **enrolment: Any) -> None:
        """A root that invites, with permits as they are by default; waits until it answers."""
        self.network.add(self.name, permits={})
        self.settle(**enrolment)
        await self.launch()

    def settle(self, **enrolment: Any) -> None:
        """Settings that count from the next start."""
        self.network.configure(
            self.name,
            listener={"public_uri": self.way},
            enrolment={"authority": str(self.authority), **enrolment},
        )

    async def launch(self) -> None:
        await self.network.launch(self.name)
        await self.until_answers()

    async def until_answers(self) -> None:
        async with asyncio.timeout(GENEROUS):
            while True:
                try:
                    await self.ask("/api/status")
                    return
                except CommandError:
                    await asyncio.sleep(0.1)

    async def ask(self, path: str, method: str = "GET", **body: Any) -> Any:
        tls = Tls(self.ca)
        return await asyncio.to_thread(ask, self.url, path, method=method, tls=tls, body=body or None)

    async def invite(self, name: str, **settings: Any) -> str:
        made = await self.ask("/api/invitations", "POST", name=name, **settings)
        return str(made["token"])

    async def until_child(self, name: str, state: str) -> None:
        """Wait until it sees its child in a state."""
        async with asyncio.timeout(GENEROUS):
            while True:
                status = await self.ask("/api/status")
                if any(link["name"] == name and link["state"] == state for link in status["children"]):
                    return
                await asyncio.sleep(0.1)

    def client(self, **options: Any) -> Client:
        return connect(self.url, ca=str(self.ca), **options)


async def sapwood(*words: str) -> tuple[int, str]:
    """Run the command line in a process of its own: (exit code, what it said)."""
    code, said, _ = await ran(*words, together=True)
    return code, said.decode()


def adopt(network: Network, name: str, folder: Path) -> LoadedNode:
    """Let a network run what has joined in a folder, on a free port and without long waits."""
    file = folder / f"{name}.yaml"
    (network.ports[name],) = network._fresh_ports(1)
    listener = f"  listener: {{port: {network.ports[name]}}}\n"
    text = file.read_text()
    file.write_text(text.replace("broker:\n", f"broker:\n{listener}{QUICK}", 1))
    node = network.nodes.by_name[name] = LoadedNode(name, file, network.url(name))
    return node


__all__ = ["GENEROUS", "PATIENCE", "Host", "adopt", "sapwood"]
