"""Admission: whether a bundle or a send may enter this node, and how much of it.

One answer for all that come: from sessions, MQTT clients and the site's broker (`fits`), and from neighbours
(`why_not_take`). Both ask the same, in turn: is it too large, is its destination one, may its sender send
there, and is there room where it would wait: on the disk, in its spool, in its queue, of its sender's share.

Rule 22: a child may only hand over what comes from its own subtree, or what was sent back; and whether a
bundle can be read is known here, from whomever it comes.

Law: only where messages enter the tree is anything refused for want of room. What a neighbour brings is on
its way: it is taken, and its neighbour is asked to keep what follows (`backpressure`, `queue_limits`). Of a
child that goes on in spite of that nothing more is taken (`why_beyond_share`); its link stays, for what goes
down.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from operator import attrgetter
from typing import Final

from broker.core.context import Context
from broker.core.custody.spools import KEPT_TENTHS
from broker.core.errors import QueueFull, SwitchError, TooLarge
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import SITE, Spool, is_internal, queue_name_of
from broker.core.policy import Policy, first_reason
from broker.core.routing.topics import Topics
from broker.core.sessions.rights import Rights
from broker.core.settings import Overflow
from sapwood.protocol.bundles import MAX_BYTES, Flag, Header, Message, Opening, opened
from sapwood.protocol.destinations import Destination, Kind, domain
from sapwood.protocol.errors import FrameError, InvalidName, PatternError
from sapwood.protocol.names import node_name, queue_name
from treeconnector.patterns import check_topic
from treeconnector.relations import Relation

MOST_QUEUES: Final = 200_000
"""With so many queues, whether somebody made them or messages wait in them, no further one is begun."""
_MOST_SAID: Final = 300
_CROWDED: Final = 0.9
_UNREAD: Final = (
    ": nobody here or below reads it, so it would go up; a queue of this node alone is made by"
    " `sapwood queue create NAME --home`"
)
_reply_to_of = attrgetter("properties.reply_to")
_ON_DISK: Final = 2  # in the write-ahead log, and then in the table


@cache
def _limits(up: int, down: int, rerouted: int) -> Mapping[Spool, int]:
    """The nodes of one process are mostly alike in it."""
    return {Spool.UP: up, Spool.DOWN: down, Spool.REROUTED: rerouted}


class MessageAdmission:
    """Of one node.

    `disk_room`: bytes of disk that messages may still take; what enters is counted off at once, since the
    disk itself shows it only after the commit, and the node measures anew from time to time. `memory_room`:
    bytes of memory that the process may still take before it takes no more, as measured last. `disk_stands`:
    a commit has not ended for long. `refused`: messages of clients that were not taken since the start, by
    the error's code. `limits`: bytes by spool; `child_share`: of what one child sent.
    """

    __slots__ = (
        *("_context", "_largest", "_least", "_lookup", "_policies", "_queues", "_sizes", "_table", "_topics"),
        *("child_share", "disk_room", "disk_stands", "limits", "memory_room", "refused"),
    )

    def __init__(self, context: Context, lookup: Lookup, topics: Topics) -> None:
        self._context = context
        self._lookup = lookup
        self._topics = topics
        self._policies = context.policies
        self._table = context.table
        self._sizes = context.custody.spools
        settings = context.settings
        self._queues = context.custody.queues
        self._largest = max(settings.max_message, MAX_BYTES)
        self.limits = _limits(settings.spool_up, settings.spool_down, settings.spool_rerouted)
        self._least = min(self.limits.values())
        self.disk_stands = False
        self.disk_room: float = math.inf
        self.memory_room: float = math.inf
        self.refused: Counter[str] = Counter()
        self.child_share = settings.child_waiting

    def __repr__(self) -> str:
        return f"<MessageAdmission at {self._context.name} full={[str(spool) for spool in self.full()]}>"

    # --- room

    def full(self) -> list[Spool]:
        if sum(self._sizes.values()) < self._least:
            return []
        return [spool for spool, limit in self.limits.items() if self._sizes[spool] >= limit]

    @property
    def closed(self) -> str:
        """Why nothing at all is taken from clients now, '' if it is."""
        name = self._context.name
        if self.disk_stands:
            return f"the disk of node {name} does not answer"
        if self.disk_room <= 0:
            return f"the disk of node {name} is nearly full: make space"
        if self.memory_room <= 0:
            return f"node {name} is near the limit of its memory: give it more, or drain its queues"
        return ""

    @property
    def refusing(self) -> str:
        """Why some messages of clients are refused now, '' if none is."""
        full = [spool for spool in self.full() if spool is not Spool.REROUTED]
        return self._text(full[0]) if full else ""

    def _text(self, spool: Spool) -> str:
        name = self._context.name
        return f"the spool '{spool}' of node {name} is full: messages that go that way are refused"

    def why_full(self, destination: Destination, scope: int) -> str:
        """Why there is no room in the spool where a client's message would wait, '' if there is."""
        full = self.full()
        if not full:
            return ""
        ways = self.spools_of(destination, scope)
        return next((self._text(spool) for spool in full if spool in ways), "")

    def _why_crowded_out(self, destination: Destination) -> str:
        """Why a queue that nobody reads takes no more of this node's disk, '' if it does."""
        limit = self.limits[Spool.UP]
        if destination.kind != Kind.QUEUE or 10 * self._sizes[Spool.UP] < KEPT_TENTHS * limit:
            return ""
        queue = self._context.custody.queue_for(destination)
        if not self._sizes.is_crowded_out(queue, self._lookup.targets(queue), limit):
            return ""
        node = self._context.name
        return f"nobody reads {destination}, and the rest of the spool 'up' of node {node} is for others"

    def spools_of(self, destination: Destination, scope: int) -> set[Spool]:
        """Where a message would wait that a client sends here."""
        if destination.kind == Kind.TOPIC:
            return self._topics.ways(destination, scope)
        return {self._lookup.spool_of(self._context.custody.queue_for(self._lookup.address(destination)))}

    def stored(self, size: int) -> None:
        """So many bytes of a client's messages were taken: they need room on the disk."""
        self.disk_room -= _ON_DISK * size

    # --- what clients and the site's broker send

    def check_rights(
        self,
        rights: Rights,
        destination: Destination,
        messages: Sequence[Message],
        named: Callable[[str], Destination],
    ) -> None:
        """Raises `SwitchError` for what an application may not send, or may not have an answer to.

        `named` reads a name as a queue to send to.
        """
        if not rights.limited:
            return
        try:
            rights.check_send(destination)
            for message in messages:
                rights.check_reply(message.properties.reply_to, named)
        except SwitchError as error:
            self.refused[error.code] += len(messages)
            raise

    def check_answers(self, destination: Destination, messages: Sequence[Message], scope: int) -> None:
        """Raises `SwitchError` for a `reply_to` that the nodes above would refuse, if it goes there alone."""
        wanted = set(map(_reply_to_of, messages)) - {""}
        if not wanted or not self._context.parents or not self._goes_up_alone(destination, scope):
            return
        for reply_to in wanted:
            if why := self._policies.ask(Policy.why_not_answer, reply_to):
                self.refused[SwitchError.code] += len(messages)
                raise SwitchError(why)

    def fits(
        self, destination: Destination, sender: str, count: int, size: int, scope: int, gathered: int
    ) -> int:
        """How many of `count` messages may enter. Raises `QueueFull` if none may, or `TooLarge`.

        `gathered`: messages of this sender for this destination that are in no bundle yet.

        Those of the site's broker wait until there is room, and are not refused.
        """
        try:
            fits = self.room(destination, sender, count, size, scope, gathered)
        except SwitchError as error:
            if sender != SITE or not isinstance(error, QueueFull):
                self.refused[error.code] += count
            raise
        if fits < count and sender != SITE:
            self.refused[QueueFull.code] += count - fits
        return fits

    def check_open(self) -> None:
        """Raises `QueueFull` if nothing more may be kept here, wherever it would wait."""
        if closed := self.closed:
            raise QueueFull(f"QUEUE_FULL: {closed}")

    def room(
        self, destination: Destination, sender: str, count: int, size: int, scope: int, gathered: int
    ) -> int:
        """As `fits`, and counts nothing: a question."""
        if is_internal(destination):
            raise SwitchError(f"REFUSED: {destination} is for nodes: ask a node through its HTTP API")
        destination = self._lookup.address(destination)
        self.check_open()
        why = first_reason(policy.why_not_above(destination) for policy in self._policies.why_not_above)
        if why and self._goes_up_alone(destination, scope):
            raise SwitchError(
                why + (_UNREAD if destination.kind == Kind.QUEUE and not destination.node else "")
            )
        if size > self._largest:
            most = self._context.settings.max_message
            raise TooLarge(f"{size} bytes: this node takes messages of at most {most}")
        full = first_reason(
            policy.why_not_enter(destination) for policy in self._policies.why_not_enter
        ) or self.why_full(destination, scope)
        full = full or self._why_crowded_out(destination)
        if full:
            raise QueueFull(f"QUEUE_FULL: {full}")
        if destination.kind != Kind.QUEUE:
            return count
        if len(self._queues) >= MOST_QUEUES and queue_name_of(destination) not in self._queues:
            raise QueueFull(f"QUEUE_FULL: node {self._context.name} has {MOST_QUEUES} queues: drain some")
        room = self._room_in_queue(destination, sender, count, gathered)
        if room <= 0:
            raise self.no_room(destination)
        return min(count, room)

    def no_room(self, destination: Destination) -> QueueFull:
        """The refusal of a message that a queue here, or its sender's share of it, has no room for."""
        policy = self._context.custody.queue_for(self._lookup.address(destination)).policy
        quota = self._context.settings.queue_quota
        return QueueFull(
            f"QUEUE_FULL: {destination} has no room for more: max_messages is {policy.max_messages}, "
            f"max_bytes {policy.max_bytes}, and queue_quota {quota} messages of one sender"
        )

    def _goes_up_alone(self, destination: Destination, scope: int) -> bool:
        """Would a message that enters here go to a parent, and to nobody else?

        One for which the parent is still to be asked would: to what may not go up it says yes (`Demand`).
        """
        if destination.kind == Kind.TOPIC:
            return self._topics.goes_up_alone(destination, scope)
        queue = self._context.custody.queue_for(self._lookup.address(destination))
        targets = self._lookup.targets(queue, waits=False)
        return bool(targets) and not queue.consumers and targets <= self._context.parents.keys()

    def _room_in_queue(self, destination: Destination, sender: str, room: int, gathered: int) -> int:
        """Of `room` messages more of a sender. The site's broker has many senders, so no quota."""
        queue = self._context.custody.queue_for(destination)
        policy = queue.policy
        if sender != SITE:
            room = self._context.settings.queue_quota - queue.senders.get(sender, 0) - gathered
        if policy.overflow is Overflow.REFUSE:
            room = min(room, policy.max_messages - queue.messages - gathered)
            room = 0 if queue.size >= policy.max_bytes else room
            if queue.messages > _CROWDED * policy.max_messages and _is_largest(queue, sender):
                room = 0
        return room

    # --- what neighbours bring

    def why_not_take(self, neighbour: Neighbour, header: Header, body: bytes) -> str:
        """Why a bundle cannot be taken on; '' if it can.

        A body that is not what its header says would fail again at every node and consumer that it reaches,
        and what was given together with it would fail with it. So it is opened here once, and dropped.
        """
        if header.size > self._largest:
            return f"TOO_LARGE: {header.size} bytes unpacked, of {self._largest} at most"
        try:
            check_destination(header.destination)
        except (InvalidName, PatternError) as error:
            return f"DESTINATION: {error}"
        try:
            if neighbour.relation is Relation.CHILD:
                return self._why_not_from_child(neighbour, header, Opening(header, body), body)
            opened(header, body)
        except FrameError as error:
            return f"UNREADABLE: {error}"[:_MOST_SAID]
        return ""

    def _why_not_from_child(self, neighbour: Neighbour, header: Header, opening: Opening, body: bytes) -> str:
        """It speaks for its own nodes only, and its permit is asked. Raises `FrameError` if unreadable."""
        given_back = header.flags & (Flag.REROUTED | Flag.MAYBE_DUPLICATE)
        if not given_back and not self.is_from_below(neighbour, header.origin):
            return f"ORIGIN: {header.origin[:64]!r} is not below {neighbour.name}"
        why = first_reason(
            policy.why_not_take(neighbour, header, body, opening) for policy in self._policies.why_not_take
        )
        if not why:
            opening.properties()
        return why

    def is_from_below(self, neighbour: Neighbour, origin: str) -> bool:
        """Is a node a child, one of its mesh, or is it or was it below these?"""
        if origin == neighbour.name or origin in neighbour.former or origin in neighbour.kin:
            return True
        below = domain(origin)
        return self._table.route(below, neighbour.name) is not None or any(
            self._table.route(below, name) is not None for name in neighbour.kin
        )

    def why_beyond_share(self, neighbour: Neighbour) -> str:
        """Why nothing more of a child is taken now, else empty. It was asked to keep the rest and goes on, or
        its line breaks so often that what was on the way each time has come to that.
        """
        if not self.is_over_share(neighbour) or "" not in neighbour.we_hold:
            return ""
        share, most = self.child_share, self._context.settings.max_message
        if self._sizes.came[neighbour.name] <= share + share // 4 + 4 * most:
            return ""
        return (
            f"SHARE: {neighbour.name} goes on though as much of what it sent waits here as may, {share} bytes"
            " (max_waiting): it was asked to keep the rest, and keeps it until there is room"
        )

    def is_over_share(self, neighbour: Neighbour) -> bool:
        """Does so much wait here of one child with permits that it is to keep the rest?"""
        waiting = self._sizes.came.get(neighbour.name, 0)
        return waiting >= self.child_share and bool(neighbour.permit)

    def is_tight(self, neighbour: Neighbour, destination: Destination) -> bool:
        """A bundle was taken: is it to be looked at whether its neighbour must keep what follows?"""
        came = self._sizes.came.get(neighbour.name, 0)
        return bool(destination.node or came >= self.child_share or self.full())


@lru_cache(maxsize=4096)
def check_destination(destination: Destination) -> None:
    """A queue is named after it, and read again at the next start. Raises if it is none."""
    if destination.node:
        node_name(destination.node)
    if destination.kind == Kind.TOPIC:
        check_topic(destination.name)
    else:
        queue_name(destination.name)


def _is_largest(queue: Queue, sender: str) -> bool:
    """When a queue is nearly full, whoever has most in it is refused first."""
    mine = queue.senders.get(sender, 0)
    return len(queue.senders) > 1 and mine == max(queue.senders.values())
