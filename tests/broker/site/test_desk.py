"""The desk of a real node, with a bridge of the test's own."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nodes import running_node
from waiting import counting_turns, until

from bridges.site_brokers import registry
from bridges.site_brokers.base import (
    BrokerConsumer,
    BrokerDelivery,
    Desk,
    Finding,
    Setup,
    SiteBrokerError,
    Taken,
)
from broker.core.policy import Policy
from broker.core.site.site import SiteClient
from broker.node import Node
from config.behaviour import Delivery, DestinationPolicy
from config.model import Listener, Site, SiteBroker, SiteRule
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import Destination, parse
from treeconnector.routes import Route


class Bridge:
    """Does what it is told. `visits`: how often it was let in."""

    def __init__(self, consumers: Sequence[str]) -> None:
        self.consumers = consumers
        self.desk: Desk
        self.given: list[BrokerDelivery] = []
        self.wanted: frozenset[Destination] = frozenset()
        self.visits = 0
        self.greeted: list[tuple[str, str, bytes]] = []
        self.on_delivery: Callable[[], None] = lambda: None
        self.reviewed: list[str] = []
        self.left = False

    async def run(self, desk: Desk) -> None:
        self.desk = desk
        self.visits += 1
        desk.connected("a bridge of a test")
        desk.complete([BrokerConsumer(parse(text), "one") for text in self.consumers])
        await asyncio.Event().wait()

    def want(self, wanted: frozenset[Destination]) -> None:
        self.wanted = wanted

    def deliver(self, batch: Sequence[BrokerDelivery]) -> None:
        self.on_delivery()
        self.given += [each for each in batch if each.alone is None]
        self.greeted += [
            (each.alone.id, each.destination.name, each.message.payload) for each in batch if each.alone
        ]
        self.desk.confirm([delivery.id for delivery in batch])

    def greets(self, consumer: BrokerConsumer) -> bool:
        return consumer.id != "plain"

    retains = False

    def review(self, pattern: str) -> None:
        self.reviewed.append(pattern)

    async def leave(self) -> None:
        self.left = True

    def farewell(self) -> list[str]:
        return ["goodbye"]

    def status(self) -> dict[str, Any]:
        return {}

    async def inspect(self) -> list[Finding]:
        return []


Visit = Callable[..., AbstractAsyncContextManager[tuple[Node, Bridge]]]


@pytest.fixture
def visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """Runs a node that has let its bridge in."""

    @asynccontextmanager
    async def visited(
        *consumers: str, bounds: Sequence[DestinationPolicy] = (), **settings: Any
    ) -> AsyncIterator[tuple[Node, Bridge]]:
        bridge = Bridge(consumers)

        def one(setup: Setup) -> Bridge:
            return bridge

        monkeypatch.setattr(registry, "import_module", lambda name: type("Module", (), {"make": one}))
        site = Site(
            name="york",
            data=tmp_path / "data",
            listener=Listener(port=0),
            site_broker=SiteBroker(uri="mqtt://localhost", **settings),
            delivery=Delivery(destinations=tuple(bounds)),
        )
        async with running_node(site) as node:
            await until(lambda: bridge.visits == 1)
            yield node, bridge

    return visited


async def test_a_mistake_of_a_bridge_ends_its_connection_and_loses_nothing(visit: Visit) -> None:
    mistakes = [KeyError("a mistake")]

    def fail() -> None:
        if mistakes:
            raise mistakes.pop()

    async with visit("queue:orders") as (_, bridge):
        bridge.on_delivery = fail
        bridge.desk.take([Taken(parse("queue:orders"), Message(b"order"))], lambda: None)
        await until(lambda: len(bridge.given) == 1)
        assert bridge.visits == 2
        assert bridge.given[0].again


async def test_a_queue_without_room_holds_up_no_other_and_keeps_its_order(
    visit: Visit, caplog: pytest.LogCaptureFixture
) -> None:
    low, high = parse("queue:low"), parse("queue:high")
    bound = DestinationPolicy(pattern="queue:low", max_messages=2)
    async with visit(bounds=[bound]) as (node, bridge):
        done: list[str] = []

        def take(name: str, *messages: tuple[Destination, bytes]) -> None:
            batch = [Taken(destination, Message(body)) for destination, body in messages]
            bridge.desk.take(batch, lambda: done.append(name))

        take("a", (low, b"1"), (low, b"2"), (high, b"1"), (low, b"3"))
        take("b", (high, b"2"))
        take("c", (low, b"4"), (high, b"3"))
        take("d")
        await until(lambda: done == ["b", "d"])
        take("e", (high, b"4"), (low, b"5"))
        take("f", (high, b"5"))
        await until(lambda: done == ["b", "d", "f"])
        assert node.report.desk is not None
        status = node.report.desk.status()
        assert (status["held"], status["held_for"], status["taken"]) == (3, ["queue:low"], 7)
        assert not bridge.desk.has_room(low)
        assert not node.core.message_admission.refused, "they wait"
        assert caplog.text.count("no room for more of queue:low: it waits at the site's broker") == 1
        assert bridge.desk.has_room(high)
        bridge.desk.came(BrokerConsumer(low, "reader"))
        await until(lambda: done == ["b", "d", "f", "a", "c", "e"])
        await until(lambda: len(bridge.given) == 5)
        assert [each.message.payload for each in bridge.given] == [b"1", b"2", b"3", b"4", b"5"]
        assert node.report.desk.status()["held"] == 0
        assert bridge.desk.has_room(low)


async def test_a_broker_that_ends_each_connection_at_once_is_tried_again_with_pauses(visit: Visit) -> None:
    async with visit() as (node, bridge):
        real, failing = bridge.run, [SiteBrokerError("FRAME_ERROR [501]")] * 2

        async def run(desk: Desk) -> None:
            if failing:
                bridge.visits += 1
                desk.connected("a bridge of a test")
                raise failing.pop()
            await real(desk)

        bridge.run = run  # type: ignore[method-assign]
        bridge.desk.mistake.set_result(SiteBrokerError("lost"))  # type: ignore[attr-defined]
        await until(lambda: bridge.visits == 4)
        assert node.report.desk.failures == 3


async def test_a_broker_that_refuses_very_much_does_not_fill_the_log(
    visit: Visit, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is a dead letter, and these are counted there, with the latest one's reason."""
    async with visit("queue:orders") as (_, bridge):

        def deliver(batch: Sequence[BrokerDelivery]) -> None:
            for delivery in batch:
                bridge.desk.refuse(delivery.id, "REFUSED_BY_BROKER: queue 'orders' does not take it (full?)")

        bridge.deliver = deliver  # type: ignore[method-assign]
        bridge.desk.take([Taken(parse("queue:orders"), Message(b"order"))] * 50, lambda: None)
        await until(lambda: "sapwood.dead" in {record.name for record in caplog.records})
    said = [each.getMessage() for each in caplog.records if each.name in ("sapwood.site", "sapwood.dead")]
    assert len([text for text in said if "REFUSED_BY_BROKER" in text]) <= 2
    assert [text for text in said if text.endswith(": queue 'orders' does not take it (full?)")]


async def test_a_mistake_over_what_is_on_disk_ends_the_connection_and_not_the_node(visit: Visit) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with visit("queue:orders") as (_, bridge):
        bridge.desk.take([Taken(parse("queue:orders"), Message(b"order"))], fail)
        await until(lambda: len(bridge.given) == 1 and bridge.visits == 2)
        done: list[str] = []
        bridge.desk.take([Taken(parse("queue:orders"), Message(b"next"))], lambda: done.append("done"))
        await until(lambda: bool(done))


async def test_a_mistake_over_what_came_ends_the_connection_and_all_is_answered_on_the_next(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visit("queue:orders") as (node, bridge):
        intake = type(node.core.site.intake)
        let_in, mistakes = intake.take, [KeyError("a mistake")]

        def take(self: Any, batch: Sequence[Taken]) -> int:
            if mistakes:
                raise mistakes.pop()
            return let_in(self, batch)

        monkeypatch.setattr(intake, "take", take)
        done: list[str] = []
        order = Taken(parse("queue:orders"), Message(b"order"))
        bridge.desk.take([order], lambda: done.append("first"))
        await until(lambda: bridge.visits == 2)
        bridge.desk.take([order], lambda: done.append("again"))
        await until(lambda: bool(done))
        assert done == ["again"]


async def test_a_question_for_room_takes_none_and_is_no_refusal(visit: Visit) -> None:
    large = DestinationPolicy(pattern="queue:low", max_messages=1)
    async with visit(bounds=[large]) as (node, bridge):
        admission = node.core.message_admission
        left = admission.disk_room = 1_000_000.0
        assert bridge.desk.has_room(parse("queue:low"))
        assert bridge.desk.has_room(parse("queue:System.hq")), "it would be a dead letter"
        assert (admission.disk_room, dict(admission.refused)) == (left, {})


async def test_the_topic_of_an_answer_is_renamed_as_its_messages_are(visit: Visit) -> None:
    rule = SiteRule(pattern="topic:till/#", direction="both", tree_prefix="stores/0042/")
    answers = ("topic:till/answers/1", "topic:other/answers", "answers@york", "")
    async with visit("queue:orders", "queue:asked", rules=(rule,)) as (_, bridge):
        asked = [Message(b"", Properties(reply_to=text)) for text in answers]
        line: Any = bridge.desk
        taken = line._rules.named_in_tree([Taken(parse("queue:asked"), each) for each in asked])
        inside = [each.message.properties.reply_to for each in taken]
        assert inside == ["topic:stores/0042/till/answers/1", "", "answers@york", ""]
        bridge.desk.take([Taken(parse("queue:orders"), asked[0])], lambda: None)
        await until(lambda: len(bridge.given) == 1)
        assert bridge.given[0].message.properties.reply_to == answers[0]


async def test_a_bridge_knows_where_answers_are_wanted_before_it_is_given_a_request(visit: Visit) -> None:
    async with visit() as (_, bridge):
        line: Any = bridge.desk
        wanted: list[frozenset[Destination]] = []
        bridge.on_delivery = lambda: wanted.append(bridge.wanted)
        answers, asked = parse("topic:answers"), Message(b"", Properties(reply_to="topic:answers"))
        line.give([BrokerDelivery(1, parse("queue:a"), Message(b""), True, False, False)])
        line._host.core.table.put(Route(answers, "bath", True, "bath", "test"))
        line.give([BrokerDelivery(2, parse("queue:a"), asked, True, False, False)])
        await until(lambda: len(bridge.given) == 2)
        assert wanted == [frozenset({answers})]


async def test_who_comes_later_is_given_what_is_retained_and_nobody_else(visit: Visit) -> None:
    async with visit("topic:price/#") as (_, bridge):
        done: list[str] = []
        for name, payload in (("tea", b"9"), ("milk", b"1"), ("tea", b"10")):
            taken = Taken(parse(f"topic:price/{name}"), Message(payload), retained=True)
            bridge.desk.take([taken], lambda: done.append(""))
        await until(lambda: len(done) == 3)
        bridge.desk.came(BrokerConsumer(parse("topic:price/#"), "two"))
        bridge.desk.came(BrokerConsumer(parse("topic:price/#"), "two"))
        bridge.desk.came(BrokerConsumer(parse("topic:price/+"), "plain"))
        bridge.desk.came(BrokerConsumer(parse("topic:price/tea"), "three"))
        await until(lambda: len(bridge.greeted) == 3)
        assert bridge.greeted == [
            ("two", "price/milk", b"1"),
            ("two", "price/tea", b"10"),
            ("three", "price/tea", b"10"),
        ]


async def test_what_the_broker_retains_is_looked_at_when_its_readers_change(visit: Visit) -> None:
    async with visit("topic:price/#") as (_, bridge):
        reader = BrokerConsumer(parse("topic:price/#"), "one")
        assert bridge.reviewed == ["#"], "the whole list of consumers is known"
        bridge.desk.came(BrokerConsumer(parse("topic:other"), "one"))
        bridge.desk.went(reader)
        assert bridge.reviewed == ["#"], "whoever goes may come back"
        bridge.desk.came(reader)
        assert bridge.reviewed == ["#", "price/#"]
        assert bridge.desk.outdated(["price/tea"]) == ["price/tea"]


async def test_who_leaves_has_the_broker_forget_it_or_says_how(visit: Visit) -> None:
    async with visit() as (node, bridge):
        assert node.report.desk is not None
        assert await node.report.desk.leave() == []
        assert bridge.left
        node.report.desk.stay()
        await until(lambda: bridge.visits == 2)

        async def fails() -> None:
            raise SiteBrokerError("no more")

        bridge.leave = fails  # type: ignore[method-assign]
        assert await node.report.desk.leave() == ["goodbye"]


async def test_very_much_that_is_wanted_is_told_some_at_a_time(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visit() as (node, bridge):
        keys = frozenset(parse(f"queue:q{number}") for number in range(20_000))
        monkeypatch.setattr(SiteClient, "wanted", keys)
        told_at = []
        async with counting_turns() as turns:
            node.core.policies.tell(Policy.wanted_changed)
            monkeypatch.setattr(bridge, "want", lambda wanted: told_at.append((wanted, turns())))
            await until(lambda: bool(told_at))
        ((wanted, when),) = told_at
        assert wanted == keys
        assert when >= 20


@pytest.mark.parametrize("name", ["System", "System.answers", "RoutingMgr", "lm"])
async def test_a_queue_by_which_nodes_talk_is_not_read_for_the_site(visit: Visit, name: str) -> None:
    """An application there would get other nodes' questions, and the node would not."""
    async with visit(f"queue:{name}", "queue:orders") as (node, bridge):
        await until(lambda: parse("queue:orders") in node.core.site.consumers)
        bridge.desk.came(BrokerConsumer(parse(f"queue:{name}@york"), "another"))
        assert set(node.core.site.consumers) == {parse("queue:orders")}
