"""Permits at work in a small tree: what is refused, who is told, and what happens when they change."""

from dataclasses import replace
from secrets import token_bytes
from typing import Any

import pytest

from broker.core.errors import BadRequest, NotFound
from broker.core.links.neighbour import Neighbour
from broker.core.messages import retained
from broker.core.policies import permits
from sapwood.protocol.bundles import Flag, Header, Message, encode_message, mask_bytes
from sapwood.protocol.destinations import Kind, queue, topic
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.frames import Advice
from treeconnector.identity import BundleIds
from treeconnector.permits import Grant

RULES = {
    "consume": ("prices/#", "store/{name}/#", "queue:orders"),
    "send": ("store/{name}/#", "queue:orders", "till@hq"),
}


def give(site: Site, grants: dict[str, Grant]) -> None:
    """Let a site's children have these, and all others nothing but their own name."""
    me = site.name
    site.core.permits.configure(lambda child: grants.get(child, Grant(me, child)), lambda child: None)


def begin(forest: Forest) -> None:
    forest.dial_all()
    forest.settle(1.0)


def grant(by: str, child: str, **changed: tuple[str, ...]) -> Grant:
    return Grant(by, child, **(RULES | changed))


@pytest.fixture
def tree(forest: Forest) -> Forest:
    """hq with york and leeds, which have the same permits."""
    hq = forest.add("hq")
    for name in ("york", "leeds"):
        forest.add(name, "hq")
    give(hq, {name: grant("hq", name) for name in ("york", "leeds")})
    begin(forest)
    return forest


def child(forest: Forest, name: str = "york") -> Neighbour:
    return forest["hq"].core.neighbours[name]


def parent(forest: Forest, name: str = "york") -> Neighbour:
    found = forest[name].core.parent
    assert found is not None
    return found


def routes(forest: Forest, name: str = "york") -> set[str]:
    return {str(key) for key in forest["hq"].core.table.routes_of(name)}


def send(forest: Forest, site: str, destination: str, count: int = 1, **options: Any) -> None:
    producer = forest.producer(site, f"producer {len(forest.clients)}")
    for number in range(count):
        producer.send(destination, f"{destination} {number}".encode(), **options)
    forest.settle(1.0)


def dead(forest: Forest, name: str = "hq") -> list[str]:
    return [copy.note for copy in forest[name].core.custody.dead.waiting]


def steal(forest: Forest, *names: str) -> None:
    """These do not keep to what they are told from now on."""
    for name in names:
        forest[name].core.permits._above.clear()


# --- consuming


def test_a_store_consumes_what_it_may_and_is_told_what_it_may_not(tree: Forest) -> None:
    for wanted in ("topic:prices/uk", "topic:payroll/#", "topic:#", "queue:orders", "queue:payroll"):
        tree.consumer("york", wanted, name=wanted)
    tree.settle(1.0)
    assert routes(tree) == {"domain:york", "topic:prices/uk", "queue:orders"}
    rule = "PERMIT: hq lets york consume prices/#, store/{name}/#, queue:orders"
    assert child(tree).refusals.latest()[0].rule == parent(tree).refused_us.latest()[0].rule == rule
    assert child(tree).refusals.total == parent(tree).refused_us.total == 3
    assert child(tree).up
    assert "refused it 3 times" in child(tree).why
    assert rule in parent(tree).why


def test_what_is_refused_makes_no_digest_differ(tree: Forest) -> None:
    tree.consumer("york", "topic:payroll/#")
    tree.settle(1.0)
    told = tree["york"].core.advertising.told["up"]
    for _ in range(2):
        wire = tree.wire_of("york")
        assert wire is not None
        tree.cut(wire)
        tree.heal()
    assert tree["york"].core.advertising.told["up"] == told


def test_a_stores_own_cells_are_its_own_and_no_others(tree: Forest) -> None:
    york = tree.consumer("york", "queue:till")
    leeds = tree.consumer("leeds", "queue:till", name="other")
    tree.settle(1.0)
    send(tree, "hq", "queue:till@york")
    assert york.payloads == [b"queue:till@york 0"]
    assert leeds.payloads == []


# --- sending


def test_a_store_sends_where_it_may(tree: Forest) -> None:
    got = [
        tree.consumer("hq", where, name=where) for where in ("topic:store/#", "queue:orders", "queue:till")
    ]
    tree.settle(1.0)
    for where in ("topic:store/york/sold", "queue:orders", "queue:till@hq"):
        send(tree, "york", where)
    assert [len(each.payloads) for each in got] == [1, 1, 1]
    assert dead(tree) == []


@pytest.mark.parametrize(
    "where",
    ["topic:store/leeds/sold", "topic:prices/uk", "queue:payroll", "queue:till@leeds", "queue:stock@hq"],
)
def test_what_it_may_not_send_is_a_dead_letter_and_the_link_goes_on(tree: Forest, where: str) -> None:
    name = where.partition("@")[0]
    got = [tree.consumer(site, name, name=site) for site in ("hq", "leeds")]
    orders = tree.consumer("hq", "queue:orders", name="orders")
    tree.settle(1.0)
    steal(tree, "york")
    send(tree, "york", where, scope=1)
    send(tree, "york", "queue:orders")
    assert [each.payloads for each in got] == [[] for _ in got]
    assert len(orders.payloads) == 1
    rule = "PERMIT: hq lets york send to store/{name}/#, queue:orders, till@hq"
    assert dead(tree) == [f"{rule}, not {where}"]
    (refused,) = parent(tree).refused_us.latest()
    assert (refused.rule, refused.what, refused.times) == (rule, where, 1)
    assert child(tree).refusals.total == 1
    assert (len(child(tree).outbox), len(parent(tree).outbox), parent(tree).queue.messages) == (0, 0, 0)
    assert tree["hq"].core.custody.buried["PERMIT"] == 1


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("where", ["queue:payroll", "queue:till@leeds", "queue:stock@hq"])
def test_an_honest_store_refuses_at_its_own_entry_what_nodes_above_would(
    tree: Forest, where: str, up: bool
) -> None:
    """Also while nobody above is there, and after a start."""
    if not up:
        tree["hq"].crash()
        tree["york"].crash()
        tree["york"].boot()
        tree.settle(1.0)
    producer = tree.producer("york")
    producer.send(where, b"x")
    producer.send("queue:orders", b"1")
    tree.settle(1.0)
    (text,) = (error.text for error in producer.rejected)
    rule, colon, cure = text.partition(": nobody here or below reads it, so it would go up; ")
    assert rule == f"PERMIT: hq lets york send to store/{{name}}/#, queue:orders, till@hq, not {where}"
    assert ("--home" in cure) == bool(colon) == ("@" not in where)
    assert tree["york"].core.message_admission.refused["REFUSED"] == 1
    if up:
        assert (dead(tree), tree["hq"].core.counters["refused"], tree["hq"].waiting()) == ([], 0, 1)


@pytest.mark.parametrize("reply_to", ["payroll", "topic:prices/uk", "stock@hq"])
def test_an_honest_store_refuses_a_place_for_answers_that_nodes_above_would(
    tree: Forest, reply_to: str
) -> None:
    producer = tree.producer("york")
    producer.send("queue:orders", b"x", reply_to=reply_to)
    producer.send("queue:orders", b"1", reply_to="till@hq")
    producer.send("queue:orders", b"2", reply_to="transient-1@york")
    tree.settle(1.0)
    (error,) = producer.rejected
    assert error.text.startswith("PERMIT: hq lets york send to store/{name}/#, queue:orders, till@hq, not ")
    assert error.text.endswith(f"{reply_to} (reply_to)")
    assert tree["york"].core.message_admission.refused["REFUSED"] == 1
    assert (dead(tree), tree["hq"].core.counters["refused"], tree["hq"].waiting()) == ([], 0, 2)
    tree.consumer("york", "queue:orders")
    tree.settle(1.0)
    producer.send("queue:orders", b"3", reply_to=reply_to)
    tree.settle(1.0)
    assert len(producer.rejected) == 1, "it is read here"


def test_a_fresh_queue_of_another_node_is_no_place_for_answers_whatever_is_allowed(tree: Forest) -> None:
    give(tree["hq"], {"york": grant("hq", "york", send=("#",))})
    tree.settle(1.0)
    producer = tree.producer("york")
    producer.send("queue:orders", b"x", reply_to="transient-1@leeds")
    producer.send("queue:orders", b"1", reply_to="payroll")
    tree.settle(1.0)
    assert [error.text for error in producer.rejected] == [
        "PERMIT: york may have answers sent to its own nodes, not to leeds (reply_to)"
    ]
    assert (dead(tree), tree["hq"].waiting()) == ([], 1)


def test_where_somebody_here_reads_it_nodes_above_are_not_asked(tree: Forest) -> None:
    """A topic that another store reads as well is not refused; its copy for hq is, there."""
    tree.consumer("hq", "topic:#")
    here = [tree.consumer("york", name, name=name) for name in ("queue:payroll", "topic:news")]
    tree.settle(1.0)
    send(tree, "york", "queue:payroll")
    send(tree, "york", "topic:news")
    assert [len(each.payloads) for each in here] == [1, 1]


def test_what_is_allowed_later_is_taken_then(tree: Forest) -> None:
    producer = tree.producer("york")
    producer.send("queue:payroll", b"1")
    tree.settle(1.0)
    give(tree["hq"], {"york": grant("hq", "york", send=("queue:payroll",))})
    tree.settle(1.0)
    producer.send("queue:payroll", b"2")
    tree.settle(1.0)
    assert len(producer.rejected) == 1
    paid = tree.consumer("hq", "queue:payroll")
    tree.settle(1.0)
    assert paid.payloads == [b"2"]


def test_of_many_that_are_refused_some_are_kept_and_all_are_counted(
    tree: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "_KEPT", 5)
    steal(tree, "york", "leeds")
    for number in range(9):
        send(tree, "york", f"queue:payroll-{number}")
    send(tree, "leeds", "queue:payroll")
    hq = tree["hq"].core
    assert len(dead(tree)) == 6
    assert hq.counters["refused"] == hq.custody.buried["PERMIT"] == 10
    assert hq.counters["refused_unkept"] == 4
    hq.custody.dead.waiting.take_out(lambda letter: True)


def test_an_answer_finds_its_way_and_a_forged_origin_does_not(tree: Forest) -> None:
    got = tree.consumer("hq", "queue:transient-abc")
    tree.settle(1.0)
    send(tree, "york", "queue:transient-abc@hq")
    assert len(got.payloads) == 1
    header = Header(
        id=BundleIds(token_bytes).next(), destination=queue("orders"), flags=Flag.REROUTED, origin="leeds"
    )
    tree["hq"].core.arrivals.from_neighbour(child(tree), header, b"")
    assert dead(tree) == ["ORIGIN: 'leeds' is not below york"]


def test_what_was_given_may_be_given_back_and_nothing_else_in_its_place(tree: Forest) -> None:
    give(tree["hq"], {"york": grant("hq", "york", send=("nothing",))})
    reader = tree.consumer("york", "queue:orders", credit=1, auto=False)
    tree.settle(1.0)
    send(tree, "hq", "queue:orders", 3)
    hq = tree["hq"].core
    ((bundle, _),) = hq.loans._digests.items()
    for body, fault in ((b"other", 1), (b"", 2)):
        flags = Flag.REROUTED | Flag.PERSISTENT
        lie = Header(id=bundle, destination=queue("orders"), flags=flags, origin="hq", size=len(body))
        hq.arrivals.from_neighbour(child(tree), lie, body)
        assert len(dead(tree)) == fault
    reader.disconnect()
    tree.settle(1.0)
    late = tree.consumer("hq", "queue:orders", name="late")
    tree.settle(60.0)
    assert len(late.payloads) == 3
    assert len(dead(tree)) == 2


def test_what_was_given_may_be_given_back_to_a_parent_that_was_killed_since(tree: Forest) -> None:
    reader = tree.consumer("york", "queue:orders", credit=1, auto=False)
    tree.settle(1.0)
    send(tree, "hq", "queue:orders", 3)
    tree["hq"].crash()
    tree["hq"].boot()
    tree.heal(5.0)
    reader.disconnect()
    tree.settle(1.0)
    late = tree.consumer("hq", "queue:orders", name="late")
    tree.settle(60.0)
    assert (len(late.payloads), dead(tree)) == (3, [])


def test_it_is_given_back_once_and_to_where_it_was(tree: Forest) -> None:
    hq, body = tree["hq"].core, encode_message(Message(b"x"))
    for number, node in enumerate(("leeds", "york", "york")):
        header = Header(
            id=b"i" * 16,
            destination=queue("till", "york"),
            flags=Flag.REROUTED | Flag.PERSISTENT,
            origin="hq",
            size=len(body),
        )
        if not number:
            hq.loans.sent(child(tree), header, body)
        header.destination = queue("till", node)
        hq.arrivals.from_neighbour(child(tree), header, body)
    assert [note.partition(":")[0] for note in dead(tree)] == ["PERMIT", "ORIGIN"]


@pytest.mark.parametrize("killed", [False, True])
def test_of_a_bundle_whose_first_messages_went_elsewhere_a_child_gives_back_only_the_rest(
    tree: Forest, killed: bool
) -> None:
    first = tree.consumer("hq", "queue:orders", auto=False)
    producer = tree.producer("hq")
    producer.send("queue:orders", *(b"%d" % number for number in range(10)))
    tree.settle(1.0)
    first.acknowledge(got := 4)
    first.disconnect()
    tree.settle(1.0)
    (entry,) = tree["hq"].core.custody.queues["queue:orders"].waiting
    body = tree["hq"].core.custody.body(entry)
    reader = tree.consumer("york", "queue:orders", auto=False)
    tree.settle(1.0)
    assert reader.payloads == [b"%d" % number for number in range(got, 10)]
    if killed:
        tree["hq"].crash()
        tree["hq"].boot()
    old, loans = entry.stored.header, tree["hq"].core.loans

    def comes_back(done: int) -> Header:
        return Header(
            id=old.id,
            destination=old.destination,
            flags=old.flags | Flag.REROUTED,
            origin="hq",
            count=10,
            done=mask_bytes(done),
        )

    assert not loans.take(child(tree), comes_back(0), body)
    assert loans.take(child(tree), comes_back((1 << got) - 1), body)
    assert not loans.take(child(tree), comes_back((1 << got) - 1), body)


# --- hearing


def test_a_store_hears_of_consumers_only_where_it_may_send(tree: Forest) -> None:
    for wanted in ("topic:store/#", "topic:payroll/#", "queue:orders", "queue:payroll", "topic:#"):
        tree.consumer("hq", wanted, name=wanted)
    tree.settle(1.0)
    heard = {str(key) for key in tree["york"].core.table.routes_of("hq")}
    assert heard == {"topic:store/#", "queue:orders", "topic:#"}
    told = tree["hq"].core.advertising.told["down"]
    wire = tree.wire_of("york")
    assert wire is not None
    tree.cut(wire)
    tree.heal()
    assert tree["hq"].core.advertising.told["down"] == told
    give(tree["hq"], {"york": grant("hq", "york", send=("payroll/#", "queue:payroll"))})
    tree.settle(1.0)
    heard = {str(key) for key in tree["york"].core.table.routes_of("hq")}
    assert heard == {"topic:payroll/#", "queue:payroll", "topic:#"}


# --- nodes


def test_a_child_speaks_of_no_nodes_but_its_own(tree: Forest) -> None:
    advice = [Advice(op, Kind.DOMAIN, "leeds", "leeds", "c") for op in ("add", "dormant", "remove")]
    hq, line = tree["hq"].core, tree.wire_of("leeds")
    before = child(tree, "leeds").link
    hq.advertising.advised(child(tree), advice[:2])
    hq.advertising.advised(child(tree), [Advice("add", Kind.QUEUE, "orders", "leeds", "c"), advice[2]])
    tree.settle(5.0)
    assert routes(tree) == {"domain:york"}
    assert child(tree, "leeds").link is before
    assert tree.wire_of("leeds") is line
    assert not child(tree).untold
    assert not child(tree).former
    assert [refused.what for refused in child(tree).refusals.latest()] == ["leeds"]


def test_a_leaf_has_nobody_below_it_with_permits_or_without(forest: Forest) -> None:
    forest.add("hq")
    forest.add("york", "hq")
    forest.add("leeds", "hq")
    forest.heal(2)
    liar = child(forest)
    forest["hq"].core.advertising.advised(liar, [Advice("add", Kind.DOMAIN, "leeds", "leeds", "c")])
    assert routes(forest) == {"domain:york"}
    assert not forest["hq"].core.message_admission.is_from_below(liar, "leeds")
    assert [refused.what for refused in liar.refusals.latest()] == ["leeds"]
    assert not child(forest, "leeds").untold


def test_a_branch_has_the_nodes_that_it_may_have(forest: Forest) -> None:
    forest.add("hq")
    forest.add("uk", "hq", "branch")
    forest.add("uk-1", "uk")
    forest.add("fr-1", "uk")
    give(forest["hq"], {"uk": grant("hq", "uk", nodes=("{name}-*",), consume=("{name}/#",))})
    begin(forest)
    for site in ("uk-1", "fr-1"):
        forest.consumer(site, f"topic:{site}/#")
    forest.settle(1.0)
    hq = forest["hq"].core
    assert routes(forest, "uk") == {"domain:uk", "domain:uk-1", "topic:uk-1/#"}
    assert {str(key) for key in forest["uk"].core.table.routes_of("fr-1")} == set()
    assert "have below it {name}-*, not fr-1" in dict_of(forest["fr-1"].core.parent)
    assert hq.neighbours["uk"].up
    assert forest["uk"].core.neighbours["fr-1"].up


def dict_of(neighbour: Neighbour | None) -> str:
    assert neighbour is not None
    return " ".join(f"{each.rule}, not {each.what}" for each in neighbour.refused_us.latest())


# --- from above


def test_a_branch_cannot_give_what_it_was_not_given(forest: Forest) -> None:
    forest.add("hq")
    forest.add("uk", "hq", "branch")
    forest.add("york", "uk")
    give(forest["hq"], {"uk": grant("hq", "uk", nodes=("york",))})
    give(forest["uk"], {"york": grant("uk", "york", consume=("#",), send=("#", "#@*"))})
    begin(forest)
    for wanted in ("topic:prices/#", "topic:payroll/#"):
        forest.consumer("york", wanted, name=wanted)
    forest.settle(1.0)
    uk, york = forest["uk"].core, forest["york"].core
    assert {str(key) for key in uk.table.routes_of("york")} == {"domain:york", "topic:prices/#"}
    assert "PERMIT: hq lets uk consume" in dict_of(york.parent)
    assert [(grant.by, grant.child) for grant in york.permits.granted_here()] == [
        ("uk", "york"),
        ("hq", "uk"),
    ]
    assert [grant.by for grant in uk.permits.granted_here()] == ["hq"]


def test_what_was_told_is_known_after_a_restart_and_forgotten_with_the_parent(forest: Forest) -> None:
    forest.add("hq")
    forest.add("uk", "hq", "branch")
    give(forest["hq"], {"uk": grant("hq", "uk", nodes=("york",))})
    begin(forest)
    forest["hq"].crash()
    forest["uk"].crash()
    forest["uk"].boot()
    forest.settle(1.0)
    uk = forest["uk"].core
    assert [each.by for each in uk.permits.granted_here()] == ["hq"]
    assert uk.permits.permit_of("york").why_not_consume(topic("payroll"))
    uk.relocation.forget(uk.neighbours["hq"], moved=False)
    assert uk.permits.granted_here() == ()
    assert not uk.permits.permit_of("york")


def test_without_permits_nothing_is_told_and_all_is_allowed(forest: Forest) -> None:
    forest.add("hq")
    forest.add("york", "hq")
    forest.consumer("york", "topic:#")
    begin(forest)
    assert not child(forest).permit
    assert routes(forest) == {"domain:york", "topic:#"}
    assert forest["york"].core.permits.granted_here() == ()
    give(forest["hq"], {})
    forest.settle(1.0)
    assert routes(forest) == {"domain:york"}
    assert forest["york"].core.permits.granted_here() == (Grant("hq", "york"),)
    forest["hq"].core.permits.configure(lambda child: None, lambda child: None)
    forest.settle(1.0)
    assert routes(forest) == {"domain:york", "topic:#"}
    assert forest["york"].core.permits.granted_here() == ()


# --- changes


def test_permits_change_without_a_link_dropped(tree: Forest) -> None:
    prices, payroll = (
        tree.consumer("york", where, name=where) for where in ("topic:prices/#", "topic:payroll")
    )
    tree.settle(1.0)
    link = child(tree).link
    tree["hq"].core.permits.set(grant("hq", "york", consume=("payroll",)))
    tree.settle(1.0)
    assert routes(tree) == {"domain:york", "topic:payroll"}
    for where in ("topic:prices/uk", "topic:payroll"):
        send(tree, "hq", where)
    assert (prices.payloads, payroll.payloads) == ([], [b"topic:payroll 0"])
    tree["hq"].core.permits.unset("york")
    tree.settle(1.0)
    assert routes(tree) == {"domain:york", "topic:prices/#"}
    send(tree, "hq", "topic:prices/uk")
    assert prices.payloads == [b"topic:prices/uk 0"]
    assert child(tree).link is link
    with pytest.raises(NotFound, match="no permit was set for 'york'"):
        tree["hq"].core.permits.unset("york")
    with pytest.raises(BadRequest, match="is no permit"):
        tree["hq"].core.permits.set(grant("hq", "york", consume=("a+",)))


def test_what_an_operator_sets_outlives_a_restart(tree: Forest) -> None:
    tree["hq"].core.permits.set(grant("hq", "york", consume=("payroll",)))
    tree.settle(1.0)
    tree["hq"].crash()
    hq = tree["hq"].boot()
    give(tree["hq"], {})
    assert "york" in hq.permits.set_for
    assert hq.permits.permit_of("york").grants[0].consume == ("payroll",)


def test_what_waits_for_a_child_and_is_not_its_any_more_is_not_sent(tree: Forest) -> None:
    got = tree.consumer("york", "topic:prices/#")
    tree.settle(1.0)
    tree["york"].crash()
    send(tree, "hq", "topic:prices/uk", 2)
    give(tree["hq"], {})
    assert {note.partition(",")[0] for note in dead(tree)} == {"PERMIT: hq lets york consume {name}/#"}
    assert child(tree).queue.messages == 0
    tree["york"].boot()
    tree.heal()
    assert got.payloads == []


def test_retained_messages_follow_what_is_permitted_again(tree: Forest) -> None:
    give(tree["hq"], {})
    got = tree.consumer("york", "topic:prices/#")
    producer = tree.producer("hq")
    producer.send("topic:prices/uk", b"7", retained=True)
    tree.settle(1.0)
    assert got.payloads == []
    give(tree["hq"], {"york": grant("hq", "york")})
    tree.settle(1.0)
    assert got.payloads == [b"7"]


def test_a_child_does_not_crowd_out_what_others_retain(tree: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "SHARE", 2)
    producer = tree.producer("york")
    for number in (1, 2, 3, 1):
        producer.send(f"topic:store/york/{number}", b"x", scope=1, retained=True)
        tree.settle(1.0)
    assert len(tree["hq"].core.topics.retained) == 2
    assert child(tree).refusals.latest()[0].what == "store/york/3"


def test_a_bundle_with_anothers_id_does_not_stand_in_its_way(tree: Forest) -> None:
    """As by a store that has seen ids of headquarters and sends the next ones itself."""
    got = tree.consumer("hq", "topic:store/#")
    tree.settle(1.0)
    hq = tree["hq"].core
    flags = Flag.PERSISTENT | Flag.MAYBE_DUPLICATE
    body = encode_message(Message(b"x"))
    for name in ("york", "york", "leeds"):
        where = topic(f"store/{name}/sold")
        header = Header(id=b"i" * 16, destination=where, flags=flags, origin=name, size=len(body))
        hq.arrivals.from_neighbour(child(tree, name), header, body)
        tree.settle(1.0)
    assert len(got.payloads) == 2
    assert hq.counters["duplicates_dropped"] == 1


# --- how much


def test_a_child_that_fills_its_share_keeps_the_rest_and_the_others_go_on(forest: Forest) -> None:
    forest.add("hq", child_waiting=50_000, max_message=1000)
    for name in ("york", "leeds"):
        forest.add(name, "hq")
    give(forest["hq"], {name: grant("hq", name) for name in ("york", "leeds")})
    begin(forest)
    for _ in range(40):
        send(forest, "york", "queue:store/york/x")
    hq = forest["hq"].core
    assert "" in child(forest).we_hold
    assert 12 <= waiting(forest, "hq") < 40
    assert waiting(forest, "hq") + waiting(forest, "york") == 40
    assert "" not in child(forest, "leeds").we_hold
    got = forest.consumer("hq", "queue:orders")
    forest.settle(1.0)
    send(forest, "leeds", "queue:orders")
    assert len(got.payloads) == 1
    drain = forest.consumer("hq", "queue:store/york/x", name="drain")
    forest.settle(5.0)
    assert len(drain.payloads) == 40
    assert hq.custody.spools.came["york"] == 0
    assert "" not in child(forest).we_hold


def waiting(forest: Forest, name: str) -> int:
    return sum(place.messages for place in forest[name].core.custody.queues.values())


def test_of_a_child_that_does_not_keep_the_rest_no_more_is_taken_until_there_is_room(forest: Forest) -> None:
    """Its link ended each time, until somebody drained the parent: also that of a child whose line had broken
    often, of which a little was on the way each time. Nothing came down to it meanwhile."""
    hq = forest.add("hq", child_waiting=50_000, max_message=1000)
    forest.add("york", "hq")
    hq.grant_of = {"york": grant("hq", "york")}.get
    give(hq, {"york": grant("hq", "york")})
    begin(forest)
    for _ in range(100):
        send(forest, "york", "queue:store/york/x")
    for _ in range(10):
        wire = forest.wire_of("york")
        assert wire is not None
        forest.cut(wire)
        hq.core.message_admission.child_share = 50_000  # as each time the file is read again
        forest.heal()
    assert child(forest).up
    assert "goes on though" in str(child(forest).refusals.latest())
    assert 66_500 < hq.core.custody.spools.came["york"] < 75_000
    prices = forest.consumer("york", "topic:prices/tea")
    forest.settle(1.0)
    send(forest, "hq", "topic:prices/tea")
    assert len(prices.payloads) == 1
    drain = forest.consumer("hq", "queue:store/york/x", name="drain")
    forest.heal()
    assert sorted(drain.payloads) == sorted([b"queue:store/york/x 0"] * 100)
    assert child(forest).up


def test_a_child_of_which_more_waits_than_its_share_is_by_now_keeps_its_link(forest: Forest) -> None:
    """It was asked to keep nothing so far: what it sends before it is asked is no fault of its."""
    hq = forest.add("hq", child_waiting=10_000_000, max_message=1000)
    forest.add("york", "hq")
    hq.grant_of = {"york": grant("hq", "york")}.get
    give(hq, {"york": grant("hq", "york")})
    begin(forest)
    for _ in range(40):
        send(forest, "york", "queue:store/york/x")
    hq.stop()
    hq.settings = replace(hq.settings, child_waiting=50_000)
    send(forest, "york", "queue:store/york/x", 10)
    hq.boot()
    forest.heal()
    assert child(forest).up
    assert "" in child(forest).we_hold
    assert hq.errors == []


def test_a_share_counts_at_once(forest: Forest) -> None:
    hq = forest.add("hq", child_waiting=10_000_000, max_message=1000)
    forest.add("york", "hq")
    give(hq, {"york": grant("hq", "york")})
    begin(forest)
    for _ in range(40):
        send(forest, "york", "queue:store/york/x")
    hq.core.message_admission.child_share = 50_000
    send(forest, "york", "queue:store/york/x")
    assert child(forest).up
    assert "" in child(forest).we_hold
    hq.core.message_admission.child_share = 10_000_000
    forest.settle(2.0)
    assert "" not in child(forest).we_hold


def test_a_child_that_has_a_permit_only_now_keeps_its_link(forest: Forest) -> None:
    """Of a node that was open, with rules by now: what waits of the child was never too much before."""
    hq = forest.add("hq", child_waiting=50_000, max_message=1000)
    forest.add("york", "hq")
    begin(forest)
    for _ in range(40):
        send(forest, "york", "queue:store/york/x")
    give(hq, {"york": grant("hq", "york")})
    send(forest, "york", "queue:store/york/x")
    assert child(forest).up
    assert "" in child(forest).we_hold


def test_only_some_routes_are_a_childs(forest: Forest) -> None:
    forest.add("hq")
    forest["hq"].core.permits.configure(lambda child: None, lambda child: 2)
    forest.add("york", "hq")
    begin(forest)
    for wanted in ("queue:a", "queue:b", "queue:c"):
        forest.consumer("york", wanted, name=wanted)
    forest.settle(1.0)
    assert len(routes(forest)) == 2
    forest["hq"].core.permits.configure(lambda child: None, lambda child: 3)
    assert len(routes(forest)) == 3


# --- questions


@pytest.mark.parametrize(
    ("name", "may"), [("hq", True), ("york", True), ("leeds", False), ("till-7", True), ("elsewhere", False)]
)
def test_who_a_child_may_ask_for(tree: Forest, name: str, may: bool) -> None:
    give(tree["hq"], {"york": grant("hq", "york", send=("x@till-*",))})
    assert (tree["hq"].core.permits.why_not_tell(child(tree), name) == "") is may
    assert (child(tree).refusals.total == 0) is may


def test_an_answer_about_who_it_may_not_reach_is_none(tree: Forest) -> None:
    told: dict[str, tuple[object, str]] = {}
    incarnations = [tree[name].core.logical_addresses.own for name in ("leeds", "hq")]
    for key in ("leeds", *incarnations):
        tree["york"].core.logical_addresses.look_up(
            key, lambda entry, why, key=key: told.update({key: (entry, why)})
        )
    tree.settle(5.0)
    assert [told[key][0] is None for key in ("leeds", *incarnations)] == [True, True, False]
    assert all("PERMIT: hq lets york send to" in told[key][1] for key in ("leeds", incarnations[0]))


def test_an_incarnation_is_reached_by_who_may_reach_its_node(tree: Forest) -> None:
    got = tree.consumer("hq", "queue:till")
    tree.settle(1.0)
    for name in ("hq", "leeds"):
        send(tree, "york", f"queue:till@{tree[name].core.logical_addresses.own}")
    assert len(got.payloads) == 1
    assert dead(tree) + dead(tree, "york")
    assert not tree["leeds"].core.custody.queue_for(queue("till")).messages


def test_repr_says_how_many(tree: Forest) -> None:
    tree["hq"].core.permits.set(grant("hq", "york"))
    assert repr(tree["hq"].core.permits) == "<ChildPermits of hq set=1 told by nobody>"
    assert repr(tree["york"].core.permits) == "<ChildPermits of york set=0 told by hq>"


def test_the_children_for_which_an_operator_has_said_it_are_not_copied_for_each_question(
    tree: Forest,
) -> None:
    """Of 20,000 of them a copy takes a millisecond, and a list asks for each."""
    permits = tree["hq"].core.permits
    said = permits.set_for
    permits.set(Grant("hq", "kiosk", consume=("all/#",)))
    assert set(said) == {"kiosk"}
