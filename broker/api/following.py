"""Following messages: what happens at this node to those that match, as it happens.

The node's trace says what happened; what a message holds is taken from its bundle as it passes. So of a
bundle that was here before somebody followed, only its events are seen, and what the trace noted of it.

Law: whoever reads slowly loses events, and is told how many; the node waits for nobody. For each who follows
it keeps so many lines and bytes of lines, and so many bytes of bundles, as they came or unpacked.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Final

import msgspec

from broker.advisory_log import iso_time
from broker.api import previews
from broker.api.filters import DestinationFilter
from broker.api.operation import Answer
from broker.core.errors import BadRequest, Busy, SwitchError
from broker.core.messages.queue import StoredBundle
from broker.core.messages.queue_names import is_internal
from broker.core.messages.trace import NAMES, Record
from broker.core.sessions.masking import masked
from broker.host import Host
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Message
from sapwood.protocol.errors import FrameError

MOST_FOLLOWERS: Final = 16
_LINES: Final = 10_000
_LOOK: Final = 0.05
_SILENCE: Final = 5.0
_LINE_BYTES: Final = 16 * 1024 * 1024
_KEPT_BYTES: Final = 16 * 1024 * 1024
_MESSAGE: Final = 600
"""Bytes that an unpacked message takes beside its payload."""
_PAYLOAD: Final = 64 * 1024
_PER_SESSION: Final = frozenset(("entered", "delivered", "dealt_with", "refused"))
_encoder = msgspec.json.Encoder()


class Wanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose events. All that is said must hold. `session`: the token, or as it is masked."""

    destination: str = ""
    session: str = ""
    task: str = ""
    correlation_id: int | None = None
    payload: bool = False


class Event(Answer):
    """Something that happened to a message here. `peer`: the neighbour, `session`: whose message, or reader.

    `payload`, `encoding` and `size` only where the payload was asked for and is known; the payload is cut at
    64 KiB.
    """

    at: str
    event: str
    node: str
    destination: str
    id: str | None
    session: str | None
    peer: str | None
    reason: str
    correlation_id: int | None
    task_id: str
    reply_to: str
    payload: str | None = None
    encoding: str | None = None
    size: int | None = None


class Followers:
    """All who follow at one node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.followers = 0

    async def events(self, wanted: Wanted) -> AsyncGenerator[bytes, None]:
        """Lines of JSON, each with its end; now and then an empty one, to see whether somebody is there.

        Caller's duty: close it (`aclosing`). Raises `BadRequest`, `Busy`, or `SwitchError` without a trace.
        """
        core = self._host.core
        if not core.trace.on:
            raise SwitchError(
                "the trace of this node is switched off (trace, events: 0): switch it on to follow"
            )
        if self.followers >= MOST_FOLLOWERS:
            raise Busy(f"{MOST_FOLLOWERS} others follow this node already: end one of them")
        follower = Follower(self._host, wanted)
        self.followers += 1
        core.arrivals.taps.append(follower.passes)
        try:
            yield b"\n"
            async for line in follower.lines():
                yield line
        finally:
            self.followers -= 1
            core.arrivals.taps.remove(follower.passes)


class Follower:
    """One who follows. `dropped`: events that were lost to it."""

    def __init__(self, host: Host, wanted: Wanted) -> None:
        self._host = host
        self._wanted = wanted
        self._destination = DestinationFilter(wanted.destination)
        self._last = host.core.trace.next_id - 1
        self._bodies: OrderedDict[bytes, tuple[int, StoredBundle | list[Message]]] = OrderedDict()
        self._kept = 0
        self._lines: deque[bytes] = deque()
        self._line_bytes = 0
        self.dropped = 0
        if wanted.correlation_id is not None and not -(1 << 63) <= wanted.correlation_id < 1 << 64:
            raise BadRequest("correlation_id: expected a whole number of 64 bits")

    # --- what passes

    def passes(self, stored: StoredBundle) -> None:
        """A bundle comes in, its body in memory. Costs next to nothing where it is not wanted."""
        header = stored.header
        if stored.body is None or is_internal(header.destination):
            return
        if self._destination.holds(header.destination):
            bundle = StoredBundle(stored.row, header, stored.body, stored.size, stored.since)
            self._remember(header.id, bundle, stored.size)

    def _remember(self, bundle: bytes, found: StoredBundle | list[Message], size: int) -> None:
        """The latest in so many bytes; one alone may have more."""
        self._kept += size - self._bodies.pop(bundle, (0, None))[0]
        self._bodies[bundle] = size, found
        while len(self._bodies) > 1 and (self._kept > _KEPT_BYTES or len(self._bodies) > _LINES):
            _, (gone, _) = self._bodies.popitem(last=False)
            self._kept -= gone

    def _message(self, record: Record, position: int) -> Message | None:
        _, found = self._bodies.get(record.bundle, (0, None))
        if isinstance(found, StoredBundle):
            header, size = found.header, found.header.size + _MESSAGE * found.header.count
            try:
                found = bundles.unpack(header, found.body or b"")
            except FrameError:
                found, size = [], 0
            self._remember(record.bundle, found, size)
        return found[position] if found and position < len(found) else None

    # --- what happens

    async def lines(self) -> AsyncIterator[bytes]:
        """As long as the node runs."""
        silent = 0.0
        while not self._host.core.switch.stopping:
            self._look()
            if self.dropped:
                yield _encoder.encode({"event": "dropped", "dropped": self.dropped}) + b"\n"
                self.dropped = 0
            while self._lines:
                line = self._lines.popleft()
                self._line_bytes -= len(line)
                yield line
                silent = 0.0
            await asyncio.sleep(_LOOK)
            silent += _LOOK
            if silent >= _SILENCE:
                silent = 0.0
                yield b"\n"

    def _look(self) -> None:
        """Take what is new in the trace; as much of it as there is room for."""
        records = self._host.core.trace.after(self._last)
        if records:
            self.dropped += max(records[0].id - 1 - self._last, 0)
        for record in records:
            self._last = record.id + record.messages - 1
            if is_internal(record.destination) or not self._holds(record):
                continue
            for line in self._expand(record):
                if len(self._lines) >= _LINES or self._line_bytes >= _LINE_BYTES:
                    self.dropped += 1
                else:
                    self._lines.append(line)
                    self._line_bytes += len(line)

    def _holds(self, record: Record) -> bool:
        if not self._destination.holds(record.destination):
            return False
        session = self._wanted.session
        if not session:
            return True
        return NAMES[record.kind] in _PER_SESSION and session in (record.who, masked(record.who))

    def _expand(self, record: Record) -> Iterator[bytes]:
        """One line for each message."""
        wanted = self._wanted
        for position in record.positions():
            event = self._event(record, position)
            if wanted.task and event.task_id != wanted.task:
                continue
            if wanted.correlation_id is not None and event.correlation_id != wanted.correlation_id:
                continue
            yield _encoder.encode(event) + b"\n"

    def _event(self, record: Record, position: int) -> Event:
        core, kind = self._host.core, NAMES[record.kind]
        message = self._message(record, position)
        said: Any = message.properties if message is not None else core.trace.note(record.bundle, position)
        event = Event(
            at=iso_time(time.time() - self._host.now() + record.at),
            event=kind,
            node=core.identity.name,
            destination=str(record.destination),
            id=f"{record.bundle.hex()}-{position}" if record.bundle else None,
            session=masked(record.who) if kind in _PER_SESSION and record.who else None,
            peer=record.who if kind not in _PER_SESSION and record.who else None,
            reason=str(record.extra) if kind in ("dead", "dropped", "refused", "returned") else "",
            correlation_id=said.correlation_id if said is not None else None,
            task_id=said.task_id if said is not None else "",
            reply_to=said.reply_to if said is not None else "",
        )
        if self._wanted.payload and message is not None:
            event.payload, event.encoding = previews.text_of(message.payload, _PAYLOAD)
            event.size = len(message.payload)
        return event
