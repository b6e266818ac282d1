"""A neighbour: the node at the other end of a link, whether the link is up or not.

Law of numbers: an entry gets its number when it enters the outbox, in the transaction that is taken next; it
is sent only when that transaction has committed; it leaves the outbox when the peer's position covers it.
`assigned` >= `committed` >= `sent`, and `deleted` <= `sent`.

A consumer here may be given what a neighbour sent before that is committed here. If this node was killed,
the neighbour sends it again. So what that had numbered before the first link after a crash is *doubted*.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import msgspec

from broker.core.links.earlier_holds import EarlierHolds
from broker.core.links.peer_holds import PeerHolds
from broker.core.links.refusals import Refusals
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.queue_names import Spool
from broker.core.messages.tally import Flow
from broker.core.rows import LinkRow
from sapwood.protocol.destinations import Destination
from treeconnector.advisories import Held
from treeconnector.frames import Hello, Member, Position
from treeconnector.hellos import mesh_name
from treeconnector.link import Link, Standing
from treeconnector.permits import Permit
from treeconnector.relations import Relation
from treeconnector.roles import role_of
from treeconnector.wording import counted

_LISTED: Final = 10
_number: Final = attrgetter("number")


class Detail(msgspec.Struct, omit_defaults=True):
    """What else is kept. `down_since`: running time, 0 = up. `gaps`: how often state was lost. `mesh`: the
    other nodes of its mesh. `limited`: it was told last that it may not do everything. `chain`, `above`: who
    is above a parent, as that has said. Mostly there is nothing in a list, and `()` takes no memory.
    """

    incarnation: bytes = b""
    role: str = ""
    zone: str = ""
    down_since: float = 0.0
    gaps: int = 0
    gap_messages: int = 0
    addresses: Sequence[str] = ()
    mesh: Sequence[Member] = ()
    limited: bool = False
    chain: Sequence[str] = ()
    above: Sequence[str] = ()


def _up_to(number: int, entries: list[QueueEntry]) -> list[QueueEntry]:
    """Take those out that are numbered so, or lower: the first ones."""
    count = bisect_right(entries, number, key=_number)
    taken = entries[:count]
    del entries[:count]
    return taken


_ALONE: Final[frozenset[str]] = frozenset()
_COUNTED: Final = ("in", "out", "in_bundles", "out_bundles", "volatile_dropped")


@dataclass(slots=True, eq=False, repr=False)
class Neighbour:
    """Routes, position, outbox and what waits for one neighbour. `link`: None while it is down.

    `former`: nodes that were below it, by when they left. What they sent may still come this way. `untold`:
    nodes below it that have moved, which it is to be told when its link is up. `we_hold`: all that it is to
    keep; `spool_holds`: of these, those that it is to keep while a spool of ours is full. `broken_at`: when
    its link was lost last, or this node started (running time). `away_since`: the same, or before that start,
    if it was away then. `kin`: the other neighbours of its mesh;
    `group`: the smallest name of these and its own. `permit`: what a child may do, since `permitted_at`.
    `refusals`: what it was refused here, `refused_us`: what it has refused this node. `told_refusals`: how
    often this link was told of a refused bundle. `starts_anew`: when the link came up, one of the two had
    lost its state.
    """

    name: str
    relation: Relation
    queue: Queue
    held: Held
    store_id: bytes = b""
    start: int = 0
    epoch: int = 0
    received: int = 0
    assigned: int = 0
    deleted: int = 0
    session: int = 0
    met: int = 0
    committed: int = 0
    sent: int = 0
    acknowledged: int = 0
    will_say: bool = False
    starts_anew: bool = False
    crashed: bool = False
    doubted: int = 0
    detail: Detail = field(default_factory=Detail)
    link: Link | None = None
    blocked: str = ""
    progress_at: float = 0.0
    error: str = ""
    attempts: int = 0
    since: float = 0.0
    broken_at: float = 0.0
    away_since: float = 0.0
    kin: frozenset[str] = _ALONE
    group: str = ""
    dormant: bool = False
    former: dict[str, int] = field(default_factory=dict)
    untold: dict[str, None] = field(default_factory=dict)
    outbox: list[QueueEntry] = field(default_factory=list)
    unsent: list[QueueEntry] = field(default_factory=list)
    outbox_bytes: int = 0
    window_bundles: int = 0
    window_bytes: int = 0
    max_message: int = 0
    wants: OrderedDict[Queue, None] = field(default_factory=OrderedDict)
    peer_holds: PeerHolds = field(default_factory=PeerHolds)
    held_before: EarlierHolds = field(default_factory=EarlierHolds)
    we_hold: PeerHolds = field(default_factory=PeerHolds)
    spool_holds: dict[str, tuple[Destination, Spool]] = field(default_factory=dict)
    permit: Permit = field(default_factory=Permit)
    permitted_at: float = 0.0
    refusals: Refusals = field(default_factory=Refusals)
    refused_us: Refusals = field(default_factory=Refusals)
    told_refusals: int = 0
    flow: Flow = field(default_factory=Flow)
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))
    _bytes_in: int = 0
    _bytes_out: int = 0

    def __post_init__(self) -> None:
        self.group = self.name

    def __repr__(self) -> str:
        state = "up" if self.up else "down"
        return f"<Neighbour {self.name} {self.relation} {state} outbox={len(self.outbox)} epoch={self.epoch}>"

    def stand_with(self, others: Mapping[str, "Neighbour"]) -> None:
        """Which of the others is of its mesh? Those that it lists, and that list it: one alone may lie."""
        listed = (others.get(member.name) for member in self.detail.mesh)
        names = (each.name for each in listed if each is not None and each.lists(self.name))
        self.kin = frozenset(names) or _ALONE
        self.group = mesh_name(self.name, self.kin)

    def lists(self, name: str) -> bool:
        return any(member.name == name for member in self.detail.mesh)

    # --- position

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.received, self.assigned, self.deleted, self.session, self.met)

    @property
    def standing(self) -> Standing:
        return self.standing_at(self.position)

    def standing_at(self, position: Position) -> Standing:
        return Standing(position, self.held.count, self.held.digest)

    def row(self) -> LinkRow:
        return LinkRow(
            self.name,
            self.relation,
            self.store_id,
            self.start,
            self.epoch,
            self.received,
            self.assigned,
            self.deleted,
            self.session,
            self.met,
            msgspec.msgpack.encode(self.detail),
        )

    def restore(self, row: LinkRow) -> None:
        self.store_id, self.start, self.epoch = row.store_id, row.start, row.epoch
        self.received, self.assigned, self.deleted = row.received, row.assigned, row.deleted
        self.session, self.met = row.session, row.met
        self.committed = row.assigned
        self.detail = msgspec.msgpack.decode(row.detail, type=Detail)

    def stand(self, store_id: bytes, position: Position) -> None:
        """Take over a position that was agreed on."""
        self.store_id = store_id
        if position.epoch != self.epoch:
            self.acknowledged = self.doubted = 0
        self.epoch, self.received, self.assigned = position.epoch, position.received, position.assigned
        self.deleted, self.session, self.met = position.deleted, position.session, position.met

    def doubt(self, peer_assigned: int) -> None:
        """The first link after a crash is up: what the peer had numbered may have been here."""
        if self.crashed:
            self.crashed, self.doubted = False, peer_assigned

    @property
    def in_doubt(self) -> bool:
        """Has it still to send what may have been here before a crash?"""
        return self.crashed or self.received < self.doubted

    def empty_outbox(self) -> list[QueueEntry]:
        """Take back everything that has a number; it may have arrived."""
        taken = list(self.outbox)
        self.outbox.clear()
        self.unsent.clear()
        self.outbox_bytes = 0
        for entry in taken:
            entry.number = 0
        return taken

    def take_back(self, wanted: Callable[[QueueEntry], bool]) -> list[QueueEntry]:
        """Take back some of what has a number; the rest is numbered again when the link is up."""
        kept: list[QueueEntry] = []
        taken: list[QueueEntry] = []
        for entry in self.outbox:
            (taken if wanted(entry) else kept).append(entry)
        self.outbox, self.unsent = kept, list(kept)
        self.outbox_bytes = sum(entry.stored.size for entry in kept)
        for entry in taken:
            entry.number = 0
        return taken

    def number_after(self, received: int) -> list[QueueEntry]:
        """Go on after what the peer has. Returns the entries whose numbers are others now: these are to be
        on disk before they are sent.
        """
        numbers = range(received + 1, received + 1 + len(self.outbox))
        if [entry.number for entry in self.outbox] == list(numbers):
            self.assigned = self.committed = received + len(self.outbox)
            return []
        again = self.empty_outbox()
        self.assigned = self.committed = received
        for entry in again:
            self.number(entry)
        return again

    @property
    def is_owed(self) -> bool:
        """Does somebody wait for a commit: we to send, or the peer to hear that we have it?"""
        return self.assigned > self.committed or self.received != self.acknowledged

    # --- outbox

    @property
    def has_room(self) -> bool:
        return (
            self.link is not None
            and "" not in self.peer_holds.destinations
            and len(self.outbox) < self.window_bundles
            and self.outbox_bytes < self.window_bytes
        )

    def holds(self, destination: Destination) -> bool:
        """Does it ask us to keep what is for this destination?"""
        held = self.peer_holds.destinations
        return bool(held) and str(destination) in held

    def number(self, entry: QueueEntry) -> None:
        self.assigned += 1
        entry.number = self.assigned
        self.outbox.append(entry)
        self.unsent.append(entry)
        self.outbox_bytes += entry.stored.size

    def confirmed(self, through: int) -> list[QueueEntry]:
        """The peer has all up to `through`: the entries that are fulfilled by that."""
        gone = _up_to(through, self.outbox)
        self.outbox_bytes -= sum(entry.stored.size for entry in gone)
        self.deleted = max(self.deleted, through)
        return gone

    def sendable(self) -> list[QueueEntry]:
        """Entries whose numbers are committed and that were not yet sent on this link."""
        ready = _up_to(self.committed, self.unsent)
        if ready:
            self.sent = ready[-1].number
        return ready

    def want(self, queue: Queue) -> None:
        """Queue up for room in the outbox; queues are served in turn."""
        if queue not in self.wants:
            self.wants[queue] = None
            queue.wanted += 1

    def next_wanted(self) -> Queue:
        """The queue whose turn it is."""
        queue, _ = self.wants.popitem(last=False)
        queue.wanted -= 1
        return queue

    # --- link

    def may_have(self, members: list[Member]) -> list[Member]:
        """Those of the nodes that it says are of its mesh that it may speak of; a leaf is in none."""
        if self.relation is Relation.CHILD and self.detail.role == "leaf":
            return []
        return [member for member in members if not self.permit.why_not_have(member.name)]

    def connected(self, link: Link, hello: Hello, ours: Hello, now: float) -> None:
        self.link, self.since, self.error = link, now, ""
        self.progress_at = now
        self.start = hello.start
        self.window_bundles = min(hello.window_bundles, ours.window_bundles)
        self.window_bytes = min(hello.window_bytes, ours.window_bytes)
        self.max_message = hello.max_message
        self.held_before.line_is_back(self.peer_holds)
        self.peer_holds.clear()
        self.we_hold.clear()
        self.spool_holds.clear()
        self.told_refusals = 0
        self.queue.end_rest()
        self.detail.incarnation, self.detail.role = hello.incarnation, role_of(hello.role).name
        self.detail.zone, self.detail.mesh = hello.zone, self.may_have(hello.mesh) or ()
        self.detail.addresses, self.detail.down_since = hello.addresses or (), 0.0

    def disconnected(self, now: float, error: str) -> None:
        self._bytes_in, self._bytes_out = self.bytes_in, self.bytes_out
        self.link, self.since, self.error = None, now, error
        self.broken_at = self.away_since = now
        self.blocked = ""
        self.detail.down_since = now

    @property
    def up(self) -> bool:
        return self.link is not None

    @property
    def bytes_in(self) -> int:
        """Bytes on the line, over all links with it since the start."""
        return self._bytes_in + (self.link.bytes_in if self.link is not None else 0)

    @property
    def bytes_out(self) -> int:
        return self._bytes_out + (self.link.bytes_out if self.link is not None else 0)

    @property
    def heard_at(self) -> float | None:
        """When it was heard last; None while there is no link."""
        return self.link.heard_at if self.link is not None else None

    def oldest(self) -> float | None:
        """Since when the oldest bundle is here that it has not acknowledged; None = there is none."""
        times = [self.outbox[0].since] if self.outbox else []
        if self.queue.waiting.since is not None:
            times.append(self.queue.waiting.since)
        return min(times, default=None)

    def figures(self, now: float) -> dict[str, Any]:
        """What is said of a link wherever one is shown; times in seconds."""
        oldest, heard = self.oldest(), self.heard_at
        return {
            "name": self.name,
            "state": self.state,
            "since_s": round(now - self.since, 3),
            "error": self.why,
            "waiting": self.queue.messages,
            "outbox": len(self.outbox),
            "routes": self.held.count,
            "refused": self.refusals.total,
            "refused_us": self.refused_us.total,
            "spool_oldest_s": 0.0 if oldest is None else round(now - oldest, 3),
            "heard_s": None if heard is None else round(now - heard, 3),
            "in": self.counters["in"],
            "out": self.counters["out"],
            "in_per_s": round(self.flow.in_per_s, 3),
            "out_per_s": round(self.flow.out_per_s, 3),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }

    def status(self, now: float, listed: int = _LISTED) -> dict[str, Any]:
        """Everything a person asks of a link. `listed`: the most rules that are shown of what was refused."""
        return {
            **self.figures(now),
            "relation": self.relation,
            "attempts": self.attempts,
            "epoch": self.epoch,
            "received": self.received,
            "assigned": self.assigned,
            "deleted": self.deleted,
            "role": self.detail.role,
            "addresses": self.detail.addresses,
            "gaps": self.detail.gaps,
            "gap_bundles": self.detail.gap_messages,
            "held_by_peer": self.peer_holds.shown(),
            "held_by_peer_total": len(self.peer_holds),
            "dormant": self.dormant,
            "limited": bool(self.permit),
            "refusals": [refused._asdict() for refused in self.refusals.latest()[:listed]],
            "refusals_of_ours": [refused._asdict() for refused in self.refused_us.latest()[:listed]],
            **self.counters,
        }

    @property
    def why(self) -> str:
        """What is wrong, if anything is."""
        if self.up and self.peer_holds:
            return self.blocked or f"{self.name} takes nothing more for {self.peer_holds.text}"
        if self.blocked or self.error or not self.refusals.total:
            return self.blocked or self.error
        latest = self.refusals.latest()[0]
        return f"refused it {counted(latest.times, 'time')}: {latest.rule}"

    @property
    def state(self) -> str:
        if not self.up:
            return "down"
        if self.blocked or self.peer_holds:
            return "blocked"
        return "running"
