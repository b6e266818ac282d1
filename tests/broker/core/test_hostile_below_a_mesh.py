"""A hostile child of two nodes of a mesh: over the second it gets and does no more than over the first."""

from secrets import token_bytes

import pytest

from broker.core.links.neighbour import Neighbour
from broker.core.neighbours import relocation
from sapwood.protocol.bundles import Flag, Header, Message, encode_message
from sapwood.protocol.destinations import Kind, domain, queue, topic
from sapwood.protocol.errors import LinkRefused, Refusal
from sapwood.protocol.session_frames import Acknowledge
from simulation.forest import Forest
from simulation.site import Site
from treeconnector import frames
from treeconnector.frames import Advice, Member
from treeconnector.identity import BundleIds
from treeconnector.permits import Grant
from treeconnector.relations import Relation

CORES = ("hq-1", "hq-2")
BODY = encode_message(Message(b"x"))
BACK = Flag.REROUTED | Flag.PERSISTENT


def permit(site: Site) -> None:
    me = site.name
    rules = {"consume": ("prices/#", "queue:orders"), "send": ("store/{name}/#",)}
    site.core.permits.configure(lambda child: Grant(me, child, **rules), lambda child: None)


@pytest.fixture
def forest() -> Forest:
    """Two roots with the same permits; below them york, which lies, and leeds."""
    made = Forest()
    made.add_mesh(*CORES)
    for name in CORES:
        permit(made[name])
    for name in ("york", "leeds"):
        made.add(name, "hq-1")
    made.heal(4)
    return made


def liar(forest: Forest, core: str) -> Neighbour:
    return forest[core].core.neighbours["york"]


def dead(forest: Forest, core: str) -> list[str]:
    return [copy.note.partition(":")[0] for copy in forest[core].core.custody.dead.waiting]


def says(forest: Forest, core: str, header: Header, body: bytes = BODY) -> None:
    forest[core].core.arrivals.from_neighbour(liar(forest, core), header, body)
    forest.settle(1)


def given(forest: Forest) -> Header:
    """What comes back of a queue's message that one root gave to york."""
    reader = forest.consumer("york", "queue:orders", credit=1, auto=False)
    forest.settle(1)
    forest.producer("hq-1").send("queue:orders", b"x")
    forest.settle(1)
    assert reader.payloads == [b"x"]
    (bundle,) = forest["hq-1"].core.loans._digests
    return Header(id=bundle, destination=queue("orders"), flags=BACK, origin="hq-1", size=len(BODY))


def test_what_one_gave_may_be_given_back_over_the_other_once(forest: Forest) -> None:
    header = given(forest)
    other = Header(
        id=header.id, destination=queue("till", "leeds"), flags=BACK, origin="hq-1", size=len(BODY)
    )
    says(forest, "hq-2", other)
    says(forest, "hq-2", Header(**{**as_dict(header), "size": 5}), b"other")
    assert len(dead(forest, "hq-2")) == 2
    for core, refused in (("hq-2", 2), ("hq-2", 3), ("hq-1", 1)):
        forest[core].core.arrivals.from_neighbour(liar(forest, core), header, BODY)
        forest.settle()
        assert len(dead(forest, core)) == refused


def test_the_twin_of_what_came_back_is_dropped_and_not_what_came_back_later(forest: Forest) -> None:
    """Two roots gave york one bundle, since a line broke between them: it gives back both, and says so."""
    header = given(forest)
    doubted = Header(**{**as_dict(header), "flags": BACK | Flag.MAYBE_DUPLICATE}, reroutes=1)
    for core in ("hq-1", "hq-1", "hq-2"):
        forest[core].core.arrivals.from_neighbour(liar(forest, core), doubted, BODY)
        forest.settle()
    assert dead(forest, "hq-1") == dead(forest, "hq-2") == []
    assert [forest[core].core.counters["duplicates_dropped"] for core in CORES] == [1, 1]
    assert forest["hq-1"].core.custody.queue_for(queue("orders")).messages == 1
    later = Header(**as_dict(doubted), reroutes=2)
    forest["hq-2"].core.arrivals.from_neighbour(liar(forest, "hq-2"), later, BODY)
    assert dead(forest, "hq-2") == ["PERMIT"]


def test_two_parts_of_one_bundle_are_no_twins_and_each_comes_back_once(forest: Forest) -> None:
    """A bundle was divided among york's readers, and york gives back one part after the other, doubted."""
    hq, york = forest["hq-1"].core, liar(forest, "hq-1")
    body, bundle = BODY * 3, BundleIds(token_bytes).next()
    fields = {"id": bundle, "destination": queue("orders"), "origin": "hq-1", "size": len(body), "count": 3}
    hq.loans.sent(york, Header(**fields, done=b"\x04"), body)
    doubted = BACK | Flag.MAYBE_DUPLICATE
    for done, dropped, waiting in ((b"\x06", 0, 1), (b"\x06", 1, 1), (b"\x05", 1, 2), (b"\x04", 3, 2)):
        part = Header(**fields, flags=doubted, reroutes=1, done=done)
        for core in CORES if dropped else CORES[:1]:
            forest[core].core.arrivals.from_neighbour(liar(forest, core), part, body)
            forest.settle()
        assert hq.counters["duplicates_dropped"] == dropped
        assert hq.custody.queue_for(queue("orders")).messages == waiting
    assert dead(forest, "hq-1") == dead(forest, "hq-2") == []
    never_given = Header(**fields, flags=doubted, reroutes=1, done=b"\x03")
    says(forest, "hq-1", never_given, body)
    assert dead(forest, "hq-1") == ["PERMIT"]


def test_of_a_part_that_one_gave_no_more_comes_back_over_the_other(forest: Forest) -> None:
    """Whether the other heard of it at once or when it came up, and whether the giver was started anew."""
    reader = forest.consumer("hq-1", "queue:orders", auto=False)
    forest.settle(1)
    forest.producer("hq-1").send("queue:orders", b"1", b"2", b"3")
    forest.settle(1)
    (session,) = (each for each in forest["hq-1"].core.switch.sessions.values() if each.unacked)
    header = next(iter(session.unacked.all())).entry.stored.header
    reader.say(Acknowledge([(reader.receipts[0].transfer, reader.receipts[0].transfer)]))
    reader.disconnect()
    forest.consumer("york", "queue:orders", auto=False)
    forest.settle(2)

    def given(core: str) -> list[int]:
        return [bits for _, _, bits in forest[core].core.loans._digests[header.id]]

    assert [given(core) for core in CORES] == [[0b110], [0b110]]
    for core in CORES:
        forest[core].crash()
        forest[core].boot()
        forest.heal(4)
        assert [given(core) for core in CORES] == [[0b110], [0b110]]
    body = b"".join(encode_message(Message(text)) for text in (b"1", b"2", b"3"))
    parts = {"id": header.id, "destination": queue("orders"), "origin": "hq-1", "size": len(body), "count": 3}
    says(forest, "hq-2", Header(**parts, flags=BACK, reroutes=1, done=b"\x06"), body)
    assert dead(forest, "hq-2") == ["ORIGIN"]
    says(forest, "hq-2", Header(**parts, flags=BACK, reroutes=1, done=b"\x05"), body)
    assert dead(forest, "hq-2") == ["ORIGIN"]


def test_two_children_that_were_given_one_bundle_may_both_give_it_back(forest: Forest) -> None:
    header = given(forest)
    hq = forest["hq-1"].core
    hq.loans.sent(hq.neighbours["leeds"], header, BODY)
    forest.settle(1)
    for core, child in (("hq-2", "york"), ("hq-1", "leeds")):
        site = forest[core].core
        site.arrivals.from_neighbour(site.neighbours[child], header, BODY)
        forest.settle()
        assert dead(forest, core) == []
    for core in CORES:
        site = forest[core].core
        site.arrivals.from_neighbour(site.neighbours["leeds"], header, BODY)
        assert dead(forest, core) == ["PERMIT"]


def test_what_comes_back_before_the_word_of_its_being_given_waits_for_it(forest: Forest) -> None:
    """hq-2 was off when hq-1 gave it, and hq-1 is off when it comes back: no message is lost to either."""
    forest["hq-2"].crash()
    reader = forest.consumer("york", "queue:orders", credit=1, auto=False)
    forest.settle(1)
    forest.producer("hq-1").send("queue:orders", b"x")
    forest.settle(1)
    assert reader.payloads == [b"x"]
    forest["hq-1"].crash()
    forest["hq-2"].boot()
    late = forest.consumer("hq-2", "queue:orders", name="late")
    reader.disconnect()
    for _ in range(30):
        forest.dial_all()
        forest.settle(2)
    assert dead(forest, "hq-2") == ["ORIGIN"]
    forest["hq-2"].crash()
    forest["hq-2"].boot()
    assert dead(forest, "hq-2") == ["ORIGIN"]
    late.connect()
    forest.heal(5)
    forest.settle(60)
    assert late.payloads == [b"x"]
    assert dead(forest, "hq-1") == dead(forest, "hq-2") == []


def apart(forest: Forest, *names: str) -> None:
    """The line between two is cut, and stays so until `cut_off` is cleared."""
    one, other = names
    forest.cut_off.append({one, other})
    for pair in ((one, other), (other, one)):
        if wire := forest.wire_of(*pair):
            forest.cut(wire)


def given_twice(forest: Forest) -> Header:
    """The return of a message that hq-1 gave york again after it had come back, out of the reach of hq-2."""
    readers = {"york": forest.consumer("york", "queue:orders", auto=False)}
    forest.settle(1)
    forest.producer("hq-1").send("queue:orders", b"x")
    forest.settle(1)
    assert readers["york"].payloads == [b"x"]
    readers["hq-1"] = forest.consumer("hq-1", "queue:orders", auto=False)
    readers["york"].disconnect()
    forest.settle(60)
    assert readers["hq-1"].payloads == [b"x"]
    apart(forest, *CORES)
    forest.consumer("york", "queue:orders", name="again", auto=False)
    readers["hq-1"].disconnect()
    forest.settle(60)
    ((bundle, ((_, since, _),)),) = forest["hq-1"].core.loans._digests.items()
    assert since > 0
    assert forest["hq-2"].core.loans._taken
    assert not forest["hq-2"].core.loans._digests
    return Header(
        id=bundle,
        destination=queue("orders"),
        flags=BACK,
        origin="hq-1",
        size=len(BODY),
        reroutes=since + 1,
    )


@pytest.mark.parametrize("killed", [False, True])
def test_what_a_child_was_given_again_after_it_came_back_comes_back_again(
    forest: Forest, killed: bool
) -> None:
    """Over the other root, which knows of the first return alone before it hears of the second loan."""
    given_twice(forest)
    apart(forest, "hq-1", "york")
    late = forest.consumer("hq-2", "queue:orders", name="late")
    (again,) = (each for each in forest.clients if each.name == "again")
    again.disconnect()
    forest.settle(60)
    assert dead(forest, "hq-2") == ["PERMIT"]
    if killed:
        forest["hq-1"].crash()
    forest.cut_off.clear()
    forest.heal(60)
    assert late.payloads == [b"x"]
    assert dead(forest, "hq-1") == dead(forest, "hq-2") == []


@pytest.mark.parametrize("first", CORES)
@pytest.mark.parametrize("reroutes", ["as it is", "as of the first time", "none"])
def test_what_was_given_twice_comes_back_no_third_time(forest: Forest, first: str, reroutes: str) -> None:
    """Whichever root it comes to first and, if it lies, however often it says that the bundle went back."""
    true = given_twice(forest)
    says_of = {"as it is": true.reroutes, "as of the first time": 1, "none": 0}
    header = Header(**as_dict(true), reroutes=says_of[reroutes])
    loans = {core: forest[core].core.loans for core in CORES}
    forest.consumer(first, "queue:orders", name="keeper", auto=False)
    says(forest, first, header)
    assert dead(forest, first) == ([] if first == "hq-1" else ["PERMIT"])
    forest.cut_off.clear()
    forest.heal(5)
    assert dead(forest, "hq-1") == dead(forest, "hq-2") == []
    assert not loans["hq-1"]._digests
    assert not loans["hq-2"]._digests
    for core in CORES:
        for number in (0, 1, true.reroutes, true.reroutes + 1, 1000):
            before = len(dead(forest, core))
            says(forest, core, Header(**as_dict(true), reroutes=number))
            assert len(dead(forest, core)) == before + 1


def test_more_returns_than_are_remembered_open_no_loan_again(forest: Forest) -> None:
    """A child may say another number for each part; a word of the whole that comes late is not believed."""
    loans, bundle, digest = forest["hq-2"].core.loans, bytes(16), b"d" * 16
    for number in range(40):
        mark = digest + number.to_bytes(4) + (1 << number).to_bytes(8, "little")
        loans.heard([(bundle, mark, b"", 0)])
    loans.heard([(bundle, digest, b"", 0)], known=True)
    assert not loans._digests


@pytest.mark.parametrize("reroutes", [1 << 32, (1 << 53) - 1])
def test_a_return_that_says_too_large_a_number_is_a_dead_letter(forest: Forest, reroutes: int) -> None:
    header = given(forest)
    for core in CORES:
        says(forest, core, Header(**as_dict(header), reroutes=reroutes))
    assert dead(forest, "hq-1") == dead(forest, "hq-2") == ["PERMIT"]
    says(forest, "hq-1", header)
    assert len(dead(forest, "hq-1")) == 1


def test_what_brings_nothing_takes_no_loan(forest: Forest) -> None:
    given(forest)
    loans = forest["hq-1"].core.loans
    written = loans._number
    for number in range(3):
        header = Header(
            id=bytes([number]) * 16,
            destination=queue("orders"),
            flags=BACK,
            origin="hq-1",
            size=len(BODY),
            done=b"\x01",
        )
        forest["hq-1"].core.arrivals.from_neighbour(liar(forest, "hq-1"), header, BODY)
    forest.settle()
    assert loans._number == written
    assert not loans._taken


def test_a_letter_whose_row_is_another_s_by_now_stays(forest: Forest) -> None:
    """An operator took the letter away, and its row went to another one after a start."""
    says(forest, "hq-2", Header(id=b"1" * 16, destination=queue("orders"), flags=BACK, origin="x", size=1))
    core = forest["hq-2"].core
    ((early, rows),) = core.loans._early.items()
    other = (b"2" * 16, early[1])
    core.loans._early = {other: rows}
    core.loans.heard([(*other, b"", 0)])
    forest.settle()
    assert len(dead(forest, "hq-2")) == 1


def as_dict(header: Header) -> dict[str, object]:
    return {name: getattr(header, name) for name in ("id", "destination", "flags", "origin", "size")}


def test_another_child_does_not_give_it_back(forest: Forest) -> None:
    header = given(forest)
    for core in CORES:
        site = forest[core].core
        site.arrivals.from_neighbour(site.neighbours["leeds"], header, BODY)
    assert dead(forest, "hq-1") == dead(forest, "hq-2") == ["PERMIT"]


def test_an_honest_child_gives_back_whichever_of_the_two_is_up(forest: Forest) -> None:
    reader = forest.consumer("york", "queue:orders", credit=1, auto=False)
    forest.settle(1)
    payloads = [b"%d" % number for number in range(6)]
    for number, payload in enumerate(payloads):
        forest.producer(CORES[number % 2], name=f"p{number}").send("queue:orders", payload)
    forest.settle(1)
    forest["hq-1"].crash()
    reader.disconnect()
    forest.settle(2)
    late = forest.consumer("hq-2", "queue:orders", name="late")
    forest.settle(60)
    forest["hq-1"].boot()
    forest.heal(5)
    forest.settle(60)
    assert set(late.payloads) == set(payloads)
    assert dead(forest, "hq-1") == dead(forest, "hq-2") == []


def test_it_reads_nothing_more_over_the_second(forest: Forest) -> None:
    keys = [
        Advice("add", Kind.TOPIC, "payroll/#", "york", "c"),
        Advice("add", Kind.QUEUE, "till", "york", "c"),
    ]
    allowed = Advice("add", Kind.TOPIC, "prices/#", "york", "c")
    for core in CORES:
        forest[core].core.advertising.advised(liar(forest, core), [*keys, allowed])
    forest.settle(1)
    for core in CORES:
        table = forest[core].core.table
        assert {str(key) for key in table.routes_of("york")} == {"domain:york", "topic:prices/#"}
        assert not any(table.route(topic("payroll/#"), gateway) for gateway in (*CORES, "york"))
    for core in CORES:
        forest.producer(core).send("topic:payroll/june", b"secret")
        forest.producer(core, name="q").send("queue:till", b"secret")
    forest.settle(2)
    assert all(forest[core].core.neighbours["york"].counters["out"] == 0 for core in CORES)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("origin", ["york", "leeds", "hq-1", "hq-2"])
def test_it_writes_nothing_more_over_the_second(forest: Forest, core: str, origin: str) -> None:
    till = forest.consumer("leeds", "queue:till")
    for flags in (Flag.PERSISTENT, BACK, Flag.PERSISTENT | Flag.MAYBE_DUPLICATE):
        for name, node in (("till", ""), ("till", "leeds"), ("System", "leeds"), ("System", "hq-2")):
            where, bundle = queue(name, node), BundleIds(token_bytes).next()
            header = Header(id=bundle, destination=where, flags=flags, origin=origin, size=len(BODY))
            says(forest, core, header)
    assert till.payloads == []
    assert len(dead(forest, core)) == 12


def test_no_frame_of_a_child_counts_that_is_for_nodes_of_the_mesh(forest: Forest) -> None:
    """It says who left, who is above, what it was given, whose certificates count, and who it is."""
    lies = (
        frames.Mesh([Member("hq-2", []), Member("leeds", [])], ["hq-1", "hq-2", "leeds"]),
        frames.Given([(b"i" * 16, b"d" * 16)]),
        frames.Advise([Advice("add", Kind.DOMAIN, name, name, "c") for name in (*CORES, "leeds")]),
    )
    before = {core: forest[core].core.neighbours["leeds"].link for core in CORES}
    for core in CORES:
        link = forest["york"].core.neighbours[core].link
        assert link is not None
        for lie in lies:
            link._out.control(lie)
        forest.settle(1)
    for core in CORES:
        site = forest[core].core
        assert set(site.mesh.members) == {*CORES} - {core}
        assert site.neighbours["leeds"].link is before[core]
        assert liar(forest, core).up
        assert liar(forest, core).group == "york"
        assert not site.loans._digests
        assert site.ancestry.names == frozenset()
        assert {each.name for each in site.context.peers() if each.up} == {*CORES} - {core}
    assert {each.relation for each in forest["leeds"].core.neighbours.values()} == {Relation.PARENT}


@pytest.mark.parametrize("frame", [frames.Authorities(b"mine"), frames.Chain(["york"], [])])
def test_what_only_parents_say_ends_the_child_s_link_alone(forest: Forest, frame: frames.Frame) -> None:
    link, others = forest["york"].core.neighbours["hq-1"].link, forest["hq-1"].core.neighbours["leeds"].link
    assert link is not None
    link._out.control(frame)
    forest.settle(1)
    assert not liar(forest, "hq-1").up
    assert forest["hq-1"].core.neighbours["leeds"].link is others
    assert forest["hq-1"].core.mesh.authorities == b""


def test_who_was_revoked_between_hello_and_proof_stays_out(forest: Forest) -> None:
    """It says hello, waits until it is found out, and then proves itself."""
    forest.cut(forest.wire_of("york", "hq-1"))
    forest.settle()
    wire, core = forest.dial("york"), forest["hq-1"].core
    assert wire is not None
    while not any(link.peer_name == "york" for link in core.links.peers):
        assert forest.step()

    def revoked(name: str, *_shown: object) -> None:
        raise LinkRefused(Refusal.SECRET, f"{name} was revoked")

    core.admission.configure(revoked)
    forest.settle(1)
    assert not liar(forest, "hq-1").up
    assert "york was revoked" in forest["york"].errors


def test_a_secret_that_was_changed_between_hello_and_proof_proves_nothing(forest: Forest) -> None:
    forest.cut(forest.wire_of("york", "hq-1"))
    core = forest["hq-1"].core
    for end in (forest["york"].core, core):
        end.admission.configure(lambda *_shown: b"former")
    forest.settle()
    forest.dial("york")
    while not any(link.peer_name == "york" for link in core.links.peers):
        assert forest.step()
    core.admission.configure(lambda *_shown: b"present")
    forest.settle(1)
    assert not liar(forest, "hq-1").up


@pytest.mark.parametrize("withdrawn", [False, True])
def test_what_it_claimed_before_that_came_to_be_above_counts_no_more(withdrawn: bool) -> None:
    """A branch that is trusted with any name below it takes that of a root which is yet to come."""
    forest = Forest()
    forest.add_mesh(*CORES)
    forest.add("york", "hq-1", "branch")
    forest.add("leeds", "hq-1")
    forest.heal(4)
    for op in ("add", "remove") if withdrawn else ("add",):
        for core in CORES:
            lie = Advice(op, Kind.DOMAIN, "hq-3", "hq-3", "c", 1)
            forest[core].core.advertising.advised(liar(forest, core), [lie])
        forest.settle(1)
    forest.add("hq-3", "", "root", mesh=["hq-1"])
    forest.heal(5)
    for core in CORES:
        site = forest[core].core
        assert site.table.route(domain("hq-3"), "york") is None
        where = queue("System", "leeds")
        header = Header(id=BundleIds(token_bytes).next(), destination=where, origin="hq-3", size=len(BODY))
        says(forest, core, header)
        assert dead(forest, core) == ["ORIGIN"]
    assert forest["leeds"].core.counters["in"] == 0


def test_a_node_of_the_mesh_that_names_one_bundle_again_and_again_makes_little_be_kept(
    forest: Forest,
) -> None:
    loans, bundle = forest["hq-1"].core.loans, bytes(16)
    for number in range(100):
        loans.heard([(bundle, number.to_bytes(16), b"", 0)])
    assert [digest for digest, _, _ in loans._digests[bundle]] == [
        number.to_bytes(16) for number in range(68, 100)
    ]


def test_names_that_are_said_to_have_moved_wait_up_to_a_bound_and_with_one_timer(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """york is below both roots; one of them says it of many names, the other of none."""
    monkeypatch.setattr(relocation, "_MOST_SAID", 10)
    core = forest["york"].core
    believed: list[str] = []
    monkeypatch.setattr(core.relocation, "moved", believed.append)
    timers = len(core.clock._timers)
    for number in range(50):
        core.relocation.told(f"n{number}", core.neighbours["hq-1"])
    assert believed == [f"n{number}" for number in range(40)]
    assert len(core.relocation._said) == 10
    assert len(core.clock._timers) == timers + 1
    core.relocation.told("n45", core.neighbours["hq-2"])
    assert believed[40:] == ["n45"]
    forest.pass_time(core.settings.dormant_after + 1)
    assert sorted(believed) == sorted(f"n{number}" for number in range(50))
    assert not core.relocation._said
