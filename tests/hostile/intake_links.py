"""Children that prove themselves to a node, and come into the middle of a bundle of 15 MiB."""

import contextlib
import secrets
from collections.abc import Iterator
from secrets import token_bytes
from typing import Any

from intake_peers import MUCH, Raw, frame_head, upgraded

from sapwood.protocol import bundles, packets
from sapwood.protocol.bundles import Flag, Header
from sapwood.protocol.destinations import parse
from treeconnector import parts
from treeconnector.frames import Position
from treeconnector.identity import BundleIds, Identity, new_uuid
from treeconnector.link import Link, LinkSettings, Standing

SECRET = b"a secret of forty-two characters, or nearly"
FRAME = 64 * 1024
_BODY = bytes(MUCH)


class Child:
    """One store, which starts again for each link: same name, same database."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._store = new_uuid(token_bytes)
        self._starts = 0
        self._ids = BundleIds(token_bytes)

    async def up(self, port: int) -> Raw:
        """A link that is up."""
        self._starts += 1
        raw = await upgraded(port, "/link")
        identity = Identity("test", self.name, "leaf", self._store, self._starts, new_uuid(token_bytes))
        nonce = secrets.token_bytes(32)
        link = Link(identity, LinkSettings(), dials=True, chain=[self.name], now=0.0, nonce=nonce)
        heard = b""
        while not link.is_up:
            for packet in link.data_to_send():
                await raw.say(frame_head(len(packet)) + packet)
            if link.is_up:
                break
            more = await raw.hear()
            assert more, f"the node has closed the link of {self.name}"
            found, heard = messages(heard + more)
            for message in found:
                for event in link.receive(message, 0.0):
                    if type(event).__name__ == "PeerHello":
                        link.accept(SECRET, Standing(Position(), 0, b""))
        return raw

    def bundle(self) -> Iterator[bytes]:
        """The packets of a bundle of 15 MiB to a queue of its own, which the node lets it send to."""
        given: dict[str, Any] = {"flags": int(Flag.PERSISTENT), "scope": 1, "origin": self.name}
        where = parse(f"queue:{self.name}/sales")
        header = Header(id=self._ids.next(), destination=where, count=1, size=len(_BODY), **given)
        for part in parts.split(1, bundles.encode_header(header), _BODY, FRAME):
            packet = packets.packet([part])
            yield frame_head(len(packet)) + packet


async def say_some(raw: Raw, child: Child, most: int) -> None:
    """So many bytes of a bundle, which ends nowhere; the node may end the link before."""
    said = 0
    with contextlib.suppress(ConnectionError):
        for packet in child.bundle():
            await raw.say(packet[: most - said])
            said += len(packet)
            if said >= most:
                return


def messages(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole binary frames that a node has said, and the rest. Nothing is masked, nothing in parts."""
    found: list[bytes] = []
    while len(data) >= 2:
        start, size = 2, data[1] & 0x7F
        if size >= 126:
            start = {126: 4, 127: 10}[size]
            size = int.from_bytes(data[2:start])
        if len(data) < start + size:
            break
        if data[0] & 0x0F == 2:
            found.append(data[start : start + size])
        data = data[start + size :]
    return found, data
