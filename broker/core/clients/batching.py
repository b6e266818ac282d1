"""Batching: messages that come together become bundles.

Whatever one sender has for one destination and delivery class while the last commit is under way becomes
one bundle: nothing waits for company. The body is joined from what the client encoded already, and is
compressed once, here.
"""

from collections.abc import Callable
from typing import NamedTuple

from broker.core.messages.trace import Note, notes_of
from sapwood.protocol import bundles, destinations
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import Destination
from treeconnector.identity import BundleIds, Identity

_TRY_AGAIN = 32
_REMEMBERED = 10_000


class BundleClass(NamedTuple):
    """Properties that all messages of one bundle share."""

    destination: Destination
    flags: int
    scope: int
    sender: str


class ProducerBatch(NamedTuple):
    """Messages that came together. `expires_*`: ms, 0 = never. `notes`: what the trace keeps of them."""

    messages: int
    body: bytes
    expires_first: int
    expires_last: int
    notes: tuple[Note, ...] = ()


def batch_of(messages: list[Message], body: bytes) -> ProducerBatch:
    """`body`: the messages' own encoding, joined."""
    if b"expires-in" not in body:
        return ProducerBatch(len(messages), body, 0, 0, notes_of(messages, body))
    times = [message.properties.expires_in for message in messages]
    positive = [time for time in times if time > 0]
    last = max(positive) if positive and len(positive) == len(times) else 0
    return ProducerBatch(len(messages), body, min(positive, default=0), last, notes_of(messages, body))


class _Gathering:
    """Batches of one class that will be one bundle. `count` messages, `size` bytes."""

    __slots__ = ("batches", "count", "kind", "size")

    def __init__(self, kind: BundleClass, first: ProducerBatch) -> None:
        self.kind = kind
        self.batches = [first]
        self.count = first.messages
        self.size = len(first.body)

    def takes(self, kind: BundleClass, batch: ProducerBatch) -> bool:
        """Add a batch, if it is of the same class and the bundle has room for it."""
        count, size = self.count + batch.messages, self.size + len(batch.body)
        if count > bundles.MAX_MESSAGES or size > bundles.MAX_BYTES or kind != self.kind:
            return False
        self.batches.append(batch)
        self.count, self.size = count, size
        return True


class Batching:
    """Gathers batches; `seal` makes bundles of them and hands them to `enter(header, body, sender)`.

    `open`: what has been gathered and is no bundle yet.
    """

    __slots__ = ("_address", "_enter", "_entered", "_identity", "_ids", "_in_vain", "open")

    def __init__(
        self,
        identity: Identity,
        ids: BundleIds,
        address: Callable[[Destination], Destination],
        enter: Callable[[Header, bytes, str], None],
        entered: Callable[[Header, str, tuple[Note, ...]], None],
    ) -> None:
        self._identity = identity
        self._ids = ids
        self._address = address
        self._enter = enter
        self._entered = entered
        self._in_vain: dict[Destination, int] = {}
        self.open: dict[tuple[Destination, str], _Gathering] = {}

    def __repr__(self) -> str:
        return f"<Batching gathering for {len(self.open)} destinations>"

    def add(self, kind: BundleClass, batch: ProducerBatch) -> None:
        """A batch of at most 256 messages enters; a full one is a bundle at once.

        What the sender has open for the same destination, in another class, must not be overtaken.
        """
        key = self._key(kind.destination), kind.sender
        gathering = self.open.get(key)
        if gathering is not None:
            if gathering.takes(kind, batch):
                return
            del self.open[key]
            self._make(gathering.kind, _joined(gathering.batches))
        if batch.messages == bundles.MAX_MESSAGES:
            self._make(kind, batch)
        else:
            self.open[key] = _Gathering(kind, batch)

    def gathered(self, destination: Destination, sender: str) -> int:
        """How many messages of one sender have entered for a destination and are in no bundle yet."""
        gathering = self.open.get((self._key(destination), sender))
        return gathering.count if gathering is not None else 0

    def _key(self, destination: Destination) -> Destination:
        """`x` and `x@this-node` are one, and so are an alias and its address: they wait in one queue."""
        address = self._address(destination)
        return address if address.node != self._identity.name else destinations.queue(address.name)

    def seal(self) -> None:
        """End of gathering: all that is open becomes bundles."""
        if self.open:
            gathered, self.open = self.open, {}
            for gathering in gathered.values():
                self._make(gathering.kind, _joined(gathering.batches))

    def make(self, kind: BundleClass, messages: list[Message]) -> None:
        """A bundle of the node's own, at once: it is in the same transaction as what it answers."""
        self._make(kind, batch_of(messages, bundles.encode_messages(messages)))

    def _compress(self, destination: Destination, plain: bytes) -> tuple[bytes, int]:
        """Where compressing did not pay, it is tried again only now and then."""
        skipped = self._in_vain.get(destination, 0)
        if 0 < skipped < _TRY_AGAIN:
            self._in_vain[destination] = skipped + 1
            return plain, 0
        body, compressed = bundles.compress(plain)
        if compressed or len(self._in_vain) >= _REMEMBERED:
            self._in_vain.pop(destination, None)
        elif len(plain) >= bundles.WORTH_COMPRESSING:
            self._in_vain[destination] = 1
        return body, compressed

    def refuse(
        self,
        kind: BundleClass,
        message: Message,
        refused: Callable[[Header, bytes, str], None],
        reason: str,
    ) -> None:
        """A bundle of one message that cannot go into the tree; it goes to `refused`, with the reason."""
        header, body = self._bundle(kind, batch_of([message], bundles.encode_message(message)))
        refused(header, body, reason)

    def _make(self, kind: BundleClass, batch: ProducerBatch) -> None:
        header, body = self._bundle(kind, batch)
        self._entered(header, kind.sender, batch.notes)
        self._enter(header, body, kind.sender)

    def _bundle(self, kind: BundleClass, batch: ProducerBatch) -> tuple[Header, bytes]:
        body, compressed = self._compress(kind.destination, batch.body)
        header = Header(
            id=self._ids.next(),
            destination=kind.destination,
            scope=kind.scope,
            flags=kind.flags | compressed,
            count=batch.messages,
            size=len(batch.body),
            origin_store=self._identity.store_id,
            origin=self._identity.name,
            expires_first=batch.expires_first,
            expires_last=batch.expires_last,
            start=self._identity.start,
        )
        return header, body


def _joined(batches: list[ProducerBatch]) -> ProducerBatch:
    """All of a bundle's messages as one batch."""
    if len(batches) == 1:
        return batches[0]
    lasts = [batch.expires_last for batch in batches]
    return ProducerBatch(
        sum(batch.messages for batch in batches),
        b"".join([batch.body for batch in batches]),
        min((batch.expires_first for batch in batches if batch.expires_first), default=0),
        max(lasts) if all(lasts) else 0,
        _notes(batches),
    )


def _notes(batches: list[ProducerBatch]) -> tuple[Note, ...]:
    """The notes of all, at their queues in the bundle."""
    if not any(batch.notes for batch in batches):
        return ()
    found: list[Note] = []
    before = 0
    for batch in batches:
        found += (note._replace(position=before + note.position) for note in batch.notes)
        before += batch.messages
    return tuple(found)


def flags_of(persistent: bool, retained: bool, tell: bool = False, again: bool = False) -> int:
    plain = (Flag.PERSISTENT if persistent else 0) | (Flag.RETAINED if retained else 0)
    plain |= Flag.MAYBE_DUPLICATE if again else 0
    return plain | Flag.TELL if tell else plain
