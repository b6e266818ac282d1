"""Following messages from node to node: whom a walk asks, whom it names, and where it ends."""

from collections.abc import Iterable
from typing import Any

import pytest

from broker.cells import walk
from broker.cells.errors import NoAnswer, RefusedByCell
from broker.cells.walk import Walk

ID = f"{'ab' * 16}-0"
OTHER = f"{'cd' * 16}-1"


class Nodes:
    """What each node would say: by node, by message. `asked`: who was asked for what, in order."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, dict[str, Any]]] = {}
        self.tasks: dict[str, list[str]] = {}
        self.away: set[str] = set()
        self.deaf: set[str] = set()
        self.down: dict[str, str] = {}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.now = 0

    def knows(self, node: str, message: str = ID, came: str = "", went: Iterable[str] = ()) -> None:
        passage = {"came": [came] if came else [], "went": list(went), "events": [{"at": 1, "kind": "sent"}]}
        self.known.setdefault(node, {})[message] = passage

    async def ask(self, node: str, arguments: dict[str, Any]) -> Any:
        self.asked.append((node, tuple(arguments["messages"])))
        if node in self.away:
            raise NoAnswer(node, f"node {node!r} did not answer")
        if node in self.deaf:
            raise RefusedByCell(node, "REFUSED", "no")
        found = self.known.get(node, {})
        messages = {message: found[message] for message in arguments["messages"] if message in found}
        of_task = self.tasks.get(node, []) if arguments["task"] else []
        return {"node": node, "now": 1, "messages": messages, "task_messages": of_task, "down": self.down}

    def walk(self, me: str = "hq", above: Iterable[str] = (), below: Iterable[str] = ()) -> Walk:
        return Walk(self.ask, lambda: self.now, me, above, below)

    @property
    def order(self) -> list[str]:
        return [node for node, _ in self.asked]


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


async def test_both_ways_from_where_it_is_known(nodes: Nodes) -> None:
    nodes.knows("hq", went=["north"])
    nodes.knows("north", came="hq", went=["york"])
    nodes.knows("york", came="north")
    found = await nodes.walk("north").message(ID)
    assert nodes.order[0] == "north"
    assert sorted(nodes.order) == ["hq", "north", "york"]
    assert {node for node, _ in found.passages(ID)} == {"hq", "north", "york"}


async def test_where_it_entered_and_whom_it_is_for_are_asked_past_a_node_that_is_down(nodes: Nodes) -> None:
    nodes.knows("hq", went=["north"])
    nodes.known["hq"][ID] |= {"origin": "hq", "for": "york"}
    nodes.knows("york", came="north")
    nodes.away.add("north")
    found = await nodes.walk().message(ID)
    assert {node for node, _ in found.passages(ID)} == {"hq", "york"}
    assert list(found.unreachable) == ["north"]
    assert nodes.order.count("north") == 1


async def test_what_nobody_near_knows_is_asked_above_and_then_below(nodes: Nodes) -> None:
    nodes.knows("bath")
    found = await nodes.walk("north", above=["hq"], below=["york", "bath"]).message(ID)
    assert nodes.order == ["north", "hq", "york", "bath"]
    assert [node for node, _ in found.passages(ID)] == ["bath"]


async def test_below_is_left_alone_when_above_knows(nodes: Nodes) -> None:
    nodes.knows("hq")
    await nodes.walk("north", above=["hq"], below=["york"]).message(ID)
    assert nodes.order == ["north", "hq"]


async def test_who_refuses_and_who_talks_nonsense_is_told_apart(nodes: Nodes) -> None:
    nodes.knows("hq", went=["north", "south"])
    nodes.deaf.add("north")
    nodes.known["south"] = {ID: {"came": 5}}
    found = await nodes.walk().message(ID)
    assert sorted(found.refused) == ["north", "south"]
    assert found.unreachable == {}


async def test_a_task_gathers_what_is_found_at_each_node(nodes: Nodes) -> None:
    """The reply entered at york, where the request went."""
    nodes.knows("hq", went=["york"])
    nodes.knows("york", came="hq")
    nodes.knows("york", OTHER, went=["hq"])
    nodes.knows("hq", OTHER, came="york")
    nodes.tasks = {"hq": [ID], "york": [OTHER]}
    found = await nodes.walk().task("t")
    assert list(found.of_task) == [ID, OTHER]
    assert {node for node, _ in found.passages(OTHER)} == {"hq", "york"}


async def test_a_task_that_is_not_known_here_is_asked_for_elsewhere(nodes: Nodes) -> None:
    nodes.knows("bath")
    nodes.tasks = {"bath": [ID]}
    found = await nodes.walk("north", above=["hq"], below=["bath"]).task("t")
    assert list(found.of_task) == [ID]


async def test_bounds_are_kept_and_the_rest_is_counted(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_NODES", 10)
    nodes.knows("hq", went=[f"store-{number}" for number in range(50)])
    found = await nodes.walk().message(ID)
    assert len(nodes.asked) == 10
    assert found.not_asked == 41


async def test_so_many_messages_and_no_more(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_MESSAGES", 120)
    ids = [f"{number:032x}-0" for number in range(130)]
    for message in ids:
        nodes.knows("hq", message)
    nodes.tasks = {"hq": ids}
    found = await nodes.walk().task("t")
    assert len(found.messages) == 120
    assert found.not_asked == 10
    assert max(len(messages) for _, messages in nodes.asked) == 100


async def test_a_node_that_sends_in_circles_ends(nodes: Nodes) -> None:
    nodes.knows("hq", came="north", went=["north"])
    nodes.knows("north", came="hq", went=["hq"])
    await nodes.walk().message(ID)
    assert sorted(nodes.order) == ["hq", "north"]


async def test_names_that_are_none_end_in_a_refusal_to_reach_them(nodes: Nodes) -> None:
    nodes.knows("hq", went=["north"])
    nodes.down = {"north": "its link to hq has been down for 5 s"}
    nodes.away.add("north")
    found = await nodes.walk().message(ID)
    assert found.down == nodes.down
