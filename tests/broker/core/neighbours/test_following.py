"""Messages for a node that moved, or a neighbour that has gone, go after it a part at a time; no kill in the
middle loses any.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from backlogs import SMALL
from steps import Steps

from broker.core.clock import PART
from broker.core.messages.queue import QueueEntry
from broker.core.messages.queue_names import UNDECIDED, UPWARD
from broker.core.neighbours.following import Following
from broker.core.rows import BundleRow, CopyRow, MetaRow
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import Destination, Kind, parse
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.link import LinkSettings

OFFERS = "topic:offers"
FOR_YORK = "moved:york:offers"
UNANSWERED = f"{UNDECIDED}offers"
MANY = 20_000
SOME = 4 * PART + 7
WINDOW = 32


@pytest.fixture
def forest() -> Forest:
    """Bundles are under way a few at a time, so that queues are long for long."""
    return Forest(
        replace(SMALL, route_retention=1e6), LinkSettings(window_bundles=WINDOW, handshake_timeout=5.0)
    )


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def publish(site: Site, count: int, first: int = 0, topic: str = OFFERS) -> None:
    """So many messages, each a bundle of its own."""
    core, key = site.core, parse(topic)
    for number in range(first, first + count):
        body = bundles.encode_message(Message(b"%d" % number))
        header = Header(
            id=number.to_bytes(16, "big"),
            destination=key,
            scope=bundles.Scope.TREE,
            flags=Flag.PERSISTENT,
            count=1,
            size=len(body),
            origin=site.name,
        )
        core.topics.publish(core.custody.store(header, body, core.clock.now), "")
        if number % 256 == 0:
            site.run()
    site.run()


def numbers(site: Site, queue: str) -> list[int]:
    """All that wait in a queue and have no number, in their order, as they are on disk."""
    site.run()
    there = [row for row in site.disk.rows(CopyRow) if row.place == queue and not row.number]
    bundles_there = site.disk.tables[BundleRow]
    headers = (bundles_there[row.bundle].header for row in sorted(there))
    return [int.from_bytes(bundles.decode_header(header).id, "big") for header in headers]


def work(site: Site, seconds: float) -> None:
    """Time passes for one node alone."""
    end = site.world.now + seconds
    while site.world.now < end:
        site.world.now += 0.01
        site.tick()
        site.run()


def unfinished(site: Site) -> list[str]:
    return [row.name for row in site.disk.rows(MetaRow) if row.name.startswith("following ")]


def away(forest: Forest, name: str) -> None:
    """A line breaks, and nobody mends it."""
    wire = forest.wire_of(name)
    assert wire is not None
    forest.cut(wire)


def subscribed(forest: Forest, site: str) -> SimulatedConsumer:
    reader = forest.consumer(site, OFFERS, durable="till")
    forest.settle(1.0)
    return reader


@pytest.fixture
def hq(forest: Forest) -> Site:
    """York reads below north; north is away, and much waits for it."""
    hq = forest.add("hq")
    forest.add("north", "hq", "branch")
    forest.add("york", "north")
    forest.dial_all()
    forest.settle(1.0)
    subscribed(forest, "york")
    away(forest, "north")
    return hq


def lets_go(hq: Site, name: str = "york") -> None:
    hq.core.following.left(hq.core.neighbours["north"], name)


def test_what_a_node_left_behind_follows_it_a_part_at_a_time(hq: Site, steps: Steps) -> None:
    publish(hq, MANY)
    lets_go(hq)
    assert 0 < len(numbers(hq, FOR_YORK)) < PART
    work(hq, 2.0)
    assert numbers(hq, FOR_YORK) == list(range(MANY))
    assert numbers(hq, "link:north") == list(range(MANY))
    assert unfinished(hq) == []
    steps.check_made()


def test_what_comes_after_a_node_has_left_is_none_of_its(hq: Site) -> None:
    publish(hq, SOME)
    lets_go(hq)
    publish(hq, 10, first=SOME)
    work(hq, 1.0)
    assert numbers(hq, FOR_YORK) == list(range(SOME))


def test_many_nodes_that_leave_together_are_followed_in_parts(hq: Site, steps: Steps) -> None:
    publish(hq, 300)
    names = [f"shop{number}" for number in range(100)]
    for name in names:
        lets_go(hq, name)
    work(hq, 4.0)
    for name in names:
        assert numbers(hq, f"moved:{name}:offers") == list(range(300))
    assert unfinished(hq) == []
    steps.check_made()


@pytest.mark.parametrize("kills", [1, 7])
def test_kills_in_the_middle_lose_nothing_and_go_on_where_it_was(hq: Site, kills: int) -> None:
    publish(hq, MANY)
    lets_go(hq)
    for _ in range(kills):
        work(hq, 0.2)
        assert unfinished(hq)
        hq.take()
        hq.crash()
        hq.boot()
    work(hq, 2.0)
    followed = Counter(numbers(hq, FOR_YORK))
    assert set(followed) == set(range(MANY))
    assert followed.total() <= MANY + 3 * kills * PART
    assert unfinished(hq) == []
    custody = hq.core.custody
    again = list(custody.queues[FOR_YORK].waiting.look())
    assert all(each.stored.header.flags & Flag.MAYBE_DUPLICATE for each in again)


def test_whoever_drains_the_queue_meanwhile_takes_nothing_from_the_heirs(
    forest: Forest, hq: Site, steps: Steps
) -> None:
    """North is back and reads as fast as it can, while its heirs are still served."""
    publish(hq, 300)
    heirs = [f"shop{number}" for number in range(40)]
    for name in heirs:
        lets_go(hq, name)
    forest.dial("north")
    forest.settle(20.0)
    assert numbers(hq, "link:north") == []
    for name in heirs:
        assert set(numbers(hq, f"moved:{name}:offers")) == set(range(300)), name
    steps.check_made()


def test_what_a_peer_has_already_still_goes_to_the_heirs(forest: Forest, hq: Site) -> None:
    """The line broke before its acknowledgements came, and is back before all heirs are served."""
    publish(hq, 300)
    forest.dial("north")
    north = forest["north"].core.neighbours["hq"]
    while north.received < WINDOW // 2:
        forest.step()
    away(forest, "north")
    under_way = hq.core.neighbours["north"].outbox
    kept = {int.from_bytes(entry.stored.header.id, "big") for entry in under_way}
    assert kept
    kept.update(numbers(hq, "link:north"))
    heirs = [f"shop{number}" for number in range(40)]
    for name in heirs:
        lets_go(hq, name)
    forest.dial("north")
    forest.settle(20.0)
    assert hq.core.custody.queues["link:north"].messages == 0
    for name in heirs:
        assert set(numbers(hq, f"moved:{name}:offers")) == kept, name


def test_a_child_may_be_forgotten_while_its_heirs_are_served(forest: Forest, hq: Site) -> None:
    """North is back and takes what it can, and then it leaves for good."""
    publish(hq, 300)
    heirs = [f"shop{number}" for number in range(40)]
    lets_go(hq, heirs[0])
    forest.dial("north")
    queue = hq.core.custody.queues["link:north"]
    while not hq.core.neighbours["north"].outbox:
        forest.step()
    for name in heirs[1:]:  # those on the line have not been asked for these
        lets_go(hq, name)
    while not any(entry.stored.header.flags & Flag.MAYBE_DUPLICATE for entry in queue.waiting.look()):
        forest.step()
    forgets(hq, "north", moved=False)
    assert queue.waiting
    forest.settle(20.0)
    assert not queue.messages
    for name in heirs:
        assert set(numbers(hq, f"moved:{name}:offers")) == set(range(300)), name
    assert unfinished(hq) == []


def test_heirs_of_topics_keep_no_message_of_a_queue(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is none of theirs: each goes to the child once, however long the heirs are served."""
    again = []

    def waits_again(following: Following, entry: QueueEntry) -> bool:
        kept = waits_before(following, entry)
        if kept:
            again.append(entry.stored.header.destination.kind)
        return kept

    waits_before = Following.waits_again
    monkeypatch.setattr(Following, "waits_again", waits_again)
    forest.dial("north")
    forest.settle(1.0)
    reader = forest.consumer("york", "queue:sales")
    forest.settle(1.0)
    away(forest, "north")
    publish(hq, 300)
    producer = forest.producer("hq")
    for number in range(60):
        producer.send("queue:sales", b"%d" % number)
        forest.settle()
    lets_go(hq, "shop0")
    forest.dial("north")
    outbox = hq.core.neighbours["north"].outbox
    while not any(entry.stored.header.destination.kind == Kind.QUEUE for entry in outbox):
        forest.step()
    for number in range(1, 41):  # while some are on the line: they have not been asked for these
        lets_go(hq, f"shop{number}")
    forest.settle(20.0)
    assert set(again) == {Kind.TOPIC}
    assert sorted(map(int, reader.payloads)) == list(range(60))


def test_no_heir_is_given_a_message_twice(forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue, the line's acknowledgement and the trail each ask for an entry that leaves."""
    given: Counter[tuple[str, bytes]] = Counter()
    follow = Following.follow

    def counting(following: Following, entry: QueueEntry, node: str, flags: int) -> None:
        given[node, entry.stored.header.id] += 1
        follow(following, entry, node, flags)

    monkeypatch.setattr(Following, "follow", counting)
    publish(hq, 300)
    for number in range(40):
        lets_go(hq, f"shop{number}")
    forest.dial("north")
    forest.settle(20.0)
    assert Counter(given.values()) == {1: 40 * 300}
    assert unfinished(hq) == []


def test_an_heir_that_waits_for_its_turn_has_what_came_meanwhile(forest: Forest, hq: Site) -> None:
    """It inherits more than it was asked for when an entry left before its turn."""
    publish(hq, 100)
    heirs = [f"shop{number}" for number in range(80)]
    for name in heirs:
        lets_go(hq, name)
    forest.dial("north")
    for first in range(100, 400, 20):
        publish(hq, 20, first)
        for name in heirs[-20:]:
            lets_go(hq, name)
        forest.settle(0.1)
    forest.settle(60.0)
    for name in heirs[-20:]:
        assert set(range(100)) <= set(numbers(hq, f"moved:{name}:offers")), name
    assert unfinished(hq) == []


def test_ever_new_heirs_do_not_keep_the_queue_from_draining(forest: Forest, hq: Site) -> None:
    """A child that says without end that nodes have left it delays its own queue, and does not stop it."""
    publish(hq, 200)
    forest.dial("north")
    for number in range(400):
        lets_go(hq, f"shop{number % 50}")
        forest.settle(0.2)
        if not hq.core.custody.queues["link:north"].messages:
            return
    raise AssertionError("the queue does not drain")


def test_a_store_that_moves_gets_each_message_once(forest: Forest, hq: Site, steps: Steps) -> None:
    reader = next(each for each in forest.clients if isinstance(each, SimulatedConsumer))
    forest.add("south", "hq", "branch")
    forest.dial("south")
    forest.settle(1.0)
    publish(hq, SOME)
    york = forest["york"]
    york.crash()
    york.parent = "south"
    york.boot()
    reader.connect()
    for seconds in (0.2, 0.2, 0.4, 0.4):
        forest.dial("york")
        forest.settle(seconds)
        hq.crash()
        hq.boot()
        forest.dial("south")
    forest.heal(60.0)
    assert sorted(map(int, reader.payloads)) == list(range(SOME))


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_on_its_way_up_turns_to_a_node_that_is_new_below(forest: Forest, killed: bool) -> None:
    forest.add("hq")
    north = forest.add("north", "hq", "branch")
    forest.add("york", "north")
    forest.dial_all()
    forest.settle(1.0)
    subscribed(forest, "york")
    away(forest, "north")
    away(forest, "york")
    publish(north, MANY)
    assert len(numbers(north, UNANSWERED)) == MANY
    north.core.following.caught_up(north.core.neighbours["york"], ["shop"])
    work(north, 0.2)
    assert 0 < len(numbers(north, "moved:shop:offers")) < MANY
    if killed:
        north.crash()
        north.boot()
    work(north, 2.0)
    assert set(numbers(north, "moved:shop:offers")) == set(range(MANY))
    assert numbers(north, UNANSWERED) == list(range(MANY))


def orphans(forest: Forest, count: int) -> Site:
    """A store that has never met its parent."""
    york = forest.add("york", "hq")
    publish(york, count)
    assert numbers(york, UPWARD) == list(range(count))
    return york


@pytest.mark.parametrize("killed", [False, True])
def test_what_waited_for_a_parent_goes_up_in_order_and_before_what_comes_after(
    forest: Forest, steps: Steps, killed: bool
) -> None:
    york = orphans(forest, SOME)
    forest.add("hq")
    reader = subscribed(forest, "hq")
    forest.dial("york")
    forest.settle(0.2)
    assert numbers(york, UPWARD)
    publish(york, 50, first=SOME)
    if killed:
        york.crash()
        york.boot()
        work(york, 1.0)
        assert numbers(york, UPWARD) == []
        forest.dial("york")
    forest.settle(30.0)
    assert list(map(int, reader.payloads)) == list(range(SOME + 50))
    steps.check(beside=WINDOW)


def test_a_parent_that_goes_again_leaves_the_rest_for_the_next(forest: Forest) -> None:
    york = orphans(forest, SOME)
    forest.add("hq")
    reader = subscribed(forest, "hq")
    forest.dial("york")
    forest.settle(0.2)
    assert numbers(york, UPWARD)
    york.core.relocation.forget(york.core.neighbours["hq"], moved=False)
    forest.settle(5.0)
    assert len(numbers(york, UPWARD)) > PART
    forest.dial("york")
    forest.settle(30.0)
    assert sorted({int(each) for each in reader.payloads}) == list(range(SOME))


def forgets(site: Site, name: str, *, moved: bool) -> None:
    site.core.relocation.forget(site.core.neighbours[name], moved=moved)


@pytest.mark.parametrize("kills", [0, 3])
def test_what_waited_for_a_child_that_moved_follows_it(hq: Site, steps: Steps, kills: int) -> None:
    publish(hq, MANY)
    forgets(hq, "north", moved=True)
    for _ in range(kills):
        work(hq, 0.1)
        assert unfinished(hq)
        hq.crash()
        hq.boot()
    work(hq, 2.0)
    assert Counter(numbers(hq, "moved:north:offers")) == Counter(range(MANY))
    assert unfinished(hq) == []
    steps.check_made()


def test_who_inherits_from_a_child_that_is_forgotten_then_has_it_all(hq: Site) -> None:
    publish(hq, SOME)
    lets_go(hq)
    forgets(hq, "north", moved=False)
    hq.take()
    hq.write()
    hq.crash()
    hq.boot()
    work(hq, 2.0)
    assert set(numbers(hq, FOR_YORK)) == set(range(SOME))
    assert hq.waiting() == len(numbers(hq, FOR_YORK))
    assert unfinished(hq) == []


def test_a_child_that_is_back_before_all_is_routed_gets_the_rest(forest: Forest, hq: Site) -> None:
    reader = next(each for each in forest.clients if isinstance(each, SimulatedConsumer))
    publish(hq, SOME)
    forgets(hq, "north", moved=True)
    work(hq, 0.02)
    hq.crash()
    hq.boot()
    forest.heal(60.0)
    assert sorted(map(int, reader.payloads)) == list(range(SOME))


@pytest.fixture
def north(forest: Forest) -> Iterator[Site]:
    """A branch below two roots that are one; it meets none of them, but knows both."""
    forest.add_mesh("hq-1", "hq-2")
    north = forest.add("north", "hq-1", "branch")
    forest.heal(5.0)
    assert set(north.core.context.parents) == {"hq-1", "hq-2"}
    for name in ("hq-1", "hq-2"):
        forest[name].crash()
    return north


@pytest.mark.parametrize("killed", [False, True])
def test_what_waited_for_a_parent_that_goes_is_for_the_other(north: Site, steps: Steps, killed: bool) -> None:
    north.core.upward.published("offers")
    north.core.upward.questions["offers"].answer = True
    publish(north, MANY)
    there = {name: len(numbers(north, f"link:{name}")) for name in ("hq-1", "hq-2")}
    gone, stays = sorted(there, key=lambda name: -there[name])
    assert there[gone] == MANY
    forgets(north, gone, moved=False)
    work(north, 0.1)
    assert unfinished(north) == [f"following gone link:{gone}"]
    if killed:
        north.crash()
        north.boot()
    work(north, 1.0)
    assert numbers(north, f"link:{stays}") == list(range(MANY))
    assert unfinished(north) == []
    steps.check()


def test_a_queue_that_follows_is_found_by_its_name(hq: Site) -> None:
    publish(hq, 1)
    lets_go(hq)
    assert hq.core.custody.queues[FOR_YORK].destination == Destination(Kind.TOPIC, "offers", "york")
    assert repr(hq.core.following) == "<Following at hq: 0 trails, 0 gone>"
