"""Channels: streams to what another node offers, through the links that are there.

A channel is opened here for an application, arrives over a link, or both: each node of its way joins two
*sides*, a stream of a link or something local, and passes on what comes from either.

Law: a channel goes to a node by its name, down if that is below, else up; never back, and never up again
once it came down. Each parent on its way asks the permits of its children: one may open what its `opens`
names, and others may open what its `serves` names at it and below it. A child speaks for itself and for nodes
below it. The node at the end asks for whom it is.

Law: nothing of it is stored. A link that goes ends its channels, at both ends, with an error.
"""

from collections.abc import Callable
from itertools import takewhile
from typing import Final, Protocol

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.policies.permits import ChildPermits
from broker.core.policy import Policy
from broker.core.routing.admission import MessageAdmission
from sapwood.protocol.destinations import domain, queue
from sapwood.protocol.packets import Bytes
from treeconnector import link_events as events
from treeconnector.link import Link
from treeconnector.relations import Relation
from treeconnector.streams import CHANNEL_BYTES, MAX_HOPS

MOST: Final = 8192
"""Channels of one node at a time."""
MOST_OF_ONE: Final = 4096
"""Of one neighbour, opened by it and towards it: some may be over at its end, and not yet passed on here."""
ANSWERS_WITHIN: Final = 60.0
"""Seconds in which whoever is asked for a channel says yes or no."""
_CELL: Final = "channel"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
BUSY: Final = "busy"
UNREACHABLE: Final = "unreachable"
BROKEN: Final = "broken"
RESET: Final = "reset"


class Side(Protocol):
    """One of the two ends of a channel at this node. It is told what comes from the other one."""

    @property
    def via(self) -> str:
        """The neighbour's name, or what stands at this end here; for people."""
        ...

    def opened(self) -> None:
        """What was asked for is there."""
        ...

    def send(self, data: Bytes) -> None:
        """Pass this on, and say so with `Channel.passed`."""
        ...

    def finish(self) -> None:
        """Nothing more follows."""
        ...

    def reset(self, reason: str, text: str) -> None:
        """It is over."""
        ...

    def passed(self, size: int) -> None:
        """So many of the bytes that came from this side have been passed on."""
        ...


class Channel:
    """One channel, as it goes through this node. `near`: the side that asked, `far`: the other one.

    `there`, `back`: bytes from the near side, and from the far one. `waiting`: bytes that came and have not
    been passed on. `since`: running time, seconds. `state`: 'opening', 'open' or 'over'.
    """

    def __init__(self, number: bytes, to: str, name: str, origin: str, near: Side, since: float) -> None:
        self.number = number
        self.to = to
        self.name = name
        self.origin = origin
        self.near = near
        self.far: Side | None = None
        self.since = since
        self.state = "opening"
        self.there = self.back = self.waiting = 0
        self.why = ""
        self._ended: set[Side] = set()

    def __repr__(self) -> str:
        return f"<Channel {self.number.hex()} {self.origin} to {self.name}@{self.to} {self.state}>"

    def other(self, side: Side) -> Side | None:
        return self.far if side is self.near else self.near

    def end(self, side: Side) -> None:
        """Nothing more comes from one side."""
        self._ended.add(side)

    @property
    def is_over(self) -> bool:
        """Has all come, and been passed on?"""
        return len(self._ended) == 2 and not self.waiting


class _LinkSide:
    """A stream on the link with a neighbour."""

    __slots__ = ("link", "stream", "via")

    def __init__(self, neighbour: Neighbour, link: Link, stream: int) -> None:
        self.via = neighbour.name
        self.link = link
        self.stream = stream

    def __repr__(self) -> str:
        return f"<_LinkSide {self.via} {self.stream}>"

    def opened(self) -> None:
        self.link.say.accept_stream(self.stream)

    def send(self, data: Bytes) -> None:
        self.link.say.send_stream(self.stream, data)

    def finish(self) -> None:
        self.link.say.finish_stream(self.stream)

    def reset(self, reason: str, text: str) -> None:
        self.link.say.reset_stream(self.stream, reason, text)

    def passed(self, size: int) -> None:
        self.link.say.stream_passed(self.stream, size)


Serve = Callable[[Channel], Side | str]
"""Gives what stands at the end of a channel here, which says `Channels.opened` when it is there; or a text,
why there is nothing.
"""
Told = Callable[[str, Channel], None]
"""Is told of each channel that is 'open', 'refused', 'broken' or 'over'."""


def _tell_nobody(op: str, channel: Channel) -> None: ...


def _nothing(channel: Channel) -> str:
    return f"PERMIT: nothing is offered as {channel.name[:64]}"


class Channels(Policy):
    """All of one node. It counts `channels_opened`, `_refused`, `_broken`, and `channel_bytes` both ways."""

    __slots__ = (
        *("_admission", "_context", "_lookup", "_of", "_opening", "_permits", "_serve", "_streams"),
        *("_told", "open"),
    )

    def __init__(
        self, context: Context, lookup: Lookup, permits: ChildPermits, admission: MessageAdmission
    ) -> None:
        self._context = context
        self._lookup = lookup
        self._permits = permits
        self._admission = admission
        self._serve: Serve = _nothing
        self._told: Told = _tell_nobody
        self.open: dict[Side, Channel] = {}
        self._streams: dict[tuple[Link, int], _LinkSide] = {}
        self._of: dict[str, set[_LinkSide]] = {}
        self._opening: dict[Channel, None] = {}
        for name in ("channels_opened", "channels_refused", "channels_broken", "channel_bytes"):
            context.counters.setdefault(name, 0)

    def __repr__(self) -> str:
        return f"<Channels of {self._context.name} open={len(self.all())}>"

    def configure(self, serve: Serve, told: Told) -> None:
        """What this node offers, and who wants to know."""
        self._serve, self._told = serve, told

    def all(self) -> list[Channel]:
        """Those that are not over, the oldest first."""
        return [channel for side, channel in self.open.items() if side is channel.near]

    # --- how one is opened

    def begin(self, to: str, name: str, side: Side) -> Channel:
        """Open one for somebody here. Whether it comes about is told to `side`."""
        context = self._context
        number = context.random_bytes(CHANNEL_BYTES)
        channel = Channel(number, to, name, context.name, side, context.clock.now)
        self._add(channel, None, 0)
        return channel

    def _asked(self, neighbour: Neighbour, link: Link, asked: events.StreamAsked) -> None:
        side = self._side(neighbour, link, asked.stream)
        now = self._context.clock.now
        channel = Channel(asked.channel, asked.to, asked.name, asked.origin, side, now)
        self._add(channel, neighbour, asked.hops)

    def _add(self, channel: Channel, came: Neighbour | None, hops: int) -> None:
        self.open[channel.near] = channel
        self._opening[channel] = None
        if len(self.open) > 2 * MOST:
            self._refuse(channel, BUSY, f"{self._context.name} has {MOST} channels: none more now")
        elif came is not None and len(self._of[came.name]) > MOST_OF_ONE:
            self._refuse(channel, BUSY, f"{came.name} has {MOST_OF_ONE} channels at {self._context.name}")
        elif why := self._why_not_from(channel, came):
            self._refuse(channel, REFUSED, why)
        elif channel.to == self._context.name:
            self._end_here(channel)
        else:
            self._go_on(channel, came, hops)

    def _end_here(self, channel: Channel) -> None:
        found = self._serve(channel)
        if isinstance(found, str):
            self._refuse(channel, REFUSED, found)
            return
        channel.far = found
        self.open[found] = channel

    def _go_on(self, channel: Channel, came: Neighbour | None, hops: int) -> None:
        """The next link of its way."""
        me = self._context.name
        if hops >= MAX_HOPS:
            self._refuse(channel, UNREACHABLE, f"{channel.to} is more than {MAX_HOPS} links away from {me}")
            return
        ways = [self._context.neighbours[name] for name in self._ways(channel.to)]
        if not ways:
            self._refuse(
                channel, UNKNOWN, f"{me} knows no node {channel.to[:64]}, and nobody above it to ask"
            )
            return
        allowed = [way for way in ways if _may_go_on(came, way)]
        way = next((way for way in allowed if way.up), None)
        if not allowed:
            self._refuse(channel, UNKNOWN, f"no node {channel.to[:64]} is below {me}")
        elif way is None or way.link is None:
            names = ", ".join(each.name for each in allowed)
            self._refuse(channel, UNREACHABLE, f"{me} has no link with {names} now")
        elif why := self._why_not_to(channel, way):
            self._refuse(channel, REFUSED, why)
        elif not way.link.streams.has_room:
            self._refuse(channel, BUSY, _no_room(way.name, me, way.link.streams.peer_takes))
        else:
            stream = way.link.say.open_stream(
                channel.to, channel.name, channel.origin, channel.number, hops + 1
            )
            channel.far = self._side(way, way.link, stream)
            self.open[channel.far] = channel

    def _side(self, neighbour: Neighbour, link: Link, stream: int) -> _LinkSide:
        side = self._streams[link, stream] = _LinkSide(neighbour, link, stream)
        self._of.setdefault(neighbour.name, set()).add(side)
        return side

    def _ways(self, to: str) -> tuple[str, ...]:
        return self._lookup.way(queue(_CELL, to)).gateways

    # --- may it?

    def _why_not_from(self, channel: Channel, came: Neighbour | None) -> str:
        """May whoever asks open it?"""
        if came is None:
            return ""
        if came.relation is Relation.MESH:
            return ""
        if came.relation is Relation.PARENT:
            is_here = self._is_here(channel.origin)
            return f"ORIGIN: {channel.origin} does not ask from there" if is_here else ""
        if not self._admission.is_from_below(came, channel.origin):
            return f"ORIGIN: {channel.origin[:64]!r} is not below {came.name}"
        return came.permit.why_not_open(channel.name, channel.to)

    def _is_here(self, origin: str) -> bool:
        """Does its channel not come from above? It is this node, or is below and can be reached.

        In a mesh one below may have asked another node of it, which has lost its lines with this one.
        """
        if origin == self._context.name:
            return True
        ways, neighbours = self._context.table.gateways(domain(origin)).items(), self._context.neighbours
        is_below = any(route.live and self._has_link(name) for name, route in ways)
        return is_below and all(each.relation is not Relation.MESH for each in neighbours.values())

    def _has_link(self, child: str) -> bool:
        neighbour = self._context.neighbours.get(child)
        return neighbour is not None and neighbour.relation is Relation.CHILD and neighbour.link is not None

    def _why_not_to(self, channel: Channel, way: Neighbour) -> str:
        """May it go that way? What a child asks for was asked of the nodes above already, with its permit."""
        if way.relation is Relation.CHILD:
            return way.permit.why_not_serve(channel.name, channel.to)
        if way.relation is Relation.PARENT and channel.origin == self._context.name:
            return self._permits.why_not_open_above(way.name, channel.name, channel.to)
        return ""

    def permit_changed(self, child: Neighbour, *, anew: bool) -> None:
        """What is not permitted any more is over."""
        for side in list(self._of.get(child.name, ())):
            channel = self.open[side]
            ask = child.permit.why_not_open if side is channel.near else child.permit.why_not_serve
            if why := ask(channel.name, channel.to):
                side.reset(REFUSED, why)
                self.broken(side, REFUSED, why)

    # --- what happens on it

    def opened(self, side: Side) -> None:
        """What stands at the far side is there."""
        channel = self.open.get(side)
        if channel is not None and channel.state == "opening" and side is channel.far:
            channel.state = "open"
            del self._opening[channel]
            self._context.counters["channels_opened"] += 1
            channel.near.opened()
            self._told("open", channel)

    def arrived(self, side: Side, data: Bytes) -> None:
        """Bytes have come from one side."""
        channel = self.open.get(side)
        other = channel.other(side) if channel is not None else None
        if channel is None or other is None:
            return
        size = len(data)
        if side is channel.near:
            channel.there += size
        else:
            channel.back += size
        channel.waiting += size
        self._context.counters["channel_bytes"] += size
        other.send(data)

    def passed(self, side: Side, size: int) -> None:
        """One side has passed on so many bytes that came from the other."""
        channel = self.open.get(side)
        if channel is not None and (other := channel.other(side)) is not None:
            channel.waiting -= size
            other.passed(size)
            self._look(channel)

    def finished(self, side: Side) -> None:
        """Nothing more comes from one side."""
        channel = self.open.get(side)
        if channel is not None and (other := channel.other(side)) is not None:
            channel.end(side)
            other.finish()
            self._look(channel)

    def _look(self, channel: Channel) -> None:
        if channel.is_over:
            channel.state = "over"
            self._told("over", channel)
            self._forget(channel)

    def broken(self, side: Side, reason: str, text: str) -> None:
        """One side is over, before its time."""
        channel = self.open.get(side)
        if channel is None:
            return
        other = channel.other(side)
        opening = channel.state == "opening"
        channel.why, channel.state = text, "over"
        self._context.counters["channels_refused" if opening else "channels_broken"] += 1
        self._forget(channel)
        if other is not None:
            other.reset(reason, text)
        self._told("refused" if opening else "broken", channel)

    def _refuse(self, channel: Channel, reason: str, text: str) -> None:
        channel.why, channel.state = text, "over"
        self._context.counters["channels_refused"] += 1
        self._forget(channel)
        channel.near.reset(reason, text)
        self._told("refused", channel)

    def _forget(self, channel: Channel) -> None:
        self._opening.pop(channel, None)
        for side in (channel.near, channel.far):
            if side is not None:
                self.open.pop(side, None)
            if isinstance(side, _LinkSide):
                self._streams.pop((side.link, side.stream), None)
                self._of.get(side.via, set()).discard(side)

    def second_passed(self) -> None:
        """A channel whose other end never answers keeps no place."""
        latest = self._context.clock.now - ANSWERS_WITHIN
        for channel in list(takewhile(lambda each: each.since <= latest, self._opening)):
            if channel.far is not None:
                text = f"{channel.far.via} has not answered for {ANSWERS_WITHIN:g} s"
                channel.far.reset(UNREACHABLE, text)
                self.broken(channel.far, UNREACHABLE, text)

    # --- links

    def streamed(self, neighbour: Neighbour, event: events.OfStream) -> None:
        link = neighbour.link
        if link is None:
            return
        match event:
            case events.StreamArrived(stream, data):
                if side := self._streams.get((link, stream)):
                    self.arrived(side, data)
            case events.StreamAsked():
                self._asked(neighbour, link, event)
            case events.StreamAccepted(stream):
                if side := self._streams.get((link, stream)):
                    self.opened(side)
            case events.StreamFinished(stream):
                if side := self._streams.get((link, stream)):
                    self.finished(side)
            case events.StreamBroken(stream, reason, text):
                if side := self._streams.get((link, stream)):
                    self.broken(side, reason, text)

    def pulled(self, link: Link) -> None:
        """Bytes of streams have left on a link."""
        for stream, size in link.streams.take_sent().items():
            if side := self._streams.get((link, stream)):
                self.passed(side, size)

    def link_down(self, neighbour: Neighbour) -> None:
        text = f"the link between {self._context.name} and {neighbour.name} is broken"
        for side in self._of.pop(neighbour.name, set()):
            self.broken(side, BROKEN, text)


def _no_room(peer: str, me: str, takes: int) -> str:
    if takes:
        return f"{peer} takes no more than {takes} channels from {me}"
    return f"{peer} takes no channels: it is of an older version"


def _may_go_on(came: Neighbour | None, way: Neighbour) -> bool:
    """Never back, never up again, and through the nodes of a mesh once."""
    if came is None or came.relation is Relation.CHILD:
        return came is not way
    if came.relation is Relation.PARENT:
        return way.relation is Relation.CHILD
    return way.relation is not Relation.MESH and came is not way
