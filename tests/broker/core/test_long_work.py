"""No step goes over a whole queue: what is long is done a part at a time, whatever happens meanwhile."""

import random
import secrets
from dataclasses import replace

import pytest
from backlogs import SMALL, forest_of
from steps import Steps

from broker.core.clock import PART, Clock, Parts, Round
from broker.core.custody.paging import Paging
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.summaries import PAGE
from broker.core.node import NodeCore
from broker.core.routing.forwarding import Forwarder
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import parse
from simulation.forest import Forest
from simulation.site import Site

NOBODY = "01234567-89ab-cdef-0123-456789abcdef"
LATE = "queue:late"
COUNT = 6 * PART + 7


@pytest.fixture
def forest() -> Forest:
    return Forest(SMALL)


def fill(site: Site, destination: str, count: int, first: int = 0, expires: int = 0) -> None:
    """So many messages, each a bundle of its own; most of them are on disk alone afterwards."""
    core, key = site.core, parse(destination)
    for number in range(first, first + count):
        body = bundles.encode_message(Message(b"%d" % number))
        header = Header(
            id=number.to_bytes(16, "big"),
            destination=key,
            flags=Flag.PERSISTENT,
            count=1,
            size=len(body),
            origin=site.name,
            expires_first=expires,
            expires_last=expires,
        )
        core.arrivals.wait(core.custody.store(header, body, core.clock.now), "")
        if number % PAGE == 0:
            site.run()
    forest_of(site).settle()


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq", hold_time=5.0, dead_messages=100_000)


@pytest.fixture
def steps(hq: Site, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def dead(site: Site, reason: str) -> list[int]:
    return [int(message.payload) for note, message in site.dead() if note == reason]


def test_parts_of_all_long_work_have_their_turns_one_by_one() -> None:
    clock, done = Clock(0.0), list[str]()

    def part(name: str, left: int) -> None:
        done.append(name)
        if left > 1:
            clock.go_on(name, lambda: part(name, left - 1))

    for name, count in (("a", 3), ("b", 1), ("a", 9), ("c", 2)):
        clock.go_on(name, lambda name=name, count=count: part(name, count))
    turns = 0
    while clock.next is not None:
        clock.now = clock.next
        before = len(done)
        clock.run_due()
        turns += 1
        assert len(done) == before + 1
    assert "".join(done) == "abcaca"
    assert turns == 6


def test_a_round_looks_at_each_once_in_so_many_seconds_and_at_few_in_a_turn() -> None:
    clock, looked = Clock(0.0), list[int]()
    items, most = range(30 * PART), 0
    round_of = Round(clock, lambda: items, looked.append, seconds=10)
    for second in range(10):
        round_of.second_passed()
        while clock.next is not None:
            clock.now, already = clock.next, len(looked)
            clock.run_due()
            most = max(most, len(looked) - already)
        assert len(looked) == 3 * PART * (second + 1)
    assert looked == list(items)
    assert most == PART
    round_of.second_passed(all_now=True)
    while clock.next is not None:
        clock.now = clock.next
        clock.run_due()
    assert looked[30 * PART :] == list(items)


def test_many_things_are_looked_at_once_each_and_few_in_a_turn() -> None:
    clock, looked = Clock(0.0), list[int]()
    parts = Parts(clock, looked.append)
    parts.add(range(3 * PART))
    assert len(looked) == PART
    parts.add((-1, 0))
    assert looked[PART] == -1, "few are looked at now, whatever else is due"
    while clock.next is not None:
        clock.now, before = clock.next, len(looked)
        clock.run_due()
        assert len(looked) - before <= PART
    assert sorted(looked) == list(range(-1, 3 * PART))
    assert not parts


class Dispatched(list[int]):
    """How many queues with messages each step of a node looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__([0])
        dispatch = Forwarder.dispatch

        def counted(forwarder: Forwarder, queue: Queue) -> None:
            self[-1] += bool(queue.waiting and queue.destination)
            dispatch(forwarder, queue)

        monkeypatch.setattr(Forwarder, "dispatch", counted)
        for name in ("handle_timer", "take", "committed", "receive"):
            self._begin_at(name, monkeypatch)

    def _begin_at(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        step = getattr(NodeCore, name)

        def begun(*given: object) -> object:
            self.append(0)
            return step(*given)

        monkeypatch.setattr(NodeCore, name, begun)


@pytest.fixture
def dispatched(monkeypatch: pytest.MonkeyPatch) -> Dispatched:
    """Caller's duty: it is there before the nodes are."""
    return Dispatched(monkeypatch)


def fill_many(site: Site, node: str, count: int) -> None:
    """So many queues of that node, with a message each."""
    for number in range(count):
        fill(site, f"queue:q{number}@{node}", 1, first=number)


@pytest.mark.parametrize("way", ["down", "up"])
def test_a_node_that_comes_is_no_long_step_however_many_queues_wait_for_it(
    forest: Forest, dispatched: Dispatched, hq: Site, way: str
) -> None:
    york = forest.add("york", "hq")
    here, there = (hq, york) if way == "down" else (york, hq)
    forest.dial_all()
    forest.settle(1.0)
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    forest.settle(0.1)
    fill_many(here, there.name, 3 * PART)
    dispatched[:] = [0]
    forest.heal(4.0)
    assert there.waiting() == 3 * PART
    assert sum(dispatched) >= 3 * PART
    assert max(dispatched) <= PART + 50, "what comes meanwhile is looked at as well"


def test_very_many_queues_of_an_incarnation_that_nobody_has_die_a_part_at_a_time(
    forest: Forest, hq: Site, steps: Steps
) -> None:
    fill_many(hq, NOBODY, 3 * PART)
    forest.settle(10.0)
    assert 0 < steps.most_changed <= PART
    assert sorted(dead(hq, "UNKNOWN_INCARNATION")) == list(range(3 * PART))


def test_a_node_with_very_many_queues_looks_at_few_of_them_at_a_time(
    hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 30,000 that nothing waits in, none is left; no turn and no second looks at more than its share."""
    custody, count = hq.core.custody, 60 * PART
    in_turns, in_seconds, sweep, run = [0], [0], custody.sweep, hq.core.handle_timer

    def counted(place: Queue) -> None:
        in_turns[-1] += 1
        in_seconds[-1] += 1
        sweep(place)

    def turn(*given: float) -> None:
        in_turns.append(0)
        run(*given)

    monkeypatch.setattr(custody, "sweep", counted)
    monkeypatch.setattr(hq.core, "handle_timer", turn)
    for number in range(count):
        custody.queue_for(parse(f"queue:q{number}"))
    for _ in range(22):
        in_seconds.append(0)
        forest_of(hq).settle(1.0)
    assert not [name for name in custody.queues if name.startswith("queue:q")]
    assert max(in_turns) == PART
    assert max(in_seconds) <= count // 10 + PART


def test_a_queue_that_a_neighbour_is_to_take_from_stays(forest: Forest, hq: Site) -> None:
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    york, custody = hq.core.neighbours["york"], hq.core.custody
    place = custody.queue_for(parse("queue:sales"))
    york.link = None  # nothing is taken
    york.want(place)
    york.want(place)
    forest.settle(3.0)
    assert custody.queues["queue:sales"] is place
    assert (york.next_wanted(), list(york.wants), place.wanted) == (place, [], 0)
    forest.settle(3.0)
    assert "queue:sales" not in custody.queues


def test_what_is_held_too_long_dies_a_part_at_a_time(forest: Forest, hq: Site, steps: Steps) -> None:
    fill(hq, LATE, COUNT)
    forest.settle(10.0)
    steps.check()
    assert dead(hq, "QUEUE_DOES_NOT_EXIST") == list(range(COUNT))


def test_what_expires_dies_a_part_at_a_time(forest: Forest, hq: Site, steps: Steps) -> None:
    fill(hq, LATE, COUNT, expires=500)
    forest.settle(10.0)
    steps.check()
    assert sorted(dead(hq, "EXPIRED")) == list(range(COUNT))


def test_a_reader_that_comes_meanwhile_has_the_others(forest: Forest, hq: Site, steps: Steps) -> None:
    fill(hq, LATE, COUNT)
    while not hq.core.custody.dead.messages:
        forest.settle(0.2)
    reader = forest.consumer("hq", LATE)
    forest.settle(10.0)
    gone = dead(hq, "QUEUE_DOES_NOT_EXIST")
    assert 0 < len(gone) < COUNT
    assert gone + [int(each) for each in reader.payloads] == list(range(COUNT))


def test_dead_letters_over_their_bound_go_a_part_at_a_time(forest: Forest, hq: Site, steps: Steps) -> None:
    fill(hq, LATE, COUNT)
    forest.settle(10.0)
    hq.crash()
    hq.settings = replace(hq.settings, dead_messages=10)
    hq.boot()
    forest.settle(10.0)
    steps.check()
    assert dead(hq, "QUEUE_DOES_NOT_EXIST") == list(range(COUNT - 10, COUNT))


def test_what_waits_for_an_incarnation_that_nobody_has_dies_a_part_at_a_time(
    forest: Forest, hq: Site, steps: Steps
) -> None:
    york = forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    york.crash()
    hq.crash()
    hq.settings = replace(hq.settings, hold_time=600.0)
    hq.boot()
    fill(hq, f"queue:till@{NOBODY}", COUNT)
    assert hq.waiting() == COUNT, "york may know that one"
    forest.settle(10.0)
    steps.check()
    assert sorted(dead(hq, "UNKNOWN_INCARNATION")) == list(range(COUNT))


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_or_doubled_by_whatever_happens_in_the_middle(
    forest: Forest, hq: Site, steps: Steps, seed: int
) -> None:
    """Messages for one that nobody has, for a queue that nobody reads, and such that expire, all at once."""
    chance, sent = random.Random(seed), 0
    places = {f"queue:till@{NOBODY}": 0, LATE: 0, "queue:short": 500}
    for _ in range(60):
        match chance.choices(("send", "time", "crash"), (4, 5, 1))[0]:
            case "send":
                destination = chance.choice(list(places))
                count = chance.randrange(1, PART)
                fill(hq, destination, count, sent, places[destination])
                sent += count
            case "time":
                forest.settle(chance.choice((0.2, 0.4, 2.0)))
            case "crash":
                hq.crash()
                hq.boot()
    forest.settle(40.0)
    steps.check()
    assert sorted(int(message.payload) for _, message in hq.dead()) == list(range(sent))
    assert hq.waiting() == 0


def test_many_that_wait_again_at_once_leave_memory_a_part_at_a_time(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those do that a peer would not have for long, or that would have gone back where they came from."""
    fill(hq, LATE, 20 * PAGE)
    queue, paging = hq.core.custody.queues[LATE], hq.core.custody.paging
    while queue.waiting:
        entry = queue.waiting.popleft()
        queue.resting[entry.row] = entry
    hq.run()
    went, release, cool = [0], Paging._release, Paging.cool

    def counted(here: Paging, entry: QueueEntry) -> None:
        went[-1] += 1
        release(here, entry)

    def after_a_commit(here: Paging, most: float) -> None:
        went.append(0)
        cool(here, most)

    monkeypatch.setattr(Paging, "_release", counted)
    monkeypatch.setattr(Paging, "cool", after_a_commit)
    queue.end_rest()
    paging.crowded[queue] = None
    for number in range(90_000, 90_010):
        fill(hq, "queue:other", 1, first=number)
    assert len(queue.waiting.warm) <= 2 * queue.waiting.room
    assert 0 < max(went) <= 5 * PAGE
    reader = forest.consumer("hq", LATE)
    forest.settle(5.0)
    assert [int(each) for each in reader.payloads] == list(range(20 * PAGE))


def test_what_is_only_looked_at_leaves_no_body_in_memory(forest: Forest, hq: Site) -> None:
    producer = forest.producer("hq")
    for _ in range(60):
        producer.send(LATE, secrets.token_bytes(200_000))
        forest.settle()
    custody = hq.core.custody
    looked_at = list(custody.queues[LATE].waiting.look())
    on_disk = [entry for entry in looked_at if entry.stored.body is None]
    assert len(on_disk) > 20
    before = repr(custody).rpartition("cached=")[2]
    for entry in on_disk:
        hq.core.following.follow(entry, "york", 0)
        hq.core.custody.evict(next(reversed(custody.fresh.values())))
    assert all(entry.stored.body is None for entry in on_disk)
    assert repr(custody).rpartition("cached=")[2] == before
