"""The site broker as a client of this node's switch: consumers behind it, what it is given, what it gives.

It is one session, whose token no client can have. A queue that has consumers there has a consumer here; all
its topic filters are one subscription, so that a message goes there once and the broker does the rest. What
came from there does not go back there. A queue of this node alone (`queue:NAME@NODE`, for replies) is read
likewise, and nobody else is told.

Law: its consumers' destinations are on disk. After a start they stand as they were until the broker's first
complete list; while the broker is away, what is for them waits here, as for a child that is away.

Law: what was not answered when the connection is lost is given again, marked. What the broker refuses is a
dead letter at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from broker.core.clients.switch import Switch
from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.messages.queue import Queue, QueueEntry, StoredBundle
from broker.core.messages.queue_names import SITE, is_internal
from broker.core.policy import Policy
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.subscriptions import Subscription
from broker.core.routing.topics import Topics
from broker.core.rows import SubscriptionRow
from broker.core.sessions.sessions import ConsumerDelivery
from broker.core.settings import QueuePolicy
from broker.core.site.retained_interest import RetainedInterest
from broker.core.site.site_consumer import SiteConsumer, SiteSession, ranges_of
from broker.core.site.site_greetings import SiteGreetings
from broker.core.site.site_intake import SiteIntake
from sapwood.protocol import bundles, destinations
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Destination, Kind, parse, topic
from sapwood.protocol.names import LOCAL
from sapwood.protocol.session_frames import Acknowledge
from treeconnector.edge import CREDIT, BrokerConsumer, BrokerDelivery, Taken
from treeconnector.interests import Interests
from treeconnector.patterns import matches
from treeconnector.trie import PatternTrie

_MOST_RETAINED: Final = 100_000
_RECOVERED: Final = "recovered"


class SiteClient(Policy):
    """One for each node, whether it has a site broker or not. All calls are synchronous; `wake` must follow.

    `consumers`: by destination, their ids. The policies `for_site` get what is for the broker; they are told
    when `wanted` may have changed (`wanted_changed`).
    """

    def __init__(
        self,
        context: Context,
        forwarder: Forwarder,
        dispatcher: Dispatcher,
        topics: Topics,
        interests: Interests,
        switch: Switch,
        retained: RetainedInterest,
        intake: SiteIntake,
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._dispatcher = dispatcher
        self._topics = topics
        self._interests = interests
        self._switch = switch
        self._interest = retained
        self.intake = intake
        self.greetings = SiteGreetings(context, topics.retained, topics.greetings)
        self.consumers: dict[Destination, set[str]] = {}
        self._up = False
        self._made: SiteSession | None = None
        self._queues: dict[Destination, SiteConsumer] = {}
        self._all: SiteConsumer | None = None
        self._retained: dict[str, bytes] = {}
        self._wanted: set[Destination] | None = None
        self._wanted_topics: PatternTrie[Destination] = PatternTrie()

    @property
    def _hand(self) -> SiteSession:
        """Made when it is needed first: most nodes have nothing for a site's broker."""
        self._made = self._made or SiteSession()
        return self._made

    def __repr__(self) -> str:
        counts = f"consumers={len(self.consumers)} unanswered={self.unanswered}"
        return f"<SiteClient of {self._context.name} {counts} wanted={len(self._wanted or ())}>"

    @property
    def unanswered(self) -> int:
        """Deliveries that the broker has neither confirmed nor refused."""
        return sum(reader.outstanding for reader in self._readers())

    @property
    def waiting(self) -> int:
        """Messages that are here for the broker, those that it has not answered included."""
        return sum(queue.messages for reader in self._readers() for queue in reader.queues)

    @property
    def totals(self) -> tuple[int, int]:
        """Messages taken from the broker and given to it since the start, again ones included."""
        return self.intake.taken, self._hand.connection.messages_out

    def _readers(self) -> list[SiteConsumer]:
        return [*self._queues.values(), *([self._all] if self._all is not None else [])]

    @property
    def repeated(self) -> int:
        """Messages that the broker gave again, and that were known by their keys."""
        return self.intake.repeated

    # --- a start

    def restore(self, meta: Mapping[str, bytes]) -> None:
        self.intake.restore(meta)

    def restore_consumer(self, row: SubscriptionRow) -> None:
        key, now = parse(row.pattern), self._context.clock.now
        if is_internal(key):  # written before these were left out
            self._context.custody.transaction.delete(SubscriptionRow, row.id)
            return
        self.consumers[key] = {_RECOVERED}
        if not key.node and self._interests.add(key, _consumer_id(_RECOVERED), _RECOVERED, now) is not None:
            self._context.policies.tell(Policy.local_route_changed, key)
        self._read(key)

    def end(self) -> None:
        """This node has no site broker any more."""
        for key in list(self.consumers):
            for consumer in list(self.consumers[key]):
                self._went(key, consumer)
        if self._all is not None:
            self._detach(self._all)
            self._topics.end_several(self.reads_topics())
            self._all = None
        self._interest.end()
        self.greetings.only(())

    # --- consumers

    def complete(self, consumers: Iterable[BrokerConsumer]) -> None:
        """All that there are: whoever is not among them has gone."""
        now: dict[Destination, set[str]] = {}
        for key, consumer in consumers:
            now.setdefault(key, set()).add(consumer)
        for key, names in now.items():
            for name in names - self.consumers.get(key, set()):
                self._came(key, name)
        for key, names in list(self.consumers.items()):
            for name in names - now.get(key, set()):
                self._went(key, name)
        self.greetings.only(BrokerConsumer(key, name) for key, names in now.items() for name in names)

    def came(self, consumer: BrokerConsumer, *, alone: BrokerConsumer | None = None) -> None:
        """`alone`: its name at the broker, where what is retained is given to it and to nobody else."""
        key = consumer.destination
        if consumer.id in self.consumers.get(key, ()):
            return
        greets = alone is not None and key.kind == Kind.TOPIC
        self._came(*consumer, greet=not greets)
        if alone is not None and greets:
            self.greetings.begin(consumer, alone)

    def went(self, consumer: BrokerConsumer) -> None:
        if consumer.id in self.consumers.get(consumer.destination, ()):
            self._went(*consumer)

    def _came(self, key: Destination, name: str, *, greet: bool = True) -> None:
        names = self.consumers.setdefault(key, set())
        first = not names
        names.add(name)
        if not key.node:
            self._switch.interest.changed("add", key, _consumer_id(name))
        if key.node:
            self.route_changed(key._replace(node=""))
        if first:
            self._context.custody.transaction.put(SubscriptionRow(f"{SITE} {key}", SITE, str(key), 0))
            self._read(key)
            if key.kind == Kind.TOPIC and greet:
                self._topics.greet(self.reads_topics(), key.name)

    def _went(self, key: Destination, name: str) -> None:
        names = self.consumers[key]
        names.discard(name)
        self.greetings.end(BrokerConsumer(key, name))
        if names and name == _RECOVERED and not key.node:
            self._interests.remove(key, _consumer_id(name), _RECOVERED, self._context.clock.now)
            return
        if not names:
            del self.consumers[key]
            self._context.custody.transaction.delete(SubscriptionRow, f"{SITE} {key}")
        if not key.node:
            self._switch.interest.changed("remove", key, _consumer_id(name))
        if not names:
            self._read_no_more(key)
        if key.node:
            self.route_changed(key._replace(node=""))

    def _read(self, key: Destination) -> None:
        custody, node = self._context.custody, self._context.name
        if key.kind == Kind.TOPIC:
            self._topics.add_pattern(self.reads_topics(), key.name)
            return
        queues = [
            custody.queue_for(destinations.queue(key.name)),
            custody.queue_for(destinations.queue(key.name, node)),
        ]
        self._queues[key] = self._attach(queues)

    def reads_topics(self) -> Subscription:
        """The one subscription to all its topic filters; it stays when they have gone, with what waits."""
        if self._all is None:
            subscription = self._topics.several(SITE, SITE)
            self._all = self._attach([subscription.queue])
        return self._topics.subscriptions[SITE]

    def _attach(self, queues: list[Queue]) -> SiteConsumer:
        clock = self._context.clock
        reader = SiteConsumer(self._hand.session, self._hand.connection, queues, self._given, clock.read)
        reader.credit = CREDIT if self._up else 0
        self._hand.session.add(reader)
        queues[0].consumers.append(reader)
        for queue in queues:
            self._forwarder.dispatch(queue)
        return reader

    def _given(self, given: ConsumerDelivery, deliveries: list[BrokerDelivery]) -> None:
        """The broker keeps what is retained itself: that very message is not given again for a new filter."""
        if not given.entry.stored.header.flags & bundles.Flag.RETAINED:
            self._deliver(deliveries)
            return
        name, latest = given.entry.stored.header.destination.name, deliveries[-1].name
        if self._retained.get(name) != latest:
            self._retained.pop(name, None)
            self._retained[name] = latest
            if len(self._retained) > _MOST_RETAINED:
                del self._retained[next(iter(self._retained))]
            self._deliver(deliveries)
        elif deliveries[-1].again:
            self._deliver(deliveries)
        else:
            known = [delivery.id for delivery in deliveries]
            self._context.next_commit.then(lambda: self.confirm(known))

    def _deliver(self, deliveries: list[BrokerDelivery]) -> None:
        destination = deliveries[0].destination
        if self.greetings and destination.kind == Kind.TOPIC:
            self.greetings.passes(destination.name, retained=deliveries[0].retained)
        self._context.policies.tell(Policy.for_site, deliveries)

    def replaced(self, stored: StoredBundle, came: str) -> None:
        """The broker has an older one. If nobody there reads the topic, this is taken out there again."""
        name, reading = stored.header.destination.name, self.reads_topics()
        if self._interest.is_retained_there(name) and not self._topics.reads(reading, name):
            self._topics.give(reading, stored, came)

    def outdated(self, names: Iterable[str]) -> list[str]:
        """Which of these topics, which the broker retains as it was given them, it would hear no more of.

        They count as withdrawn: it is given them again when somebody there wants them.
        """
        topics, reading = self._topics, self._topics.subscriptions.get(SITE)
        old = [
            name
            for name in names
            if name not in topics.retained or reading is None or not topics.reads(reading, name)
        ]
        for name in old:
            self._retained.pop(name, None)
        return old

    def _read_no_more(self, key: Destination) -> None:
        if key.kind == Kind.TOPIC:
            self._topics.remove_pattern(self.reads_topics(), key.name)
            return
        self._detach(self._queues.pop(key))

    def _detach(self, reader: SiteConsumer) -> None:
        self._hand.session.remove(reader)
        for queue in reader.queues:
            queue.consumers[:] = [each for each in queue.consumers if each is not reader]
        self._give_back([reader])
        for queue in reader.queues:
            self._forwarder.let_volatile_go(queue)
            self._forwarder.dispatch(queue)

    # --- the connection

    def connected(self) -> None:
        self._up = True
        self.greetings.connected()
        for reader in self._readers():
            reader.credit = CREDIT
            for queue in reader.queues:
                self._forwarder.dispatch(queue)

    def pause(self) -> None:
        """Give nothing more; what was given may still be answered."""
        self._up = False
        self.greetings.pause()
        for reader in self._readers():
            reader.credit = 0

    def lost(self) -> None:
        """What is not answered is given again when the broker is back."""
        self.pause()
        self.greetings.lost()
        self._give_back(self._readers())

    def _give_back(self, readers: Sequence[SiteConsumer]) -> None:
        """These read no more: their unanswered messages wait again, unless the site has another reader."""
        again: dict[Queue, dict[int, QueueEntry]] = {}
        leaving = set(readers)
        for reader in readers:
            for given in self._hand.unacked.of(reader):
                self._hand.unacked.remove(given)
                entry = given.entry
                if heir := self._heir(entry.queue, leaving):
                    self._hand.unacked.put(given._replace(consumer=heir))
                    heir.outstanding += given.messages
                    continue
                entry.given &= ~given.bits
                entry.deliveries = max(entry.deliveries, 1)
                self._context.custody.changed(entry)
                if entry.done != entry.all:
                    again.setdefault(entry.queue, {})[entry.row] = entry
        for reader in readers:
            reader.outstanding = 0
        for queue, entries in again.items():
            queue.waiting.put_back(entries.values())

    def _heir(self, queue: Queue, leaving: Set[SiteConsumer]) -> SiteConsumer | None:
        """Another reader of a queue for the site: by its name alone, or with this node's."""
        key = queue.destination
        names = () if key is None else (key._replace(node=""), key._replace(node=self._context.name))
        found = (reader for name in names if (reader := self._queues.get(name)) is not None)
        return next((each for each in found if each not in leaving and queue in each.queues), None)

    def confirm(self, ids: Sequence[int]) -> None:
        """The broker has these."""
        own = [id for id in ids if id > 0]
        self.greetings.answered(id for id in ids if id < 0)
        if own:
            self._switch.receive(self._hand.connection, [Acknowledge(ranges_of(own))])

    def refuse(self, id: int, reason: str) -> None:
        """The broker will not have it: a dead letter, but for a greeting, which is kept anyway."""
        if id < 0:
            self.greetings.answered((id,))
        for given, bits in self._hand.unacked.take_out(id):
            self._dispatcher.bury_part(given.entry, bits, reason)
            self._dispatch(given)

    def again(self, delivery: BrokerDelivery) -> None:
        """The broker threw this away, since nobody read it then; somebody does now: it waits again."""
        for given, bits in self._hand.unacked.take_out(delivery.id, delivery.at):
            given.entry.given &= ~bits
            given.entry.queue.waiting.put_back([given.entry])
            self._dispatch(given)

    def _dispatch(self, given: ConsumerDelivery) -> None:
        for queue in given.consumer.queues:
            self._forwarder.dispatch(queue)

    # --- what is wanted from the broker

    @property
    def wanted(self) -> frozenset[Destination]:
        """The queues and topic filters that somebody else reads, and that nobody reads at the broker, nor
        waits there for an answer.

        Beside them the filters of topics of scope `tree`, which go to the root whoever reads them, and the
        topics that are retained in the broker's queue. Kept from the first time on that somebody asks: most
        nodes have no site broker.
        """
        context = self._context
        if self._wanted is None:
            self._wanted = {key for key in context.table if self._is_wanted(key)}
            for key in self._wanted:
                self._note_topic(key)
        every = (topic(policy.pattern) for policy in self._tree_policies())
        return frozenset(self._wanted).union(every, self._interest.followed)

    def _tree_policies(self) -> Iterator[QueuePolicy]:
        context = self._context
        return (
            policy
            for policy in context.settings.policies
            if policy.kind == Kind.TOPIC and policy.scope == Scope.TREE and context.role.has_parent
        )

    def _note_topic(self, key: Destination) -> None:
        """It is wanted from now on, or not any more."""
        if key.kind != Kind.TOPIC or self._wanted is None:
            return
        if key in self._wanted:
            self._wanted_topics.add(key.name, key)
        else:
            self._wanted_topics.remove(key.name, key)

    def takes_from_site(self, name: str) -> bool:
        """It costs what matches, however much is wanted."""
        if self._wanted is None:
            _ = self.wanted
        wide = (policy.pattern for policy in self._tree_policies())
        return (
            bool(self._wanted_topics.match(name))
            or self._interest.follows(name)
            or any(matches(pattern, name) for pattern in wide)
        )

    def interest_changed(self, key: Destination) -> None:
        self.route_changed(key)

    def route_changed(self, key: Destination) -> None:
        """A consumer of this came or went, here or elsewhere."""
        if self._wanted is None or self._is_wanted(key) == (key in self._wanted):
            return
        self._wanted ^= {key}
        self._note_topic(key)
        if key.kind == Kind.TOPIC and key not in self._wanted:
            self._interest.unwanted(key.name)
        self._context.policies.tell(Policy.wanted_changed)

    def _is_wanted(self, key: Destination) -> bool:
        context, mine = self._context, len(self.consumers.get(key, ()))
        if key.kind == Kind.DOMAIN or is_internal(key):
            return False
        read_here = mine or key._replace(node=context.name) in self.consumers
        if key.kind == Kind.QUEUE and (read_here or context.settings.policy(key).home):
            return False
        if any(gateway != LOCAL for gateway in context.table.gateways(key)):
            return True
        return self._interests.consumers(key) > mine or self._interests.is_recovering(key)

    def take(self, batch: Sequence[Taken]) -> int:
        """Let messages of the broker into the tree; see `SiteIntake.take`."""
        return self.intake.take(batch)


def _consumer_id(name: str) -> str:
    return f"{SITE}#{name}"
