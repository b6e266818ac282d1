"""Whatever an operator does among what clients do: the books agree, on disk too, and nothing is left."""

from random import Random

import pytest

from broker.core.errors import InDelivery, NotFound
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.queue_names import Spool
from broker.core.messages.summaries import BUNDLE, ROW
from broker.core.rows import BundleRow, CopyRow
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site

QUEUES = ("a", "b", "c@york")


def copies_of(site: Site) -> dict[Queue, set[QueueEntry]]:
    """All copies that are anywhere at a site, by their place."""
    core = site.core
    found: dict[Queue, set[QueueEntry]] = {}
    for place in core.custody.queues.values():
        found[place] = {*place.waiting, *place.resting.values()}
    for session in core.switch.sessions.values():
        for given in session.unacked.all():
            found[given.entry.queue].add(given.entry)
    for neighbour in core.neighbours.values():
        found[neighbour.queue].update(neighbour.outbox)
    return found


def spooled(found: dict[Queue, set[QueueEntry]]) -> dict[Spool, int]:
    """What the spools must show: a fan-out once for each, a queue's with the queue, dead letters nowhere."""
    kept = [copy for copies in found.values() for copy in copies if copy.stored.row]
    sizes: dict[Spool, int] = {}
    for spool in Spool:
        own = [copy for copy in kept if copy.spool is spool]
        shared = [copy.stored for copy in kept if copy.spool is None and copy.queue.spool is spool]
        bundles = [*{copy.stored for copy in own}, *shared]
        sizes[spool] = sum(stored.size + BUNDLE for stored in bundles) + ROW * (len(own) + len(shared))
    return sizes


def check(site: Site) -> None:
    custody = site.core.custody
    found = copies_of(site)
    stored = set()
    for place, copies in found.items():
        assert place.messages == sum(copy.open for copy in copies), place
        assert place.size == sum(copy.stored.size for copy in copies), place
        assert place.left >= 0, place
        assert len(place.waiting) == len(set(place.waiting)), place
        assert all(copy.open and copy.queue is place for copy in copies), place
        stored |= {copy.stored for copy in copies if copy.stored.row}
    assert custody.paging.resting.count == sum(len(place.resting) for place in found)
    assert custody.paging.warm == sum(map(len, found.values()))
    assert dict(custody.spools) == spooled(found)
    assert len(site.disk.tables[CopyRow]) == sum(
        1 for copies in found.values() for copy in copies if copy.stored.row
    )
    assert len(site.disk.tables[BundleRow]) == len(stored)


class Operator:
    """Does one thing at random."""

    def __init__(self, forest: Forest, random: Random) -> None:
        self.forest, self.random = forest, random
        self.readers: list[SimulatedConsumer] = []
        self.number = 0

    def act(self) -> None:
        site = self.random.choice([site for site in self.forest.sites.values() if site.running])
        site.core.advance(site.now)
        often = (self.send, self.send, self.acknowledge)
        seldom = (self.read, self.leave, self.delete_queue, self.delete_messages)
        doing = self.random.choice([*often, *seldom, self.give_back, self.throw_away, self.crash])
        doing(site)

    def send(self, site: Site) -> None:
        self.number += 1
        producer = self.forest.producer(site.name, f"producer {self.number}")
        options = {"expires_in": 700} if self.random.random() < 0.2 else {}
        payloads = [b"%d" % number for number in range(self.random.randint(1, 9))]
        where = self.random.choice([*(f"queue:{name}" for name in QUEUES), "topic:t"])
        producer.send(where, *payloads, **options)

    def read(self, site: Site) -> None:
        self.number += 1
        where = self.random.choice(("queue:a", "queue:b", "topic:t"))
        durable = "d" if where == "topic:t" and self.random.random() < 0.5 else ""
        name = "durable" if durable else f"reader {self.number}"
        if not durable or not any(reader.durable and reader.connection for reader in self.readers):
            options = {"credit": self.random.randint(1, 6), "auto": False, "durable": durable}
            self.readers.append(self.forest.consumer(site.name, where, name, **options))

    def acknowledge(self, site: Site) -> None:
        for reader in self.readers:
            reader.acknowledge(self.random.randint(0, len(reader.open)))

    def leave(self, site: Site) -> None:
        if self.readers:
            self.readers.pop(self.random.randrange(len(self.readers))).disconnect()

    def delete_queue(self, site: Site) -> None:
        try:
            doomed = site.core.removal.delete_queue(self.random.choice(QUEUES))
        except NotFound:
            return
        half = len(doomed) // 2
        site.core.removal.discard(doomed.take(half))
        if self.random.random() < 0.5:
            self.forest.settle()
        site.core.removal.discard(doomed.take(len(doomed)))

    def delete_messages(self, site: Site) -> None:
        for place in list(site.core.custody.queues.values()):
            if place.destination is None or not place.messages:
                continue
            for copy in list(copies_of(site)[place]):
                if copy.queue.destination is not None and copy.done != copy.all:
                    try:
                        site.core.removal.delete_message(copy, self.random.randrange(9))
                    except (InDelivery, NotFound):
                        continue

    def give_back(self, site: Site) -> None:
        letters = [copy for copy in site.core.custody.dead.waiting if self.random.random() < 0.7]
        site.core.dead_letters.give_back([(copy, self.random.getrandbits(9)) for copy in letters])

    def throw_away(self, site: Site) -> None:
        letters = [copy for copy in site.core.custody.dead.waiting if self.random.random() < 0.3]
        site.core.dead_letters.discard([(copy, self.random.getrandbits(9)) for copy in letters])

    def crash(self, site: Site) -> None:
        if self.random.random() < 0.3:
            self.readers = [reader for reader in self.readers if reader.site is not site]
            site.crash()
            site.boot()
            self.forest.dial_all()


@pytest.mark.parametrize("seed", range(25))
def test_the_books_agree_whatever_is_done(seed: int) -> None:
    random = Random(seed)
    forest = Forest()
    for name, parent in (("hq", ""), ("york", "hq")):
        forest.add(name, parent, max_deliveries=2, hold_time=3.0)
    operator = Operator(forest, random)
    forest.dial_all()
    for _ in range(60):
        operator.act()
        forest.settle(random.choice((0.0, 0.0, 0.4)))
        forest.dial_all()
        for site in forest.sites.values():
            check(site)
    clear(forest, operator)
    for site in forest.sites.values():
        check(site)
        assert not site.disk.tables[CopyRow]
        assert not site.disk.tables[BundleRow]
        assert not site.core.custody.kept
        assert site.core.custody.stirred == []


def clear(forest: Forest, operator: Operator) -> None:
    """Throw everything away."""
    for reader in operator.readers:
        reader.disconnect()
    forest.settle(2.0)
    for site in forest.sites.values():
        for subscription in list(site.core.topics.subscriptions.values()):
            site.core.removal.end_subscription(subscription)
    for _ in range(3):
        forest.settle(20.0)
        for site in forest.sites.values():
            site.core.dead_letters.discard([(letter, -1) for letter in site.core.custody.dead.waiting])
            for place in list(site.core.custody.queues.values()):
                if place.destination is not None and place.messages:
                    doomed = site.core.removal.delete_queue(str(place.destination))
                    site.core.removal.discard(doomed.take(len(doomed)))
    forest.settle(90.0)
