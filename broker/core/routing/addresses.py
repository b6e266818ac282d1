"""Logical addresses: which incarnation of which node is where, and what becomes of messages to one of them.

Each node knows its neighbours by the handshake, and the nodes below it because each change is told up once,
on the next frame. So the root knows all; a node that does not know asks up (`questions`). What an answer said
is taken back where it was said, and nowhere else: nothing is ever told to all stores.

Law: identity is what a handshake proves, never a socket address. A message for `cell@UUID` waits in the queue
of that address, on disk, while it is asked for; then it takes the way to the node's name; and where that
incarnation is known to be over it is a dead letter, `UNKNOWN_INCARNATION`. No message for one incarnation
reaches another.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from broker.core.clock import PART, Parts
from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, StoredBundle
from broker.core.policy import Policy
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.questions import Questions
from sapwood.protocol.destinations import Destination, Kind, domain
from sapwood.protocol.names import LOCAL, incarnation_text, is_incarnation
from treeconnector import link_events as events
from treeconnector.address_frames import whereabouts
from treeconnector.addresses import LEAST, AddressCache, ClaimedTwice, Entry
from treeconnector.frames import Whereabouts
from treeconnector.identity import new_uuid
from treeconnector.relations import Relation

UNKNOWN_INCARNATION: Final = "UNKNOWN_INCARNATION"


class LogicalAddresses(Policy):
    """The logical addresses that one node knows. `counters`: entries and keys of the frames about them.

    `knew_others`: at the start this node had neighbours already, which may not be back yet. `news`: is there
    anything to `settle`?
    """

    def __init__(
        self, context: Context, forwarder: Forwarder, lookup: Lookup, dispatcher: Dispatcher
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._lookup = lookup
        self._dispatcher = dispatcher
        self.identity = context.identity
        self.addresses: list[str] = []
        self.cache = AddressCache(self.capacity)
        self.counters = Counter(
            dict.fromkeys(("who_has_in", "who_has_out", "i_have_in", "i_have_out"), 0)
            | dict.fromkeys(("invalidate_in", "invalidate_out", "not_believed"), 0)
        )
        self.questions = Questions(context, lookup, self)
        self.knew_others = False
        self._below: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._untold: dict[str, None] = {}
        self._unasked: dict[str, None] = {}
        self.news = True
        self._told_to: dict[str, set[bytes]] = {}
        self._expires = False
        self._lost = Parts(context.clock, self._bury_some)
        self._answer_to(self.identity.incarnation)
        context.table.watch(self._route_changed)

    def __repr__(self) -> str:
        return f"<LogicalAddresses of {self._context.name} {self.cache!r}>"

    def capacity(self) -> int:
        """Twice the nodes below: all of them, and as many that were asked for."""
        return self._context.settings.address_cache or max(LEAST, 2 * len(self._below))

    def _answer_to(self, incarnation: bytes) -> None:
        self.own = incarnation_text(incarnation)
        self._lookup.mine = self._context.custody.mine = frozenset((self._context.name, self.own))

    def begin(self) -> None:
        """After a start: what was known of the neighbours, and everything that waits, is looked at."""
        neighbours = self._context.neighbours.values()
        self.knew_others = any(each.relation is Relation.CHILD for each in neighbours)
        for neighbour in neighbours:
            detail = neighbour.detail
            if detail.incarnation:
                self._keep(neighbour, whereabouts(neighbour.name, detail.incarnation, detail.addresses))

    def _expire(self) -> None:
        self.cache.expire(self._context.clock.now)
        self._expires = any(not entry.is_kept for entry in self.cache)
        if self._expires:
            self._context.clock.after(self._context.settings.address_lifetime, self._expire)

    # --- this node

    @property
    def myself(self) -> Whereabouts:
        return whereabouts(self.identity.name, self.identity.incarnation, self.addresses)

    def announce(self, addresses: list[str]) -> None:
        """This node can be dialled at other addresses now: its neighbours hear of it on the next frame."""
        if addresses != self.addresses:
            self.addresses = addresses
            for neighbour in self._context.neighbours.values():
                self._say(neighbour, [self.myself])

    def rejoin(self) -> None:
        """Goodbye was said: whoever comes back is another incarnation."""
        before = self.own
        self.identity = replace(self.identity, incarnation=new_uuid(self._context.random_bytes))
        self._answer_to(self.identity.incarnation)
        for queue in self._context.custody.directed.get(before, {}).values():
            queue.consumers = []
        self.bury(before)

    def end(self) -> None:
        """This start of the node is about to end: who asks for it from now on learns that at once."""
        for neighbour in self._context.neighbours.values():
            self._invalidate(neighbour, self.identity.incarnation)

    # --- what a look-up asks

    def named(self, destination: Destination) -> Destination | None:
        """`cell@UUID` by the name that the incarnation has; None if it is not known here."""
        entry = self.cache.find(destination.node, self._context.clock.now)
        return None if entry is None else destination._replace(node=entry.found.name)

    def is_unknown(self, queue: Queue) -> None:
        """Something waits for an incarnation that is not known: ask."""
        assert queue.destination is not None
        if self.questions.ask(queue.destination.node):
            self._unasked[queue.destination.node] = None
            self.news = True

    def waiting(self) -> int:
        """Messages that wait for an address that is being asked for."""
        directed = self._context.custody.directed
        keys = {*self.questions.waits_here(), *self._unasked}
        return sum(queue.messages for key in keys for queue in directed.get(key, {}).values())

    def why_not_enter(self, destination: Destination) -> str:
        """Why a client's message cannot be kept, '' if it can."""
        if self._is_too_much(destination):
            return f"{self.waiting()} messages wait already for incarnations that are being asked for"
        return ""

    def bundle_arrived(self, neighbour: Neighbour, destination: Destination, stored: StoredBundle) -> None:
        """A bundle came; while too much waits for unknown incarnations, its sender keeps the rest of it."""
        if self._is_too_much(stored.header.destination):
            queue = self._context.custody.queue_for(stored.header.destination)
            self._dispatcher.holds.hold(queue, destination, neighbour)

    def _is_too_much(self, destination: Destination) -> bool:
        if not is_incarnation(destination.node) or destination.node == self.own:
            return False
        if self.cache.find(destination.node, self._context.clock.now) is not None:
            return False
        return bool(self._unasked) or self.waiting() >= self._context.settings.address_waiting

    def look_up(self, key: str, told: Callable[[Entry | None, str], object]) -> None:
        """Call `told` with the entry of a name or an incarnation, now or when the tree has answered."""
        entry = self._known(key)
        if entry is not None:
            told(entry, "")
        elif why := self.questions.ask(key, told=told):
            told(None, why)

    def _known(self, key: str) -> Entry | None:
        if key in (self._context.name, self.own):
            return Entry(self.myself, LOCAL, float("inf"))
        return self.cache.find(key, self._context.clock.now)

    # --- links

    def link_up(self, neighbour: Neighbour, up: events.LinkUp) -> None:
        """The handshake has told each who the other is. What it says of itself stands in `detail`."""
        detail, link = neighbour.detail, neighbour.link
        self._keep(neighbour, whereabouts(neighbour.name, detail.incarnation, detail.addresses))
        if link is not None and up.ours.addresses != self.addresses:
            self._say(neighbour, [self.myself])
        if neighbour.relation is Relation.PARENT:
            self._untold.update((entry.found.name, None) for entry in self.cache if self._is_below(entry))
            self.news = True
        self.questions.link_up()

    def link_down(self, neighbour: Neighbour) -> None:
        """What it lent is void: it could not take it back. What it was told it asks for again."""
        for incarnation in self._told_to.pop(neighbour.name, ()):
            entry = self.cache.of(incarnation, self._context.clock.now)
            if entry is not None:
                entry.told -= {neighbour.name}
        for entry in self.cache.take_lent(neighbour.name):
            self._over(entry)
        self.questions.link_down(neighbour)

    def said(self, neighbour: Neighbour, event: events.Event) -> None:
        """A neighbour says something about addresses."""
        match event:
            case events.PeerAsks(keys):
                self._asked(neighbour, keys)
            case events.PeerHas(found):
                self.counters["i_have_in"] += len(found)
                for each in found:
                    self._heard(neighbour, each)
            case events.PeerInvalidates(incarnations):
                self.counters["invalidate_in"] += len(incarnations)
                self._taken_back(neighbour, incarnations)
            case events.PeerKnowsNobody(keys, text):
                for key in keys:
                    self.questions.denied(neighbour, key, text)

    # --- asked

    def _asked(self, neighbour: Neighbour, keys: list[str]) -> None:
        self.counters["who_has_in"] += len(keys)
        known: list[Entry] = []
        for key in keys:
            why = self._context.policies.ask(Policy.why_not_tell, neighbour, key)
            if not why and (entry := self._known(key)) is not None:
                known.append(entry)
                continue
            why = why or self.questions.ask(key, neighbour.name)
            if why and neighbour.link is not None:
                neighbour.link.say.nobody([key], why)
        self.answer(neighbour, known)

    def answer(self, neighbour: Neighbour, entries: list[Entry]) -> None:
        """Tell a neighbour what it asked for and may know, and remember that it was told."""
        entries = [entry for entry in entries if neighbour.up and not self._denied(neighbour, entry.found)]
        if not entries:
            return
        self._say(neighbour, [entry.found for entry in entries])
        for entry in entries:
            upward = neighbour.relation is Relation.PARENT and self._is_below(entry)
            if not upward and entry.via not in (LOCAL, neighbour.name):
                entry.told |= {neighbour.name}
                self._told_to.setdefault(neighbour.name, set()).add(entry.found.incarnation)

    def _denied(self, neighbour: Neighbour, found: Whereabouts) -> bool:
        """It may have asked for an incarnation, and is not to know of the node that has it."""
        why = self._context.policies.ask(Policy.why_not_tell, neighbour, found.name)
        if why and neighbour.link is not None:
            neighbour.link.say.nobody([found.name, incarnation_text(found.incarnation)], why)
        return bool(why)

    def _say(self, neighbour: Neighbour, found: list[Whereabouts]) -> None:
        if neighbour.link is not None:
            neighbour.link.say.i_have(found)
            self.counters["i_have_out"] += len(found)

    # --- learning

    def _heard(self, neighbour: Neighbour, found: Whereabouts) -> None:
        """A neighbour says where a node is: itself, one below it, or one that it was asked for."""
        context, now = self._context, self._context.clock.now
        if found.name == neighbour.name:
            if found.incarnation == neighbour.detail.incarnation:
                neighbour.detail.addresses = found.addresses
                context.touch(neighbour)
                self._keep(neighbour, found)
        elif neighbour.relation is Relation.CHILD:
            if self._is_its_way(neighbour, found.name):
                self._keep(neighbour, found)
        else:
            known = self.cache.named(found.name, now)
            wanted = any(key in self.questions for key in (found.name, incarnation_text(found.incarnation)))
            if wanted if known is None else not known.is_kept:
                self._lend(neighbour, found)

    def _lend(self, neighbour: Neighbour, found: Whereabouts) -> None:
        """It is an answer: good for a while."""
        context, lifetime = self._context, self._context.settings.address_lifetime
        if self._put(neighbour, found, context.clock.now + lifetime) is not None and not self._expires:
            self._expires = True
            context.clock.after(lifetime, self._expire)

    def _is_its_way(self, neighbour: Neighbour, name: str) -> bool:
        """Is a node below this child? While an older way to it is up, that one counts."""
        context = self._context
        if context.table.route(domain(name), neighbour.name) is None:
            return False
        known = self.cache.named(name, context.clock.now)
        if known is None or not self._is_below(known) or known.via == neighbour.name:
            return True
        older = context.table.route(domain(name), known.via)
        return older is None or not older.live or not context.neighbours[known.via].up

    def _keep(self, neighbour: Neighbour, found: Whereabouts) -> None:
        """It is a neighbour, or below one: that holds until something else is said."""
        before = self.cache.named(found.name, self._context.clock.now)
        if before is not None and (before.found, before.via) == (found, neighbour.name) and before.is_kept:
            return
        entry = self._put(neighbour, found, float("inf"))
        if entry is not None and self._is_below(entry) and (before is None or before.found != found):
            self._untold[found.name] = None
            self.news = True

    def _put(self, neighbour: Neighbour, found: Whereabouts, expires: float) -> Entry | None:
        context = self._context
        try:
            if found.name == context.name or found.incarnation == self.identity.incarnation:
                raise ClaimedTwice(f"{found.name!r} says that it is {context.name!r}")
            ended = self.cache.put(found, neighbour.name, context.clock.now, expires)
        except ClaimedTwice:
            self.counters["not_believed"] += 1
            self._invalidate(neighbour, found.incarnation)
            return None
        entry = self.cache.named(found.name, context.clock.now)
        assert entry is not None
        if ended is not None:
            self._take_back(ended, neighbour.name)
            self.bury(incarnation_text(ended.found.incarnation))
        for name in entry.told - {neighbour.name}:
            self._say(context.neighbours[name], [found])
        self.questions.found(entry)
        self._dispatch(entry)
        return entry

    def _is_below(self, entry: Entry) -> bool:
        neighbour = self._context.neighbours.get(entry.via)
        return entry.is_kept and neighbour is not None and neighbour.relation is Relation.CHILD

    # --- taking back

    def _taken_back(self, neighbour: Neighbour, incarnations: list[bytes]) -> None:
        for incarnation in incarnations:
            if incarnation == neighbour.detail.incarnation:
                neighbour.detail.incarnation = b""  # nor after a restart of this node
                self._context.touch(neighbour)
            entry = self.cache.of(incarnation, self._context.clock.now)
            if entry is not None and (neighbour.name == entry.via or neighbour.name in self._context.parents):
                self.cache.take(incarnation)
                if self._is_below(entry) and neighbour.name == entry.via:
                    for parent in self._context.parents.values():
                        self._invalidate(parent, incarnation)
                self._over(entry)

    def _over(self, entry: Entry) -> None:
        """An entry was taken out: who was told is told that, and what waits asks again."""
        self._take_back(entry, entry.via)
        self._dispatch(entry)

    def _take_back(self, entry: Entry, but: str) -> None:
        for name in entry.told - {but}:
            self._told_to.get(name, set()).discard(entry.found.incarnation)
            if name in self._context.neighbours:
                self._invalidate(self._context.neighbours[name], entry.found.incarnation)

    def _invalidate(self, neighbour: Neighbour, incarnation: bytes) -> None:
        if neighbour.link is not None:
            neighbour.link.say.invalidate([incarnation])
            self.counters["invalidate_out"] += 1

    def _dispatch(self, entry: Entry) -> None:
        directed = self._context.custody.directed.get(incarnation_text(entry.found.incarnation), {})
        self._forwarder.look_again(directed.values())

    def bury(self, key: str) -> None:
        """Nobody is this incarnation: what waits for it is dead, and whoever wanted to be told is told."""
        queues = self._context.custody.directed.get(key, {}).values()
        self._lost.add(queue for queue in queues if queue.waiting or queue.resting or queue.held_back)

    def _bury_some(self, queue: Queue) -> int:
        """The first that wait, after those among them are told who asked for it. Returns how many these were.

        Its incarnation may have turned up meanwhile: then they go there.
        """
        context = self._context
        if context.custody.queues.get(queue.name) is not queue or queue.destination is None:
            return 1
        if self._known(queue.destination.node) is not None:
            self._forwarder.dispatch(queue)
            return 1
        queue.end_rest()
        context.policies.tell(Policy.doomed, queue)
        few = min(len(queue.waiting), PART)
        for _ in range(few):
            queued = queue.waiting.popleft()
            context.counters["buried"] += queued.open
            self._dispatcher.bury(queued, UNKNOWN_INCARNATION)
        if queue.held_back:
            self._dispatcher.holds.relieve(queue)
        if queue.waiting:
            context.clock.go_on((self.bury, queue), partial(self._bury_some, queue))
        return few

    # --- routes

    def _route_changed(self, key: Destination, cause: str, origin: str) -> None:
        if key.kind == Kind.DOMAIN:
            self._changed[key.name] = None
            self.news = True
            self._below.pop(key.name, None)
            if any(way != LOCAL for way in self._context.table.gateways(key)):
                self._below[key.name] = None

    def settle(self) -> None:
        """Let changed ways have their effects; tell the parents who came below; ask what is to be asked."""
        changed, self._changed = self._changed, {}
        for name in changed:
            self._way_changed(name)
        if self._untold:
            self._tell_parents()
        while self._unasked and not self.questions.ask(next(iter(self._unasked))):
            del self._unasked[next(iter(self._unasked))]
        self.questions.send()
        self.news = bool(self._changed or self._untold or self._unasked)

    def _way_changed(self, name: str) -> None:
        ways = self._context.neighbours.keys() & self._context.table.gateways(domain(name))
        entry = self.cache.named(name, self._context.clock.now)
        if entry is None:
            return
        if self._is_below(entry) and entry.via not in ways and entry.via != name:
            self.cache.take(entry.found.incarnation)
            self._over(entry)
            if ways:
                self.look_up(name, lambda entry, why: None)
        else:
            self._dispatch(entry)

    def _tell_parents(self) -> None:
        """Say who came below, once the way there is offered; not before."""
        context = self._context
        parents = [each for each in context.parents.values() if each.up]
        if context.lacks_parent or (context.role.has_parent and not parents):
            return
        ask = context.policies.ask
        due = [name for name in self._untold if not parents or ask(Policy.is_offered_up, domain(name))]
        entries = [self.cache.named(name, context.clock.now) for name in due]
        found = [entry.found for entry in entries if entry is not None and self._is_below(entry)]
        for name in due:
            del self._untold[name]
        for parent in parents if found else ():
            self._say(parent, found)
