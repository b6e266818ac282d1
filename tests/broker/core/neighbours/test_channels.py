"""Channels through a chain of cores in memory: ways, permits, ends, broken lines, and bounded memory."""

import pytest

from broker.core.neighbours.channels import ANSWERS_WITHIN, Channel, Channels
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.link import LinkSettings
from treeconnector.permits import NOTHING, Grant
from treeconnector.streams import LINK_BYTES, PIECE, WINDOW

Events = list[tuple[str, ...]]
ANYTHING = ("*@*",)


class End:
    """One end of a channel, in a test. `reads`: it passes on what comes at once."""

    via = "test"

    def __init__(self, channels: Channels, *, reads: bool = True) -> None:
        self.channels = channels
        self.reads = reads
        self.is_open = self.is_finished = False
        self.came = bytearray()
        self.left = 0
        self.error: tuple[str, str] | None = None

    def opened(self) -> None:
        self.is_open = True

    def send(self, data: bytes) -> None:
        self.came += data
        if self.reads:
            self.channels.passed(self, len(data))

    def finish(self) -> None:
        self.is_finished = True

    def reset(self, reason: str, text: str) -> None:
        self.error = reason, text

    def passed(self, size: int) -> None:
        self.left += size


class Server:
    """What a node of a test offers: everything, but `nothing`."""

    def __init__(self, site: Site, *, reads: bool = True, answers: bool = True) -> None:
        self.channels: Channels = site.core.channels
        self.reads, self.answers = reads, answers
        self.ends: list[End] = []
        self.told: list[tuple[str, str]] = []
        self.channels.configure(self.serve, lambda op, channel: self.told.append((op, channel.why)))

    def serve(self, channel: Channel) -> End | str:
        if channel.name == "nothing":
            return f"PERMIT: nothing is offered as {channel.name}"
        end = End(self.channels, reads=self.reads)
        self.ends.append(end)
        self.channels.open[end] = channel
        return end

    def open_all(self) -> None:
        for end in self.ends:
            self.channels.opened(end)


def allow(site: Site, **rules: tuple[str, ...]) -> None:
    me = site.core.identity.name
    given = {"nodes": ("*",), "opens": ANYTHING, "serves": ANYTHING, **rules}
    site.core.permits.configure(lambda child: Grant(me, child, **given), lambda child: None)


@pytest.fixture
def tree(forest: Forest) -> Forest:
    """hq - uk - york, and bath beside york; hq - fr."""
    forest.add("hq")
    forest.add("uk", "hq", "branch")
    forest.add("fr", "hq", "leaf")
    forest.add("york", "uk", "leaf")
    forest.add("bath", "uk", "leaf")
    for name in ("hq", "uk"):
        allow(forest[name])
    forest.heal(5)
    return forest


def begin(tree: Forest, at: str, to: str, name: str = "web", *, reads: bool = True) -> End:
    channels = tree[at].core.channels
    end = End(channels, reads=reads)
    channels.begin(to, name, end)
    tree.settle()
    return end


def opened(tree: Forest, at: str, to: str, **how: bool) -> tuple[End, End]:
    server = Server(tree[to], **how)
    near = begin(tree, at, to)
    server.open_all()
    tree.settle()
    assert near.is_open, near.error
    return near, server.ends[0]


@pytest.mark.parametrize(
    ("at", "to"),
    [
        ("hq", "york"),
        ("york", "hq"),
        ("york", "bath"),
        ("york", "fr"),
        ("fr", "york"),
        ("uk", "hq"),
        ("york", "york"),
    ],
)
def test_a_channel_goes_from_any_node_to_any_other(tree: Forest, at: str, to: str) -> None:
    near, far = opened(tree, at, to)
    tree[at].core.channels.arrived(near, b"question" * 10_000)
    tree.settle()
    assert far.came == b"question" * 10_000
    tree[to].core.channels.arrived(far, b"answer")
    tree[to].core.channels.finished(far)
    tree.settle()
    assert near.came == b"answer"
    assert near.is_finished
    assert not far.is_finished
    tree[at].core.channels.arrived(near, b"more")
    tree[at].core.channels.finished(near)
    tree.settle()
    assert far.came.endswith(b"more")
    assert far.is_finished
    assert not any(site.core.channels.all() for site in tree.sites.values())


def test_what_is_there_is_refused_or_unknown_with_a_reason(tree: Forest) -> None:
    Server(tree["york"])
    assert begin(tree, "hq", "york", "nothing").error == ("refused", "PERMIT: nothing is offered as nothing")
    assert begin(tree, "hq", "fr").error == ("refused", "PERMIT: nothing is offered as web")
    assert begin(tree, "york", "leeds").error == (
        "unknown",
        "hq knows no node leeds, and nobody above it to ask",
    )
    assert begin(tree, "hq", "leeds").error == (
        "unknown",
        "hq knows no node leeds, and nobody above it to ask",
    )
    assert tree["hq"].core.counters["channels_refused"] == 4
    assert not any(site.core.channels.all() for site in tree.sites.values())


def test_nothing_may_be_opened_by_default(forest: Forest) -> None:
    for name, parent, role in (("hq", "", "root"), ("uk", "hq", "branch"), ("york", "uk", "leaf")):
        forest.add(name, parent, role)
    for name in ("hq", "uk"):
        allow(forest[name], opens=(), serves=())
    forest.heal(5)
    for name in forest.sites:
        Server(forest[name])
    for at, to in (
        ("hq", "uk"),
        ("hq", "york"),
        ("uk", "hq"),
        ("york", "uk"),
        ("york", "hq"),
        ("uk", "york"),
    ):
        reason, text = begin(forest, at, to).error or ("", "")
        assert reason == "refused", (at, to)
        assert text.startswith("PERMIT: "), text


def test_each_link_asks_its_own_permit(tree: Forest) -> None:
    Server(tree["york"])
    Server(tree["hq"])
    allow(tree["hq"], serves=("web@york",), opens=("web@hq",))
    tree.settle()
    assert begin(tree, "hq", "york").error is None
    assert begin(tree, "york", "hq").error is None
    assert begin(tree, "hq", "york", "ssh").error == (
        "refused",
        "PERMIT: hq lets uk serve channels to web@york, not ssh@york",
    )
    refused = ("refused", "PERMIT: hq lets uk open channels to web@hq, not ssh@hq")
    assert begin(tree, "york", "hq", "ssh").error == refused
    assert begin(tree, "uk", "hq", "ssh").error == refused
    allow(tree["uk"], serves=(NOTHING,))
    tree.settle()
    assert (begin(tree, "bath", "york").error or ("", ""))[0] == "refused"


def test_what_is_not_permitted_any_more_ends(tree: Forest) -> None:
    near, far = opened(tree, "hq", "york")
    allow(tree["uk"], serves=())
    tree.settle()
    assert (near.error or ("", ""))[0] == "refused"
    assert (far.error or ("", ""))[0] == "refused"
    assert not any(site.core.channels.all() for site in tree.sites.values())


def test_a_child_speaks_for_nobody_but_itself(tree: Forest) -> None:
    server = Server(tree["hq"])
    link = tree["york"].core.parent.link
    link.say.open_stream("hq", "web", "fr", b"c" * 16, 1)
    tree.settle()
    assert server.ends == []
    assert tree["uk"].core.counters["channels_refused"] == 1
    assert not tree["uk"].core.channels.all()


@pytest.mark.parametrize("origin", ["uk", "york", "till"])
def test_a_parent_does_not_speak_for_a_node_and_those_below_it(tree: Forest, origin: str) -> None:
    """However far below."""
    tree.add("shop", "uk", "branch")
    tree.add("till", "shop", "leaf")
    tree.heal(5)
    server = Server(tree["uk"])
    link = tree["hq"].core.neighbours["uk"].link
    link.say.open_stream("uk", "web", origin, b"c" * 16, 1)
    tree.settle()
    assert server.ends == []
    assert server.told == [("refused", f"ORIGIN: {origin} does not ask from there")]


def test_a_node_that_is_away_may_ask_from_elsewhere(tree: Forest) -> None:
    """It may have moved, and the word of that be behind."""
    server = Server(tree["uk"])
    tree.cut_off.append({"york", "uk"})
    tree.cut(tree.wire_of("york"))
    tree.settle(5)
    tree["hq"].core.neighbours["uk"].link.say.open_stream("uk", "web", "york", b"c" * 16, 1)
    tree.settle()
    assert len(server.ends) == 1


def test_one_neighbour_has_so_many_channels_and_the_others_have_theirs(
    tree: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.core.neighbours.channels.MOST_OF_ONE", 3)
    Server(tree["hq"])
    first = [begin(tree, "york", "hq") for _ in range(3)]
    assert [end.error for end in first] == [None] * 3
    late = begin(tree, "york", "hq")
    assert late.error == ("busy", "york has 3 channels at uk")
    Server(tree["uk"])
    assert begin(tree, "bath", "uk").error is None
    assert len(tree["uk"].core.channels.all()) == 4


def test_a_channel_whose_other_end_never_answers_keeps_no_place(tree: Forest) -> None:
    server = Server(tree["york"])
    near = begin(tree, "hq", "york")
    tree.settle(ANSWERS_WITHIN - 5)
    assert near.error is None
    tree.settle(10)
    assert near.error is not None
    assert near.error[0] == "unreachable"
    assert "has not answered for 60 s" in near.error[1]
    assert server.ends[0].error is not None
    assert not any(site.core.channels.all() for site in tree.sites.values())
    open_for_long, _ = opened(tree, "hq", "bath")
    tree.settle(3 * ANSWERS_WITHIN)
    assert open_for_long.error is None


def test_a_node_has_so_many_channels_and_says_so(tree: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.core.neighbours.channels.MOST", 2)
    Server(tree["hq"])
    first = [begin(tree, "york", "hq") for _ in range(2)]
    assert [end.error for end in first] == [None] * 2
    late = begin(tree, "york", "hq")
    assert late.error is not None
    assert late.error[0] == "busy"


@pytest.mark.parametrize("cut", [("uk", "hq"), ("york", "uk")])
def test_a_line_that_breaks_ends_the_channel_at_both_ends(tree: Forest, cut: tuple[str, str]) -> None:
    near, far = opened(tree, "hq", "york")
    tree.cut(tree.wire_of(*cut))
    tree.settle()
    text = "the link between {} and {} is broken"
    for end in (near, far):
        assert end.error is not None
        assert end.error[0] == "broken"
        assert end.error[1] in (text.format(*cut), text.format(*reversed(cut)))
    assert not any(site.core.channels.all() for site in tree.sites.values())
    assert tree["hq"].core.counters["channels_broken"] == 1


def test_a_silent_line_ends_the_channel_within_the_time_of_the_link(tree: Forest) -> None:
    near, far = opened(tree, "hq", "york")
    wire = tree.wire_of("york", "uk")
    tree.wires.remove(wire)
    patience = tree.links.keep_alive + tree.links.dead_after
    tree.pass_time(patience / 2)
    tree.settle(patience)
    assert (near.error or ("", ""))[0] == "broken"
    assert (far.error or ("", ""))[0] == "broken"


def test_a_slow_reader_costs_bounded_memory_at_every_node(tree: Forest) -> None:
    near, far = opened(tree, "hq", "york", reads=False)
    channels = tree["hq"].core.channels
    for _ in range(4 * WINDOW // PIECE):
        channels.arrived(near, bytes(PIECE))
    tree.settle()
    waiting = {name: sum(each.waiting for each in tree[name].core.channels.all()) for name in ("uk", "york")}
    assert waiting == {"uk": WINDOW, "york": WINDOW}
    quick, other = opened(tree, "hq", "bath")
    channels.arrived(quick, b"passes by")
    tree.settle()
    assert other.came == b"passes by"
    far.reads = True
    tree["york"].core.channels.passed(far, len(far.came))
    tree.settle()
    assert len(far.came) == near.left == 4 * WINDOW


def test_a_thousand_channels_at_once_keep_a_piece_each(tree: Forest) -> None:
    server = Server(tree["york"], reads=False)
    ends = [End(tree["hq"].core.channels) for _ in range(1000)]
    for end in ends:
        tree["hq"].core.channels.begin("york", "web", end)
    tree.settle()
    server.open_all()
    tree.settle()
    assert all(end.is_open for end in ends)
    for end in ends:
        tree["hq"].core.channels.arrived(end, bytes(64 * 1024))
    tree.settle()
    for name in ("uk", "york"):
        waiting = sum(each.waiting for each in tree[name].core.channels.all())
        assert waiting <= LINK_BYTES + 1000 * PIECE
    for end in server.ends:
        end.reads = True
        tree["york"].core.channels.passed(end, len(end.came))
    tree.settle()
    assert all(len(end.came) == 64 * 1024 for end in server.ends)


def test_nothing_of_a_channel_is_stored(tree: Forest) -> None:
    tree.settle(1)
    before = {name: repr(site.disk) for name, site in tree.sites.items()}
    commits = {name: site.core.context.next_commit.batch for name, site in tree.sites.items()}
    near, far = opened(tree, "hq", "york")
    tree["hq"].core.channels.arrived(near, bytes(100_000))
    tree.settle()
    assert len(far.came) == 100_000
    assert {name: repr(site.disk) for name, site in tree.sites.items()} == before
    for name, site in tree.sites.items():
        assert site.core.context.next_commit.batch is commits[name], "nothing was to be committed"
        assert not site.core.custody.transaction


def test_a_node_of_an_older_version_on_the_way_is_named(forest: Forest) -> None:
    forest.add("hq")
    forest.add("uk", "hq", "branch", links=LinkSettings(streams=0))
    allow(forest["hq"])
    forest.heal(5)
    assert begin(forest, "hq", "uk").error == ("busy", "uk takes no channels: it is of an older version")


def test_channels_go_through_a_mesh(meshes: Forest) -> None:
    for name in ("c1", "c2", "c3", "n1", "n2"):
        allow(meshes[name])
    meshes.settle(2)
    for at, to in (("york", "shop"), ("shop", "york"), ("c1", "york"), ("york", "c3"), ("c3", "shop")):
        near, far = opened(meshes, at, to)
        meshes[at].core.channels.arrived(near, b"through")
        meshes.settle()
        assert far.came == b"through", (at, to)


def test_a_node_of_a_mesh_believes_the_others_whoever_asks_through_them(meshes: Forest) -> None:
    """A store that is linked to both asks the one, and only the other has what it asks for."""
    stores = [f"bath-{number}" for number in range(6)]
    for store in stores:
        meshes.cut_off.append({store, "n2"})
        meshes.add(store, "n1", "leaf")
    for name in ("n1", "n2"):
        allow(meshes[name])
    meshes.heal(5)
    ways = set()
    for store in stores:
        near, far = opened(meshes, "york", store)
        ways.add(meshes["york"].core.channels.open[near].far.via)
        assert far.error is None
    assert ways == {"n1", "n2"}
    for name in ("c1", "c2", "c3"):
        allow(meshes[name])
    meshes.cut_off.append({"n1", "n2"})
    meshes.cut(next(wire for wire in meshes.wires if {wire.child.name, wire.parent.name} == {"n1", "n2"}))
    meshes.heal(5)
    for store in stores:
        opened(meshes, "york", store)


def test_a_forged_way_ends(tree: Forest) -> None:
    """A child that says that its channel came far gets no farther."""
    Server(tree["hq"])
    tree["york"].core.parent.link.say.open_stream("hq", "web", "york", b"c" * 16, 64)
    tree.settle()
    assert tree["uk"].core.counters["channels_refused"] == 1
    assert not tree["hq"].core.channels.all()
