"""What a client receives: batches, deliveries, acknowledgements in ranges. No I/O.

Law: a message is acknowledged when the application says so, or, with `auto_ack`, when it asks for the
next one. What is not acknowledged when the subscription or the client is closed is given to another reader.
After a lost connection the node gives again what it has no acknowledgement for; a `Memory` keeps an
application from seeing a second time what it was handed already, as far as this process remembers.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from sapwood.protocol.bundles import (
    UNREADABLE,
    Flag,
    Header,
    Message,
    Properties,
    decode_messages,
    plain_body,
    unpack,
)
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import FrameError
from sapwood.protocol.session_frames import MAX_RANGES_IN_FRAME, Deliver

LARGEST: Final = 256 * 1024 * 1024  # of a bundle, unpacked, whatever the node says
_REMEMBERED_BUNDLES: Final = 4096
_split = msgspec.msgpack.Decoder(list[msgspec.Raw])
_message = msgspec.msgpack.Decoder(Message)

Range = tuple[int, int]
Reject = Callable[[int, int, str], None]
"""Transfer ids, the first and the last, and why nobody can deal with them."""


class Acks:
    """Transfer ids that are acknowledged and not yet told to the node, as ranges."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, first: int, last: int) -> None:
        ranges = self._ranges
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], last)
        else:
            ranges.append((first, last))

    def take(self) -> list[list[Range]]:
        """Everything, sorted and merged, in lists that fit a frame each."""
        merged: list[Range] = []
        for first, last in sorted(self._ranges):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        self._ranges = []
        return [
            merged[start : start + MAX_RANGES_IN_FRAME]
            for start in range(0, len(merged), MAX_RANGES_IN_FRAME)
        ]


class Memory:
    """Which messages of which bundles were handed to the application, and which it has acknowledged.

    Bounded: the bundles that were used last. Messages are bits at their index in the bundle.
    """

    def __init__(self, bundles: int = _REMEMBERED_BUNDLES) -> None:
        self._bundles = bundles
        self._seen: OrderedDict[bytes, list[int]] = OrderedDict()

    def hand_out(self, bundle: bytes, bits: int) -> tuple[int, int]:
        """Note that `bits` arrived. Returns (those that are new here, those acknowledged here before)."""
        known = self._seen.get(bundle)
        if known is None:
            self._seen[bundle] = [bits, 0]
            if len(self._seen) > self._bundles:
                self._seen.popitem(last=False)
            return bits, 0
        fresh, done = bits & ~known[0], bits & known[1]
        known[0] |= bits
        self._seen.move_to_end(bundle)
        return fresh, done

    def forget(self, bundle: bytes, bits: int) -> None:
        """They were given back, or rejected: they are new when they come again."""
        known = self._seen.get(bundle)
        if known is not None:
            known[:] = [mask & ~bits for mask in known]

    def forget_open(self) -> None:
        """What is not acknowledged is new when it comes again."""
        for known in self._seen.values():
            known[0] = known[1]

    def acknowledge(self, bundle: bytes, bits: int) -> None:
        known = self._seen.get(bundle)
        if known is not None:
            known[1] |= bits


class Source:
    """A node's store, from which deliveries came. `is_over`: the client is at another one now, where their
    transfer ids are those of other messages: nothing is said of them any more."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


_HERE: Final = Source()


class Delivery(NamedTuple):
    """One message. `transfer_id`: the node's number for it; `message_id`: its identity in the tree.

    `redelivered`: it may have been handed to somebody before.
    """

    payload: bytes
    properties: Properties
    destination: Destination
    transfer_id: int
    redelivered: bool
    batch: "Batch"

    @property
    def message_id(self) -> str:
        """Bundle and index, unchanged on the whole way through the tree."""
        return f"{self.batch.bundle.hex()}-{self.batch.position + self.transfer_id - self.batch.first}"

    @property
    def key(self) -> str:
        """What tells this message from all others: the sender's own message id, else `message_id`."""
        return self.properties.message_id or self.message_id

    @property
    def origin(self) -> str:
        """The node where the message entered the tree, where the node said so."""
        return self.batch.origin

    @property
    def notice(self) -> bool:
        """Does a node say this, and no application?"""
        return self.batch.notice

    def ack(self) -> None:
        """Say that this message is dealt with: the node forgets it."""
        self.batch.ack_one(self.transfer_id)

    def reject(self, reason: str = "") -> None:
        """Say that nobody can deal with this message: it becomes a dead letter, with the reason."""
        self.batch.reject_one(self.transfer_id, reason)

    def nack(self) -> None:
        """Give it back: it is given again, here or to another reader, `max_deliveries` times at most.

        Raises `NotKnown` at a node of a version that takes nothing back.
        """
        self.batch.nack_one(self.transfer_id)

    def __repr__(self) -> str:
        return f"<Delivery {self.transfer_id} of {self.destination}, {len(self.payload)} bytes>"


class Batch:
    """Messages of one bundle, unpacked. Iterate for deliveries, or take `payloads` for speed.

    `messages` and `transfer_ids` go together.
    """

    __slots__ = (
        "_acknowledge", "_nack", "_reject",
        "bundle", "destination", "first", "flags", "messages", "origin", "position",
        "redelivered", "source", "transfer_ids",
    )  # fmt: skip

    def __init__(
        self,
        frame: Deliver,
        messages: list[Message],
        transfer_ids: Sequence[int],
        acknowledge: Callable[["Batch", int, int], None],
        reject: "Callable[[Batch, int, str], None] | None" = None,
        nack: "Callable[[Batch, int], None] | None" = None,
    ) -> None:
        self.destination = frame.destination
        self.bundle = frame.bundle
        self.position = frame.position
        self.first = frame.first
        self.origin = frame.origin
        self.flags = frame.flags
        self.redelivered = frame.redelivered or frame.again or bool(frame.flags & Flag.MAYBE_DUPLICATE)
        self.messages = messages
        self.transfer_ids = transfer_ids
        self.source = _HERE
        self._acknowledge = acknowledge
        self._reject = reject
        self._nack = nack

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} for {self.destination} from transfer id {self.first}>"

    @property
    def notice(self) -> bool:
        """Does a node say this, and no application? Then `headers` say what, see `NobodyServes`."""
        return bool(self.flags & Flag.NOTICE)

    @property
    def persistent(self) -> bool:
        return bool(self.flags & Flag.PERSISTENT)

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]

    def __iter__(self) -> Iterator[Delivery]:
        destination, redelivered = self.destination, self.redelivered
        for index, message in enumerate(self.messages):
            yield Delivery(
                message.payload, message.properties, destination, self.transfer_ids[index], redelivered, self
            )

    def ack(self) -> None:
        """Say that all messages of the batch are dealt with."""
        if not self.source.is_over:
            for first, last in ranges_of(self.transfer_ids):
                self._acknowledge(self, first, last)

    def ack_one(self, transfer_id: int) -> None:
        if not self.source.is_over:
            self._acknowledge(self, transfer_id, transfer_id)

    def nack_one(self, transfer_id: int) -> None:
        if self._nack is not None and not self.source.is_over:
            self._nack(self, transfer_id)

    def reject_one(self, transfer_id: int, reason: str) -> None:
        if self._reject is not None and not self.source.is_over:
            self._reject(self, transfer_id, reason)


class Unpacked(NamedTuple):
    """What becomes of a Deliver frame: a batch, if anything in it is new, ids to acknowledge again, and
    ids of messages that cannot be read, with the reason."""

    batch: Batch | None
    again: list[Range]
    unreadable: Sequence[Range] = ()
    why: str = ""


def unpack_delivery(
    frame: Deliver,
    memory: Memory,
    acknowledge: Callable[[Batch, int, int], None],
    reject: Callable[[Batch, int, str], None] | None = None,
    nack: Callable[[Batch, int], None] | None = None,
) -> Unpacked:
    """Decode a Deliver frame and leave out what is not for us, was handed out before, or cannot be read."""
    everything = (1 << frame.count) - 1
    wanted = everything & ~int.from_bytes(frame.skip, "little") if frame.skip else everything
    try:
        messages = _messages_of(frame)
    except FrameError as error:
        messages, readable = _readable(frame)
        lost = [frame.first + index for index in _bits(wanted & ~readable)]
        rest = _unpacked(frame, messages, wanted & readable, memory, acknowledge, reject, nack)
        return rest._replace(unreadable=ranges_of(lost), why=f"UNREADABLE: {error}")
    return _unpacked(frame, messages, wanted, memory, acknowledge, reject, nack)


def _unpacked(
    frame: Deliver,
    messages: list[Message],
    wanted: int,
    memory: Memory,
    acknowledge: Callable[[Batch, int, int], None],
    reject: Callable[[Batch, int, str], None] | None,
    nack: Callable[[Batch, int], None] | None,
) -> Unpacked:
    everything = (1 << frame.count) - 1
    fresh, done = memory.hand_out(frame.bundle, wanted << frame.position)
    fresh >>= frame.position
    if frame.again:
        fresh, done = wanted, 0
    again = ranges_of([frame.first + i for i in _bits(done >> frame.position)]) if done else []
    if fresh == everything:
        ids: Sequence[int] = range(frame.first, frame.first + frame.count)
        return Unpacked(Batch(frame, messages, ids, acknowledge, reject, nack), again)
    if not fresh:
        return Unpacked(None, again)
    kept = _bits(fresh)
    ids = [frame.first + i for i in kept]
    return Unpacked(Batch(frame, [messages[i] for i in kept], ids, acknowledge, reject, nack), again)


def _readable(frame: Deliver) -> tuple[list[Message], int]:
    """The messages of a body that as a whole cannot be read, with nothing in place of those that cannot, and
    the mask of those that can."""
    messages, readable = [Message(b"")] * frame.count, 0
    compressed = frame.flags & Flag.COMPRESSED
    try:
        plain = plain_body(_header_of(frame), frame.body, LARGEST) if compressed else frame.body
        parts = _split.decode(b"\xdd" + struct.pack(">I", frame.count) + plain)
    except (FrameError, *UNREADABLE):
        return messages, 0
    for index, part in enumerate(parts):
        try:
            messages[index] = _message.decode(part)
        except UNREADABLE:
            continue
        readable |= 1 << index
    return messages, readable


def _messages_of(frame: Deliver) -> list[Message]:
    if not frame.flags & Flag.COMPRESSED:
        return decode_messages(frame.body, frame.count)
    return unpack(_header_of(frame), frame.body, LARGEST)


def _header_of(frame: Deliver) -> Header:
    return Header(
        id=frame.bundle, destination=frame.destination, flags=frame.flags, count=frame.count, size=frame.size
    )


def _bits(mask: int) -> list[int]:
    return [index for index in range(mask.bit_length()) if mask >> index & 1]


def ranges_of(ids: Sequence[int]) -> list[Range]:
    """Ascending ids as ranges."""
    if isinstance(ids, range):
        return [(ids[0], ids[-1])] if ids else []
    result: list[Range] = []
    for number in ids:
        if result and result[-1][1] + 1 == number:
            result[-1] = (result[-1][0], number)
        else:
            result.append((number, number))
    return result
