"""A site's broker as a client of its node: consumers, deliveries, refusals, what is taken, restarts."""

from collections.abc import Iterable
from typing import Any

import pytest
from memory_broker import Broker

from broker.core.rows import MetaRow, SubscriptionRow
from broker.core.settings import QueuePolicy
from broker.core.site import site
from broker.core.site.site import SiteClient
from sapwood.protocol.bundles import Message, Properties, Scope
from sapwood.protocol.destinations import Destination, Kind, parse
from simulation.forest import Forest
from treeconnector.edge import BrokerConsumer, Taken
from treeconnector.patterns import matches


def chain(forest: Forest, policies: Iterable[QueuePolicy] = ()) -> Broker:
    """HQ, a region, and a store with a broker."""
    forest.add("hq", policies=tuple(policies))
    forest.add("north", "hq", "branch", policies=tuple(policies))
    forest.add("york", "north", policies=tuple(policies))
    forest.dial_all()
    forest.settle(3.0)
    return Broker(forest, "york")


def wanted(broker: Broker) -> set[str]:
    return {str(key) for key in broker.site.wanted}


def test_a_message_goes_to_the_broker_once_however_many_of_its_filters_match(forest: Forest) -> None:
    broker = chain(forest)
    broker.consumers("topic:prices/#", "topic:prices/+", "queue:orders")
    hq = forest.producer("hq", "writer")
    hq.send("topic:prices/tea", b"tea")
    hq.send("queue:orders", b"order")
    forest.settle(2.0)
    assert sorted(broker.payloads()) == [b"order", b"tea"]
    assert forest["york"].waiting() == 2
    broker.confirm()
    assert forest["york"].waiting() == 0


def test_what_came_from_the_broker_goes_to_all_others_but_not_back(forest: Forest) -> None:
    broker = chain(forest)
    broker.consumers("topic:prices/#")
    reader = forest.consumer("york", "topic:prices/#", name="beside")
    above = forest.consumer("hq", "topic:prices/#", name="above")
    forest.settle(1.0)
    assert broker.sends("topic:prices/tea", b"tea") == 1
    assert (reader.payloads, above.payloads, broker.given) == ([b"tea"], [b"tea"], [])


def test_only_what_others_want_is_wanted_and_a_local_consumer_of_a_queue_comes_first(forest: Forest) -> None:
    broker = chain(forest)
    broker.consumers("topic:own/#", "queue:orders")
    assert wanted(broker) == set()
    forest.consumer("hq", "topic:own/#", name="a")
    forest.consumer("hq", "queue:orders", name="b")
    forest.consumer("york", "topic:beside", name="c")
    forest.settle(1.0)
    assert wanted(broker) == {"topic:own/#", "topic:beside"}
    broker.consumers("topic:own/#")
    assert wanted(broker) == {"topic:own/#", "topic:beside", "queue:orders"}


def test_topics_of_scope_tree_are_wanted_whoever_reads_them(forest: Forest) -> None:
    broker = chain(forest, [QueuePolicy(Kind.TOPIC, "news/#", Scope.TREE)])
    assert wanted(broker) == {"topic:news/#"}


def given_three_orders(forest: Forest) -> Broker:
    broker = chain(forest)
    broker.consumers("queue:orders")
    hq = forest.producer("hq", "writer")
    for payload in (b"1", b"2", b"3"):
        hq.send("queue:orders", payload)
    forest.settle(2.0)
    return broker


def test_a_refused_message_is_a_dead_letter_and_holds_up_nobody(forest: Forest) -> None:
    broker = given_three_orders(forest)
    second = next(each for each in broker.given if each.message.payload == b"2")
    broker.site.refuse(second.id, "NOT_AUTHORIZED: reason code 135")
    broker.site.confirm([each.id for each in broker.given if each is not second])
    forest.settle(1.0)
    assert forest["york"].waiting() == 0
    assert [(reason, message.payload) for reason, message in forest["york"].dead()] == [
        ("NOT_AUTHORIZED: reason code 135", b"2")
    ]


def test_a_topic_s_letter_that_a_broker_gave_to_some_of_its_readers_maybe_comes_back_marked(
    forest: Forest,
) -> None:
    broker = chain(forest)
    broker.consumers("topic:prices")
    forest.producer("hq", "writer").send("topic:prices", b"9")
    forest.settle(2.0)
    broker.site.refuse(broker.given[0].id, "REFUSED_BY_BROKER: a queue does not take it")
    broker.given.clear()
    york = forest["york"].core
    york.advance(forest["york"].now)
    york.dead_letters.give_back([(each, 1) for each in york.custody.dead.waiting])
    forest.settle(1.0)
    assert [(each.message.payload, each.again) for each in broker.given] == [(b"9", True)]


def test_what_the_broker_threw_away_is_given_again_and_no_more_than_that(forest: Forest) -> None:
    broker = given_three_orders(forest)
    first, second, third = broker.given
    broker.site.confirm([first.id])
    broker.given.clear()
    forest.settle(1.0)
    broker.site.again(second)
    forest.settle(1.0)
    assert [(each.message.payload, each.again) for each in broker.given] == [(b"2", False)]
    again = broker.given[0]
    broker.site.again(second)
    broker.site.confirm([third.id])
    forest.settle(1.0)
    assert forest["york"].waiting() == 1
    broker.site.confirm([again.id])
    forest.settle(1.0)
    assert (forest["york"].waiting(), forest["york"].dead(), len(broker.given)) == (0, [], 1)


def test_what_was_not_answered_is_given_again_and_says_so(forest: Forest) -> None:
    broker = chain(forest)
    broker.consumers("queue:orders", "topic:t")
    forest.producer("hq", "writer").send("queue:orders", b"order")
    forest.producer("hq", "another").send("topic:t", b"topic")
    forest.settle(2.0)
    assert [each.again for each in broker.given] == [False, False]
    broker.site.lost()
    broker.given.clear()
    forest.settle(1.0)
    assert broker.given == []
    broker.site.connected()
    assert sorted(broker.payloads()) == [b"order", b"topic"]
    assert all(each.again for each in broker.given)
    for _ in range(20):
        broker.site.lost()
        broker.site.connected()
    broker.confirm()
    assert (forest["york"].waiting(), forest["york"].dead()) == (0, [])


def test_after_a_crash_consumers_stand_until_the_first_complete_list(forest: Forest) -> None:
    broker = chain(forest)
    broker.consumers("topic:t", "queue:gone")
    forest["york"].crash()
    forest.producer("hq", "writer").send("topic:t", b"kept")
    forest.settle(2.0)
    forest["york"].boot()
    broker.given.clear()
    broker.attach()
    forest.dial_all()
    forest.settle(60.0)
    assert broker.payloads() == [b"kept"]
    core = forest["hq"].core
    assert core.table.gateways(parse("queue:gone"))
    broker.consumers("topic:t")
    assert not core.table.gateways(parse("queue:gone"))
    assert core.table.gateways(parse("topic:t"))


def test_what_the_broker_repeats_after_a_crash_is_known_by_its_key(forest: Forest) -> None:
    broker = chain(forest)
    reader = forest.consumer("hq", "queue:orders", name="reader")
    forest.settle(1.0)
    assert broker.sends("queue:orders", b"one", key="7") == 1
    forest["york"].crash()
    forest["york"].boot()
    broker.attach()
    forest.dial_all()
    forest.settle(2.0)
    assert broker.sends("queue:orders", b"one", key="7", again=True) == 1
    assert broker.sends("queue:orders", b"two", key="8", again=True) == 1
    forest.settle(2.0)
    assert reader.payloads == [b"one", b"two"]
    assert broker.site.repeated == 1


def test_what_may_be_a_repetition_and_is_not_known_says_so_to_the_end(forest: Forest) -> None:
    york = chain(forest)
    hq = Broker(forest, "hq")
    hq.consumers("queue:orders")
    assert york.sends("queue:orders", b"once", key="1") == 1
    assert york.sends("queue:orders", b"maybe", key="2", again=True) == 1
    forest.settle(2.0)
    assert [(each.message.payload, each.again) for each in hq.given] == [(b"once", False), (b"maybe", True)]


def test_keys_are_forgotten_after_many_messages_and_not_after_many_batches(forest: Forest) -> None:
    """One message a batch is usual: a broker may give all that it had unanswered again after a crash."""
    broker = chain(forest)

    def take(*keys: int, again: bool = False) -> None:
        topic = parse("topic:t")
        broker.site.take([Taken(topic, Message(b"x"), key=str(key), again=again) for key in keys])
        forest.settle(0.1)

    for number in range(100):
        take(number)
    take(0, again=True)
    assert broker.site.repeated == 1
    take(*range(100, 10_100))
    take(1, again=True)
    assert broker.site.repeated == 1
    take(10_000, again=True)
    assert broker.site.repeated == 2
    kept = [row for row in forest["york"].disk.rows(MetaRow) if row.name.startswith("taken:")]
    assert len(kept) == 3


def test_what_is_too_large_for_the_tree_is_dead_where_it_entered(forest: Forest) -> None:
    broker = chain(forest)
    assert broker.sends("topic:t", bytes(20 * 1024 * 1024), b"small") == 2
    assert [reason.partition(":")[0] for reason, _ in forest["york"].dead()] == ["TOO_LARGE"]


def test_properties_that_no_node_would_read_are_dead_where_they_entered(forest: Forest) -> None:
    broker = chain(forest)
    large = Message(b"", Properties(headers={"x": "x" * 300_000}))
    assert broker.site.take([Taken(parse("topic:t"), large), Taken(parse("topic:t"), Message(b"small"))]) == 2
    forest.settle(1.0)
    assert [copy.note.partition(":")[0] for copy in forest["york"].core.custody.dead.waiting] == ["TOO_LARGE"]


def test_the_rest_of_a_batch_waits_while_the_node_is_full(forest: Forest) -> None:
    forest.add("hq", policies=(QueuePolicy(Kind.QUEUE, "#", max_messages=3, home=True),))
    broker = Broker(forest, "hq")
    assert broker.sends("queue:orders", b"1", b"2", b"3", b"4") == 3


def test_messages_that_come_together_go_together_and_each_by_its_own_rules(forest: Forest) -> None:
    broker = chain(forest)
    reader = forest.consumer("hq", "topic:t", name="reader")
    forest.settle(1.0)
    one, asked = parse("topic:t"), Properties(reply_to="answers@nowhere else")
    batch = [
        Taken(one, Message(b"1"), key="1"),
        Taken(one, Message(b"2"), key="2"),
        Taken(parse("queue:q"), Message(b"other")),
        Taken(one, Message(b"3", asked)),
        Taken(one, Message(b"4"), key="1", again=True),
        Taken(one, Message(b"5"), odd="UNREADABLE"),
        Taken(one, Message(b"6"), persistent=False),
        *[Taken(one, Message(bytes(100_000))) for _ in range(5)],
    ]
    assert broker.site.take(batch) == len(batch)
    forest.settle(2.0)
    assert reader.payloads == [b"6", b"1", b"2", b"3", b"4", *[bytes(100_000)] * 5], (
        "the sixth waits for no disk"
    )
    assert [message.payload for _, message in forest["york"].dead()] == [b"5"]
    assert broker.site.take([Taken(one, Message(b"1"), key="1", again=True), Taken(one, Message(b"7"))]) == 2
    forest.settle(2.0)
    assert (reader.payloads[-1], broker.site.repeated) == (b"7", 1)


def test_what_the_nodes_above_refuse_is_dead_and_what_comes_with_it_is_not(forest: Forest) -> None:
    broker = chain(forest)
    reader = forest.consumer("hq", "topic:t", name="reader")
    forest.settle(1.0)
    refused = parse("queue:System.hq")
    batch = [Taken(parse("topic:t"), Message(b"1")), *[Taken(refused, Message(b"%d" % n)) for n in (2, 3)]]
    assert broker.site.take([*batch, Taken(parse("topic:t"), Message(b"4"))]) == 4
    forest.settle(2.0)
    assert reader.payloads == [b"1", b"4"]
    assert [message.payload for _, message in forest["york"].dead()] == [b"2", b"3"]


def test_what_is_not_persistent_does_not_wait_for_a_full_node(forest: Forest) -> None:
    hq = forest.add("hq", policies=(QueuePolicy(Kind.QUEUE, "#", max_messages=1, home=True),))
    broker = Broker(forest, "hq")
    destination = parse("queue:orders")
    batch = [Taken(destination, Message(b"%d" % number), persistent=number != 1) for number in range(4)]
    assert broker.site.take(batch) == 2, "the first is in, the second dropped, the third waits"
    assert hq.core.counters["volatile_dropped"] == 1


def test_what_the_bridge_cannot_read_is_a_dead_letter(forest: Forest) -> None:
    broker = chain(forest)
    odd = Taken(parse("topic:unreadable"), Message(b"odd"), odd="UNREADABLE: its key is no text")
    assert broker.site.take([odd, Taken(parse("topic:t"), Message(b"good"))]) == 2
    forest.settle(1.0)
    ((reason, message),) = forest["york"].dead()
    assert (reason, message.payload) == ("UNREADABLE: its key is no text", b"odd")


def test_what_remains_of_the_expiry_is_told(forest: Forest) -> None:
    broker = chain(forest)
    broker.consumers("queue:orders")
    broker.site.lost()
    forest.producer("hq", "writer").send("queue:orders", b"soon", expires_in=60_000)
    forest.settle(2.0)
    forest.settle(20.0)
    broker.site.connected()
    forest.settle()
    (delivery,) = broker.given
    assert 1 <= delivery.message.properties.expires_in <= 60_000 - 20_000


def test_a_retained_message_follows_a_new_filter_but_not_to_where_it_came_from(forest: Forest) -> None:
    broker = chain(forest)
    forest.producer("hq", "writer").send("topic:price/tea", b"9", retained=True)
    forest.settle(1.0)
    broker.consumers("topic:price/#")
    assert [(each.message.payload, each.retained) for each in broker.given] == [(b"9", True)]
    broker.confirm()
    broker.given.clear()
    broker.sends("topic:own/tea", b"8", retained=True)
    broker.consumers("topic:price/#", "topic:own/#")
    assert broker.given == []


def test_without_a_site_broker_nothing_is_left_of_it(forest: Forest) -> None:
    broker = chain(forest)
    broker.consumers("topic:t", "queue:q")
    broker.site.lost()
    forest.producer("hq", "writer").send("topic:t", b"lost")
    forest.settle(2.0)
    broker.site.end()
    forest.settle(2.0)
    assert forest["york"].disk.rows(SubscriptionRow) == []
    assert forest["york"].waiting() == 0
    assert Destination(Kind.TOPIC, "t") not in forest["hq"].core.table


def test_of_very_many_retained_messages_the_latest_are_known_as_given(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "_MOST_RETAINED", 3)
    broker = chain(forest)
    broker.consumers("topic:price/#")
    writer = forest.producer("hq", "writer")
    for number in range(8):
        writer.send(f"topic:price/{number}", b"9", retained=True)
        forest.settle(1.0)
    assert len(broker.payloads()) == 8
    assert list(broker.site._retained) == ["price/5", "price/6", "price/7"]


def test_a_queue_where_an_answer_is_waited_for_is_not_taken_though_others_read_one_of_that_name(
    forest: Forest,
) -> None:
    broker = chain(forest)
    forest.consumer("hq", "queue:answers", name="a")
    forest.settle(2.0)
    assert wanted(broker) == {"queue:answers"}
    broker.consumers("queue:answers@york")
    assert wanted(broker) == set()
    forest.producer("hq", "responder").send("queue:answers@york", b"yes")
    forest.settle(2.0)
    assert broker.payloads() == [b"yes"]
    broker.confirm()
    broker.consumers("queue:answers@york", "queue:answers")
    broker.consumers("queue:answers@york")
    forest.producer("north", "responder").send("queue:answers@york", b"yes again")
    forest.settle(2.0)
    assert broker.payloads() == [b"yes", b"yes again"]
    broker.consumers()
    assert wanted(broker) == {"queue:answers"}


def test_what_the_broker_has_is_not_given_again_because_its_reader_is_known_better(forest: Forest) -> None:
    """Somebody waits there for an answer, and is then found to be a consumer."""
    broker = chain(forest)
    asked, found = (BrokerConsumer(parse(text), "one") for text in ("queue:answers@york", "queue:answers"))
    broker.site.came(asked)
    forest.settle(1.0)
    forest.producer("hq").send("queue:answers@york", b"answer")
    forest.settle(1.0)
    assert broker.payloads() == [b"answer"]
    broker.site.came(found)
    broker.site.went(asked)
    forest.settle(1.0)
    assert broker.payloads() == [b"answer"]
    broker.confirm()
    assert (forest["york"].waiting(), broker.site.unanswered) == (0, 0)


def test_whether_a_topic_is_taken_costs_what_matches_it_however_much_is_wanted(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = QueuePolicy(Kind.TOPIC, "all/#", scope=Scope.TREE)
    broker = chain(forest, [policy])
    for number in range(300):
        forest.consumer("hq", f"topic:prices/{number}/+", name=f"reader-{number}")
    gone = forest.consumer("hq", "topic:stock/+", name="gone")
    forest.settle(1.0)
    assert broker.site.takes_from_site("stock/tea")
    assert len(broker.site.wanted) == 302
    tried: list[str] = []

    def noted(pattern: str, name: str) -> bool:
        tried.append(pattern)
        return matches(pattern, name)

    with monkeypatch.context() as patched:
        patched.setattr(site, "matches", noted)
        patched.setattr(type(broker.site), "wanted", property(lambda self: pytest.fail("a whole set")))
        takes = broker.site.takes_from_site
        assert [takes(name) for name in ("prices/7/tea", "prices/7", "all/tea", "sales")] == [
            True, False, True, False,
        ]  # fmt: skip
    assert len(tried) <= 4
    gone.disconnect()
    forest.settle(30.0)
    assert not broker.site.takes_from_site("stock/tea")


def test_a_row_of_a_queue_by_which_nodes_talk_is_forgotten_at_a_start(forest: Forest) -> None:
    """Nodes wrote such rows once, and gave the site's broker the questions of other nodes."""
    forest.add("york")
    broker = Broker(forest, "york")
    broker.consumers("queue:System", "queue:orders")
    forest["york"].crash()
    forest["york"].boot()
    assert set(forest["york"].core.site.consumers) == {parse("queue:orders")}
    forest.settle(1.0)
    patterns = {row.pattern for row in forest["york"].disk.rows(SubscriptionRow)}
    assert patterns == {"queue:orders"}


def test_a_queue_by_which_nodes_talk_is_not_taken_from_the_broker(forest: Forest) -> None:
    """Whoever says elsewhere that he reads it."""
    broker = chain(forest)
    hq = Broker(forest, "hq")
    hq.consumers("queue:System", "queue:orders")
    forest.settle(1.0)
    assert wanted(broker) == {"queue:orders"}


@pytest.mark.parametrize("happens", ["lost", "gone"])
def test_of_very_many_queues_each_unanswered_message_is_looked_at_once(
    forest: Forest, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    """With 4,000 of them, all by all took three seconds."""
    forest.add("york")
    broker, producer = Broker(forest, "york"), forest.producer("york", "writer")
    queues = [f"queue:q{number}" for number in range(20)]
    broker.consumers(*queues)
    for each in queues:
        producer.send(each, b"x")
    forest.settle(1.0)
    assert broker.site.unanswered == len(queues)
    looked_at, asked = 0, 0
    kind, readers = type(broker.site._hand.unacked), SiteClient._readers
    plain = kind.of

    def of(unacked: Any, consumer: Any) -> Any:
        nonlocal looked_at
        found = plain(unacked, consumer)
        looked_at += len(found)
        return found

    def counted(site: SiteClient) -> Any:
        nonlocal asked
        asked += 1
        return readers(site)

    monkeypatch.setattr(kind, "of", of)
    monkeypatch.setattr(SiteClient, "_readers", counted)
    if happens == "lost":
        broker.site.lost()
    else:
        broker.site.complete([])
    assert looked_at == len(queues)
    assert asked <= 2, "nobody goes over all readers for each message"
    monkeypatch.undo()
    assert broker.site.unanswered == 0
    assert forest["york"].waiting() == len(queues)
