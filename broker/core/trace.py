"""The trace: what happened to bundles at this node lately, in a ring of bounded length.

One record a bundle or slice, never a message. What happens to many bundles at once, with one neighbour, is
one *group*: its items are the bundles' headers as they are, and become something to read only when somebody
reads. Times are running time; the wall clock is added where a person looks.

What no header says (correlation id, task id, reply queue) is *noted* where messages are decoded anyway, at
their entry and at some deliveries, in a room of its own that is bounded as well.

Wrinkle: a record has an id for each of its messages, so ids of events ascend and are unique when records are
taken apart. They begin above those of every earlier start.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.core.moment import Moment
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
_LARGEST_GROUP: Final = 256
_NOTES_PER_RECORD: Final = 2
_LONGEST_NOTE: Final = 320
_FEW: Final = 8
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
    if len(messages) > _FEW and _all_bare([message.payload for message in messages], body):
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
Item = Header | Part
"""A bundle as a whole; or (header, bits, messages, extra)."""
Group = tuple[int, float, int, str, list[Item]]
"""Id of its first message, when, what, with whom, which bundles."""


class Trace:
    """The ring. `size`: so many records, 0 = none. `moment` tells the core's time, `clock` a finer one."""

    def __init__(self, moment: Moment, start: int = 1, size: int = DEFAULT_SIZE) -> None:
        self.clock: Callable[[], float] = lambda: moment.now
        self.on = size > 0
        self.next_id = int(moment.now * _IDS_PER_SECOND) + start * _IDS_PER_SECOND
        self._moment = moment
        self._size = size
        self._largest = max(min(_LARGEST_GROUP, size // 16), 1)
        self._groups: deque[Group] = deque()
        self._closed = 0
        self._kind, self._who, self._step = -1, "", -1.0
        self._items: list[Item] = []
        self._notes: OrderedDict[bytes, tuple[Note, ...]] = OrderedDict()
        self._noted = 0
        self._waiting: list[Callable[[], None]] = []
        self._refusal: tuple[object, ...] = ()
        self._refused_at = float("-inf")

    def __repr__(self) -> str:
        return f"<Trace {len(self)} of {self._size} records, {self._noted} notes>"

    def __len__(self) -> int:
        return self._closed + len(self._items)

    # --- recording

    def _put(self, kind: int, who: str, item: Item, messages: int) -> None:
        """Record one bundle: with those before it if it is the same, in the same step of the core."""
        items = self._items
        if (
            kind == self._kind
            and self._step == self._moment.now
            and who == self._who
            and len(items) < self._largest
        ):
            items.append(item)
            self.next_id += messages
        else:
            self._open(kind, who, [item], messages)

    def _open(self, kind: int, who: str, items: list[Item], messages: int, at: float | None = None) -> None:
        """A new group; and the oldest go that are too many. `at`: when, if not now."""
        self._closed += len(self._items)
        self._kind, self._who, self._step, self._items = kind, who, self._moment.now, items
        self._groups.append((self.next_id, self.clock() if at is None else at, kind, who, items))
        self.next_id += messages
        while self._closed and self._closed + len(items) > self._size:
            self._closed -= len(self._groups.popleft()[4])

    def entered(self, header: Header, session: str, notes: tuple[Note, ...]) -> None:
        """A bundle was made of what a session sent, or the node itself ('')."""
        if self.on and (session or not is_internal(header.destination)):
            if notes:
                self._note(header.id, notes)
            self._put(ENTERED, session, header, header.count)
            if self._waiting:
                self._wake()

    def arrived(self, header: Header, neighbour: str) -> None:
        if self.on and (header.flags & 1 or not is_internal(header.destination)):
            self._put(ARRIVED, neighbour, header, header.count)

    def committed(self, fresh: "Iterable[Stored]") -> None:
        """These bundles are on disk; those without a copy never were."""
        items: list[Item] = [stored.header for stored in fresh if stored.copies] if self.on else []
        if items:
            self._open(COMMITTED, "", items, _messages(items))

    def sent(self, copies: "Sequence[Copy]", neighbour: str) -> None:
        self._to_neighbour(SENT, copies, neighbour)

    def sent_volatile(self, header: Header, neighbour: str) -> None:
        if self.on and not is_internal(header.destination):
            self._put(SENT, neighbour, header, header.count)

    def acknowledged(self, copies: "Sequence[Copy]", neighbour: str) -> None:
        """The neighbour has these on its disk. To be called before the copies are let go."""
        self._to_neighbour(ACKNOWLEDGED, copies, neighbour)

    def _to_neighbour(self, kind: int, copies: "Sequence[Copy]", neighbour: str) -> None:
        if not copies or not self.on:
            return
        items: list[Item] = [_rest(copy) if copy.done else copy.stored.header for copy in copies]
        self._open(kind, neighbour, items, _messages(items))

    def delivered(self, given: "Given") -> None:
        token = given.reader.session.token
        if not token or not self.on:
            return
        stored = given.copy.stored
        header = stored.header
        if stored.messages is not None and header.id not in self._notes:
            self._note(header.id, notes_of(stored.messages, b""))
        self._alone(DELIVERED, token, (header, given.bits, given.messages, given.first), given.at)

    def dealt_with(self, given: "Given", bits: int, count: int) -> None:
        token = given.reader.session.token
        if token and self.on:
            now = self.clock()
            self._alone(DEALT_WITH, token, (given.copy.stored.header, bits, count, now - given.at), now)

    def _alone(
        self, kind: int, who: str, item: tuple[Header, int, int, Any], at: float | None = None
    ) -> None:
        self._open(kind, who, [item], item[2], at)
        if kind <= DEALT_WITH and self._waiting:
            self._wake()

    def happened(self, kind: int, copy: "Copy", bits: int, who: str, why: str = "") -> None:
        """RETURNED, REROUTED, BURIED or DROPPED: to those of `bits` that were not dealt with before."""
        if self.on:
            bits &= copy.all & ~copy.done
            self._alone(kind, who, (copy.stored.header, bits, bits.bit_count(), why))

    def dropped(self, header: Header, why: str) -> None:
        if self.on and not is_internal(header.destination):
            self._alone(DROPPED, "", (header, EVERY, header.count, why))

    def refused(self, session: str, destination: Destination, count: int, why: str) -> None:
        """What was refused has no id. Who goes on and on is recorded once a second."""
        if not self.on or len(destination.name) > _LONGEST_NOTE:
            return
        refusal, now = (session, destination, why), self.clock()
        if refusal != self._refusal or now - self._refused_at >= _REFUSALS_APART:
            self._refusal, self._refused_at = refusal, now
            header = Header(id=b"", destination=destination, count=count)
            self._alone(REFUSED, session, (header, EVERY, count, why))

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
        groups: list[Group] = []
        for group in reversed(self._groups):
            groups.append(group)
            if group[0] <= last_id:
                break
        found = (record for group in reversed(groups) if group[2] in kinds for record in _records(group))
        return [record for record in found if record.id + record.messages - 1 > last_id]

    def of(self, bundles: frozenset[bytes]) -> list[Record]:
        """Everything about some bundles, oldest first."""
        return [
            record
            for group in self._groups
            if any(_header(item).id in bundles for item in group[4])
            for record in _records(group)
            if record.bundle in bundles
        ]

    def senders(self) -> dict[bytes, str]:
        """Which session each bundle that entered here came from."""
        entered = (group for group in self._groups if group[2] == ENTERED)
        return {record.bundle: record.who for group in entered for record in _records(group)}

    def note(self, bundle: bytes, position: int) -> Note | None:
        return next((note for note in self._notes.get(bundle, ()) if note.position == position), None)

    def noted(self, task: str) -> Iterator[tuple[bytes, Note]]:
        """Messages of a task that were decoded here, in the order of their bundles."""
        for bundle, notes in self._notes.items():
            for note in notes:
                if note.task_id == task:
                    yield bundle, note


def _rest(copy: "Copy") -> Part:
    """What of a copy is not dealt with."""
    return copy.stored.header, copy.all & ~copy.done, copy.open, None


def _header(item: Item) -> Header:
    return item[0] if isinstance(item, tuple) else item


def _messages(items: list[Item]) -> int:
    return sum([item[2] if isinstance(item, tuple) else item.count for item in items])


def _records(group: Group) -> Iterator[Record]:
    number, at, kind, who, items = group
    for item in items:
        if isinstance(item, tuple):
            header, bits, messages, extra = item
        else:
            header, bits, messages, extra = item, EVERY, item.count, item.origin if kind == ARRIVED else None
        yield Record(number, at, kind, header.id, messages, bits, header.destination, who, extra)
        number += messages


SYSTEM: Final = "System"
"""The queue of a node's own cell; `System.…` are where its answers go. Applications have neither."""


def is_internal(destination: Destination) -> bool:
    """Is it nodes that talk with each other?"""
    name = destination[1]
    return name[:6] == SYSTEM and name[6:7] in ("", ".") and destination[0] == Kind.QUEUE
