"""Events and lists in, consumers out; no broker is needed."""

from typing import Any

import pytest

from bridges.site_brokers.rabbitmq import exchanges
from bridges.site_brokers.rabbitmq.consumers import MOST_ASKED, Known, Listed, QueueTable
from bridges.site_brokers.rabbitmq.exchanges import Binding, Exchanges
from treeconnector.patterns import from_amqp

ALL = ("till", True, False)
EXCHANGES = Exchanges("amq.topic", [("sales", "sales/")])


def usual(key: str) -> Binding:
    return Binding("amq.topic", key)


@pytest.fixture
def census() -> QueueTable:
    return QueueTable("york", "shop", EXCHANGES, limit=100)


def made(census: QueueTable, name: str, **headers: object) -> None:
    census.event("queue.created", {"vhost": "shop", "name": name, "durable": False, **headers})


def bound(census: QueueTable, name: str, key: str, kind: str = "created", source: str = "amq.topic") -> None:
    headers = {"vhost": "shop", "source_name": source, "destination_kind": "queue"}
    census.event(f"binding.{kind}", {**headers, "destination_name": name, "routing_key": key})


def consumed(census: QueueTable, name: str, channel: str = "<1>", kind: str = "created") -> None:
    census.event(
        f"consumer.{kind}", {"vhost": "shop", "queue": name, "channel": channel, "consumer_tag": "t"}
    )


def told(census: QueueTable) -> list[str]:
    return sorted(str(consumer.destination) for consumer in census.consumers())


def asked(census: QueueTable) -> list[str]:
    """The queues in doubt, which are in doubt no longer."""
    census.doubt_closed()
    names = sorted(census.doubtful)
    census.doubtful.clear()
    return names


def test_an_event_only_says_whom_to_ask_for(census: QueueTable) -> None:
    consumed(census, "till")
    assert (told(census), asked(census)) == ([], ["till"])
    census.counted("till", 1)
    assert told(census) == ["queue:till"]
    consumed(census, "till", kind="deleted")
    assert (told(census), asked(census)) == (["queue:till"], ["till"])
    census.counted("till", 0)
    assert told(census) == []


def test_changes_are_told_once(census: QueueTable) -> None:
    made(census, "till", durable=True)
    bound(census, "till", "a.#")
    census.counted("till", 2)
    came, went = census.changes()
    assert sorted(str(consumer.destination) for consumer in came) == ["queue:till", "topic:a/#"]
    assert (went, census.changes()) == ([], ([], []))
    census.counted("till", 1)
    assert census.changes() == ([], [])
    census.counted("till", None)
    came, went = census.changes()
    assert (came, sorted(str(consumer.destination) for consumer in went)) == ([], ["queue:till", "topic:a/#"])


def test_the_end_of_a_channel_puts_its_queues_in_doubt(census: QueueTable) -> None:
    for name, channel in (("a", "<1>"), ("b", "<1>"), ("c", "<2>")):
        consumed(census, name, channel)
        census.counted(name, 1)
    asked(census)
    census.event("channel.closed", {"pid": "<1>"})
    assert asked(census) == ["a", "b"]


def test_the_end_of_an_amqp_1_0_connection_puts_all_that_is_read_in_doubt(census: QueueTable) -> None:
    """RabbitMQ 4 says no more of the consumers of a classic queue, whose session is no channel."""
    for name, count in (("read", 1), ("unread", 0)):
        consumed(census, name, "<session>")
        census.counted(name, count)
    for pid, protocol in (("<new>", "{1,0}"), ("<old>", "{0,9,1}")):
        census.event("connection.created", {"pid": pid, "protocol": protocol})
    asked(census)
    census.event("connection.closed", {"pid": "<old>"})
    census.event("connection.closed", {"pid": "<unknown>"})
    assert (asked(census), census.fading) == ([], set())
    census.event("connection.closed", {"pid": "<new>"})
    assert (asked(census), census.fading) == (["read"], {"read"})
    census.event("connection.closed", {"pid": "<new>"})
    assert asked(census) == []


def test_the_end_of_an_unknown_channel_puts_those_in_doubt_that_were_there_before(census: QueueTable) -> None:
    census.listed([Listed("old", False, False), Listed("unread", False, False)], [])
    consumed(census, "new", "<1>")
    for name, count in (("old", 1), ("unread", 0), ("new", 1)):
        census.counted(name, count)
    asked(census)
    census.event("channel.closed", {"pid": "<9>"})
    assert asked(census) == ["old"]


class CountedQueues(dict[str, Known]):
    """`walks`: how often somebody went over all of them."""

    walks = 0

    def items(self) -> Any:
        self.walks += 1
        return super().items()


@pytest.mark.parametrize("kind", ["channel", "connection"])
def test_the_ends_of_thousands_go_over_all_queues_once(census: QueueTable, kind: str) -> None:
    """Of 10,000 queues each such walk took 1.5 ms of the node."""
    pids = [f"<{number}>" for number in range(50)]
    for pid in pids:
        census.event("connection.created", {"pid": pid, "protocol": "{1,0}"})
    consumed(census, "old")
    census.counted("old", 1)
    asked(census)
    census._channels.clear()
    census.queues = queues = CountedQueues(census.queues)
    for pid in pids:
        census.event(f"{kind}.closed", {"pid": pid})
    assert (asked(census), queues.walks) == (["old"], 1)
    assert (asked(census), queues.walks) == ([], 1)


@pytest.mark.parametrize(
    ("queue", "consumers", "expected"),
    [
        (Listed("q", False, False), 0, []),
        (Listed("q", False, False), 1, ["queue:q", "topic:a/#"]),
        (Listed("q", True, False), 0, ["topic:a/#"]),
        (Listed("q", False, True), 0, ["queue:q@york", "topic:a/#"]),
        (Listed("amq.gen-1", False, False), 1, ["queue:amq.gen-1@york", "topic:a/#"]),
        (Listed("mqtt-subscription-xqos1", True, False), 0, ["topic:a/#"]),
        (Listed("mqtt-subscription-xqos0", False, False, True), 1, ["topic:a/#"]),
        (Listed("sapwood.topics", True, False), 1, []),
    ],
)
def test_what_a_queue_is_to_the_tree(
    census: QueueTable, queue: Listed, consumers: int, expected: list[str]
) -> None:
    census.listed([queue], [(queue.name, usual("a.#"))])
    if queue.name in census.queues and not queue.private:
        census.counted(queue.name, consumers)
    assert told(census) == expected


def test_a_list_ends_what_is_not_in_it(census: QueueTable) -> None:
    census.listed(
        [Listed(*ALL), Listed("gone", True, False)],
        [("till", usual("a")), ("till", usual("b")), ("gone", usual("c"))],
    )
    assert told(census) == ["topic:a", "topic:b", "topic:c"]
    census.listed([Listed(*ALL)], [("till", usual("b"))])
    assert told(census) == ["topic:b"]


def test_a_list_knows_our_reply_queues(census: QueueTable) -> None:
    census.listed([Listed("sapwood.reply.x@leeds", True, False), Listed("sapwood.claim", False, True)], [])
    assert (census.replies, told(census)) == ({"sapwood.reply.x@leeds": False}, [])


def test_other_virtual_hosts_and_exchanges_are_left_aside(census: QueueTable) -> None:
    census.event("queue.created", {"vhost": "other", "name": "q", "durable": True})
    made(census, "till", durable=True)
    bound(census, "till", "a", source="amq.direct")
    assert (list(census.queues), told(census)) == (["till"], [])


def test_what_is_ours_is_left_aside(census: QueueTable) -> None:
    made(census, "sapwood.topics", durable=True)
    consumed(census, "sapwood.topics")
    assert (list(census.queues), asked(census)) == ([], [])


@pytest.mark.parametrize(
    "headers", [{}, {"vhost": "shop"}, {"vhost": "shop", "name": 7}, {"vhost": "shop", "queue": None}]
)
@pytest.mark.parametrize(
    "kind", ["queue.created", "consumer.deleted", "binding.created", "channel.closed", "x"]
)
def test_odd_events_do_no_harm(census: QueueTable, kind: str, headers: dict[str, object]) -> None:
    census.event(kind, headers)
    assert told(census) == []


def test_names_without_a_spelling_are_shown(census: QueueTable) -> None:
    for name in ("a@b", "fine"):
        consumed(census, name)
        census.counted(name, 1)
    assert (told(census), census.odd) == (["queue:fine"], {"a@b"})
    census.counted("a@b", None)
    census.changes()
    assert census.odd == set()


def test_made_queues_are_passed_on(census: QueueTable) -> None:
    made(census, "orders", durable=True)
    assert list(census.arrived) == ["orders"]
    census.event("queue.deleted", {"vhost": "shop", "name": "orders"})
    assert list(census.arrived) == []


def test_it_shows_how_it_stands(census: QueueTable) -> None:
    made(census, "orders")
    assert repr(census) == "<QueueTable of shop queues=1 doubtful=1 stale=False>"


def test_what_happens_while_a_list_is_made_counts_after_it(census: QueueTable) -> None:
    """The list was made before; or it would be a minute until the next one says so."""
    census.listed([Listed("till", True, False), Listed("old", True, False)], [("till", usual("gone"))])
    census.listing()
    made(census, "new", durable=True)
    bound(census, "new", "news.#")
    consumed(census, "new")
    bound(census, "till", "fresh")
    bound(census, "till", "gone", "deleted")
    census.event("queue.deleted", {"vhost": "shop", "name": "old"})
    census.listed(
        [Listed("till", True, False), Listed("old", True, False)],
        [("till", usual("gone")), ("old", usual("a"))],
    )
    assert asked(census) == ["new", "till"]
    census.counted("new", 1)
    assert told(census) == ["queue:new", "topic:fresh", "topic:news/#"]
    census.listed([Listed("till", True, False)], [])
    assert told(census) == []


def test_a_list_during_which_too_much_happened_is_made_again(census: QueueTable) -> None:
    census.listing()
    for number in range(101):
        bound(census, "till", f"k{number % 50}")
    census.listed([Listed("till", True, False)], [])
    assert census.stale
    census.listing()
    bound(census, "till", "k")
    census.doubt_all()
    census.listed([Listed("till", True, False)], [])
    assert (told(census), census.stale) == ([], False)


def test_who_waits_for_an_answer_is_a_consumer_of_this_node_until_his_queue_goes(census: QueueTable) -> None:
    census.asked("answers")
    assert told(census) == ["queue:answers@york"]
    census.counted("answers", 1)
    assert told(census) == ["queue:answers"]
    census.counted("answers", 0)
    assert told(census) == ["queue:answers@york"]
    census.event("queue.deleted", {"vhost": "shop", "name": "answers"})
    assert told(census) == []


def test_of_very_many_who_wait_the_one_not_heard_of_for_longest_is_forgotten(census: QueueTable) -> None:
    for number in range(MOST_ASKED):
        census.asked(f"amq.rabbitmq.reply-to.{number}")
    census.asked("amq.rabbitmq.reply-to.0")
    census.asked("one more")
    names = told(census)
    assert len(names) == MOST_ASKED
    assert "queue:amq.rabbitmq.reply-to.0@york" in names
    assert "queue:amq.rabbitmq.reply-to.1@york" not in names


def test_each_of_very_many_bindings_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that is bound ten thousand times, one binding after the other, is not read anew for each."""
    census, read = QueueTable("york", "shop", EXCHANGES, limit=20_000), []

    def counting(key: str) -> str:
        read.append(key)
        return from_amqp(key)

    monkeypatch.setattr(exchanges, "from_amqp", counting)
    made(census, "till", durable=True)
    came = []
    for number in range(10_000):
        bound(census, "till", f"a.{number}")
        came += census.changes()[0]
    assert [consumer.destination.name for consumer in came] == [f"a/{number}" for number in range(10_000)]
    assert len(read) == 10_000


def test_bindings_that_came_together_with_others_that_went(census: QueueTable) -> None:
    made(census, "till", durable=True)
    bound(census, "till", "a.*")
    assert len(census.changes()[0]) == 1
    bound(census, "till", "b.#")
    bound(census, "till", "b.#")
    assert [str(each.destination) for each in census.changes()[0]] == ["topic:b/#"]
    bound(census, "till", "c.#")
    bound(census, "till", "c.#", "deleted")
    bound(census, "till", "a.*", "deleted")
    came, went = census.changes()
    assert (came, [str(each.destination) for each in went]) == ([], ["topic:a/+"])
    assert told(census) == ["topic:b/#"]


def test_a_binding_reads_the_topics_of_its_exchange(census: QueueTable) -> None:
    made(census, "till", durable=True)
    bound(census, "till", "prices.#")
    bound(census, "till", "prices.#", source="sales")
    assert told(census) == ["topic:prices/#", "topic:sales/prices/#"]
    bound(census, "till", "prices.#", "deleted")
    assert told(census) == ["topic:sales/prices/#"]
    census.listed([Listed(*ALL)], [("till", Binding("sales", "*")), ("till", usual("a"))])
    assert told(census) == ["topic:a", "topic:sales/+"]


def test_a_binding_without_a_spelling_takes_no_other_with_it(census: QueueTable) -> None:
    made(census, "till", durable=True)
    bound(census, "till", "sales.prices")
    for key in ("a", "b", "c"):
        bound(census, "till", key)
    assert (told(census), census.odd) == (["topic:a", "topic:b", "topic:c"], {"till"})
    bound(census, "till", "sales.prices", "deleted")
    assert (told(census), census.odd) == (["topic:a", "topic:b", "topic:c"], set())
