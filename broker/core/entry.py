"""Entry: where messages become bundles.

Whatever one sender has for one destination and delivery class while the last commit is under way becomes
one bundle: nothing waits for company. The body is joined from what the client encoded already, and is
compressed once, here.
"""

from collections.abc import Callable
from typing import NamedTuple

from broker.core.trace import Note, notes_of
from treeconnector import bundles
from treeconnector.bundles import Flag, Header, Message
from treeconnector.destinations import Destination
from treeconnector.identity import BundleIds

_TRY_AGAIN = 32
_REMEMBERED = 10_000


class Class(NamedTuple):
    """What the messages of one bundle have in common."""

    destination: Destination
    flags: int
    scope: int
    sender: str


class Batch(NamedTuple):
    """Messages that came together. `expires_*`: ms, 0 = never. `notes`: what the trace keeps of them."""

    messages: int
    body: bytes
    expires_first: int
    expires_last: int
    notes: tuple[Note, ...] = ()


def batch_of(messages: list[Message], body: bytes) -> Batch:
    """`body`: the messages' own encoding, joined."""
    if b"expires-in" not in body:
        return Batch(len(messages), body, 0, 0, notes_of(messages, body))
    times = [message.properties.expires_in for message in messages]
    positive = [time for time in times if time > 0]
    last = max(positive) if positive and len(positive) == len(times) else 0
    return Batch(len(messages), body, min(positive, default=0), last, notes_of(messages, body))


class _Gathering:
    """Batches that will be one bundle. `count` messages, `size` bytes."""

    __slots__ = ("batches", "count", "size")

    def __init__(self, first: Batch) -> None:
        self.batches = [first]
        self.count = first.messages
        self.size = len(first.body)

    def takes(self, batch: Batch) -> bool:
        """Add a batch, if the bundle has room for it."""
        count, size = self.count + batch.messages, self.size + len(batch.body)
        if count > bundles.MAX_MESSAGES or size > bundles.MAX_BYTES:
            return False
        self.batches.append(batch)
        self.count, self.size = count, size
        return True


class Entry:
    """Gathers batches; `seal` makes bundles of them and hands them to `enter(header, body, sender)`."""

    def __init__(
        self,
        node: str,
        store_id: bytes,
        ids: BundleIds,
        enter: Callable[[Header, bytes, str], None],
        entered: Callable[[Header, str, tuple[Note, ...]], None],
    ) -> None:
        self._node = node
        self._store_id = store_id
        self._ids = ids
        self._enter = enter
        self._entered = entered
        self._in_vain: dict[Destination, int] = {}
        self._open: dict[Class, _Gathering] = {}
        self._latest: dict[tuple[Destination, str], Class] = {}

    def __repr__(self) -> str:
        return f"<Entry gathering for {len(self._open)} destinations>"

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def add(self, kind: Class, batch: Batch) -> None:
        """A batch of at most 256 messages enters; a full one is a bundle at once."""
        gathering = self._open.get(kind)
        if gathering is not None:
            if not gathering.takes(batch):
                self._make(kind, gathering.batches)
                self._open[kind] = _Gathering(batch)
            return
        self._keep_order(kind)
        if batch.messages == bundles.MAX_MESSAGES:
            self._make(kind, [batch])
        else:
            self._open[kind] = _Gathering(batch)

    def gathered(self, destination: Destination, sender: str) -> int:
        """How many messages of one sender have entered for a destination and are in no bundle yet."""
        kind = self._latest.get((destination, sender))
        gathering = self._open.get(kind) if kind is not None else None
        return gathering.count if gathering is not None else 0

    def _keep_order(self, kind: Class) -> None:
        """What a sender has open for the same destination, in another class, must not be overtaken."""
        before = self._latest.get((kind.destination, kind.sender))
        if before is not None and before != kind and before in self._open:
            self._make(before, self._open.pop(before).batches)
        self._latest[kind.destination, kind.sender] = kind

    def seal(self) -> None:
        """End of gathering: all that is open becomes bundles."""
        if self._open or self._latest:
            gathered, self._open = self._open, {}
            self._latest.clear()
            for kind, gathering in gathered.items():
                self._make(kind, gathering.batches)

    def make(self, kind: Class, messages: list[Message]) -> None:
        """A bundle of the node's own, at once: it is in the same transaction as what it answers."""
        self._make(kind, [batch_of(messages, b"".join(map(bundles.encode_message, messages)))])

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
        kind: Class,
        message: Message,
        refused: Callable[[Header, bytes, str], None],
        reason: str,
    ) -> None:
        """A bundle of one message that cannot go into the tree; it goes to `refused`, with the reason."""
        header, body = self._bundle(kind, [batch_of([message], bundles.encode_message(message))])
        refused(header, body, reason)

    def _make(self, kind: Class, batches: list[Batch]) -> None:
        header, body = self._bundle(kind, batches)
        self._entered(header, kind.sender, _notes(batches))
        self._enter(header, body, kind.sender)

    def _bundle(self, kind: Class, batches: list[Batch]) -> tuple[Header, bytes]:
        plain = batches[0].body if len(batches) == 1 else b"".join(batch.body for batch in batches)
        body, compressed = self._compress(kind.destination, plain)
        firsts = [batch.expires_first for batch in batches if batch.expires_first]
        lasts = [batch.expires_last for batch in batches]
        header = Header(
            id=self._ids.next(),
            destination=kind.destination,
            scope=kind.scope,
            flags=kind.flags | compressed,
            count=sum(batch.messages for batch in batches),
            size=len(plain),
            origin_store=self._store_id,
            origin=self._node,
            expires_first=min(firsts, default=0),
            expires_last=max(lasts) if all(lasts) else 0,
        )
        return header, body


def _notes(batches: list[Batch]) -> tuple[Note, ...]:
    """The notes of all, at their places in the bundle."""
    if not any(batch.notes for batch in batches):
        return ()
    found: list[Note] = []
    before = 0
    for batch in batches:
        found += (note._replace(position=before + note.position) for note in batch.notes)
        before += batch.messages
    return tuple(found)


def flags_of(persistent: bool, retained: bool, tell: bool = False) -> int:
    plain = (Flag.PERSISTENT if persistent else 0) | (Flag.RETAINED if retained else 0)
    return plain | Flag.TELL if tell else plain
