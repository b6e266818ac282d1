"""Nodes ask each other: who is answered, who is not, and what happens when nobody answers."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from broker.cells import cells
from broker.cells.cells import CellCommand
from broker.cells.errors import NoAnswer, RefusedByCell, TooManyQuestions
from broker.core.errors import BadRequest
from broker.core.messages.queue_names import is_internal
from broker.core.site.internal_queues import InternalMessage, InternalQueues
from sapwood.protocol.bundles import Flag, Header, Message, Properties, encode_message
from sapwood.protocol.destinations import Destination, queue
from simulation.site import Site
from treeconnector.permits import Grant

QUESTION = b'{"method":"status"}'


async def test_ancestors_are_answered_from_far_below(grove: Any) -> None:
    assert await grove.cells["hq"].ask("york", "status") == {"name": "york"}
    assert await grove.cells["north"].ask("york", "status") == {"name": "york"}


async def test_what_nodes_say_to_each_other_is_not_counted_as_applications_messages(grove: Any) -> None:
    assert await grove.cells["hq"].ask("york", "status") == {"name": "york"}
    over_links = {"hq": 1, "north": 2, "york": 1, "south": 0}
    for name, site in grove.forest.sites.items():
        counters = site.core.counters
        assert [counters[each] for each in ("entered", "delivered", "acknowledged")] == [0, 0, 0]
        assert (counters["in"], counters["out"]) == (over_links[name], over_links[name])
        assert not any(site.core.statistics.latency.counts)


async def test_a_node_answers_itself(grove: Any) -> None:
    assert await grove.cells["york"].ask("york", "status") == {"name": "york"}


@pytest.mark.parametrize(("asker", "asked"), [("york", "hq"), ("york", "north"), ("south", "york")])
async def test_who_is_not_above_is_refused(grove: Any, asker: str, asked: str) -> None:
    with pytest.raises(RefusedByCell, match="ancestors only") as caught:
        await grove.cells[asker].ask(asked, "status")
    assert (caught.value.node, caught.value.code) == (asked, "REFUSED")


async def test_an_open_command_answers_every_node(grove: Any) -> None:
    grove.cells["york"].commands["who"] = CellCommand(lambda asker, arguments: [asker, arguments], open=True)
    assert await grove.cells["south"].ask("york", "who", {"a": 1}) == ["south", {"a": 1}]


async def test_an_unknown_command_is_said_with_those_there_are(grove: Any) -> None:
    for asked in ("york", "hq"):
        with pytest.raises(RefusedByCell, match="no command 'stauts': expected status, trace"):
            await grove.cells["hq"].ask(asked, "stauts")


async def test_a_node_that_nobody_knows_is_said_at_once(grove: Any) -> None:
    with pytest.raises(NoAnswer, match="nobody here knows a node 'bath'"):
        await grove.cells["hq"].ask("bath", "status")


@pytest.mark.parametrize(("asker", "cell"), [("york", "System"), ("north", "System"), ("south", "lm")])
async def test_a_node_that_the_root_alone_can_deny_is_said_by_it(grove: Any, asker: str, cell: str) -> None:
    with pytest.raises(NoAnswer, match="hq knows of no such cell at a node 'bath'") as caught:
        await grove.cells[asker].ask("bath", "status", timeout=60, cell=cell)
    assert caught.value.node == "bath"


async def test_a_cell_that_a_node_does_not_have_is_said_by_that_node(grove: Any) -> None:
    with pytest.raises(NoAnswer, match="york knows of no such cell at a node 'york'"):
        await grove.cells["hq"].ask("york", "status", timeout=60, cell="nosuch")


async def test_a_link_that_is_down_is_said_at_once(grove: Any) -> None:
    grove.cut("north")
    grove.forest.pass_time(7.0)
    with pytest.raises(NoAnswer, match="the link to 'north' has been down for 7 s") as caught:
        await grove.cells["hq"].ask("york", "status")
    assert caught.value.node == "york"


async def test_silence_ends_with_the_time_and_the_name(grove: Any) -> None:
    grove.cut("york")
    with pytest.raises(NoAnswer, match=r"node 'york' did not answer within 0\.05 s"):
        await grove.cells["hq"].ask("york", "status", timeout=0.05)
    assert "asking=0" in repr(grove.cells["hq"])


async def test_a_permit_that_lacks_is_said_at_once_and_by_name(grove: Any) -> None:
    """The nodes above seemed to be away."""
    hq = grove.forest.sites["hq"].core
    hq.permits.set(Grant("hq", "north", send=("sales/#",), nodes=("york",)))
    grove.forest.settle()
    for asker in ("north", "york"):
        for asked in ("hq", "south", "nobody"):
            with pytest.raises(NoAnswer, match="PERMIT: hq lets north send to sales/#, not ") as caught:
                await grove.cells[asker].ask(asked, "status", timeout=60)
            assert str(caught.value).endswith("this one needs System@* in its 'send' there")
    assert await grove.cells["north"].ask("york", "status") == {"name": "york"}
    assert await grove.cells["hq"].ask("york", "status") == {"name": "york"}
    hq.permits.set(Grant("hq", "north", send=("System@*",), nodes=("york",)))
    grove.forest.settle()
    with pytest.raises(RefusedByCell, match="ancestors only"):
        await grove.cells["york"].ask("hq", "status")


async def test_a_question_that_was_lost_is_asked_again(grove: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_AGAIN_FIRST", 0.001)
    grove.cut("york")
    asking = asyncio.create_task(grove.cells["hq"].ask("york", "status", timeout=120))
    await asyncio.sleep(0.01)
    grove.forest.dial("york")
    assert await asking == {"name": "york"}


async def test_so_many_questions_at_once_and_no_more(grove: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MOST_QUESTIONS", 1)
    grove.cut("york")
    asking = asyncio.create_task(grove.cells["hq"].ask("york", "status", timeout=120))
    await asyncio.sleep(0)
    with pytest.raises(TooManyQuestions):
        await grove.cells["hq"].ask("north", "status")
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert await grove.cells["hq"].ask("north", "status") == {"name": "north"}


async def test_an_answer_that_is_too_large_is_an_error_that_says_so(
    grove: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "_LARGEST_ANSWER", 100)
    grove.cells["york"].commands["much"] = CellCommand(lambda asker, arguments: "x" * 100)
    with pytest.raises(RefusedByCell, match=r"the answer has .* bytes: ask for less"):
        await grove.cells["hq"].ask("york", "much")


@pytest.mark.parametrize("mistake", [KeyError("x"), ValueError("y"), TypeError("z")])
async def test_a_command_that_fails_is_answered_and_the_cell_goes_on(grove: Any, mistake: Exception) -> None:
    def fail(asker: str, arguments: dict[str, Any]) -> Any:
        raise mistake

    grove.cells["york"].commands["fail"] = CellCommand(fail)
    with pytest.raises(RefusedByCell, match="not understood"):
        await grove.cells["hq"].ask("york", "fail")
    assert await grove.cells["hq"].ask("york", "status") == {"name": "york"}


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


async def test_many_questions_at_once_are_answered_in_slices_of_the_loop(
    grove: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 50 that came together one is answered in a slice that is over at once; then others have turns."""
    monkeypatch.setattr("broker.shares.SLICE", 0.0)
    answered, in_turns = list[int](), [0]
    york = grove.cells["york"]
    york.commands["who"] = CellCommand(lambda asker, arguments: answered.append(1), open=True)

    async def beside() -> None:
        while len(answered) < 50:
            in_turns.append(len(answered))
            await asyncio.sleep(0)

    spy = Spy(grove.forest["hq"])
    for number in range(50):
        question = Message(b'{"method":"who"}', Properties(correlation_id=number, reply_to="System.spy@hq"))
        spy.inside.send(queue("System", "york"), question)
    grove.forest.settle()
    await beside()
    assert max(later - before for before, later in pairwise(in_turns)) == 1
    await spy.heard(grove)


async def test_what_is_long_is_worked_out_for_one_after_the_other_and_once_for_each_question(
    grove: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks again meanwhile makes no more work, and of one node so many questions wait."""
    monkeypatch.setattr(cells, "_MOST_LONG_OF_ONE", 3)
    monkeypatch.setattr(cells, "_MOST_LONG", 4)
    york, begun, go_on = grove.cells["york"], list[str](), asyncio.Event()

    async def work(asker: str) -> str:
        begun.append(asker)
        await go_on.wait()
        return f"for {asker}"

    york.commands["long"] = CellCommand(lambda asker, arguments: work(asker), open=True)
    spies = {name: Spy(grove.forest[name]) for name in ("hq", "south")}

    async def ask(name: str, number: int) -> None:
        properties = Properties(correlation_id=number, reply_to=f"System.spy@{name}")
        spies[name].inside.send(queue("System", "york"), Message(b'{"method":"long"}', properties))
        assert await spies[name].heard(grove) == []

    for number in (1, 1, 2, 3, 4):
        await ask("hq", number)
    for number in (1, 2):
        await ask("south", number)
    assert (begun, len(york._long)) == (["hq"], 4)
    assert await grove.cells["hq"].ask("york", "status") == {"name": "york"}, "others are answered meanwhile"
    go_on.set()
    await until(lambda: not york._long)
    assert begun == ["hq", "hq", "hq", "south"]
    assert await spies["hq"].heard(grove) == [b'{"result":"for hq"}'] * 3
    assert await spies["south"].heard(grove) == [b'{"result":"for south"}']


async def test_what_is_long_and_fails_is_answered_too(grove: Any) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise BadRequest("'after' is none")

    grove.cells["york"].commands["fail"] = CellCommand(lambda asker, arguments: fail())
    for asked in ("hq", "york"):
        with pytest.raises(RefusedByCell, match="'after' is none") as caught:
            await grove.cells[asked].ask("york", "fail")
        assert caught.value.code == "BAD_REQUEST"


# --- who pretends


class Spy:
    """Another program at a node, that writes what it likes."""

    def __init__(self, site: Site, name: str = "System.spy") -> None:
        self.inside = InternalQueues(
            site.core.context, site.core.forwarder, site.core.batching, site.core.switch, lambda: None
        )
        self.inside.read(name)
        self.site = site

    async def ask(self, grove: Any, payload: bytes, reply_to: str, node: str = "york") -> list[bytes]:
        message = Message(payload, Properties(correlation_id=1, reply_to=reply_to))
        self.inside.send(queue("System", node), message)
        return await self.heard(grove)

    async def heard(self, grove: Any) -> list[bytes]:
        for _ in range(3):
            grove.forest.settle()
            await asyncio.sleep(0)
        grove.forest.settle()
        return [letter.message.payload for letter in self.inside.letters()]


async def test_the_spy_would_be_answered(grove: Any) -> None:
    spy = Spy(grove.forest["hq"])
    assert await spy.ask(grove, QUESTION, "System.spy@hq") == [b'{"result":{"name":"york"}}']


@pytest.mark.parametrize(
    "reply_to", ["", "orders@hq", "System.spy", "System.spy@north", "System.spy@no/node"]
)
async def test_answers_go_to_the_asking_nodes_own_queues_only(grove: Any, reply_to: str) -> None:
    watched = [
        Spy(grove.forest[name], queue_) for name, queue_ in (("hq", "orders"), ("north", "System.spy"))
    ]
    assert await Spy(grove.forest["hq"]).ask(grove, QUESTION, reply_to) == []
    for spy in watched:
        assert await spy.heard(grove) == []
    for site in grove.forest.sites.values():
        assert site.waiting() == 0


@pytest.mark.parametrize("payload", [b"", b"null", b"[1]", b'{"method":5}', b"\xff", b"[" * 5000])
async def test_what_is_no_question_is_answered_with_an_error(grove: Any, payload: bytes) -> None:
    (answer,) = await Spy(grove.forest["hq"]).ask(grove, payload, "System.spy@hq")
    assert b'"error":{"code":"BAD_REQUEST"' in answer


async def test_a_question_that_is_too_long_is_refused(grove: Any) -> None:
    (answer,) = await Spy(grove.forest["hq"]).ask(grove, bytes(70_000), "System.spy@hq")
    assert b"a question has at most" in answer


async def test_questions_beyond_the_rate_are_dropped(grove: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_ANSWERS_PER_SECOND", 0.0)
    grove.cells["york"]._allowance = 2.0
    spy = Spy(grove.forest["hq"])
    answers = [await spy.ask(grove, QUESTION, "System.spy@hq") for _ in range(4)]
    assert [len(each) for each in answers] == [1, 1, 0, 0]


@pytest.mark.parametrize("flags", [0, Flag.REROUTED, Flag.MAYBE_DUPLICATE])
async def test_a_child_that_says_it_is_hq_is_not_answered(grove: Any, flags: int) -> None:
    """What was sent back may come from elsewhere, so it passes the hop; but the cell does not trust it."""
    asked: list[str] = []
    grove.cells["north"].commands["who"] = CellCommand(lambda asker, arguments: asked.append(asker))
    body = encode_message(Message(b'{"method":"who"}', Properties(reply_to="System.x@hq")))
    header = Header(
        id=b"i" * 16, destination=queue("System", "north"), flags=flags, size=len(body), origin="hq"
    )
    north = grove.forest["north"].core
    north.arrivals.from_neighbour(north.neighbours["york"], header, body)
    for _ in range(3):
        grove.forest.settle()
        await asyncio.sleep(0)
    assert asked == []


async def test_an_answer_from_another_node_than_was_asked_is_no_answer(grove: Any) -> None:
    grove.cut("york")
    hq = grove.cells["hq"]
    asking = asyncio.create_task(hq.ask("york", "status", timeout=0.2))
    await asyncio.sleep(0)
    (number,) = hq._asked
    liar = Spy(grove.forest["south"])
    liar.inside.send(
        queue(hq._replies, "hq"), Message(b'{"result":"lie"}', Properties(correlation_id=number))
    )
    await liar.heard(grove)
    with pytest.raises(NoAnswer):
        await asking


@pytest.mark.parametrize(("liar", "flags"), [("south", 0), ("york", 0), ("hq", Flag.REROUTED)])
async def test_that_there_is_no_such_node_is_believed_of_those_who_are_certain(
    grove: Any, liar: str, flags: int
) -> None:
    """Neither of a node beside, nor of one below, nor of one that may be anybody: what was sent back."""
    north = grove.cells["north"]
    asking = asyncio.create_task(north.ask("bath", "status", timeout=120))
    grove.hosts["north"].asleep = True
    await asyncio.sleep(0)
    (number,) = north._asked
    notice = Message(b"{}", Properties(correlation_id=number))
    north._answered(InternalMessage(north._replies, liar, Flag.NOTICE | flags, notice))
    await asyncio.sleep(0)
    assert not asking.done()
    grove.hosts["north"].asleep = False
    with pytest.raises(NoAnswer, match="hq knows of no such cell at a node 'bath'"):
        await asking


@pytest.mark.parametrize("payload", [b"{{{", b'{"result":"\xff"}', b'{"result":' + b"[" * 9000])
async def test_an_answer_that_is_no_json_is_an_error(grove: Any, payload: bytes) -> None:
    grove.cut("york")
    hq = grove.cells["hq"]
    asking = asyncio.create_task(hq.ask("north", "status", timeout=120))
    grove.hosts["north"].asleep = True
    grove.cells["north"]._inside.letters()
    await asyncio.sleep(0)
    (number,) = hq._asked
    liar = Spy(grove.forest["north"])
    liar.inside.send(queue(hq._replies, "hq"), Message(payload, Properties(correlation_id=number)))
    await liar.heard(grove)
    with pytest.raises(RefusedByCell, match="not understood"):
        await asking


def test_which_queues_are_the_nodes_own() -> None:
    own = [queue("System"), queue("System", "hq"), queue("System.x"), queue("System.x", "hq")]
    assert all(map(is_internal, own))
    others: list[Destination] = [queue("Systems"), queue("system"), queue("x.System")]
    assert not any(map(is_internal, others))
