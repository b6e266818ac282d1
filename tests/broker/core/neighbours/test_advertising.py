"""What neighbours are told of consumers, as the site's file says, and how much of it they may say."""

import pytest

from sapwood.protocol.destinations import Destination, parse
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.frames import Advice


def chain(forest: Forest, **settings: str) -> None:
    """HQ, a region, two stores."""
    forest.add("hq", **settings)
    forest.add("north", "hq", "branch", **settings)
    for store in ("york", "durham"):
        forest.add(store, "north", **settings)
    forest.dial_all()
    forest.settle(3.0)


def heard(forest: Forest) -> dict[str, int]:
    """Advisories that each node has received so far."""
    return {name: site.core.advertising.heard.total() for name, site in forest.sites.items()}


def cost(forest: Forest, site: str, destination: str) -> dict[str, int]:
    """What a consumer that comes and goes costs, at each node that it costs anything."""
    before = heard(forest)
    reader = forest.consumer(site, destination, name=f"{site} {destination}")
    forest.settle(1.0)
    between = heard(forest)
    reader.unsubscribe()
    forest.settle(1.0)
    after = heard(forest)
    came = {name: between[name] - before[name] for name in before if between[name] != before[name]}
    went = {name: after[name] - between[name] for name in before if after[name] != between[name]}
    assert came == went
    return came


@pytest.mark.parametrize(
    ("advise_down", "of_a_queue", "of_a_topic"),
    [("all", True, True), ("topics", False, True), ("none", False, False)],
)
def test_a_consumer_above_costs_its_descendants_what_the_file_says(
    forest: Forest, advise_down: str, of_a_queue: bool, of_a_topic: bool
) -> None:
    chain(forest, advise_down=advise_down)
    below_north = {"york": 1, "durham": 1}
    for destination, told in (("queue:sales", of_a_queue), ("topic:sales/#", of_a_topic)):
        assert cost(forest, "hq", destination) == ({"north": 1, **below_north} if told else {})
        assert cost(forest, "north", destination) == ({"hq": 1, **below_north} if told else {"hq": 1})
        assert cost(forest, "york", destination) == {"north": 1, "hq": 1}


@pytest.mark.parametrize("advise_down", ["all", "topics", "none"])
def test_a_queue_message_finds_its_way_up_whatever_the_children_are_told(
    forest: Forest, advise_down: str
) -> None:
    chain(forest, advise_down=advise_down)
    reader = forest.consumer("hq", "queue:sales")
    producer = forest.producer("york")
    producer.send("queue:sales", b"sold")
    forest.settle(1.0)
    assert reader.payloads == [b"sold"]


# --- limits on what a neighbour may say


def pair(forest: Forest, **limits: int) -> Site:
    hq = forest.add("hq", **limits)
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    return hq


def routes(hq: Site) -> set[str]:
    return {str(key) for key in hq.core.table.routes_of("york")}


@pytest.mark.parametrize(
    ("limits", "refused", "said"),
    [
        ({"max_filter_length": 16}, "topic:a/much/longer/filter", "filter"),
        ({"max_levels": 3}, "topic:a/b/c/d", "levels"),
        ({"max_routes": 2}, "topic:one/too/many", "routes"),
    ],
)
def test_the_excess_is_refused_by_name_and_the_link_stays(
    forest: Forest, limits: dict[str, int], refused: str, said: str
) -> None:
    hq = pair(forest, **limits)
    york = forest["york"]
    forest.consumer("york", "topic:a/b", name="first")
    forest.settle(1.0)
    forest.consumer("york", refused, name="second")
    forest.settle(1.0)
    assert "topic:a/b" in routes(hq)
    assert refused not in routes(hq)
    parent = york.core.parent
    assert parent is not None
    assert parent.up
    assert "1 declined by hq" in parent.error
    assert said in parent.error
    assert (york.core.counters["declined"], hq.core.counters["declined"]) == (1, 1)


def test_what_was_refused_makes_no_digest_differ(forest: Forest) -> None:
    hq = pair(forest, max_levels=3)
    forest.consumer("york", "topic:a/b/c/d")
    forest.settle(1.0)
    before = hq.core.advertising.heard.total()
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    forest.dial_all()
    forest.settle(1.0)
    assert hq.core.neighbours["york"].up
    assert hq.core.advertising.heard.total() == before


def test_a_child_cannot_say_that_its_parent_is_below_it(forest: Forest) -> None:
    hq = pair(forest)
    link = forest["york"].core.parent
    assert link is not None
    assert link.link is not None
    link.link.say.advise([Advice("add", "domain", "hq", "york", "lie")])
    forest.settle(1.0)
    assert hq.core.table.route(Destination("domain", "hq"), "york") is None
    assert parse("queue:inbox@hq").node == "hq"
    assert hq.core.neighbours["york"].up


def test_a_node_that_has_left_a_region_is_a_stranger_to_it_after_the_retention(forest: Forest) -> None:
    """Until then messages that it sent there, or that follow it from there, may still come."""
    hq = forest.add("hq", route_retention=100.0)
    forest.add("north", "hq", "branch")
    forest.add("south", "hq", "branch")
    york = forest.add("york", "north")
    forest.heal(3.0)
    york.crash()
    york.parent = "south"
    forest.heal(5.0)

    def is_known() -> bool:
        return hq.core.message_admission.is_from_below(hq.core.neighbours["north"], "york")

    assert is_known()
    forest.heal(60.0)
    hq.crash()
    forest.heal(30.0)
    assert is_known()
    forest.heal(15.0)
    assert not is_known()
    assert not hq.core.neighbours["north"].former
    assert hq.core.message_admission.is_from_below(hq.core.neighbours["south"], "york")
    hq.crash()
    forest.heal(3.0)
    assert not is_known()


def test_what_is_not_persistent_goes_on_behind_the_routes_that_came_before_it(forest: Forest) -> None:
    """A request that is sent on before its node has a turn: the answer may be there at once."""
    chain(forest)
    hq, north = forest["hq"], forest["north"]
    forest.consumer("hq", "topic:ask", name="responder")
    forest.settle(1.0)
    forest.consumer("york", "topic:answers", name="asker")
    forest.producer("york").send("topic:ask", b"", persistent=False)
    forest["york"].run()
    up, on = forest.wire_of("york"), forest.wire_of("north")
    assert up is not None
    assert on is not None
    up.pull()
    up.deliver(up.up, north)
    on.pull()
    on.deliver(on.up, hq)
    assert north.core.counters["in"] == hq.core.counters["in"] == 1
    assert hq.core.table.route(parse("topic:answers"), "north") is not None
