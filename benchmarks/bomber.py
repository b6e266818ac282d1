"""A child that says as much as the line takes of what is small there and large once it is unpacked.

`python -m benchmarks.bomber URL NAME KIND`, until its input is closed; then a line of JSON says how much it
sent. It speaks the protocol and answers what it is asked, so that only its load can cost it the link.
"""

import asyncio
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from secrets import token_bytes
from typing import Final

import aiohttp
import msgspec

from sapwood.protocol import bundles, packets
from sapwood.protocol.bundles import Header, Message
from sapwood.protocol.destinations import Kind, parse
from treeconnector import frames
from treeconnector.frames import Advice, Advise, Frame, Position, Volatile
from treeconnector.identity import BundleIds, Identity, new_uuid
from treeconnector.link import Link, LinkSettings, Standing
from treeconnector.link_events import PeerHello

_PACKET: Final = 1024 * 1024
_LARGEST: Final = 16 * 1024 * 1024 - 100
_DEEP: Final = "/".join(["+"] * 28)


def _zeros(name: str) -> Iterator[Frame]:
    """As much as a message may hold, of nothing."""
    yield _bomb(name, bundles.encode_message(Message(bytes(_LARGEST))))


def _lists(name: str) -> Iterator[Frame]:
    """As many properties as are read, each an empty list: a byte on the line, 56 in memory."""
    headers = {"x": [[]] * (bundles.MAX_PROPERTIES - 100)}
    yield _bomb(name, msgspec.msgpack.encode([b"", {"headers": headers}]))


def _too_many(name: str) -> Iterator[Frame]:
    """More properties than are read."""
    headers = {"x": [[]] * (1024 * 1024 - 100)}
    yield _bomb(name, msgspec.msgpack.encode([b"", {"headers": headers}]))


def _masks(name: str) -> Iterator[Frame]:
    """As many messages as a bundle holds, every other one done."""
    plain = bundles.encode_message(Message(b"x" * 100)) * bundles.MAX_MESSAGES
    yield _bomb(name, plain, count=bundles.MAX_MESSAGES, done=b"\x55" * 32)


def _advices(name: str) -> Iterator[Frame]:
    """Filters that take a while to be compared with permits, and that go as they have come."""
    for op in ("add", "remove"):
        found = [
            Advice(op, Kind.TOPIC, f"{name}/{number}/{_DEEP}", name, "bomb")
            for number in range(frames.MAX_ADVICES_IN_FRAME)
        ]
        yield Advise(found)


def _tiny(name: str) -> Iterator[Frame]:
    """Frames of three bytes."""
    for _ in range(1000):
        yield frames.Ack(0)


def _mixed(name: str) -> Iterator[Frame]:
    for make in (_zeros, _lists, _too_many, _masks):
        yield from make(name)


KINDS: Final[dict[str, Callable[[str], Iterator[Frame]]]] = {
    "zeros": _zeros,
    "lists": _lists,
    "too-many": _too_many,
    "masks": _masks,
    "advices": _advices,
    "tiny": _tiny,
    "mixed": _mixed,
}


def _bomb(name: str, plain: bytes, count: int = 1, done: bytes = b"") -> Volatile:
    body, flag = bundles.compress(plain)
    header = Header(
        id=BundleIds(token_bytes).next(),
        destination=parse(f"topic:{name}/x"),
        flags=flag,
        count=count,
        size=len(plain),
        origin=name,
        done=done,
    )
    return Volatile(bundles.encode_header(header), body)


def packet_of(kind: str, name: str) -> bytes:
    """A packet as large as links take, full of them."""
    encoded = [frames.encode(frame) for frame in KINDS[kind](name)]
    times = max(1, min(_PACKET // sum(map(len, encoded)), 60_000 // len(encoded)))
    return packets.packets(encoded * times, _PACKET)[0]


class Bomber:
    """One link to the node at `url`."""

    def __init__(self, socket: "aiohttp.ClientWebSocketResponse[bool]", name: str, tree: str) -> None:
        self._socket = socket
        self.sent = self.packets = 0
        self.link = Link(
            Identity(tree, name, "leaf", new_uuid(token_bytes), 1, new_uuid(token_bytes)),
            LinkSettings(max_frame=_PACKET),
            dials=True,
            chain=[name],
            now=0.0,
            nonce=secrets.token_bytes(32),
        )

    def __repr__(self) -> str:
        return f"<Bomber {self.link!r} sent={self.sent}>"

    async def shake_hands(self) -> None:
        while not self.link.is_up:
            await self._say()
            await self._hear(await self._socket.receive_bytes())

    async def listen(self) -> None:
        """Answer what is asked, until the link ends."""
        async for message in self._socket:
            await self._hear(message.data)

    async def _hear(self, data: bytes) -> None:
        for event in self.link.receive(data, 0.0):
            if isinstance(event, PeerHello):
                self.link.accept(None, Standing(Position(), 0, b""))
        await self._say()

    async def _say(self) -> None:
        for packet in self.link.data_to_send():
            await self._socket.send_bytes(packet)

    async def throw(self, packet: bytes) -> None:
        """As fast as the node reads."""
        while not self._socket.closed:
            await self._socket.send_bytes(packet)
            self.packets += 1
            self.sent += len(packet)


async def _until_told() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def main(url: str, name: str, kind: str, tree: str) -> None:
    packet = packet_of(kind, name)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, max_msg_size=0, compress=0) as socket,
    ):
        bomber = Bomber(socket, name, tree)
        await bomber.shake_hands()
        print(json.dumps({"up": True}), flush=True)
        told = asyncio.create_task(_until_told())
        work = [told, asyncio.create_task(bomber.listen()), asyncio.create_task(bomber.throw(packet))]
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        ended = bomber.link.end_text or ("" if told.done() else "the line broke")
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
    print(json.dumps({"packets": bomber.packets, "bytes": bomber.sent, "ended": ended}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
