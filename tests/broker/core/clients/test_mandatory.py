"""Who asks to be told that nobody serves a queue is told at once, by a node that is certain."""

from typing import Any

import msgspec
import pytest

from broker.core.clients import mandatory
from broker.core.clients.mandatory import NOBODY_SERVES
from broker.core.settings import CoreSettings
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Message, Properties
from sapwood.protocol.destinations import parse, queue
from sapwood.protocol.session_frames import Create, Deliver, Send
from simulation.clients import Producer, SimulatedConsumer
from simulation.forest import Forest


class Mailbox(SimulatedConsumer):
    """Keeps the whole messages and the flags they came with."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.mail: list[tuple[Message, int]] = []

    def arrived(self, frame: Any) -> None:
        super().arrived(frame)
        if isinstance(frame, Deliver):
            header = bundles.Header(
                id=frame.bundle,
                destination=frame.destination,
                flags=frame.flags,
                count=frame.count,
                size=frame.size,
            )
            self.mail += [(message, frame.flags) for message in bundles.unpack(header, frame.body)]


def mailbox(forest: Forest, site: str, name: str = "replies") -> Mailbox:
    made = Mailbox(forest[site], f"queue:{name}", name)
    forest.clients.append(made)
    made.connect()
    return made


def ask(producer: Producer, destination: str, *questions: bytes, reply_to: str, **properties: Any) -> None:
    """Send questions that want to be told, as one frame."""
    tell = properties.pop("tell", True)
    messages = [
        Message(question, Properties(correlation_id=number, reply_to=reply_to, **properties))
        for number, question in enumerate(questions, 1)
    ]
    body = b"".join(map(bundles.encode_message, messages))
    frame = Send(producer.number + 1, parse(destination), len(messages), body, tell=tell)
    producer.number += len(messages)
    producer.under_way[frame.first] = frame
    producer.say(frame)


@pytest.fixture
def tree(forest: Forest) -> Forest:
    """HQ, a region, two stores."""
    forest.add("hq")
    forest.add("uk", "hq", "branch")
    forest.add("york", "uk")
    forest.add("leeds", "uk")
    forest.dial_all()
    forest.settle()
    return forest


def told(box: Mailbox, *nodes: str) -> list[int | None]:
    """Correlation ids of the notices; nothing else may have come. `nodes`: who may have told, else HQ."""
    for message, flags in box.mail:
        assert flags & Flag.NOTICE
        assert message.properties.headers == {"notice": NOBODY_SERVES}
        error = msgspec.json.decode(message.payload)["error"]
        assert error["code"] == NOBODY_SERVES
        assert error["data"]["node"] in (nodes or ("hq",))
    return [message.properties.correlation_id for message, _ in box.mail]


def kept(forest: Forest) -> int:
    return sum(site.waiting() for site in forest.sites.values() if site.running)


def test_the_root_tells_a_store_that_nobody_serves_and_keeps_nothing(tree: Forest) -> None:
    box = mailbox(tree, "york")
    tree.settle()
    producer = tree.producer("york")
    ask(producer, "queue:stock", b"a", b"b", reply_to="replies@york", task_id="t1", expires_in=5000)
    tree.settle()
    assert told(box) == [1, 2]
    assert {message.properties.task_id for message, _ in box.mail} == {"t1"}
    assert {message.properties.expires_in for message, _ in box.mail} == {5000}
    assert kept(tree) == 0
    assert [len(site.dead()) for site in tree.sites.values()] == [0, 0, 0, 0]
    assert tree["hq"].core.counters["nobody_serves"] == 2
    assert len(producer.confirmed) == 2


def test_who_does_not_ask_is_not_told(tree: Forest) -> None:
    box = mailbox(tree, "york")
    ask(tree.producer("york"), "queue:stock", b"a", reply_to="replies@york", tell=False)
    tree.settle(5.0)
    assert box.mail == []
    assert tree["hq"].waiting() == 1


def test_a_service_in_another_region_is_found_and_nobody_is_told(tree: Forest) -> None:
    service = tree.consumer("leeds", "queue:stock")
    tree.settle()
    box = mailbox(tree, "york")
    ask(tree.producer("york"), "queue:stock", b"a", reply_to="replies@york")
    tree.settle(5.0)
    assert service.payloads == [b"a"]
    assert box.mail == []


def test_a_dormant_service_is_not_nobody(tree: Forest) -> None:
    tree.consumer("leeds", "queue:stock")
    tree.settle()
    wire = tree.wire_of("leeds")
    assert wire is not None
    tree.cut(wire)
    tree["leeds"].crash()
    tree.pass_time(3.0)
    box = mailbox(tree, "york")
    ask(tree.producer("york"), "queue:stock", b"a", reply_to="replies@york")
    tree.settle(5.0)
    assert box.mail == []
    assert kept(tree) == 1


def test_a_service_that_has_just_gone_is_not_nobody_until_its_route_has_lingered(forest: Forest) -> None:
    forest.add("hq", linger=3.0)
    service = forest.consumer("hq", "queue:stock")
    box = mailbox(forest, "hq")
    producer = forest.producer("hq")
    forest.settle()
    service.disconnect()
    forest.settle()
    ask(producer, "queue:stock", b"early", reply_to="replies@hq")
    forest.settle(1.0)
    assert box.mail == []
    service.connect()
    forest.settle()
    assert service.payloads == [b"early"]
    service.disconnect()
    forest.settle()
    ask(producer, "queue:stock", b"late", reply_to="replies@hq")
    forest.settle(6.0)
    assert told(box) == [1]
    assert kept(forest) == 0


def test_what_a_server_had_in_its_hands_waits_for_the_next_one(tree: Forest) -> None:
    first = tree.consumer("leeds", "queue:stock", auto=False, credit=1)
    tree.settle()
    box = mailbox(tree, "york")
    ask(tree.producer("york"), "queue:stock", b"a", reply_to="replies@york")
    tree.settle()
    assert first.payloads == [b"a"]
    first.disconnect()
    tree.settle(5.0)
    assert box.mail == []
    successor = tree.consumer("york", "queue:stock", name="successor")
    tree.settle(5.0)
    assert successor.payloads == [b"a"]


def test_a_node_that_is_no_root_is_certain_of_its_own_queues_only(tree: Forest) -> None:
    box = mailbox(tree, "york")
    wire = tree.wire_of("uk")
    assert wire is not None
    tree.cut(wire)
    tree["hq"].crash()
    producer = tree.producer("york")
    ask(producer, "queue:stock", b"a", reply_to="replies@york")
    ask(producer, "queue:stock@leeds", b"b", reply_to="replies@york")
    tree.settle(5.0)
    assert [message.properties.correlation_id for message, _ in box.mail] == [1]
    error = msgspec.json.decode(box.mail[0][0].payload)["error"]
    assert error["data"] == {"destination": "queue:stock@leeds", "node": "leeds"}
    assert kept(tree) == 1


def test_a_root_that_has_just_started_waits_for_the_children_it_knew(tree: Forest) -> None:
    hq, producer = tree["hq"], tree.producer("hq")
    tree.settle()
    for child in ("uk",):
        wire = tree.wire_of(child)
        assert wire is not None
        tree.cut(wire)
    hq.crash()
    hq.boot()
    producer.connect()
    box = mailbox(tree, "hq")
    service = tree.consumer("leeds", "queue:stock")
    ask(producer, "queue:stock", b"a", reply_to="replies@hq")
    hq.run()
    assert box.mail == []
    tree.dial_all()
    tree.settle(3.0)
    assert service.payloads == [b"a"]
    assert box.mail == []


def test_a_message_without_an_address_for_the_answer_waits_as_any_other(tree: Forest) -> None:
    ask(tree.producer("york"), "queue:stock", b"a", reply_to="")
    ask(tree.producer("york", "other"), "queue:stock", b"a", reply_to="not\na\nname")
    tree.settle(5.0)
    assert tree["hq"].waiting() == 2


def test_the_answer_is_on_disk_in_the_transaction_in_which_the_request_goes(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    ask(producer, "queue:stock", b"a", reply_to="replies@hq")
    assert hq.take()
    hq.write()
    hq.crash()
    hq.boot()
    box = mailbox(forest, "hq")
    forest.settle()
    assert told(box) == [1]
    assert kept(forest) == 0


def test_no_client_can_send_a_notice(forest: Forest) -> None:
    forest.add("hq")
    box = mailbox(forest, "hq")
    message = Message(b"{}", Properties(correlation_id=1, headers={"notice": NOBODY_SERVES}))
    producer = forest.producer("hq")
    producer.say(Send(1, parse("queue:replies"), 1, bundles.encode_message(message)))
    forest.settle()
    ((_, flags),) = box.mail
    assert not flags & Flag.NOTICE


def test_a_service_that_is_expected_back_after_the_root_s_start_is_not_nobody(forest: Forest) -> None:
    """Its route is recovering: the node has stopped with a reader, and gives it `reattach_time`."""
    hq = forest.add("hq", reattach_time=5.0)
    service = forest.consumer("hq", "queue:stock")
    forest.settle()
    hq.crash()
    hq.boot()
    box, producer = mailbox(forest, "hq"), forest.producer("hq")
    ask(producer, "queue:stock", b"early", reply_to="replies@hq")
    ask(producer, "queue:stock@hq", b"directed", reply_to="replies@hq")
    forest.settle(2.0)
    assert box.mail == []
    service.connect()
    forest.settle()
    assert sorted(service.payloads) == [b"directed", b"early"]
    service.disconnect()
    hq.crash()
    hq.boot()
    box, producer = mailbox(forest, "hq"), forest.producer("hq", "other")
    ask(producer, "queue:stock", b"late", reply_to="replies@hq")
    forest.settle(8.0)
    assert told(box) == [1]


def test_who_waited_before_a_start_is_told_after_it(forest: Forest) -> None:
    hq = forest.add("hq", linger=20.0)
    service, box = forest.consumer("hq", "queue:stock"), mailbox(forest, "hq")
    producer = forest.producer("hq")
    forest.settle()
    service.disconnect()
    ask(producer, "queue:stock", b"a", reply_to="replies@hq")
    forest.settle(1.0)
    assert hq.waiting() == 1
    hq.crash()
    hq.boot()
    box = mailbox(forest, "hq")
    forest.settle(3.0)
    assert told(box) == [1]


def test_a_queue_at_home_is_this_node_s_even_if_others_read_one_of_its_name(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.add("york", "hq")
    forest.dial_all()
    forest.consumer("york", "queue:stock")
    box, producer = mailbox(forest, "hq"), forest.producer("hq")
    producer.say(Create(5, "stock", home=True))
    forest.settle()
    ask(producer, "queue:stock", b"a", reply_to="replies@hq")
    forest.settle(3.0)
    assert told(box) == [1]
    assert hq.waiting() == 0


def test_a_child_that_is_sending_its_routes_may_know_more(tree: Forest) -> None:
    held = tree["hq"].core.neighbours["uk"].held
    held.begin_snapshot()
    box = mailbox(tree, "york")
    ask(tree.producer("york"), "queue:stock", b"a", reply_to="replies@york")
    tree.settle(3.0)
    assert box.mail == []
    held.abandon_snapshot()
    tree.settle(3.0)
    assert told(box) == [1]


def test_a_child_that_begins_to_send_its_routes_and_falls_silent_is_not_waited_for(tree: Forest) -> None:
    tree["hq"].core.neighbours["uk"].held.begin_snapshot()
    box = mailbox(tree, "york")
    ask(tree.producer("york"), "queue:stock", b"a", reply_to="replies@york")
    tree.settle(tree["hq"].core.settings.reattach_time + 15.0)
    assert told(box) == [1]


def test_a_store_that_has_never_met_its_parent_does_not_know(forest: Forest) -> None:
    forest.add("hq")
    york = forest.add("york", "hq")
    box = mailbox(forest, "york")
    ask(forest.producer("york"), "queue:stock", b"a", reply_to="replies@york")
    forest.settle(3.0)
    assert box.mail == []
    assert york.waiting() == 1


def test_only_what_nobody_has_dealt_with_is_told(forest: Forest) -> None:
    """The reader has taken and acknowledged the first of three and goes with nothing in its hands."""
    hq = forest.add("hq", linger=3.0)
    service, box = forest.consumer("hq", "queue:stock", auto=False, credit=1), mailbox(forest, "hq")
    producer = forest.producer("hq")
    forest.settle()
    ask(producer, "queue:stock", b"a", b"b", b"c", reply_to="replies@hq")
    forest.settle()
    (reader,) = forest["hq"].core.switch.sessions["consumer"].consumers
    reader.credit = 0
    service.acknowledge(1)
    forest.settle()
    service.disconnect()
    forest.settle(6.0)
    assert told(box) == [2, 3]
    assert not hq.core.custody.queues["queue:stock"].waiting


def test_what_a_server_at_the_root_had_in_its_hands_waits_too(forest: Forest) -> None:
    hq = forest.add("hq")
    first, box = forest.consumer("hq", "queue:stock", auto=False), mailbox(forest, "hq")
    forest.settle()
    ask(forest.producer("hq"), "queue:stock", b"a", reply_to="replies@hq")
    forest.settle()
    first.disconnect()
    forest.settle(3.0)
    assert box.mail == []
    assert hq.waiting() == 1
    successor = forest.consumer("hq", "queue:stock", name="successor")
    forest.settle()
    assert successor.payloads == [b"a"]


def test_queues_that_have_gone_are_remembered_up_to_a_bound(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mandatory, "_MOST_GONE", 5)
    hq = forest.add("hq")
    notices = hq.core.mandatory
    for number in range(20):
        notices._route_changed(queue(f"q{number}"), "", "hq")
    assert [key.name for key in notices._gone] == [f"q{number}" for number in range(15, 20)]


NOWHERE = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize("sender", ["hq", "uk", "york", "leeds"])
@pytest.mark.parametrize(
    "where", ["stock", "stock@bath", "stock@hq", "stock@uk", "stock@leeds", f"stock@{NOWHERE}"]
)
def test_from_every_node_what_nobody_has_comes_back_as_an_error(sender: str, where: str) -> None:
    forest = Forest()
    forest.add("hq")
    forest.add("uk", "hq", "branch")
    forest.add("york", "uk")
    forest.add("leeds", "uk")
    forest.dial_all()
    box = mailbox(forest, sender)
    forest.settle(6.0)
    ask(forest.producer(sender), f"queue:{where}", b"a", reply_to=f"replies@{sender}")
    forest.settle(1.0)
    (notice, _) = box.mail[0]
    assert notice.properties.headers == {"notice": NOBODY_SERVES}
    assert kept(forest) == 0


@pytest.fixture
def usual() -> Forest:
    """HQ, a region, two stores, with the settings that a user gets; the caller is at HQ."""
    forest = Forest(CoreSettings())
    forest.add("hq")
    forest.add("uk", "hq", "branch")
    forest.add("york", "uk")
    forest.add("leeds", "uk")
    forest.dial_all()
    forest.settle()
    return forest


def gone_from(forest: Forest, site: str) -> SimulatedConsumer:
    """A service that was there, and is not any more."""
    service = forest.consumer(site, "queue:stock")
    forest.settle()
    service.disconnect()
    return service


def test_nobody_waits_for_a_second_linger(usual: Forest) -> None:
    box, producer = mailbox(usual, "hq"), usual.producer("hq")
    gone_from(usual, "york")
    usual.settle(CoreSettings().linger + 1)
    ask(producer, "queue:stock", b"a", reply_to="replies@hq")
    usual.settle(2.0)
    assert told(box) == [1]


def test_a_call_on_its_way_to_a_service_that_has_just_gone_is_told_of_after_one_linger(usual: Forest) -> None:
    box, producer = mailbox(usual, "hq"), usual.producer("hq")
    gone_from(usual, "york")
    ask(producer, "queue:stock", b"a", reply_to="replies@hq")
    usual.settle(CoreSettings().linger - 1)
    ask(producer, "queue:stock", b"b", reply_to="replies@hq")
    usual.settle(0.5)
    assert not box.mail
    usual.settle(4.0)
    assert sorted(told(box, "hq", "york")) == [1, 1]
    assert kept(usual) == 0


def test_a_call_that_came_back_is_answered_by_the_service_that_returns(usual: Forest) -> None:
    box, producer = mailbox(usual, "hq"), usual.producer("hq")
    service = gone_from(usual, "york")
    ask(producer, "queue:stock", b"a", b"b", reply_to="replies@hq")
    usual.settle(CoreSettings().linger / 2)
    service.connect()
    usual.settle(2 * CoreSettings().linger)
    assert service.payloads == [b"a", b"b"]
    assert not box.mail


@pytest.fixture
def roots() -> Forest:
    """Two nodes that are one root, and a store; with the times that a user gets."""
    forest = Forest(CoreSettings())
    forest.add_mesh("c1", "c2")
    forest.add("york", "c1")
    forest.heal(5)
    return forest


def test_one_of_two_roots_says_it_for_both(roots: Forest) -> None:
    box = mailbox(roots, "york")
    roots.settle()
    for number in range(8):
        asking = roots.producer("york", f"till-{number}")
        ask(asking, f"queue:stock-{number}", b"a", reply_to="replies@york")
    roots.settle()
    assert len(told(box, "c1", "c2")) == 8


@pytest.mark.parametrize("orderly", [False, True])
def test_a_root_whose_other_half_is_away_says_it_nevertheless(roots: Forest, orderly: bool) -> None:
    reader = roots.consumer("c2", "queue:read")
    box = mailbox(roots, "york")
    roots.settle(1.0)
    (roots["c2"].stop if orderly else roots["c2"].crash)()
    ask(roots.producer("york"), "queue:stock", b"a", reply_to="replies@york")
    roots.settle(CoreSettings().dormant_after / 2)
    assert told(box, "c1") == [], "it may be back at once"
    roots.settle(CoreSettings().dormant_after)
    assert told(box, "c1") == [1]
    ask(roots.producer("york", "later"), "queue:read", b"b", reply_to="replies@york")
    roots.settle(60.0)
    assert told(box, "c1") == [1], "somebody read it there, and may be back"
    assert reader.payloads == []


def test_a_root_that_knows_of_children_of_the_other_alone_says_nothing(roots: Forest) -> None:
    roots.cut_off.append({"leeds", "c1"})
    roots.add("leeds", "c2")
    roots.heal(5)
    box = mailbox(roots, "york")
    roots.settle(1.0)
    roots["c2"].crash()
    ask(roots.producer("york"), "queue:stock", b"a", reply_to="replies@york")
    roots.settle(2 * CoreSettings().dormant_after)
    assert told(box, "c1") == []
