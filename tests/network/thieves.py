"""Stolen stores, for the numbered tests: programs that speak the protocol and lie in every field."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_bytes
from typing import Any

import aiohttp
from harness import Network
from hostile import Peer

from sapwood.protocol import bundles, packets
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import Destination, Kind, parse
from treeconnector import frames
from treeconnector.frames import Advice, Advise, Bundle
from treeconnector.identity import BundleIds
from treeconnector.incoming import decode_packet
from treeconnector.link_events import BundleArrived, PeerDeclined, VolatileArrived

MIB = 1 << 20
PERSISTENT = int(Flag.PERSISTENT)


class Thief(Peer):
    """A stolen store: with its name and its secret, and a program of its own. Keeps what it is told."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[Any], name: str, role: str = "leaf") -> None:
        super().__init__(socket, name, role)
        self.ids = BundleIds(token_bytes)
        self.number = self.acked = 0
        self.end = ""

    async def listen(self) -> None:
        """Answer pings and acknowledge what comes, as a node would, until the node ends the link."""
        async for message in self.socket:
            rest = self._without_acks(message.data)
            for event in self.link.receive(rest, 0.0) if rest else ():
                self.told.append(event)
                if isinstance(event, BundleArrived):
                    self.link.acknowledge(event.number)
            for packet in self.link.data_to_send():
                with contextlib.suppress(ConnectionError):
                    await self.socket.send_bytes(packet)
        self.end = self.link.end_text

    def _without_acks(self, data: bytes) -> bytes:
        """What this link's own machine has not sent, it takes no acks for."""
        found = decode_packet(data, MIB)
        acks = [frame.received for frame in found if isinstance(frame, frames.Ack)]
        self.acked = max(acks, default=self.acked)
        others = [frame for frame in found if not isinstance(frame, frames.Ack | frames.Unknown)]
        return packets.packet([frames.encode(frame) for frame in others]) if others else b""

    def heard(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]

    def read(self) -> list[str]:
        """Where the bundles were for that it was given, on disk or not."""
        given = self.heard(BundleArrived) + self.heard(VolatileArrived)
        return [str(event.header.destination) for event in given]

    def refused(self) -> dict[str, str]:
        """What was declined, and why."""
        return {str(key): event.text for event in self.heard(PeerDeclined) for key in event.keys}

    def bundle(self, where: str | Destination, *payloads: bytes, **lies: Any) -> Bundle:
        """The next bundle of this link."""
        self.number += 1
        plain = bundles.join([bundles.encode_message(Message(each)) for each in payloads])
        truth = {"id": self.ids.next(), "flags": PERSISTENT, "scope": 1, "origin": self.hello.name}
        truth |= {"count": len(payloads), "size": len(plain)}
        body = lies.pop("body", plain)
        destination = parse(where) if isinstance(where, str) else where
        header = Header(destination=destination, **(truth | lies))
        return Bundle(self.number, bundles.encode_header(header), body)

    async def until(self, what: Any, text: str) -> None:
        async with asyncio.timeout(180):
            while not what():
                assert not self.end, f"{text}: the link ended: {self.end}"
                await asyncio.sleep(0.02)

    async def until_room(self) -> None:
        """Within the window, for to go beyond it ends the link at once; until nothing more of it is taken."""
        async with asyncio.timeout(180):
            while self.number - self.acked > 100 and not self.end and not self.is_left_unread:
                await asyncio.sleep(0.001)

    @property
    def is_left_unread(self) -> bool:
        return any(text.startswith("SHARE: ") for text in self.refused().values())

    async def until_ended(self) -> str:
        async with asyncio.timeout(180):
            while not self.end:
                await asyncio.sleep(0.02)
        return self.end


@asynccontextmanager
async def thief(
    network: Network, name: str = "mallory", parent: str = "hq", role: str = "leaf"
) -> AsyncIterator[Thief]:
    url = f"ws://127.0.0.1:{network.ports[parent]}/link"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as socket:
        made = Thief(socket, name, role)
        await made.shake_hands()
        listening = asyncio.create_task(made.listen())
        try:
            yield made
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


def advise(*keys: str, op: str = "add", origin: str = "mallory") -> Advise:
    found = [Destination(Kind.DOMAIN, key[7:]) if key.startswith("domain:") else parse(key) for key in keys]
    return Advise([Advice(op, key.kind, key.name, origin, "theft") for key in found])
