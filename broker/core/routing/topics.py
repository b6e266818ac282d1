"""Topics: one message to every subscriber, each once (rule 11).

A topic bundle is stored once; each subscription here and each link that it goes over gets an entry of its
own. Where it may travel was decided at its entry: `vertical` to the entry node's subtree and its ancestors
as far as they asked for it; `tree` everywhere.
"""

from collections import Counter
from typing import Final, NamedTuple

from msgspec.structs import replace

from broker.core.context import Context
from broker.core.errors import BadRequest
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, StoredBundle
from broker.core.messages.queue_names import SUBSCRIPTION, UPWARD, Spool
from broker.core.messages.retained import Retained, kept_of, value_of
from broker.core.policy import Policy
from broker.core.routing.earlier_writers import EarlierWriters
from broker.core.routing.fan_out import FanOut
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.greetings import Greetings, Reader
from broker.core.routing.subscriptions import Subscription, space_of, subscription_id
from broker.core.routing.upward import Upward
from broker.core.rows import RetainedRow, SubscriptionRow
from broker.core.settings import Overflow
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header, Scope
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import FrameError
from treeconnector.relations import Relation
from treeconnector.routes import LOCAL
from treeconnector.trie import PatternTrie

MOST_DURABLE: Final = 100_000
MOST_DURABLE_OF_ONE: Final = 10_000
_ALL: Final = ""


class TopicReach(NamedTuple):
    """A topic's message at one node: `readers` here, the neighbours to which it goes `onward`, and how many
    children it has `passed_by` though nodes below them ask for it, since its scope does not reach them.
    """

    scope: int
    readers: int
    onward: list[str]
    passed_by: int

    def __str__(self) -> str:
        scope = Scope(self.scope).name.lower()
        onward = f"{len(self.onward)} neighbours onward"
        return f"{self.readers} readers here, {onward}, {self.passed_by} children passed by, scope {scope}"


class Topics:
    """Subscriptions of this node, retained messages, and the fan-out of topic bundles."""

    __slots__ = (
        *("_context", "_custody", "_durable", "_forwarder", "_lookup", "_policies", "_trie", "_upward"),
        *("earlier_writers", "fan_out", "greetings", "retained", "subscriptions"),
    )

    def __init__(self, context: Context, forwarder: Forwarder, lookup: Lookup, upward: Upward) -> None:
        self._context = context
        self._upward = upward
        self._forwarder = forwarder
        self._lookup = lookup
        self._custody = context.custody
        self._trie: PatternTrie[Subscription] = PatternTrie()
        self.subscriptions: dict[str, Subscription] = {}
        self._durable: Counter[str] = Counter()
        self.retained = Retained()
        self._policies = context.policies
        self.greetings = Greetings(
            context, lookup, self.retained, self.subscriptions, self._give, self.forget
        )
        self.fan_out = FanOut(context, self.subscriptions, self._trie.match, self._give_live)
        self.earlier_writers = EarlierWriters(context, self.retained, self.greetings)

    def __repr__(self) -> str:
        return f"<Topics subscriptions={len(self.subscriptions)} retained={len(self.retained)}>"

    # --- subscriptions

    def subscribe(self, session: str, name: str, pattern: str) -> tuple[Subscription, bool]:
        """The session's subscription, and whether it is new. Subscribing again to the same is the same.

        Caller's duty: what `find` has under that name with another pattern is ended before.
        """
        found = self.find(session, name, pattern)
        if found is not None:
            found.seen = self._context.clock.now
            self._put(found)
            return found, False
        made = self._add(session, name, pattern, self._context.clock.now)
        made.begins = self._custody.next_row
        return made, True

    def find(self, session: str, name: str, pattern: str) -> Subscription | None:
        return self.subscriptions.get(subscription_id(session, name, pattern))

    def durable(self, session: str, name: str) -> Subscription | None:
        """The session's durable subscription of that name."""
        return self.subscriptions.get(subscription_id(session, name, "")) if name else None

    def deaf_to(self, sender: str, name: str) -> tuple[str, ...]:
        """Names of the sender's durable subscriptions that are not given what it sends to a topic."""
        return tuple(each.name for each in self._trie.match(name) if each.name and each.is_deaf_to(sender))

    def check_room(self, session: str, more: int = 1) -> None:
        """Before it gets so many more durable subscriptions. Raises `BadRequest`.

        They outlive their sessions, so they are counted for all of an account, whose sessions' names begin
        alike, and for all that there are.
        """
        space = space_of(session)
        if space and self._durable[space] + more > MOST_DURABLE_OF_ONE:
            most, whose = MOST_DURABLE_OF_ONE, f"sessions called {space[:40]}… have"
        elif self._durable[_ALL] + more > MOST_DURABLE:
            most, whose = MOST_DURABLE, "this node has"
        else:
            return
        raise BadRequest(f"{whose} {most} durable subscriptions, and none more is taken: end some first")

    def restore(self, row: SubscriptionRow) -> Subscription:
        session, _, name = row.session.partition("\n")
        return self._add(session, name, row.pattern, row.seen / 1000)

    def _add(self, session: str, name: str, pattern: str, seen: float) -> Subscription:
        queue = self._custody.queue_named(SUBSCRIPTION + subscription_id(session, name, pattern))
        queue.pattern = pattern
        made = Subscription(session, name, pattern, queue, seen)
        self.subscriptions[made.id] = made
        if name:
            self._count(session, 1)
        self._trie.add(pattern, made)
        self._put(made)
        return made

    def _put(self, subscription: Subscription) -> None:
        self._custody.transaction.put(subscription.row())

    def end(self, subscription: Subscription) -> None:
        """The subscription is over; what waits for it goes, and is counted."""
        self._trie.remove(subscription.pattern, subscription)
        self.end_several(subscription)
        self._custody.transaction.delete(SubscriptionRow, subscription.id)

    def several(self, session: str, name: str) -> Subscription:
        """A subscription to any number of patterns, which is given a message once; for one that is not a
        client, and keeps its patterns itself. Deaf to its own.
        """
        queue = self._custody.queue_named(SUBSCRIPTION + name)
        made = Subscription(session, "", "", queue, self._context.clock.now)
        made.deaf = made.attached = True
        self.subscriptions[made.id] = made
        return made

    def end_several(self, subscription: Subscription) -> None:
        """It has no patterns any more, and is over."""
        queue = subscription.queue
        self._context.counters["unsubscribed"] += queue.messages
        left = queue.empty()
        self._policies.tell(Policy.abandoned, left)
        del self.subscriptions[subscription.id]
        if subscription.name:
            self._count(subscription.session, -1)
        self._custody.queues.pop(queue.name, None)

    def _count(self, session: str, sign: int) -> None:
        for space in {_ALL, space_of(session)}:
            self._durable[space] += sign
            if not self._durable[space]:
                del self._durable[space]

    def add_pattern(self, subscription: Subscription, pattern: str) -> None:
        self._trie.add(pattern, subscription)

    def remove_pattern(self, subscription: Subscription, pattern: str) -> None:
        self.greetings.end(subscription, pattern)
        self._trie.remove(pattern, subscription)

    # --- fan-out

    def publish(self, stored: StoredBundle, came: str, *, down_only: bool = False, sender: str = "") -> None:
        """A topic bundle is here: to everybody who must have it, never back where it came from.

        `down_only`: it followed this node here, and is for nobody but this node and those below it. `sender`:
        the session here that sent it.
        """
        header = stored.header
        if _is_asked_for(header) and not down_only and came not in self._context.table.apart:
            self._upward.published(header.destination.name)
        onward = self._onward(header, came, down_only)
        if header.flags & Flag.RETAINED and (end := self._retain(stored, came, sender, onward)):
            self._custody.trace.dropped(header, end)
            return
        header = stored.header
        reached = self._locally(stored, came, sender)
        for neighbour in onward:
            self._greet_first(neighbour, header)
            if neighbour.name in self._context.parents and stored.row and (queue := self._before(header)):
                if self._add_to(queue, stored, came, neighbour.name):
                    self._forwarder.dispatch(queue)
            else:
                self.copy_to(neighbour, stored, came)
            reached = True
        if self._context.lacks_parent and header.scope == Scope.TREE and stored.row and not down_only:
            self._copy(stored, self._custody.queue_named(UPWARD), came)
            reached = True
        if not reached:
            self._context.counters["unmatched"] += header.count
            self._custody.trace.dropped(header, "no subscriber")

    def _greet_first(self, reader: Reader, header: Header) -> None:
        if self.greetings:
            renewed = bool(header.flags & Flag.RETAINED)
            self.greetings.before(reader, header.destination.name, renewed=renewed)

    def _before(self, header: Header) -> Queue | None:
        """Where a message waits before it waits for the parent's link, None if it need not.

        What came before there was a parent goes first; so does what waits for an answer from above.
        """
        orphans, name = self._custody.queues.get(UPWARD), header.destination.name
        if orphans is not None and orphans.waiting:
            return orphans
        is_undecided = _is_asked_for(header) and self._upward.is_wanted(name) is None
        return self._upward.queue_of(name) if is_undecided or name in self._upward.waiting else None

    def _locally(self, stored: StoredBundle, came: str, sender: str) -> bool:
        matched = self._trie.match(stored.header.destination.name)
        if stored.header.flags & Flag.RETAINED and self.greetings:
            for reader in matched:
                self._greet_first(reader, stored.header)  # before what it replaces is given
        if sender:
            matched = {each for each in matched if not each.is_deaf_to(sender)}
        self.fan_out.publish(stored, came, sender, matched)
        return bool(matched)

    def _give_live(self, subscription: Subscription, stored: StoredBundle, came: str) -> None:
        self._greet_first(subscription, stored.header)
        self.give(subscription, stored, came)

    def give(self, subscription: Subscription, stored: StoredBundle, came: str) -> None:
        """To this one, whether it asked or not."""
        if stored.row or self._forwarder.takes_volatile(subscription.queue):
            self._copy(stored, subscription.queue, came)
        else:
            self._context.counters["volatile_dropped"] += stored.header.count

    def _copy(self, stored: StoredBundle, queue: Queue, came: str) -> None:
        entry = self._custody.add(stored, queue, came, self._context.clock.now)
        queue.waiting.append(entry)
        self._forwarder.dispatch(queue)

    def _onward(self, header: Header, came: str, down_only: bool) -> list[Neighbour]:
        context, parents = self._context, self._context.parents
        asked = context.table.match(header.destination.name).gateways
        from_below = came != "" and came not in parents
        down = down_only or header.scope == Scope.TREE or not from_below
        found = [
            context.neighbours[name]
            for name in asked
            if name not in (LOCAL, came) and name in context.neighbours and name not in parents
        ]
        if self._lookup.meshed:
            found = self._in_mesh(header, came, asked, down)
            down = True
        onward = found if down else []
        if came not in parents and not down_only and came not in context.table.mesh:
            parent = self._lookup.parent_for(header.destination)
            if parent is not None and self._is_wanted_above(header):
                onward.append(parent)
        return onward

    def _is_wanted_above(self, header: Header) -> bool:
        """As far as is known. A message without an answer goes that way, and waits for it."""
        name = header.destination.name
        if _is_asked_for(header):
            return self._upward.is_wanted(name) is not False
        return header.scope == Scope.TREE or self._upward.is_asked_above(name)

    def is_wanted_off(self, destination: Destination, came: str) -> bool | None:
        """Would a message with scope `tree` of that neighbour go to anybody from here? None: not known."""
        header = Header(id=b"", destination=destination, scope=Scope.TREE)
        if LOCAL in self._context.table.match(destination.name).gateways:
            return True
        onward = self._onward(header, came, down_only=False)
        if any(each.name not in self._context.parents for each in onward):
            return True
        return self._upward.is_wanted(destination.name)

    def _in_mesh(self, header: Header, came: str, asked: frozenset[str], down: bool) -> list[Neighbour]:
        """Below as far as it may go; the other nodes of the mesh as this one, and retained ones always."""
        context = self._context
        found = self._lookup.fan_out(asked, came, header.destination)
        if header.flags & Flag.RETAINED and came not in context.table.mesh:
            found += [context.neighbours[name] for name in context.table.mesh if name not in asked]
        return [each for each in found if down or each.relation is Relation.MESH]

    def reach(self, destination: Destination, scope: int, came: str = "") -> TopicReach:
        """Where a topic's message would go from here now, for people. `scope`: -1 = as the file says."""
        context = self._context
        scope = scope if scope in (0, 1) else int(context.settings.policy(destination).scope)
        header = Header(id=b"", destination=destination, scope=scope)
        onward = self._onward(header, came, down_only=False)
        served = {each.group for each in onward} | {came}
        asked = (context.neighbours.get(name) for name in context.table.match(destination.name).gateways)
        children = [each for each in asked if each is not None and each.relation is Relation.CHILD]
        passed = {each.group for each in children if each.name != came} - served
        if came in context.table.mesh:
            passed = set()  # the other node of the mesh has the same children, and says it of them
        return TopicReach(
            scope, len(self._trie.match(destination.name)), sorted(each.name for each in onward), len(passed)
        )

    def ways(self, destination: Destination, scope: int) -> set[Spool]:
        """Where a topic's message waits that enters here."""
        header = Header(id=b"", destination=destination, scope=scope)
        context = self._context
        found = {
            Spool.UP if neighbour.name in context.parents else Spool.DOWN
            for neighbour in self._onward(header, "", down_only=False)
        }
        orphan = context.lacks_parent and scope == Scope.TREE
        return found | {Spool.UP} if orphan or self._trie.match(destination.name) else found

    def goes_up_alone(self, destination: Destination, scope: int) -> bool:
        """Would a message that enters here go to parents, and to nobody else?"""
        header = Header(id=b"", destination=destination, scope=scope)
        names = {neighbour.name for neighbour in self._onward(header, "", down_only=False)}
        return (
            bool(names) and names <= self._context.parents.keys() and not self._trie.match(destination.name)
        )

    def copy_to(self, neighbour: Neighbour, stored: StoredBundle, came: str) -> None:
        """One entry for a neighbour, however many of its filters match."""
        forwarder = self._forwarder
        if not stored.row:
            if not forwarder.send_volatile(neighbour, stored):
                neighbour.counters["volatile_dropped"] += stored.header.count
            return
        queue = neighbour.queue
        if not self._add_to(queue, stored, came, neighbour.name):
            return
        queue.targets = frozenset((neighbour.name,))
        forwarder.dispatch(queue)
        if self._lookup.meshed and not neighbour.up:
            self._policies.tell(Policy.waits_for_lost, neighbour)

    def _add_to(self, queue: Queue, stored: StoredBundle, came: str, whom: str) -> bool:
        """Let it wait for a neighbour, as far as the topic's policy lets so much wait."""
        entry = self._custody.add(stored, queue, came, self._context.clock.now)
        policy = self._context.settings.policy(stored.header.destination)
        if queue.messages > policy.max_messages or queue.size > policy.max_bytes:
            if policy.overflow is not Overflow.DROP_OLDEST or not queue.waiting:
                self._custody.bury(entry, f"QUEUE_FULL for {whom}")
                return False
            self._custody.bury(queue.waiting.popleft(), f"QUEUE_FULL for {whom}")
        queue.waiting.append(entry)
        return True

    # --- retained messages

    def _retain(self, stored: StoredBundle, came: str, sender: str, onward: list[Neighbour]) -> str:
        """Keep it, and tell those whose value it replaces. Returns why it ends here, '' if it goes on."""
        replaces, kept = stored.header.replaces, self.retained.get(stored.header.destination.name)
        is_known = self.retained.knows(stored.header)
        told = self.earlier_writers.meet(stored, came, onward)
        if told is None:
            return "whom it is for has written another one"
        if not replaces or (kept is not None and value_of(kept[0]) == replaces):
            self._keep(stored, came, sender)
        for child, value in told:
            header = replace(stored.header, replaces=value)
            self.copy_to(child, self._custody.store(header, stored.body or b"", stored.since), came)
        return "all who ask for it here have it" if is_known else ""

    def _keep(self, stored: StoredBundle, came: str, sender: str) -> None:
        """Keep the last message of a retained bundle; an empty payload clears."""
        header = stored.header
        body = stored.body if stored.body is not None else b""
        try:
            last = kept_of(header, body, stored.since)
        except FrameError:
            self._context.counters["unreadable"] = self._context.counters.get("unreadable", 0) + 1
            return
        name = header.destination.name
        if last is None or not all(policy.may_retain(header, sender) for policy in self._policies.may_retain):
            self.forget(name)
            return
        if self.retained.knows(header):
            return
        kept, small = last
        neighbour = self._context.neighbours.get(came)
        if neighbour is not None and neighbour.permit and not self.retained.has_room(name, header.origin):
            neighbour.refusals.add(f"RETAINED: of {header.origin} no more topics are kept, not {name}")
            return
        before = self.retained.get(name)
        if before is None or (before[0].id, before[0].done) != (kept.id, kept.done):
            self._policies.tell(Policy.retained_anew, name)
        gone = self.retained.put(name, kept, small)
        self._custody.transaction.put(RetainedRow(name, bundles.encode_header(kept), small))
        for topic_gone in gone:
            self._custody.transaction.delete(RetainedRow, topic_gone)
            self._tell_forgotten(topic_gone)
        counters = self._context.counters
        if gone:
            counters["retained_overflow"] = counters.get("retained_overflow", 0) + len(gone)

    def forget(self, name: str) -> None:
        """Nothing is retained for this topic here, or no more."""
        if self.retained.forget(name):
            self._custody.transaction.delete(RetainedRow, name)
        self._tell_forgotten(name)

    def _tell_forgotten(self, name: str) -> None:
        self._policies.tell(Policy.forgotten, name)

    def reads(self, subscription: Subscription, name: str) -> bool:
        """Is a subscription of many patterns given this topic?"""
        return subscription in self._trie.match(name)

    def greet(self, subscription: Subscription, pattern: str = "") -> None:
        """Give a new subscription, or a new pattern of it, the retained messages that match."""
        self.greetings.begin(subscription, pattern or subscription.pattern)

    def greet_neighbour(self, neighbour: Neighbour, key: Destination) -> None:
        """A neighbour asks for a pattern for the first time: the retained messages follow."""
        if neighbour.relation is not Relation.MESH:
            self.greetings.begin(neighbour, key.name)

    def greet_mesh(self, neighbour: Neighbour) -> None:
        """A node is new in the mesh: it keeps all retained messages, as the others do. No reader asked."""
        self.greetings.begin(neighbour, "#")

    def _give(self, reader: Reader, stored: StoredBundle) -> None:
        if isinstance(reader, Subscription):
            self._copy(stored, reader.queue, "")
        else:
            self.copy_to(reader, stored, "")


def _is_asked_for(header: Header) -> bool:
    """Does it go up only where somebody wants it? A retained one is kept there for later readers."""
    return header.scope == Scope.TREE and not header.flags & Flag.RETAINED
