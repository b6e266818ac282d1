"""A message of scope `tree` goes up where somebody wants it: the question, answers, changes, and the end."""

from dataclasses import replace

import pytest

from broker.core import clock
from broker.core.messages.queue_names import UNDECIDED
from broker.core.neighbours import demand
from broker.core.routing import upward
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Destination, Kind
from simulation.clients import SimulatedConsumer
from simulation.forest import LINKS, Forest
from simulation.site import Site
from treeconnector.link_sender import LinkSender
from treeconnector.permits import Grant

TEA = "topic:prices/tea"
STORES = ("york", "durham", "bath")


@pytest.fixture
def tree(forest: Forest) -> Forest:
    """HQ, two regions, two stores in the north, one in the south."""
    return planted(forest)


def planted(forest: Forest, **changes: object) -> Forest:
    forest.add("hq", **changes)
    for region in ("north", "south"):
        forest.add(region, "hq", "branch", **changes)
    for store, region in (("york", "north"), ("durham", "north"), ("bath", "south")):
        forest.add(store, region, **changes)
    forest.heal(3.0)
    return forest


def publish(forest: Forest, at: str, text: bytes = b"tea", topic: str = TEA, **options: bool) -> None:
    name = f"writer at {at}"
    found = [client for client in forest.clients if client.name == name]
    writer = found[0] if found else forest.producer(at, name)
    writer.connect()
    writer.send(topic, text, scope=Scope.TREE, **options)
    forest.settle(1.0)


def reader(forest: Forest, at: str, pattern: str = "topic:prices/#") -> SimulatedConsumer:
    made = forest.consumer(at, pattern, name=f"reader at {at}")
    forest.settle(1.0)
    return made


def sent_up(forest: Forest) -> dict[str, int]:
    """Messages that each node has sent up since it started."""
    return {
        name: sum(parent.counters["out"] for parent in site.core.context.parents.values())
        for name, site in forest.sites.items()
        if site.core.context.parents
    }


def lines(forest: Forest) -> set[str]:
    """The nodes whose line upward a message has crossed."""
    return {name for name, count in sent_up(forest).items() if count}


def held(site: Site) -> int:
    """Messages that wait for an answer."""
    queues = site.core.custody.queues.items()
    return sum(queue.messages for name, queue in queues if name.startswith(UNDECIDED))


@pytest.mark.parametrize("at", STORES)
def test_no_message_crosses_a_line_in_vain(tree: Forest, at: str) -> None:
    publish(tree, at)
    publish(tree, at)
    assert lines(tree) == set()
    assert tree[at].core.counters["unmatched"] == 2
    assert all(site.waiting() == 0 for site in tree.sites.values())


@pytest.mark.parametrize(
    ("at", "crossed"),
    [("hq", {"york", "north"}), ("north", {"york"}), ("durham", {"york"}), ("bath", {"york", "north"})],
)
def test_it_goes_up_as_far_as_somebody_off_the_way_wants_it(tree: Forest, at: str, crossed: set[str]) -> None:
    found = reader(tree, at)
    publish(tree, "york")
    assert found.payloads == [b"tea"]
    assert lines(tree) == crossed


def test_a_change_of_interest_is_told_as_long_as_somebody_publishes(tree: Forest) -> None:
    publish(tree, "york", b"1")
    found = reader(tree, "bath")
    publish(tree, "york", b"2")
    assert found.payloads == [b"2"]
    found.disconnect()
    tree.settle(2.0)
    publish(tree, "york", b"3")
    assert lines(tree) == {"york", "north"}
    assert sent_up(tree)["york"] == 1


def test_a_topic_is_asked_for_once_and_nobody_else_is_told(tree: Forest) -> None:
    heard = {name: dict(site.core.advertising.heard) for name, site in tree.sites.items()}
    for number in range(5):
        publish(tree, "york", b"%d" % number)
    counted = {name: site.core.demand.counters for name, site in tree.sites.items()}
    assert (counted["york"]["asked_out"], counted["north"]["asked_out"]) == (1, 1)
    assert (counted["york"]["told_in"], counted["north"]["told_in"]) == (1, 1)
    reader(tree, "bath")
    assert counted["york"]["told_in"] == 2
    for name in ("durham", "south", "bath"):
        assert not any(counted[name].values())
    assert tree["york"].core.advertising.heard == heard["york"]
    assert tree["durham"].core.advertising.heard == heard["durham"]


def test_a_store_finds_a_reader_at_hq_of_which_no_advisory_came(forest: Forest) -> None:
    planted(forest, advise_down="none")
    found = reader(forest, "hq")
    publish(forest, "york")
    assert found.payloads == [b"tea"]
    assert forest["york"].core.advertising.heard["down"] == 0


def test_two_children_that_publish_are_one_question_further_up(tree: Forest) -> None:
    publish(tree, "york")
    publish(tree, "durham")
    assert tree["north"].core.demand.counters["asked_in"] == 2
    assert tree["north"].core.demand.counters["asked_out"] == 1


def test_what_is_published_while_the_line_is_cut_waits_for_the_answer(tree: Forest) -> None:
    publish(tree, "york", b"1")
    tree.cut_off.append({"north", "hq"})
    wire = tree.wire_of("north")
    assert wire is not None
    tree.cut(wire)
    tree.settle(1.0)
    publish(tree, "york", b"2")
    assert held(tree["york"]) == 1
    assert lines(tree) == set()
    found = reader(tree, "bath")
    tree.cut_off.clear()
    tree.heal(3.0)
    assert found.payloads == [b"2"]
    assert held(tree["york"]) == 0


def test_what_nobody_wants_when_the_line_is_back_has_crossed_none(tree: Forest) -> None:
    tree.cut_off.append({"north", "hq"})
    wire = tree.wire_of("north")
    assert wire is not None
    tree.cut(wire)
    publish(tree, "york", b"1")
    beside = reader(tree, "durham", "topic:prices/oil")
    publish(tree, "york", b"2", "topic:prices/oil")
    assert beside.payloads == [b"2"], "one topic that waits holds up no other"
    tree.cut_off.clear()
    tree.heal(3.0)
    assert held(tree["york"]) == 0
    assert sent_up(tree)["north"] == 0
    assert tree["york"].core.counters["unmatched"] == 1


def test_what_was_wanted_goes_on_while_the_line_is_cut(tree: Forest) -> None:
    found = reader(tree, "bath")
    publish(tree, "york", b"1")
    tree.cut_off.append({"north", "hq"})
    wire = tree.wire_of("north")
    assert wire is not None
    tree.cut(wire)
    publish(tree, "york", b"2")
    assert tree["north"].core.neighbours["hq"].queue.messages == 1
    tree.cut_off.clear()
    tree.heal(3.0)
    assert found.payloads == [b"1", b"2"]


@pytest.mark.parametrize("who", ["york", "north", "hq"])
def test_a_restart_of_either_side_loses_nothing_and_asks_again(tree: Forest, who: str) -> None:
    publish(tree, "york", b"1")
    tree[who].stop()
    tree.settle(1.0)
    if who != "york":
        publish(tree, "york", b"2")
        assert held(tree["york"]) == 1
    found = reader(tree, "bath") if who == "york" else None
    tree.heal(3.0)
    assert held(tree["york"]) == 0
    found = found or reader(tree, "bath")
    publish(tree, "york", b"3")
    assert found.payloads == [b"3"]


def test_what_waits_for_an_answer_is_on_disk(tree: Forest) -> None:
    tree["north"].stop()
    publish(tree, "york", b"1")
    tree["york"].crash()
    tree["york"].boot()
    assert held(tree["york"]) == 1
    found = reader(tree, "bath")
    tree.heal(3.0)
    assert found.payloads == [b"1"]
    assert held(tree["york"]) == 0


def test_who_came_while_hq_was_away_is_known_before_anybody_hears_that_nobody_reads(tree: Forest) -> None:
    """The publisher's line is back first, and HQ does not know yet what its other region has to say."""
    tree["hq"].crash()
    found = reader(tree, "bath")
    publish(tree, "york", b"1")
    tree["hq"].boot()
    assert tree.dial("north")
    tree.settle(1.0)
    assert held(tree["york"]) == 1
    assert lines(tree) == set()
    tree.heal(3.0)
    assert found.payloads == [b"1"]
    assert held(tree["york"]) == 0


def test_it_waits_for_a_region_that_stays_away_as_long_as_readers_may_take_to_come_back(tree: Forest) -> None:
    tree["hq"].crash()
    tree["south"].crash()
    publish(tree, "york", b"1")
    tree["hq"].boot()
    tree.dial("north")
    tree.settle(1.0)
    assert held(tree["york"]) == 1
    tree.pass_time(tree.settings.reattach_time)
    tree.settle(2.0)
    assert held(tree["york"]) == 0
    assert tree["york"].core.counters["unmatched"] == 1


def test_a_child_whose_snapshot_has_no_end_holds_up_no_answer(tree: Forest) -> None:
    """Each word of it began the time anew, so that one site could let the messages of all others wait."""
    tree.pass_time(tree.settings.reattach_time)
    south = tree["hq"].core.neighbours["south"].held
    south.begin_snapshot()
    south.apply([], tree["hq"].core.clock.now)
    publish(tree, "york", b"1")
    tree.settle(1.0)
    assert held(tree["york"]) == 0
    assert tree["york"].core.counters["unmatched"] == 1


def test_what_is_not_persistent_does_not_wait(tree: Forest) -> None:
    found = reader(tree, "bath")
    publish(tree, "york", persistent=False)
    assert found.payloads == [b"tea"]
    assert held(tree["york"]) == 0


def test_what_is_retained_is_kept_on_the_way_for_whoever_comes(tree: Forest) -> None:
    publish(tree, "york", retained=True)
    assert lines(tree) == {"york", "north"}
    assert reader(tree, "bath").payloads == [b"tea"]


@pytest.mark.parametrize("older", ["york", "north", "hq"])
def test_a_neighbour_of_the_version_before_is_served_as_it_was(forest: Forest, older: str) -> None:
    names = {"links": replace(LINKS, knows=())}
    forest.add("hq", **(names if older == "hq" else {}))
    for name, parent in (("north", "hq"), ("south", "hq"), ("york", "north"), ("bath", "south")):
        forest.add(name, parent, "branch", **(names if older == name else {}))
    forest.heal(3.0)
    publish(forest, "york", b"1")
    assert lines(forest) == ({"york"} if older == "york" else {"york", "north"})
    found = reader(forest, "bath")
    publish(forest, "york", b"2")
    assert found.payloads == [b"2"]
    assert held(forest["york"]) == held(forest["north"]) == 0
    assert forest[older].core.demand.counters == dict.fromkeys(forest[older].core.demand.counters, 0)


def test_a_child_learns_nothing_of_what_it_may_not_send(forest: Forest) -> None:
    forest.add("hq")
    york = forest.add("york", "hq")
    forest.add("bath", "hq")
    forest.heal(3.0)
    reader(forest, "bath")
    hq = forest["hq"]
    grants = {"york": Grant("hq", "york", send=("stock/#",), consume=("#",))}
    hq.core.permits.configure(grants.get, lambda child: None)
    forest.settle(1.0)
    link = york.core.neighbours["hq"].link
    assert link is not None
    link.say.ask_interest([("prices/tea", True), ("goods/oil", True), ("stock/1", True)])
    forest.settle(1.0)
    told = hq.core.demand._told["york"]
    assert told == {"prices/tea": True, "goods/oil": True, "stock/1": False}
    hq.core.permits.configure({}.get, lambda child: None)
    forest.settle(1.0)
    assert told == {"prices/tea": True, "goods/oil": False, "stock/1": False}


def test_nothing_is_asked_further_up_for_a_child_that_may_not_send_it(tree: Forest) -> None:
    north, link = tree["north"].core, tree["york"].core.neighbours["north"].link
    north.permits.configure(lambda child: Grant("north", child, send=("stock/#",)), lambda child: None)
    tree.settle(1.0)
    assert link is not None
    link.say.ask_interest([("prices/tea", True), ("stock/1", True)])
    tree.settle(1.0)
    tree.cut(tree.wire_of("york", "north"))
    tree.settle(1.0)
    assert set(north.demand._upward.questions) == {"stock/1"}


def test_routes_that_change_all_the_time_keep_no_topic_from_being_looked_at(
    tree: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "PART", 2)
    north, link = tree["north"].core, tree["york"].core.neighbours["north"].link
    assert link is not None
    link.say.ask_interest([(f"t/{number}", True) for number in range(10)])
    tree.settle(1.0)
    looked: list[str] = []
    state = north.demand._state
    monkeypatch.setattr(north.demand, "_state", lambda child, name: looked.append(name) or state(child, name))
    for _ in range(20):
        north.demand.changed[""] = None
        before = len(looked)
        north.demand.settle()
        assert len(looked) <= before + 2
    assert set(looked) == {f"t/{number}" for number in range(10)}


def test_of_a_child_that_has_gone_topics_are_forgotten_a_part_at_a_time(
    tree: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "PART", 2)
    monkeypatch.setattr(demand, "PART", 2)
    north, site = tree["north"].core, tree["york"]
    names = [f"t/{number}" for number in range(10)]

    def ask(topics: list[str]) -> None:
        link = site.core.neighbours["north"].link
        assert link is not None
        link.say.ask_interest([(name, True) for name in topics])

    ask(names)
    tree.settle(1.0)
    assert set(north.demand._askers) == set(north.upward.questions) == set(names)
    tree.cut(tree.wire_of("york", "north"))
    assert len(north.demand._askers) == len(names) - 2
    tree.reap()
    tree.dial_all()
    tree.settle()
    ask(names[:1])
    tree.settle()
    assert len(north.demand._askers) > 1, "it has asked again before all was forgotten"
    tree.settle(3.0)
    assert set(north.demand._askers) == set(names[:1])
    assert north.demand._topics_of == {"york": 1, "": 1}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has room for three topics, and for twelve characters of their names."""
    for module in (demand, upward):
        monkeypatch.setattr(module, "MOST_TOPICS", 3)
        monkeypatch.setattr(module, "MOST_BYTES", 12)


def test_what_is_published_beyond_the_bound_goes_up_unasked(few: None, tree: Forest) -> None:
    for number in range(4):
        publish(tree, "york", topic=f"topic:t/{number}")
    assert sent_up(tree)["york"] == 1
    publish(tree, "durham", topic="topic:much/too/long")
    assert sent_up(tree)["durham"] == 1


def test_a_child_that_asks_for_too_much_is_answered_yes_and_not_remembered(few: None, tree: Forest) -> None:
    link = tree["york"].core.neighbours["north"].link
    assert link is not None
    names = ["t/1", "t/2", "much/too/long", "t/3", "t/4"]
    link.say.ask_interest([(name, True) for name in names])
    tree.settle(1.0)
    north = tree["north"].core
    assert set(north.demand._told["york"]) == {"t/1", "t/2", "t/3"}
    assert north.neighbours["york"].refusals.total == 2
    assert north.neighbours["york"].up
    assert north.demand.counters["told_out"] == len(names)
    link.say.ask_interest([("t/1", False), ("t/4", True)])
    tree.settle(1.0)
    assert set(north.demand._told["york"]) == {"t/2", "t/3", "t/4"}


def test_all_children_together_are_bounded_too(monkeypatch: pytest.MonkeyPatch, tree: Forest) -> None:
    monkeypatch.setattr(demand, "MOST_OF_ALL", 1)
    publish(tree, "york", topic="topic:a")
    publish(tree, "durham", topic="topic:b")
    assert sent_up(tree) == {"north": 1, "south": 0, "york": 0, "durham": 1, "bath": 0}


def test_a_topic_that_nobody_publishes_any_more_is_asked_for_no_more(tree: Forest) -> None:
    publish(tree, "york")
    assert len(tree["hq"].core.demand._askers) == 1
    tree.pass_time(demand.LEASE + 100.0)
    tree.heal(200.0)
    for name in ("york", "north", "hq"):
        core = tree[name].core
        assert not core.upward.questions
        assert not core.demand._askers
        assert not any(core.demand._topics_of.values())
    reader(tree, "bath")
    assert tree["york"].core.demand.counters["told_in"] == 1


def test_a_question_from_beside_ends_the_link(meshes: Forest) -> None:
    wire = next(wire for wire in meshes.wires if {wire.child.name, wire.parent.name} == {"c1", "c2"})
    dialler, other = wire.child, wire.parent.name
    link = dialler.core.neighbours[other].link
    assert link is not None
    link.say.ask_interest([("a", True)])
    meshes.step()
    meshes.step()
    assert any("which is no child" in error for site in meshes.sites.values() for error in site.errors)


@pytest.mark.parametrize("at", ["c1", "c3", "shop", "n2"])
def test_in_a_mesh_one_of_the_parents_is_asked(meshes: Forest, at: str) -> None:
    for number in range(4):
        publish(meshes, "york", topic=f"topic:t/{number}")
    assert lines(meshes) == set()
    found = reader(meshes, at, "topic:t/+")
    for number in range(4):
        publish(meshes, "york", b"%d" % number, f"topic:t/{number}")
    assert found.payloads == [b"0", b"1", b"2", b"3"]
    assert sum(site.core.demand.counters["asked_out"] for site in meshes.sites.values()) == 8


def test_another_parent_of_the_mesh_is_asked_while_one_is_away(meshes: Forest) -> None:
    publish(meshes, "york", b"1")
    asked = meshes["york"].core.upward.questions["prices/tea"].parent
    meshes[asked].crash()
    meshes.settle(2.0)
    found = reader(meshes, "shop")
    publish(meshes, "york", b"2")
    assert found.payloads == [b"2"]
    meshes.heal(5.0)
    publish(meshes, "york", b"3")
    assert found.payloads == [b"2", b"3"]
    question = meshes["york"].core.upward.questions["prices/tea"]
    parent = meshes["york"].core.lookup.parent_for(Destination(Kind.TOPIC, "prices/tea"))
    assert parent is not None
    assert question.parent == parent.name


def test_a_reader_that_moves_to_another_region_is_known_there_before_it_is_forgotten_here(
    tree: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer that there is another way comes before the word that the old way is over."""
    said: list[tuple[str, str]] = []

    def noting(what: str, sender: LinkSender, about: object) -> None:
        north = tree["hq"].core.neighbours["north"].link
        if north is not None and sender is north.say:
            said.append((what, str(about)))

    plain_tell, plain_moved = LinkSender.tell_interest, LinkSender.moved
    monkeypatch.setattr(
        LinkSender,
        "tell_interest",
        lambda to, about: (noting("tell", to, about), plain_tell(to, about)),
    )
    monkeypatch.setattr(
        LinkSender, "moved", lambda to, name: (noting("moved", to, name), plain_moved(to, name))
    )
    found = tree.consumer("durham", "topic:prices/#", name="reader", durable="d")
    publish(tree, "york", b"1")
    durham = tree["durham"]
    durham.crash()
    durham.parent = "south"
    tree.heal(10.0)
    found.connect()
    publish(tree, "york", b"2")
    assert found.payloads == [b"1", b"2"]
    yes = str([("prices/tea", True)])
    assert said.index(("tell", yes)) < said.index(("moved", "durham"))
