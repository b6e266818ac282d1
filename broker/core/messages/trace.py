"""The trace: what happened to bundles at this node lately, in a ring of bounded length.

One record a bundle or slice, never a message. What happens to many bundles with one neighbour or session in
one step of the core is one *group*. Every few hundred records the groups are packed: what they keep then is
small and lies together, for thousands of old headers would be in the way of everything else in the
processor's cache. It becomes something to read only when somebody reads. Times are running time; the wall
clock is added where a person looks.

What no header says (correlation id, task id, reply queue) is *noted* where messages are decoded anyway, at
their entry and at some deliveries, in a room of its own that is bounded as well.

Wrinkle: a record has an id for each of its messages, so ids of events ascend and are unique when records are
taken apart. They begin above those of every earlier start.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, cast

from broker.core.clock import Clock
from broker.core.messages.queue import QueueEntry, StoredBundle
from broker.core.messages.queue_names import is_internal
from sapwood.protocol.bundles import Header, Message
from sapwood.protocol.destinations import Destination
from treeconnector.identity import BUNDLE_ID_BYTES

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
_LARGEST_GROUP: Final = 256
_MOST_SAME: Final = 10_000
_NOTES_PER_RECORD: Final = 2
_LONGEST_NOTE: Final = 320
_FEW: Final = 8
_REFUSALS_APART: Final = 1.0


class Slice(Protocol):
    """A run of messages of one bundle that a consumer has, since `at`."""

    @property
    def entry(self) -> QueueEntry: ...
    @property
    def first(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def at(self) -> float: ...
    @property
    def token(self) -> str:
        """Of the session that has it, '' = the node itself."""


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


_payload_of = attrgetter("payload")


def notes_of(messages: Sequence[Message], body: bytes) -> tuple[Note, ...]:
    """The properties that are worth a note. `body`: their encoding, joined."""
    if len(messages) > _FEW and _all_bare([*map(_payload_of, messages)], body):
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


Part = tuple[Header, int, int, Any]
"""Header, bits, messages, extra."""
Item = Header | Part
"""The items of one group are all the one or all the other."""


class Group(NamedTuple):
    """Records of one kind, packed. `ids`: of the bundles, joined; `bits` None: all of them as a whole."""

    id: int
    at: float
    kind: int
    who: str
    ids: bytes
    destinations: list[Destination]
    messages: list[int]
    bits: list[int] | None
    extras: list[Any] | None

    def records(self) -> Iterator[Record]:
        number = self.id
        for queue, messages in enumerate(self.messages):
            bundle = self.ids[queue * BUNDLE_ID_BYTES : (queue + 1) * BUNDLE_ID_BYTES]
            yield Record(
                number,
                self.at,
                self.kind,
                b"" if self.kind == REFUSED else bundle,
                messages,
                self.bits[queue] if self.bits is not None else EVERY,
                self.destinations[queue],
                self.who,
                self.extras[queue] if self.extras is not None else None,
            )
            number += messages


_NOTHING: Final[deque[Group]] = deque(maxlen=0)


class Trace:
    """The ring. `size`: so many records, 0 = none. `clock`: the core's time, `fine_clock`: a finer one."""

    __slots__ = (
        *("_clock", "_groups", "_largest", "_looked_at", "_next_id", "_noted", "_notes", "_open", "_records"),
        *("_refusal", "_refused_at", "_same", "_section", "_size", "_step", "_unpacked", "_waiting"),
        *("fine_clock", "on"),
    )

    def __init__(
        self,
        clock: Clock,
        start: int = 1,
        size: int = DEFAULT_SIZE,
        fine_clock: Callable[[], float] | None = None,
    ) -> None:
        self.fine_clock = fine_clock or (lambda: clock.now)
        self.on = size > 0
        self._next_id = int(clock.now * _IDS_PER_SECOND) + start * _IDS_PER_SECOND
        self._clock = clock
        self._size = size
        self._largest = max(min(_LARGEST_GROUP, size // 16), 1)
        self._groups = deque[Group]() if self.on else _NOTHING
        self._records = 0
        self._step = clock.now
        self._open: dict[tuple[int, int, str], tuple[float, list[Item]]] = {}
        self._unpacked = 0
        self._section = 0
        self._same: dict[Any, Any] = {}
        self._notes: OrderedDict[bytes, tuple[Note, ...]] = OrderedDict()
        self._noted = 0
        self._looked_at = b""
        self._waiting: list[Callable[[], None]] = []
        self._refusal: tuple[object, ...] = ()
        self._refused_at = float("-inf")

    def __repr__(self) -> str:
        return f"<Trace {len(self)} of {self._size} records, {self._noted} notes>"

    def __len__(self) -> int:
        self._pack_open()
        return self._records

    @property
    def next_id(self) -> int:
        """The id of what happens next."""
        self._pack_open()
        return self._next_id

    # --- recording

    def _put(self, kind: int, who: str, item: Item) -> None:
        """Record one bundle: with others to which the same happens in the same step of the core."""
        if self._step != self._clock.now:
            self._step = self._clock.now
            self._section += 1
        group = self._open.get((self._section, kind, who))
        if group is None:
            self._open[self._section, kind, who] = self.fine_clock(), [item]
        else:
            group[1].append(item)
        self._unpacked += 1
        if self._unpacked >= self._largest:
            self._pack_open()

    def _put_all(self, kind: int, who: str, items: list[Item]) -> None:
        """A group of its own, after all that came before."""
        self._open[self._section + 1, kind, who] = self.fine_clock(), items
        self._section += 2
        self._unpacked += len(items)
        if self._unpacked >= self._largest:
            self._pack_open()

    def _pack_open(self) -> None:
        groups, self._open, self._unpacked = self._open, {}, 0
        for (_, kind, who), (at, items) in groups.items():
            self._keep(self._packed(kind, who, at, items), len(items))

    def _keep(self, group: Group, records: int) -> None:
        """The newest comes, and the oldest go that are too many."""
        self._groups.append(group)
        self._next_id += sum(group.messages)
        self._records += records
        while self._records > self._size and len(self._groups) > 1:
            self._records -= len(self._groups.popleft().messages)

    def _packed(self, kind: int, who: str, at: float, items: list[Item]) -> Group:
        same = self._same.setdefault
        if len(self._same) > _MOST_SAME:
            self._same.clear()
        if len(items) == 1:
            return self._packed_alone(kind, who, at, items[0])
        bits: list[int] | None = None
        extras: list[Any] | None = None
        if isinstance(items[0], tuple):
            parts = cast("list[Part]", items)
            headers, messages = [part[0] for part in parts], [part[2] for part in parts]
            bits, extras = [part[1] for part in parts], [part[3] for part in parts]
        else:
            headers = cast("list[Header]", items)
            messages = [header.count for header in headers]
            if kind == ARRIVED:
                extras = [same(header.origin, header.origin) for header in headers]
        ids = b"".join([header.id for header in headers])
        destinations = [same(header.destination, header.destination) for header in headers]
        return Group(self._next_id, at, kind, who, ids, destinations, messages, bits, extras)

    def _packed_alone(self, kind: int, who: str, at: float, item: Item) -> Group:
        """The same for a group of one, as all are where little happens."""
        same = self._same.setdefault
        if isinstance(item, tuple):
            header, bits, messages, extra = item
            where = same(header.destination, header.destination)
            return Group(self._next_id, at, kind, who, header.id, [where], [messages], [bits], [extra])
        where = same(item.destination, item.destination)
        extras = [same(item.origin, item.origin)] if kind == ARRIVED else None
        return Group(self._next_id, at, kind, who, item.id, [where], [item.count], None, extras)

    def entered(self, header: Header, session: str, notes: tuple[Note, ...]) -> None:
        """A bundle was made of what a session sent, or the node itself ('')."""
        if self.on and (session or not is_internal(header.destination)):
            if notes:
                self._note(header.id, notes)
            self._put(ENTERED, session, header)
            if self._waiting:
                self._wake()

    def arrived(self, header: Header, neighbour: str) -> None:
        if self.on and (header.flags & 1 or not is_internal(header.destination)):
            self._put(ARRIVED, neighbour, header)

    def committed(self, fresh: Iterable[StoredBundle]) -> None:
        """These bundles are on disk; those without an entry never were."""
        items: list[Item] = [stored.header for stored in fresh if stored.entries] if self.on else []
        if items:
            self._put_all(COMMITTED, "", items)

    def sent(self, entries: Sequence[QueueEntry], neighbour: str) -> None:
        self._to_neighbour(SENT, entries, neighbour)

    def sent_volatile(self, header: Header, neighbour: str) -> None:
        if self.on and not is_internal(header.destination):
            self._put_all(SENT, neighbour, [header])

    def acknowledged(self, entries: Sequence[QueueEntry], neighbour: str) -> None:
        """The neighbour has these on its disk. To be called before the entries are let go."""
        self._to_neighbour(ACKNOWLEDGED, entries, neighbour)

    def _to_neighbour(self, kind: int, entries: Sequence[QueueEntry], neighbour: str) -> None:
        if not entries or not self.on:
            return
        parts = any(entry.done for entry in entries)
        items: list[Item] = [_rest(entry) if parts else entry.stored.header for entry in entries]
        self._put_all(kind, neighbour, items)

    def delivered(self, given: Slice) -> None:
        token = given.token
        if not token or not self.on:
            return
        stored = given.entry.stored
        header = stored.header
        if stored.messages is not None and header.id != self._looked_at and header.id not in self._notes:
            self._looked_at = header.id  # hundreds of consumers may each have a message of it
            self._note(header.id, notes_of(stored.messages, b""))
        self._put(DELIVERED, token, (header, given.bits, given.messages, given.first))
        if self._waiting:
            self._wake()

    def dealt_with(self, given: Slice, bits: int, count: int) -> None:
        token = given.token
        if token and self.on:
            seconds = self.fine_clock() - given.at
            self._put(DEALT_WITH, token, (given.entry.stored.header, bits, count, seconds))
            if self._waiting:
                self._wake()

    def happened(self, kind: int, entry: QueueEntry, bits: int, who: str, why: str = "") -> None:
        """RETURNED, REROUTED, BURIED or DROPPED: to those of `bits` that were not dealt with before."""
        if self.on:
            bits &= entry.all & ~entry.done
            self._put(kind, who, (entry.stored.header, bits, bits.bit_count(), why))

    def dropped(self, header: Header, why: str) -> None:
        if self.on and not is_internal(header.destination):
            self._put(DROPPED, "", (header, EVERY, header.count, why))

    def refused(self, session: str, destination: Destination, count: int, why: str) -> None:
        """A refused message has no id. Who goes on and on is recorded once a second."""
        if not self.on or len(destination.name) > _LONGEST_NOTE:
            return
        refusal, now = (session, destination, why), self.fine_clock()
        if refusal != self._refusal or now - self._refused_at >= _REFUSALS_APART:
            self._refusal, self._refused_at = refusal, now
            header = Header(id=bytes(BUNDLE_ID_BYTES), destination=destination, count=count)
            self._put(REFUSED, session, (header, EVERY, count, why))

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
        if self.next_id - 1 <= last_id:
            return []
        groups: list[Group] = []
        for group in reversed(self._groups):
            groups.append(group)
            if group.id <= last_id:
                break
        groups.reverse()
        found = [each for group in groups if group.kind in kinds for each in group.records()]
        return [record for record in found if record.id + record.messages - 1 > last_id]

    def of(self, bundles: frozenset[bytes]) -> list[Record]:
        """Everything about some bundles, oldest first."""
        self._pack_open()
        groups = [group for group in self._groups if any(bundle in group.ids for bundle in bundles)]
        return [record for group in groups for record in group.records() if record.bundle in bundles]

    def senders(self) -> dict[bytes, str]:
        """Which session each bundle that entered here came from."""
        self._pack_open()
        entered = (group for group in self._groups if group.kind == ENTERED)
        return {record.bundle: record.who for group in entered for record in group.records()}

    def note(self, bundle: bytes, position: int) -> Note | None:
        return next((note for note in self._notes.get(bundle, ()) if note.position == position), None)

    def noted(self, task: str) -> Iterator[tuple[bytes, Note]]:
        """Messages of a task that were decoded here, in the order of their bundles."""
        for bundle, notes in self._notes.items():
            for note in notes:
                if note.task_id == task:
                    yield bundle, note


def _rest(entry: QueueEntry) -> Part:
    """The messages of an entry that are not dealt with."""
    return entry.stored.header, entry.all & ~entry.done, entry.open, None
