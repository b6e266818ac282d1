"""The node's wires: each a link and the carrier that it rides on, from the first packet to the last words.

Law: a carrier is given what it has room for. Bundles wait in custody meanwhile; control frames wait at the
link, and a peer that leaves more than `MOST_UNREAD` bytes of them unread is linked no more.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final

from bridges.carriers.base import Carrier, CarrierError, CarrierFlooded
from broker.buffers import LOOKS
from broker.core.links.neighbour import Neighbour
from broker.host import Host
from broker.log_throttle import LogThrottle
from broker.shares import LoopShare
from sapwood.protocol.errors import Refusal
from treeconnector.link import Link
from treeconnector.streams import PIECE, WIDE

MOST_UNREAD: Final = 64 * 1024 * 1024
_AT_ONCE: Final = 1024 * 1024
"""Bytes of streams, before others have their turns: a window of one, on a line that takes it at once. The
task that goes on after these turns was a tenth of the CPU of a channel, when it came after each packet."""
_NARROW: Final = PIECE // 4
_UNREAD: Final = f"it leaves too many control frames unread: {MOST_UNREAD} bytes"
_NO_ROOM: Final = "this node has no more room for what its neighbours have not read, or have sent a part of"


class DrivenLink:
    """A link and the carrier that it rides on."""

    __slots__ = ("_host", "carrier", "draining", "link", "piece", "share", "text", "was_up")

    def __init__(self, link: Link, carrier: Carrier, share: LoopShare, host: Host) -> None:
        self._host = host
        self.link = link
        self.carrier = carrier
        self.share = share
        self.draining: asyncio.Task[Any] | None = None
        self.was_up = False
        self.text = ""
        self.piece = PIECE

    @property
    def held(self) -> int:
        """Bytes of control frames, and of a bundle of which a part has come."""
        return self.link.control_bytes + self.link.incoming.unfinished

    def cut_off(self) -> None:
        self.refuse(Refusal.BUSY, _NO_ROOM)

    def refuse(self, why: Refusal, text: str) -> None:
        self._host.core.admission.handle(self.link, self.link.refuse(why, text))
        self._host.wake()


class LinkDriver:
    """All of one node. What goes wrong with a child that connects is complained of, not too often."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._wires: dict[Link, DrivenLink] = {}
        self._complain = LogThrottle()

    def __repr__(self) -> str:
        return f"<LinkDriver of {self._host.core.identity.name}: {len(self)}>"

    def __len__(self) -> int:
        return len(self._wires)

    @property
    def unsent(self) -> bool:
        """Is there something that a carrier could take and has not?"""
        return any(wire.link.buffered_bytes for wire in self._wires.values() if wire.carrier.writable)

    def over(self, link: Link) -> str:
        """What a link rides on: the address of the other end, or of the broker between; '' = nothing now."""
        wire = self._wires.get(link)
        return wire.carrier.peer if wire is not None else ""

    # --- a wire's life

    async def serve(self, carrier: Carrier) -> None:
        """Run the link of a child that has connected, until it ends."""
        link = self._host.core.link_maker.accept(carrier.shown, carrier.max_packet)
        await self.drive(link, carrier)
        if link.end_error is not None:
            beside = link.peer_name in self._host.core.mesh.members
            crossed = beside and link.refusal is Refusal.BUSY
            self._complain(carrier.peer, link.end_text, link.peer_name, beside=beside, passing=crossed)

    def turned_away(self, address: str, text: str) -> None:
        """Somebody at `address` never came so far as to have a link."""
        self._complain(address, text)

    async def drive(self, link: Link, carrier: Carrier) -> tuple[bool, str]:
        """Run a link on a carrier until either ends. Returns (whether it was up, what ended it)."""
        share = LoopShare(self._host.shares, self._host.wake)
        wire = self._wires[link] = DrivenLink(link, carrier, share, self._host)
        try:
            self._pull(wire)
            while link in self._host.core.links.peers:
                await self._hear(wire)
        except CarrierFlooded as error:
            wire.refuse(Refusal.PROTOCOL, str(error))
        except CarrierError as error:
            wire.text = str(error)
        finally:
            await self._end(wire)
        return wire.was_up, wire.link.end_text or wire.text

    async def _hear(self, wire: DrivenLink) -> None:
        """Tell the core what comes next on this wire."""
        host, link = self._host, wire.link
        packets = await wire.carrier.receive()
        wire.share.begin()
        host.core.advance(host.now())
        waits: bool | None = None
        for packet in packets:
            for matters in host.core.hear(link, packet):
                if matters is not None:
                    waits = waits or matters
                if wire.share.is_over:
                    waits = True
                    await self._give_way(wire)
        if wire.held > LOOKS:
            host.buffers.look(wire)
        if link.is_up and not wire.was_up:
            self._came_up(wire)
        if link.streams.open or waits is None:
            self.flush()  # what passes by waits for no commit
        if waits:
            host.wake()
        elif waits is not None:
            host.nudge()
        pause = link.throttled_until - host.core.clock.now
        if pause > 0:
            await asyncio.sleep(pause)

    async def _give_way(self, wire: DrivenLink) -> None:
        """Others have their turns. What the peer says meanwhile is not heard, and it is not called silent."""
        host = self._host
        await wire.share.give_way()
        host.core.advance(host.now())
        wire.link.not_heard(host.core.clock.now)

    def _came_up(self, wire: DrivenLink) -> None:
        """Before the other end is told so: it may send what it likes then."""
        wire.was_up = True
        wire.carrier.proven()
        self._host.look_at(wire.link.next_deadline())

    async def _end(self, wire: DrivenLink) -> None:
        """The link or its carrier has ended: say the last words, tell the core."""
        with contextlib.suppress(CarrierError):
            wire.carrier.send(wire.link.data_to_send())
        self._wires.pop(wire.link, None)
        self._host.buffers.gone(wire)
        if wire.draining is not None:
            wire.draining.cancel()
        self._host.core.advance(self._host.now())
        self._host.core.lost(wire.link, wire.text or "the link ended")
        self._host.wake()
        await wire.carrier.close(wire.link.end_text[:100])

    # --- what goes out

    def flush(self) -> None:
        """Let everything out that may go, and close the carriers of links that the core has ended."""
        core = self._host.core
        while core.links.talking:
            wire = self._wires.get(core.links.talking.popitem()[0])
            if wire is not None:
                self._pull(wire)
        while core.links.closing:
            link = core.links.closing.pop()
            dropped = self._wires.get(link)
            if dropped is not None:
                self._host.spawn(dropped.carrier.close(link.end_text[:100]))

    def pause(self, text: str, neighbours: Iterable[Neighbour] | None = None) -> None:
        """Say on all, or to these neighbours, that this node stops and means to come back."""
        links = None if neighbours is None else {neighbour.link for neighbour in neighbours}
        for wire in list(self._wires.values()):
            if links is None or wire.link in links:
                self._host.core.admission.handle(wire.link, wire.link.pause(text))
                self._pull(wire)

    def goodbye(self, link: Link, text: str) -> None:
        """Say on one that this node leaves for good."""
        wire = self._wires[link]
        self._host.core.admission.handle(link, link.goodbye(text))
        self._pull(wire)

    def _pull(self, wire: DrivenLink) -> None:
        """Give the carrier what it has room for; if it is full, go on when it has drained."""
        carrier = wire.carrier
        if wire.link.is_up and not wire.was_up:
            self._came_up(wire)
        try:
            while carrier.room > 0:
                packets = wire.link.data_to_send(carrier.room)
                if packets:
                    carrier.send(packets)
                if not (packets and wire.link.buffered_bytes):
                    self._pull_streams(wire)
                    return
        except CarrierError:
            return
        if wire.link.control_bytes > MOST_UNREAD:
            wire.refuse(Refusal.PROTOCOL, _UNREAD)
            return
        if wire.held > LOOKS:
            self._host.buffers.look(wire)
        self._pull_later(wire, carrier.drain)

    def _pull_streams(self, wire: DrivenLink) -> None:
        """Behind all else, as long as nothing waits that the carrier was given and no queue grows on the way;
        others have turns between.

        A line that takes a packet at once gets wider ones, which cost less; one that takes long over it,
        small ones, and smaller ones while it takes long over these.
        """
        carrier, streams = wire.carrier, wire.link.streams
        left = _AT_ONCE
        while left > 0 and streams.is_ready and (takes := carrier.takes):
            parts = wire.link.streams_in_parts(min(wire.piece, takes))
            if not parts:
                return
            left -= sum(map(len, parts))
            carrier.send_in_parts(parts)
            if carrier.is_idle:
                wire.piece = min(2 * wire.piece, WIDE)
            self._host.core.channels.pulled(wire.link)
        if streams.is_ready:
            self._pull_later(wire, partial(_until_idle, wire))

    def _pull_later(self, wire: DrivenLink, waiting: Callable[[], Awaitable[None]]) -> None:
        """Go on when the carrier can."""

        async def wait() -> None:
            with contextlib.suppress(CarrierError):
                await asyncio.sleep(0)
                await waiting()
                wire.draining = None
                self._pull(wire)
                self.flush()

        if wire.draining is None:
            wire.draining = self._host.spawn(wait())


async def _until_idle(wire: DrivenLink) -> None:
    if not await wire.carrier.until_idle():
        wire.piece = max(min(wire.piece // 2, PIECE), _NARROW)
