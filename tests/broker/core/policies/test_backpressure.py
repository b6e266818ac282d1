"""A full spool stops what would go into it, and nothing else."""

import secrets
from collections.abc import Iterator

import pytest

from broker.core.messages.queue_names import Spool
from broker.core.messages.summaries import BUNDLE, ROW
from broker.core.settings import QueuePolicy
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Kind
from sapwood.protocol.session_frames import Create
from simulation.clients import Producer
from simulation.forest import Forest
from simulation.site import Site

FULL = 20 * (1000 + BUNDLE + ROW)
TREE = (QueuePolicy(Kind.TOPIC, "#", scope=Scope.TREE),)


def chain(forest: Forest, **changes: object) -> Site:
    """HQ with the stores york and bath."""
    hq = forest.add("hq", policies=TREE, **changes)
    forest.add("york", "hq", policies=TREE)
    forest.add("bath", "hq", policies=TREE)
    forest.dial_all()
    forest.settle(1.0)
    return hq


def payloads(count: int) -> Iterator[bytes]:
    """Not to be compressed."""
    return (secrets.token_bytes(1000) for _ in range(count))


def send_each(forest: Forest, producer: Producer, destination: str, count: int) -> list[bytes]:
    """Each in a bundle of its own, in no time."""
    sent = list(payloads(count))
    for payload in sent:
        producer.send(destination, payload)
        forest.settle()
    return sent


def fill_down(forest: Forest) -> Site:
    """HQ keeps as much for york, which is away, as it has room for."""
    hq = chain(forest, spool_down=FULL)
    reader = forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    forest["york"].crash()
    send_each(forest, forest.producer("hq"), "queue:prices", 25)
    assert reader.payloads == []
    return hq


def held_by(site: Site, above: str = "hq") -> set[str]:
    return set(site.core.neighbours[above].peer_holds)


def test_the_backlog_of_an_absent_store_stops_nothing_that_goes_up(forest: Forest) -> None:
    hq = fill_down(forest)
    sales = forest.consumer("hq", "queue:sales", name="office")
    forest.settle(2.0)
    assert hq.core.custody.spools[Spool.DOWN] >= FULL
    assert hq.core.custody.spools[Spool.UP] == 0
    forest.producer("bath").send("queue:sales", b"sold")
    forest.producer("hq", "local").send("queue:sales", b"local")
    forest.settle(2.0)
    assert sorted(sales.payloads) == [b"local", b"sold"]
    assert held_by(forest["bath"]) == set()


def test_what_would_go_down_is_refused_and_says_which_spool_is_full(forest: Forest) -> None:
    hq = fill_down(forest)
    (producer,) = (client for client in forest.clients if isinstance(client, Producer))
    assert [reject.code for reject in producer.rejected] == ["QUEUE_FULL"] * 5
    assert "the spool 'down' of node hq is full" in producer.rejected[0].text
    assert "'down'" in hq.core.message_admission.refusing
    assert hq.core.message_admission.why_full(producer.confirmed[0][0], 0)


def test_a_topic_for_an_absent_store_is_refused_and_one_for_those_here_is_not(forest: Forest) -> None:
    chain(forest, spool_down=FULL)
    forest.consumer("york", "topic:offers/#", durable="till")
    here = forest.consumer("hq", "topic:news/#", name="desk")
    forest.settle(1.0)
    forest["york"].crash()
    producer = forest.producer("hq")
    send_each(forest, producer, "topic:offers/today", 25)
    assert [reject.code for reject in producer.rejected] == ["QUEUE_FULL"] * 5
    producer.send("topic:news/one", b"news")
    producer.send("topic:nobody", b"unmatched")
    forest.settle(1.0)
    assert (here.payloads, len(producer.rejected)) == ([b"news"], 5)


def test_a_store_keeps_what_goes_down_and_goes_on_with_all_else_until_there_is_room(forest: Forest) -> None:
    hq = fill_down(forest)
    sales = forest.consumer("hq", "queue:sales", name="office")
    bath = forest.producer("bath")
    forest.settle(1.0)
    sent = send_each(forest, bath, "queue:prices", 40)
    bath.send("queue:sales", b"sold")
    forest.settle(3.0)
    assert held_by(forest["bath"]) == {"queue:prices"}
    assert forest["bath"].waiting() > 20
    assert sales.payloads == [b"sold"]
    forest["york"].boot()
    prices = forest.consumer("york", "queue:prices", name="again")
    forest.heal()
    assert set(sent) < set(prices.payloads)
    assert (held_by(forest["bath"]), hq.waiting(), forest["bath"].waiting()) == (set(), 0, 0)
    assert dict(hq.core.custody.spools) == dict.fromkeys(Spool, 0)


def test_a_topic_that_is_held_lets_others_pass_on_the_same_link(forest: Forest) -> None:
    hq = chain(forest, spool_down=FULL)
    york = forest.consumer("york", "topic:offers/#", durable="till")
    desk = forest.consumer("hq", "topic:news/#", name="desk")
    forest.settle(1.0)
    forest["york"].crash()
    bath = forest.producer("bath")
    offers = send_each(forest, bath, "topic:offers/today", 50)
    news = send_each(forest, bath, "topic:news/today", 3)
    forest.settle(3.0)
    assert held_by(forest["bath"]) == {"topic:offers/today"}
    assert FULL <= hq.core.custody.spools[Spool.DOWN] < 2 * FULL
    assert forest["bath"].waiting() > 10
    assert desk.payloads == news
    forest["york"].boot()
    york.connect()
    forest.heal()
    assert york.payloads == offers


@pytest.mark.parametrize("crashes", ["bath", "hq"])
def test_what_is_held_survives_either_end(forest: Forest, crashes: str) -> None:
    chain(forest, spool_down=FULL)
    york = forest.consumer("york", "topic:offers/#", durable="till")
    forest.settle(1.0)
    forest["york"].crash()
    offers = send_each(forest, forest.producer("bath"), "topic:offers/today", 50)
    forest.settle(1.0)
    assert held_by(forest["bath"])
    forest[crashes].crash()
    forest.settle(1.0)
    forest.heal()
    york.connect()
    forest.heal()
    assert set(york.payloads) == set(offers)


def test_a_queue_that_nobody_reads_stops_nothing_that_goes_down(forest: Forest) -> None:
    hq = chain(forest, spool_up=FULL)
    prices = forest.consumer("york", "queue:prices")
    office = forest.consumer("hq", "queue:sales", name="office", auto=False, credit=1)
    forest.settle(1.0)
    bath = forest.producer("bath")
    send_each(forest, bath, "queue:sales", 50)
    assert FULL <= hq.core.custody.spools[Spool.UP] < 1.5 * FULL, "without a second having passed"
    bath.send("queue:prices", b"from bath")
    forest.producer("hq").send("queue:prices", b"from hq")
    forest.settle(2.0)
    assert sorted(prices.payloads) == [b"from bath", b"from hq"]
    assert held_by(forest["bath"]) == {"queue:sales"}
    assert "'up'" in hq.core.message_admission.refusing
    office.disconnect()
    assert hq.core.message_admission.refusing


def test_a_destination_is_let_go_when_it_goes_another_way(forest: Forest) -> None:
    hq = fill_down(forest)
    send_each(forest, forest.producer("bath"), "queue:labels", 1)
    send_each(forest, forest.producer("bath", "other"), "queue:prices", 30)
    forest.settle(1.0)
    assert held_by(forest["bath"]) == {"queue:prices"}
    reader = forest.consumer("hq", "queue:prices", name="here", credit=1, auto=False)
    forest.settle(2.0)
    assert held_by(forest["bath"]) == set()
    assert len(reader.payloads) == 1
    assert hq.core.custody.spools[Spool.DOWN] < FULL < hq.core.custody.spools[Spool.UP]


def test_many_destinations_at_last_stop_everything_in_their_direction(forest: Forest) -> None:
    hq = chain(forest, spool_up=FULL)
    producer = forest.producer("bath")
    queues = [f"queue:reply-{number}" for number in range(60)]
    creator = forest.producer("hq", "creator")
    creator.say(*(Create(1, queue.removeprefix("queue:")) for queue in queues))
    for queue, payload in zip(queues, payloads(60), strict=True):
        producer.send(queue, payload)
        forest.settle()
    assert "" in held_by(forest["bath"])
    assert hq.core.custody.spools[Spool.UP] < 2 * FULL
    readers = [forest.consumer("hq", queue, name=queue) for queue in queues]
    forest.settle(5.0)
    assert [len(reader.payloads) for reader in readers] == [1] * 60
    assert held_by(forest["bath"]) == set()
    assert not hq.core.message_admission.refusing


def test_a_full_region_holds_its_parent_for_what_comes_down_only(forest: Forest) -> None:
    forest.add("hq")
    forest.add("north", "hq", role="branch", spool_down=FULL)
    forest.add("york", "north")
    forest.dial_all()
    forest.settle(1.0)
    forest.dial_all()
    forest.consumer("york", "queue:prices", auto=False, credit=1)
    local = forest.consumer("north", "queue:stock", name="stock")
    sales = forest.consumer("hq", "queue:sales", name="office")
    forest.settle(2.0)
    producer = forest.producer("hq")
    forest["york"].crash()
    send_each(forest, producer, "queue:prices", 50)
    forest.settle(1.0)
    assert set(forest["hq"].core.neighbours["north"].peer_holds) == {"queue:prices"}
    producer.send("queue:stock", b"counted")
    forest.producer("north").send("queue:sales", b"sold")
    forest.settle(2.0)
    assert (local.payloads, sales.payloads) == ([b"counted"], [b"sold"])


def test_a_full_queue_that_has_room_again_is_held_on_while_its_spool_is_full(forest: Forest) -> None:
    hq = forest.add("hq", spool_up=FULL, policies=(QueuePolicy(pattern="prices", max_messages=10),))
    york = forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    send_each(forest, forest.producer("hq"), "queue:sales", 25)
    forest.producer("york").send("queue:prices", *payloads(10))
    forest.settle(1.0)
    assert set(hq.core.custody.queues["queue:prices"].held_back) == {"york"}
    prices = forest.consumer("hq", "queue:prices")
    forest.settle(3.0)
    assert (len(prices.payloads), held_by(york)) == (10, {"queue:prices"})
    forest.consumer("hq", "queue:sales", name="office")
    forest.settle(3.0)
    assert held_by(york) == set()
    assert not hq.core.neighbours["york"].we_hold
    assert not hq.core.neighbours["york"].spool_holds


def test_a_full_spool_is_held_under_an_alias_too_until_it_has_room(forest: Forest) -> None:
    hq = forest.add("hq", spool_up=FULL)
    york = forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    hq.core.static_routing.add("alias", "sell", "sales")
    sent = send_each(forest, forest.producer("york"), "queue:sell", 40)
    assert held_by(york) == {"queue:sell"}
    forest.settle(5.0)
    assert held_by(york) == {"queue:sell"}
    assert hq.core.custody.spools[Spool.UP] < 1.25 * FULL
    sales = forest.consumer("hq", "queue:sales", name="office")
    forest.settle(5.0)
    assert sorted(sales.payloads) == sorted(sent)
    assert held_by(york) == set()


def test_a_full_disk_holds_everybody_and_lets_go_again(forest: Forest) -> None:
    hq = chain(forest)
    room, hq.core.message_admission.disk_room = hq.core.message_admission.disk_room, 0.0
    forest.settle(2.0)
    assert held_by(forest["bath"]) == held_by(forest["york"]) == {""}
    hq.core.message_admission.disk_room = room
    forest.settle(2.0)
    assert held_by(forest["bath"]) == held_by(forest["york"]) == set()


def test_a_full_disk_holds_a_line_as_soon_as_it_is_up(forest: Forest) -> None:
    """It has brought a window at most by then, and one bundle more each time that it breaks and is back."""
    hq = chain(forest)
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    sent = send_each(forest, forest.producer("york"), "queue:sales", 30)
    room, hq.core.message_admission.disk_room = hq.core.message_admission.disk_room, 0.0
    for breaks in range(4):
        forest.heal(0.5)
        assert hq.waiting() <= forest.links.window_bundles + breaks
        assert held_by(forest["york"]) == {""}
        wire = forest.wire_of("york")
        assert wire is not None
        forest.cut(wire)
    hq.core.message_admission.disk_room = room
    sales = forest.consumer("hq", "queue:sales", name="office")
    forest.heal(5.0)
    assert sales.payloads == sent


def made_at(forest: Forest, name: str, queue: str) -> Producer:
    producer = forest.producer(name, f"maker at {name}")
    producer.say(Create(1, queue))
    return producer


def test_what_nobody_reads_does_not_stop_what_goes_up(forest: Forest) -> None:
    forest.add("hq")
    forest.add("york", "hq", spool_up=FULL)
    forest.dial_all()
    forest.settle(1.0)
    maker = made_at(forest, "york", "kept")
    send_each(forest, maker, "queue:kept", 25)
    assert [reject.code for reject in maker.rejected] == ["QUEUE_FULL"] * 9
    assert "nobody reads queue:kept" in maker.rejected[0].text
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    send_each(forest, forest.producer("york"), "queue:sales", 3)
    sales = forest.consumer("hq", "queue:sales", name="office")
    forest.heal(3.0)
    assert len(sales.payloads) == 3
    kept = forest.consumer("york", "queue:kept", name="late")
    forest.settle(1.0)
    send_each(forest, maker, "queue:kept", 5)
    assert len(kept.payloads) == 16 + 5
    assert len(maker.rejected) == 9


def test_a_neighbour_keeps_what_nobody_reads_above_and_goes_on_with_all_else(forest: Forest) -> None:
    hq = forest.add("hq", spool_up=FULL)
    york = forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    made_at(forest, "hq", "kept")
    sales = forest.consumer("hq", "queue:sales", name="office")
    producer = forest.producer("york")
    send_each(forest, producer, "queue:kept", 30)
    assert held_by(york) == {"queue:kept"}
    assert hq.core.custody.spools[Spool.UP] < FULL
    producer.send("queue:sales", b"sold")
    forest.settle(1.0)
    assert sales.payloads == [b"sold"]
    kept = forest.consumer("hq", "queue:kept", name="late")
    forest.settle(5.0)
    assert len(kept.payloads) == 30
    assert held_by(york) == set()
