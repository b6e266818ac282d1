"""The trace: what happened to bundles at this node lately, in a ring of bounded length.

One record a bundle or slice, never a message; a record is a plain tuple, and becomes something to read only
when somebody reads. Times are running time; the wall clock is added where a person looks.

What no header says (correlation id, task id, reply queue) is *noted* where messages are decoded anyway, at
their entry and at some deliveries, in a room of its own that is bounded as well.

Wrinkle: a record has an id for each of its messages, so ids of events ascend and are unique when records are
taken apart. They begin above those of every earlier start.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treeconnector.bundles import Header, Message
from treeconnector.destinations import Destination, Kind

if TYPE_CHECKING:
    from broker.core.custody import Copy, Stored
    from broker.core.readers import Given

ENTERED: Final = 0
DELIVERED: Final = 1
DEALT_WITH: Final = 2
ARRIVED: Final = 3
COMMITTED: Final = 4
SENT: Final = 5
ACKNOWLEDGED: Final = 6
RETURNED: Final = 7
REROUTED: Final = 8
BURIED: Final = 9
DROPPED: Final = 10
REFUSED: Final = 11
NAMES: Final = (
    *("entered", "delivered", "dealt_with", "arrived", "committed", "sent", "acknowledged"),
    *("returned", "rerouted", "dead", "dropped", "refused"),
)
EVERY: Final = -1
"""Bits of a record that means all messages of its bundle."""
DEFAULT_SIZE: Final = 20_000
_IDS_PER_SECOND: Final = 1_000_000
_NOTES_PER_RECORD: Final = 2
_LONGEST_NOTE: Final = 320
_REFUSALS_APART: Final = 1.0


class Note(NamedTuple):
    """What a message said of itself, and its position in the bundle."""

    position: int
    correlation_id: int | None
    task_id: str
    reply_to: str


class Record(NamedTuple):
    """One thing that happened to messages of one bundle (`bundle` is empty where there was none yet).

    `at`: running time. `bits`: mask of the `messages` that it is about, `EVERY` = all. `who`: the neighbour,
    the session's token, or ''. `extra`: by kind: ARRIVED origin's name; DELIVERED first transfer id;
    DEALT_WITH seconds since the delivery; BURIED, DROPPED, REFUSED the reason.
    """

    id: int
    at: float
    kind: int
    bundle: bytes
    messages: int
    bits: int
    destination: Destination
    who: str
    extra: Any

    def covers(self, position: int) -> bool:
        return position < self.messages if self.bits == EVERY else bool(self.bits >> position & 1)

    def positions(self) -> Iterable[int]:
        if self.bits == EVERY:
            return range(self.messages)
        return (position for position in range(self.bits.bit_length()) if self.bits >> position & 1)


def notes_of(messages: Sequence[Message], body: bytes) -> tuple[Note, ...]:
    """What is worth a note. `body`: their encoding, joined."""
    if _all_bare([message.payload for message in messages], body):
        return ()
    found = []
    for position, message in enumerate(messages):
        said = message.properties
        if said.correlation_id is not None or said.task_id:
            task, reply = said.task_id[:_LONGEST_NOTE], said.reply_to[:_LONGEST_NOTE]
            found.append(Note(position, said.correlation_id, task, reply))
    return tuple(found)


def _all_bare(payloads: list[bytes], body: bytes) -> bool:
    """Have the messages no properties at all? Their length tells, ten times faster than a look at each.

    An array's and a map's header take a byte each (an empty map may be left out), a payload's 2, 3 or 5.
    """
    sizes = [*map(len, payloads)]
    longest = max(sizes)
    bare = 3 + (longest > 0xFF) + 2 * (longest > 0xFFFF)
    return len(body) - sum(sizes) in (bare * len(sizes), (bare + 1) * len(sizes))


class Trace:
    """The ring. `size` 0: nothing is recorded. `clock` may be set to one that is finer than the core's."""

    def __init__(self, clock: Callable[[], float], start: int = 1, size: int = DEFAULT_SIZE) -> None:
        self.clock = clock
        self.on = size > 0
        self.next_id = int(clock() * _IDS_PER_SECOND) + start * _IDS_PER_SECOND
        self._size = size
        self._records: deque[tuple[Any, ...]] = deque(maxlen=size)
        self._notes: OrderedDict[bytes, tuple[Note, ...]] = OrderedDict()
        self._noted = 0
        self._waiting: list[Callable[[], None]] = []
        self._refusal: tuple[object, ...] = ()
        self._refused_at = float("-inf")

    def __repr__(self) -> str:
        return f"<Trace {len(self._records)} of {self._size} records, {self._noted} notes>"

    def __len__(self) -> int:
        return len(self._records)

    # --- recording

    def add(
        self,
        kind: int,
        bundle: bytes,
        count: int,
        bits: int,
        destination: Destination,
        who: str,
        extra: Any = None,
    ) -> None:
        if not self.on:
            return
        number = self.next_id
        self.next_id = number + count
        self._records.append((number, self.clock(), kind, bundle, count, bits, destination, who, extra))
        if kind <= DEALT_WITH and self._waiting:
            self._wake()

    def entered(self, header: Header, session: str, notes: tuple[Note, ...]) -> None:
        """A bundle was made of what a session sent, or the node itself ('')."""
        if self.on and (session or not is_internal(header.destination)):
            if notes:
                self._note(header.id, notes)
            self.add(ENTERED, header.id, header.count, EVERY, header.destination, session)

    def arrived(self, header: Header, neighbour: str) -> None:
        if header.flags & 1 or not is_internal(header.destination):
            self.add(ARRIVED, header.id, header.count, EVERY, header.destination, neighbour, header.origin)

    def committed(self, fresh: "Iterable[Stored]") -> None:
        """These bundles are on disk; those without a copy never were."""
        for stored in fresh:
            if stored.copies:
                header = stored.header
                self.add(COMMITTED, header.id, header.count, EVERY, header.destination, "")

    def sent(self, copy: "Copy", neighbour: str) -> None:
        header, bits = copy.stored.header, copy.all & ~copy.done if copy.done else EVERY
        self.add(SENT, header.id, copy.open, bits, header.destination, neighbour)

    def sent_volatile(self, header: Header, neighbour: str) -> None:
        if not is_internal(header.destination):
            self.add(SENT, header.id, header.count, EVERY, header.destination, neighbour)

    def acknowledged(self, copies: "Iterable[Copy]", neighbour: str) -> None:
        """The neighbour has these on its disk. To be called before the copies are let go."""
        for copy in copies:
            header, bits = copy.stored.header, copy.all & ~copy.done if copy.done else EVERY
            self.add(ACKNOWLEDGED, header.id, copy.open, bits, header.destination, neighbour)

    def delivered(self, given: "Given") -> None:
        token = given.reader.session.token
        if not token or not self.on:
            return
        stored = given.copy.stored
        header, bits = stored.header, given.bits
        if stored.messages is not None and header.id not in self._notes:
            self._note(header.id, notes_of(stored.messages, b""))
        self.add(DELIVERED, header.id, given.messages, bits, header.destination, token, given.first)

    def dealt_with(self, given: "Given", bits: int, count: int) -> None:
        token = given.reader.session.token
        if token and self.on:
            header = given.copy.stored.header
            seconds = self.clock() - given.at
            self.add(DEALT_WITH, header.id, count, bits, header.destination, token, seconds)

    def happened(self, kind: int, copy: "Copy", bits: int, who: str, why: str = "") -> None:
        """RETURNED, REROUTED or BURIED: to those of `bits` that were not dealt with before."""
        header = copy.stored.header
        bits &= copy.all & ~copy.done
        self.add(kind, header.id, bits.bit_count(), bits, header.destination, who, why)

    def dropped(self, header: Header, why: str) -> None:
        if not is_internal(header.destination):
            self.add(DROPPED, header.id, header.count, EVERY, header.destination, "", why)

    def refused(self, session: str, destination: Destination, count: int, why: str) -> None:
        """What was refused has no id. Who goes on and on is recorded once a second."""
        if len(destination.name) > _LONGEST_NOTE:
            return
        refusal, now = (session, destination, why), self.clock()
        if refusal != self._refusal or now - self._refused_at >= _REFUSALS_APART:
            self._refusal, self._refused_at = refusal, now
            self.add(REFUSED, b"", count, EVERY, destination, session, why)

    def _note(self, bundle: bytes, notes: tuple[Note, ...]) -> None:
        if not notes:
            return
        self._noted += len(notes) - len(self._notes.pop(bundle, ()))
        self._notes[bundle] = notes
        while self._noted > _NOTES_PER_RECORD * self._size and len(self._notes) > 1:
            self._noted -= len(self._notes.popitem(last=False)[1])

    # --- waiting

    def wait(self, ready: Callable[[], None]) -> None:
        """`ready` is called once, when messages enter, are delivered or dealt with here."""
        self._waiting.append(ready)

    def cancel(self, ready: Callable[[], None]) -> None:
        if ready in self._waiting:
            self._waiting.remove(ready)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready()

    # --- reading

    def after(self, last_id: int, kinds: frozenset[int] = frozenset(range(len(NAMES)))) -> list[Record]:
        """Records of which an id is above `last_id`, oldest first."""
        found: list[Record] = []
        for each in reversed(self._records):
            if each[0] + each[4] - 1 <= last_id:
                break
            if each[2] in kinds:
                found.append(Record._make(each))
        return found[::-1]

    def of(self, bundles: frozenset[bytes]) -> Iterator[Record]:
        """Everything about some bundles, oldest first."""
        for each in list(self._records):
            if each[3] in bundles:
                yield Record._make(each)

    def senders(self) -> dict[bytes, str]:
        """Which session each bundle that entered here came from."""
        return {each[3]: each[7] for each in self._records if each[2] == ENTERED}

    def note(self, bundle: bytes, position: int) -> Note | None:
        return next((note for note in self._notes.get(bundle, ()) if note.position == position), None)

    def noted(self, task: str) -> Iterator[tuple[bytes, Note]]:
        """Messages of a task that were decoded here, in the order of their bundles."""
        for bundle, notes in self._notes.items():
            for note in notes:
                if note.task_id == task:
                    yield bundle, note


SYSTEM: Final = "System"
"""The queue of a node's own cell; `System.…` are where its answers go. Applications have neither."""


def is_internal(destination: Destination) -> bool:
    """Is it nodes that talk with each other?"""
    name = destination[1]
    return name[:6] == SYSTEM and name[6:7] in ("", ".") and destination[0] == Kind.QUEUE
