"""Logical addresses in whole trees: who learns what, who is asked, what becomes of messages, with counts."""

import pytest

from broker.core.policy import Policy
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import Kind, parse
from sapwood.protocol.names import incarnation_text
from sapwood.protocol.session_frames import Send
from simulation.forest import Forest
from simulation.site import Site
from treeconnector import link_events as events
from treeconnector.frames import Advice, Whereabouts


@pytest.fixture
def tree(forest: Forest) -> Forest:
    """hq over north (york, leeds) and south (bath)."""
    forest.add("hq")
    for region in ("north", "south"):
        forest.add(region, "hq", "branch")
    for store, region in (("york", "north"), ("leeds", "north"), ("bath", "south")):
        forest.add(store, region)
    forest.dial_all()
    forest.settle(2.0)
    return forest


def own(site: Site) -> str:
    return site.core.logical_addresses.own


def counts(forest: Forest, what: str) -> dict[str, int]:
    """Of each node that counted any."""
    found = {name: site.core.logical_addresses.counters[what] for name, site in forest.sites.items()}
    return {name: count for name, count in found.items() if count}


def known(site: Site) -> set[str]:
    return {entry.found.name for entry in site.core.logical_addresses.cache}


def restart(forest: Forest, name: str) -> str:
    """Returns the incarnation that is over."""
    before = own(forest[name])
    forest[name].crash()
    forest[name].boot()
    forest.dial(name)
    forest.settle(2.0)
    assert own(forest[name]) != before
    return before


def test_a_handshake_fills_both_caches_and_who_is_below_is_told_up_once(tree):
    assert known(tree["york"]) == {"north"}
    assert known(tree["north"]) == {"hq", "york", "leeds"}
    assert known(tree["hq"]) == {"north", "south", "york", "leeds", "bath"}
    assert counts(tree, "i_have_out") == {"north": 2, "south": 1}
    assert counts(tree, "who_has_out") == {}


def test_a_message_for_an_incarnation_waits_while_one_way_of_the_tree_is_asked(tree):
    till = tree.consumer("york", "queue:till")
    producer = tree.producer("bath")
    producer.send(f"queue:till@{own(tree['york'])}", b"one", b"two")
    tree.settle(1.0)
    assert till.payloads == [b"one", b"two"]
    assert counts(tree, "who_has_out") == {"bath": 1, "south": 1}
    assert counts(tree, "who_has_in") == {"south": 1, "hq": 1}
    assert counts(tree, "i_have_in") == {"hq": 3, "south": 1, "bath": 1}
    producer.send(f"queue:till@{own(tree['york'])}", b"three")
    tree.settle(1.0)
    assert till.payloads == [b"one", b"two", b"three"]
    assert counts(tree, "who_has_out") == {"bath": 1, "south": 1}, "the second finds it in the cache"
    assert known(tree["leeds"]) == {"north"}, "nobody else learns anything"


def test_a_name_is_asked_up_and_then_down_its_way(tree):
    hq = tree["hq"].core.logical_addresses
    hq.cache.take(tree["york"].core.identity.incarnation)
    told = []
    tree["bath"].core.logical_addresses.look_up("york", lambda entry, why: told.append((entry, why)))
    tree.settle(1.0)
    assert [(entry.found.incarnation, why) for entry, why in told] == [
        (tree["york"].core.identity.incarnation, "")
    ]
    assert counts(tree, "who_has_in") == {"south": 1, "hq": 1, "north": 1}, "north knows; no store is asked"


def test_what_is_over_is_taken_back_only_where_it_was_told(tree):
    tree.producer("bath").send(f"queue:till@{own(tree['york'])}", b"one")
    tree.settle(1.0)
    restart(tree, "york")
    assert counts(tree, "invalidate_in") == {"south": 1, "bath": 1}
    assert counts(tree, "i_have_in") == {"hq": 4, "south": 1, "bath": 1}, "one more, for hq alone"
    assert known(tree["bath"]) == {"south"}


def test_no_message_for_one_incarnation_reaches_another(tree):
    before = own(tree["york"])
    tree.producer("bath").send(f"queue:till@{before}", b"here in time")
    tree.settle(1.0)
    assert tree["york"].waiting() == 1
    restart(tree, "york")
    till = tree.consumer("york", "queue:till")
    tree.producer("bath", "second").send(f"queue:till@{before}", b"too late")
    tree.settle(6.0)
    assert till.payloads == []
    assert [(why, message.payload) for why, message in tree["york"].dead()] == [
        ("UNKNOWN_INCARNATION", b"here in time")
    ]
    assert [(why, message.payload) for why, message in tree["bath"].dead()] == [
        ("UNKNOWN_INCARNATION", b"too late")
    ]


def test_what_waits_for_a_store_that_is_away_dies_when_it_comes_back_as_another(tree):
    before = own(tree["york"])
    producer = tree.producer("hq")
    tree["york"].crash()
    tree.settle(3.0)
    producer.send(f"queue:till@{before}", b"one")
    tree.settle(1.0)
    assert tree["north"].waiting() == 1
    tree["york"].boot()
    tree.dial("york")
    tree.settle(2.0)
    assert [why for why, _ in tree["north"].dead()] == ["UNKNOWN_INCARNATION"]


def test_an_orderly_stop_is_told_to_all_who_may_be_asked(tree):
    gone = own(tree["york"])
    producer = tree.producer("bath")
    till = tree.consumer("york", "queue:till")
    producer.send(f"queue:till@{gone}", b"served")
    tree.settle(1.0)
    assert till.payloads == [b"served"]
    tree["york"].core.logical_addresses.end()
    tree.settle()
    tree["york"].crash()
    assert not any("york" in known(tree[name]) for name in ("north", "hq", "south", "bath"))
    producer.send(f"queue:till@{gone}", b"late")
    tree.settle(1.0)
    assert [why for why, _ in tree["bath"].dead()] == ["UNKNOWN_INCARNATION"], "while the store is away"
    for name in ("north", "hq"):
        tree[name].crash()
        tree[name].boot()
    assert "york" not in known(tree["north"]), "what is on disk is no living start of it either"
    tree["york"].boot()
    tree.dial_all()
    tree.settle(2.0)
    assert {"york"} <= known(tree["north"]) & known(tree["hq"])


def test_a_reconnect_keeps_the_incarnation_and_tells_nobody(tree):
    before, told = own(tree["york"]), counts(tree, "i_have_out")
    till = tree.consumer("york", "queue:till")
    tree.cut(tree.wire_of("york"))
    tree.settle(0.5)
    tree.producer("hq").send(f"queue:till@{before}", b"while away")
    tree.settle(0.5)
    tree.dial("york")
    tree.settle(1.0)
    assert own(tree["york"]) == before
    assert till.payloads == [b"while away"]
    assert counts(tree, "i_have_out") == told


def test_the_same_question_is_not_asked_twice_within_two_seconds(tree):
    tree.cut(tree.wire_of("south"))
    tree.settle(0.5)
    unknown = "01234567-89ab-cdef-0123-456789abcdef"
    producer = tree.producer("bath")
    for number in range(20):
        producer.send(f"queue:till@{unknown}", str(number).encode())
        tree.settle(0.1)
    tree.settle(1.5)
    assert tree["south"].core.logical_addresses.counters["who_has_in"] <= 3
    assert tree["bath"].core.logical_addresses.waiting() == 20
    tree.dial("south")
    tree.settle(10.0)
    assert len(tree["bath"].dead()) == 20
    assert tree["bath"].waiting() == 0


def test_what_waits_for_an_answer_is_bounded_and_on_disk(forest):
    forest.add("hq")
    forest.add("york", "hq", address_waiting=3)
    producer = forest.producer("york")
    unknown = "01234567-89ab-cdef-0123-456789abcdef"
    for number in range(5):
        producer.send(f"queue:till@{unknown}", str(number).encode())
        forest.settle()
    assert forest["york"].waiting() == 3
    assert "wait already for incarnations" in producer.rejected[0].text
    forest["york"].crash()
    forest["york"].boot()
    forest.settle()
    assert forest["york"].waiting() == 3
    forest.dial("york")
    forest.settle(10.0)
    assert [why for why, _ in forest["york"].dead()] == ["UNKNOWN_INCARNATION"] * 3


def test_a_root_that_has_just_started_says_of_nobody_that_it_is_unknown(tree):
    before = own(tree["york"])
    for name in ("hq", "north"):
        tree[name].crash()
    for name in ("hq", "north"):
        tree[name].boot()
    till = tree.consumer("york", "queue:till")
    tree.dial("south")
    tree.settle(0.5)
    tree.producer("bath").send(f"queue:till@{before}", b"one")
    tree.dial("bath")
    tree.settle(2.0)
    assert tree["bath"].waiting() == 1
    assert tree["bath"].dead() == []
    tree.dial_all()
    tree.settle(2.0)
    assert till.payloads == [b"one"]


def test_a_root_says_who_is_unknown_when_all_had_time_to_come_back(tree):
    tree["hq"].crash()
    tree["hq"].boot()
    tree.dial_all()
    tree.settle(1.0)
    tree.producer("bath").send("queue:till@01234567-89ab-cdef-0123-456789abcdef", b"one")
    tree.settle(2.0)
    assert tree["bath"].dead() == []
    tree.settle(5.0)
    assert [why for why, _ in tree["bath"].dead()] == ["UNKNOWN_INCARNATION"]


def test_what_is_asked_for_by_a_neighbour_too_is_dead_here_when_nobody_has_it(tree):
    unknown = "01234567-89ab-cdef-0123-456789abcdef"
    tree.cut(tree.wire_of("north"))
    tree["york"].core.logical_addresses.look_up(unknown, lambda entry, why: None)
    tree.settle(0.5)
    tree.producer("north").send(f"queue:till@{unknown}", b"one")
    tree.settle(0.5)
    tree.dial("north")
    tree.settle(3.0)
    assert [why for why, _ in tree["north"].dead()] == ["UNKNOWN_INCARNATION"]


def test_so_many_incarnations_are_asked_for_and_the_others_after_them(forest):
    forest.add("hq")
    forest.add("york", "hq")
    known, producer = forest["york"].core.logical_addresses, forest.producer("york")
    for number in range(1000):
        known.questions.ask(f"{number:08x}-89ab-cdef-0123-456789abcdef")
    producer.send("queue:till@99999999-89ab-cdef-0123-456789abcdef", b"one")
    forest.settle(0.5)
    producer.send("queue:till@88888888-89ab-cdef-0123-456789abcdef", b"two")
    forest.settle(0.5)
    assert (forest["york"].waiting(), len(producer.rejected)) == (1, 1)
    forest.dial("york")
    forest.settle(5.0)
    assert [message.payload for _, message in forest["york"].dead()] == [b"one"]


def test_a_branch_that_starts_again_learns_who_is_below_by_asking_up(tree):
    before = own(tree["york"])
    till = tree.consumer("york", "queue:till")
    tree["north"].crash()
    tree["north"].boot()
    tree.dial("north")
    tree.settle(0.5)
    tree.producer("hq").send(f"queue:till@{before}", b"one")
    tree.settle(0.5)
    tree.dial("york")
    tree.settle(2.0)
    assert till.payloads == [b"one"]


def test_a_store_that_moves_keeps_its_incarnation(tree):
    before = own(tree["york"])
    till = tree.consumer("york", "queue:till")
    tree.cut(tree.wire_of("york"))
    tree["york"].parent = "south"
    tree.dial("york")
    tree.settle(6.0)
    assert own(tree["york"]) == before
    tree.producer("leeds").send(f"queue:till@{before}", b"one")
    tree.settle(6.0)
    assert till.payloads == [b"one"]


def test_a_request_for_an_incarnation_that_is_over_is_told_so(tree):
    before = restart(tree, "york")
    answers = tree.consumer("bath", "queue:answers")
    tree.settle(1.0)
    producer = tree.producer("bath")
    encoded = bundles.encode_message(Message(b"ask", Properties(correlation_id=5, reply_to="answers")))
    producer.number += 1
    frame = Send(producer.number, parse(f"queue:till@{before}"), 1, encoded, tell=True)
    producer.under_way[frame.first] = frame
    producer.say(frame)
    tree.settle(6.0)
    assert len(answers.payloads) == 1
    assert b"unknown incarnation" in answers.payloads[0]
    assert tree["bath"].dead() == []


def test_goodbye_from_above_makes_another_incarnation(tree):
    before = own(tree["york"])
    link = tree["north"].core.neighbours["york"].link
    tree["north"].core.admission.handle(link, link.goodbye("go"))
    tree.settle(1.0)
    assert own(tree["york"]) != before
    tree.dial("york")
    tree.settle(2.0)
    hq = tree["hq"].core.logical_addresses.cache.named("york", tree["hq"].core.clock.now)
    assert incarnation_text(hq.found.incarnation) == own(tree["york"])


def test_a_change_of_addresses_rides_on_the_next_frame_to_all_who_were_told(tree):
    tree["bath"].core.logical_addresses.look_up("york", lambda entry, why: None)
    tree.settle(1.0)
    tree["york"].core.logical_addresses.announce(["wss://lte.york.example:7600/link"])
    tree.settle(1.0)
    for name in ("north", "hq", "south", "bath"):
        entry = tree[name].core.logical_addresses.cache.named("york", tree[name].core.clock.now)
        assert entry.found.addresses == ["wss://lte.york.example:7600/link"], name
    assert known(tree["leeds"]) == {"north"}
    assert tree["north"].core.neighbours["york"].detail.addresses == ["wss://lte.york.example:7600/link"]


def test_a_change_of_addresses_while_a_link_comes_up_is_told_on_it(tree):
    moved = ["wss://lte.york.example:7600/link"]
    tree.cut(tree.wire_of("york"))
    tree.settle(1.0)
    tree.dial("york")
    tree["york"].core.logical_addresses.announce(moved)
    tree.settle(1.0)
    hq = tree["hq"].core
    assert hq.logical_addresses.cache.named("york", hq.clock.now).found.addresses == moved


def test_a_child_that_lies_is_not_believed(tree, monkeypatch):
    north, hq = tree["north"].core, tree["hq"].core
    york = north.neighbours["york"]
    waiting = tree.producer("north")
    unknown = "01234567-89ab-cdef-0123-456789abcdef"
    monkeypatch.setattr(hq.logical_addresses.questions, "ask", lambda *_, **__: "")
    waiting.send(f"queue:till@{unknown}", b"one")
    tree.settle(1.0)
    lies = [
        events.PeerHas([Whereabouts("hq", b"x" * 16, [])]),
        events.PeerHas([Whereabouts("bath", b"y" * 16, [])]),
        events.PeerHas([Whereabouts("york", b"z" * 16, [])]),
        events.PeerHas([Whereabouts("york", north.identity.incarnation, [])]),
        events.PeerHas([Whereabouts("shop", north.identity.incarnation, [])]),
        events.PeerHas([Whereabouts("shop", tree["leeds"].core.identity.incarnation, [])]),
        events.PeerInvalidates([tree["leeds"].core.identity.incarnation, hq.identity.incarnation]),
        events.PeerKnowsNobody([unknown], "believe me"),
    ]
    york.detail.role = "branch"
    york.held.apply([Advice("add", Kind.DOMAIN, "shop", "shop", "c1")], tree.now)
    for lie in lies:
        north.logical_addresses.said(york, lie)
    tree.settle(0.5)
    cache = north.logical_addresses.cache
    assert {entry.found.name: entry.found.incarnation for entry in cache} == {
        name: tree[name].core.identity.incarnation for name in ("hq", "york", "leeds")
    }
    assert tree["north"].waiting() == 1, "only who was asked can deny"
    assert north.logical_addresses.counters["not_believed"] == 2


def test_one_child_cannot_ask_without_end(tree):
    north = tree["north"].core
    tree.cut(tree.wire_of("north"))
    york = north.neighbours["york"]
    for start in range(0, 1500, 500):
        keys = [f"store-{number}" for number in range(start, start + 500)]
        north.logical_addresses.said(york, events.PeerAsks(keys))
    assert len(north.logical_addresses.questions) == 1000
    tree.cut(tree.wire_of("york"))
    assert len(north.logical_addresses.questions) == 0


class Unwalked(dict):
    """Questions by their keys, which nobody goes over."""

    def __iter__(self):
        raise AssertionError("a question went over all others")

    values = items = __iter__


def test_a_question_is_bounded_without_going_over_those_of_others(tree):
    north = tree["north"].core
    tree.cut(tree.wire_of("north"))
    questions = north.logical_addresses.questions
    for asker in ("york", "bath"):
        for number in range(1000):
            assert questions.ask(f"{asker}-{number}", asker) == ""
    questions._open = Unwalked(questions._open)
    assert "york-0" in questions
    assert "try again" in questions.ask("another", "york")
    assert questions.ask("york-1", "bath") == "", "it is open already"
    questions.nobody("york-2", "nobody knows it")
    assert questions.ask("another", "york") == ""
    questions.link_down(north.neighbours["york"])
    assert len(questions) == 1001
    assert questions.ask("one more", "york") == ""


class Secretive(Policy):
    def why_not_tell(self, neighbour, key):
        return f"{neighbour.name} may not know of {key}"


def test_what_may_not_be_told_is_not(tree):
    tree["north"].core.policies.add([Secretive()])
    told = []
    tree["york"].core.logical_addresses.look_up("leeds", lambda entry, why: told.append(why))
    tree.settle(1.0)
    assert told == ["york may not know of leeds"]


def test_an_answer_is_forgotten_after_its_time(forest):
    forest.add("hq")
    for store in ("york", "leeds"):
        forest.add(store, "hq", address_lifetime=5.0)
    forest.dial_all()
    forest.settle(1.0)
    forest["york"].core.logical_addresses.look_up("leeds", lambda entry, why: None)
    forest.settle(1.0)
    assert known(forest["york"]) == {"hq", "leeds"}
    forest.settle(6.0)
    assert known(forest["york"]) == {"hq"}
    assert forest["york"].core.clock.next is None or not forest["york"].core.logical_addresses._expires


@pytest.fixture
def cores(forest: Forest) -> Forest:
    """Three roots that are one; york is linked with all of them."""
    forest.add_mesh("c1", "c2", "c3")
    forest.add("york", "c1")
    forest.add("bath", "c2")
    forest.heal(5)
    return forest


def test_each_core_knows_the_nodes_below_and_the_other_cores(cores):
    for name in ("c1", "c2", "c3"):
        assert known(cores[name]) == {"c1", "c2", "c3", "york", "bath"} - {name}
    till = cores.consumer("york", "queue:till")
    for name in ("c1", "c2", "c3", "bath"):
        cores.producer(name).send(f"queue:till@{own(cores['york'])}", name.encode())
    cores.settle(2.0)
    assert sorted(till.payloads) == [b"bath", b"c1", b"c2", b"c3"]


def test_a_core_that_does_not_know_asks_the_others_in_turn(cores):
    york = cores["york"].core.identity.incarnation
    for name in ("c1", "c2"):
        cores[name].core.logical_addresses.cache.take(york)
    told = []
    for key in (own(cores["york"]), "01234567-89ab-cdef-0123-456789abcdef"):
        cores["c1"].core.logical_addresses.look_up(
            key, lambda entry, why: told.append(entry and entry.found.name)
        )
    cores.settle(8.0)
    assert told == ["york", None]
    asked = {name: cores[name].core.logical_addresses.counters["who_has_in"] for name in ("c1", "c2", "c3")}
    assert asked == {"c1": 0, "c2": 2, "c3": 2}


def test_a_core_that_leaves_takes_no_incarnation_with_it(cores):
    before = own(cores["york"])
    link = cores["c2"].core.neighbours["york"].link
    cores["c2"].core.admission.handle(link, link.goodbye("go"))
    cores.settle(1.0)
    assert own(cores["york"]) == before
