"""Peers that are no nodes, and a store beside them that must not notice anything."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_bytes
from typing import Any

import aiohttp
import pytest
from harness import Network
from quick import numbers

from broker.cli.demo.processes import Status
from sapwood.protocol import packets
from treeconnector import frames
from treeconnector.frames import Frame, Position, Refuse
from treeconnector.identity import Identity, new_uuid
from treeconnector.incoming import decode_packet
from treeconnector.link import Link, LinkSettings, Standing

WITNESS = "leeds"
"""A store that does nothing wrong: its link must not notice anything."""


@asynccontextmanager
async def undisturbed(network: Network, parent: str = "hq") -> AsyncIterator[None]:
    """Assert that the witness's link stays the same link, and still carries messages both ways."""
    before = _up_since(await network.until_child(parent, WITNESS))
    yield
    after = _up_since(await network.status(parent))
    assert after == pytest.approx(before, abs=0.1)
    await network.send(WITNESS, "queue:last-word", numbers(10))
    assert await network.collect("hq", "queue:last-word", 10) == numbers(10)
    await network.send("hq", "queue:answer@leeds", numbers(10))
    assert await network.collect(WITNESS, "queue:answer", 10) == numbers(10)


def _up_since(status: Status) -> float:
    """Running time of the node at which the witness's link came up."""
    (link,) = [link for link in status["children"] if link["name"] == WITNESS]
    assert link["state"] == "running"
    return float(status["running_s"] - link["since_s"])


async def until_logged(network: Network, name: str, text: str) -> None:
    """Wait until the node's log says so."""
    await network.until(
        name, lambda _status: text in network.nodes[name].last_words(200), f"logging {text!r}"
    )


class Peer:
    """A child made by hand: says any bytes to a node's link port."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[Any], name: str, role: str = "leaf") -> None:
        self.socket = socket
        self.told: list[Any] = []
        self.link = Link(
            Identity("test", name, role, new_uuid(token_bytes), 1, new_uuid(token_bytes)),
            LinkSettings(),
            dials=True,
            chain=[name],
            now=0.0,
            nonce=secrets.token_bytes(32),
        )
        self.hello = self.link.hello

    async def say(self, *said: Frame | bytes) -> None:
        for each in said:
            data = each if isinstance(each, bytes) else packets.packet([frames.encode(each)])
            await self.socket.send_bytes(data)
            await asyncio.sleep(0)  # the others have their turn, however much is said

    async def shake_hands(self, standing: Standing | None = None) -> None:
        """Bring the link up. `standing`: where this peer says that it stands."""
        while not self.link.is_up:
            await self.say(*self.link.data_to_send())
            if self.link.is_up:
                return
            message = await self.socket.receive(60.0)
            assert message.type is aiohttp.WSMsgType.BINARY, message
            events = self.link.receive(message.data, 0.0)
            self.told += events
            if any(type(event).__name__ == "PeerHello" for event in events):
                self.link.accept(None, standing or Standing(Position(), 0, b""))

    async def last_word(self) -> Refuse:
        """Read until the node has closed; what it said about why."""
        refused: list[Refuse] = []
        async with asyncio.timeout(180):
            async for message in self.socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    said = decode_packet(message.data, 1 << 20)
                    refused += [frame for frame in said if isinstance(frame, Refuse)]
        assert self.socket.closed
        assert len(refused) == 1, "the node closed without saying why"
        return refused[0]


@asynccontextmanager
async def peer(network: Network, name: str = "mallory") -> AsyncIterator[Peer]:
    url = f"ws://127.0.0.1:{network.ports['hq']}/link"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as socket:
        yield Peer(socket, name)
