"""A kind of route that operators set is a row: it is read, kept, followed, shown and ended as others are."""

import pytest

from broker.api import __main__ as written
from broker.cli.errors import CommandError
from broker.core.errors import BadRequest, NotFound
from sapwood.protocol.destinations import queue
from simulation.forest import Forest
from treeconnector.static_routes import FORMS, RouteForm, StaticRoute, Step

TOY = StaticRoute("reserve", queue("till"), "south")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """A neighbour for one address, where no route names that; as the defaults are for all."""
    monkeypatch.setitem(FORMS, "reserve", RouteForm(True, "neighbour", Step.LAST, "a toy"))
    return "reserve"


@pytest.fixture
def forest(toy: str, fork: Forest) -> Forest:
    return fork


def test_messages_follow_the_new_kind_where_its_step_comes(forest: Forest) -> None:
    hq = forest["hq"].core
    forest.producer("hq").send("queue:till", b"waits")
    hq.static_routing.add("reserve", "till", "south")
    forest.settle()
    assert hq.lookup.way(queue("till")).gateways == ("south",)
    assert hq.lookup.way(queue("other")).gateways == ()
    assert forest["south"].core.custody.queue_for(queue("till")).messages == 1
    learned = forest.consumer("york", "queue:till")
    forest.settle()
    forest.producer("hq", "second").send("queue:till", b"goes")
    forest.settle()
    assert b"goes" in learned.payloads
    assert hq.lookup.way(queue("till")).gateways == ("north",), "what was learned comes before it"


def test_it_outlives_a_restart_and_goes_with_its_neighbour(forest: Forest) -> None:
    hq = forest["hq"]
    hq.core.static_routing.add("reserve", "till", "south")
    forest.settle()
    hq.crash()
    hq.boot()
    assert list(hq.core.table.static) == [TOY]
    hq.core.relocation.forget(hq.core.neighbours["south"], moved=False)
    forest.settle()
    assert list(hq.core.table.static) == []
    assert hq.core.lookup.way(queue("till")).gateways == ()


def test_mistakes_with_it_are_said(forest: Forest) -> None:
    routing = forest["hq"].core.static_routing
    with pytest.raises(BadRequest, match="is no queue name"):
        routing.add("reserve", "", "south")
    with pytest.raises(NotFound, match="has no neighbour 'east'"):
        routing.add("reserve", "till", "east")
    routing.add("reserve", "till", "south")
    with pytest.raises(NotFound, match="of that kind there is reserve queue:till -> south"):
        routing.remove("reserve", "till", "north")
    routing.remove("reserve", "till", "south")


def test_people_set_it_on_the_command_line_and_in_the_dashboard(toy: str) -> None:
    from broker.cli.routes import form_of

    assert form_of(toy) == "reserve ADDRESS NEIGHBOUR"
    with pytest.raises(CommandError, match="expected exact, alias, default, dumpster, reserve"):
        form_of("other")
    row = '  reserve: { text: "reserve: a toy", gateway: "Neighbour", address: true },'
    assert row in written.route_kinds().splitlines()
