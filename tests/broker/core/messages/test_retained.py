"""The latest message of each topic: which, how many, for whom, and under which id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.messages import retained
from broker.core.messages.retained import Retained, as_of, kept_of, last_of
from broker.core.rows import RetainedRow
from sapwood.protocol.bundles import Flag, Header, Message, Properties, encode_message
from sapwood.protocol.destinations import topic
from sapwood.protocol.session_frames import Deliver
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from treeconnector.patterns import matches

LEVELS = st.sampled_from(["a", "b", "", "$s"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
PATTERNS = st.lists(st.one_of(LEVELS, st.sampled_from("+#")), min_size=1, max_size=5).map("/".join)


def put(kept: Retained, name: str, body: bytes = b"x") -> list[str]:
    return kept.put(name, Header(id=b"i" * 16, destination=topic(name)), body)


def header_of(start: bytes, number: int, origin: str, flags: int = Flag.KEPT) -> Header:
    made = start * 12 + number.to_bytes(4, "big")
    return Header(id=made, destination=topic("a"), flags=flags, origin=origin)


def test_of_one_maker_it_knows_the_same_and_older_ones_that_come_with_a_new_filter() -> None:
    """One that came over another line of a mesh puts no older value in the place of a newer one."""
    kept = Retained()
    assert not kept.knows(header_of(b"s", 256, "york"))
    kept.put("a", header_of(b"s", 256, "york", flags=0), b"x")
    assert kept.knows(header_of(b"s", 256, "york"))
    assert kept.knows(header_of(b"s", 2, "york"))
    assert not kept.knows(header_of(b"s", 257, "york"))
    assert not kept.knows(header_of(b"s", 256, "york", flags=0)), "it is new, or comes again as all else does"
    assert not kept.knows(header_of(b"t", 2, "york")), "of another start, which may be later"
    assert not kept.knows(header_of(b"s", 2, "bath"))


def names(kept: Retained, pattern: str, most: int = 1000) -> list[str]:
    """Found page by page."""
    found: list[str] = []
    after: tuple[str, ...] | None = ()
    while after is not None:
        page = kept.page(pattern, after, most)
        assert page.visited <= max(most, 1)
        assert page.after is None or page.after > after, "it goes on"
        found += page.names
        after = page.after
    return found


@given(st.sets(TOPICS, max_size=20), st.sets(TOPICS, max_size=10), PATTERNS.filter(bool), st.integers(1, 12))
def test_a_pattern_finds_what_it_matches(topics: set[str], gone: set[str], pattern: str, most: int) -> None:
    kept = Retained()
    for name in topics:
        put(kept, name)
    for name in gone:
        assert kept.forget(name) == (name in topics)
    left = topics - gone
    right = [name for name in left if matches(pattern, name)]
    assert names(kept, pattern, most) == sorted(right, key=lambda name: name.split("/"))
    for name in left:
        kept.forget(name)
    assert kept._root.children == {}, "nothing is left of names that are gone"


@given(st.sets(TOPICS), st.sets(TOPICS), st.sets(TOPICS), PATTERNS.filter(bool), st.integers(1, 6))
def test_pages_are_right_whatever_comes_and_goes_between_them(
    stay: set[str], go: set[str], come: set[str], pattern: str, most: int
) -> None:
    """A topic that stays is found once; one that comes or goes meanwhile, once at most."""
    kept = Retained()
    for name in stay | go:
        put(kept, name)
    changes = [*(go - stay), *(come - stay - go)]
    found: list[str] = []
    after: tuple[str, ...] | None = ()
    while after is not None:
        page = kept.page(pattern, after, most)
        found += page.names
        after = page.after
        if changes:
            name = changes.pop()
            if not kept.forget(name):
                put(kept, name)
    assert len(found) == len(set(found))
    assert {name for name in stay if matches(pattern, name)} <= set(found) <= stay | go | come


def bundle(*expire: int, remains: int) -> tuple[Header, bytes]:
    """Messages that expire after so many ms; for the first of them so many remained when it came."""
    body = b"".join(encode_message(Message(b"x", Properties(expires_in=each))) for each in expire)
    header = Header(id=b"i" * 16, destination=topic("t"), count=len(expire), size=len(body))
    return replace(header, expires_first=remains, expires_last=remains), body


@pytest.mark.parametrize(
    ("expire", "remains", "left"),
    [
        ((5000,), 5000, 5000),
        ((5000,), 2000, 2000),
        ((1000, 5000), 400, 4400),
        ((5000, 1000), 400, 400),
        ((5000, 0), 400, 0),
        ((0,), 0, 0),
    ],
)
def test_time_goes_on_for_a_kept_message(expire: tuple[int, ...], remains: int, left: int) -> None:
    kept = kept_of(*bundle(*expire, remains=remains), 1000.0)
    assert kept is not None
    header, body = kept
    at_once, later = as_of(header, 1000.0), as_of(header, 1000.0 + left / 1000 - 0.1)
    assert at_once is not None
    assert (at_once.expires_first, at_once.expires_last) == (left, left)
    assert later is not None
    assert later.expires_first == (100 if left else 0)
    assert (as_of(header, 1000.0 + left / 1000) is None) == bool(left)
    assert last_of(at_once, body).properties.expires_in == left


def test_a_pattern_of_many_wildcards_meets_each_level_once_for_each_of_its_own() -> None:
    kept = Retained()
    put(kept, "/".join("a" * 100))
    assert names(kept, "/".join("#" * 60 + "b")) == []
    assert len(names(kept, "/".join("#" * 60))) == 1


def test_whose_message_is_oldest_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "MOST", 2)
    kept = Retained()
    assert [put(kept, name) for name in ("a", "b", "a", "c")] == [[], [], [], ["b"]]
    assert names(kept, "#") == ["a", "c"]
    assert kept.size == 2


def test_they_are_bounded_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "MOST_BYTES", 10)
    kept = Retained()
    assert put(kept, "a", b"12345") == []
    assert put(kept, "a", b"1234567890") == []
    assert put(kept, "b", b"1") == ["a"]
    assert put(kept, "c", b"12345678901") == ["b", "c"]
    assert (len(kept), kept.size) == (0, 0)


def test_what_goes_for_want_of_room_goes_from_the_disk_and_is_counted(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained, "MOST", 2)
    hq = forest.add("hq")
    producer = forest.producer("hq")
    for name in "abc":
        producer.send(f"topic:{name}", b"kept", retained=True)
        forest.settle()
    assert [row.topic for row in hq.disk.rows(RetainedRow)] == ["b", "c"]
    assert hq.core.counters["retained_overflow"] == 1
    monkeypatch.setattr(retained, "MOST", 1)
    hq.crash()
    hq.boot()
    forest.settle()
    assert [row.topic for row in hq.disk.rows(RetainedRow)] == ["c"]


class Reader(SimulatedConsumer):
    """Remembers under which id each message came."""

    def arrived(self, frame: object) -> None:
        if isinstance(frame, Deliver):
            self.ids = [*getattr(self, "ids", []), (frame.bundle, frame.position)]
        super().arrived(frame)


@pytest.mark.parametrize("crash", [False, True])
def test_a_retained_message_has_the_id_that_it_had_when_it_was_new(forest: Forest, crash: bool) -> None:
    """Its bundle's id and its index: what a reader knows it by. Also two hops further, and after a start."""
    forest.add("hq")
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle()
    first = forest._client(Reader(forest["hq"], "topic:t", "first"))
    forest.producer("hq").send("topic:t", b"1", b"2", b"the last", retained=True)
    forest.settle()
    assert first.payloads == [b"1", b"2", b"the last"]
    if crash:
        forest["hq"].crash()
        forest["hq"].boot()
        forest.heal(3.0)
    ids = []
    for site in ("hq", "york"):
        late = forest._client(Reader(forest[site], "topic:t", f"late at {site}"))
        forest.settle()
        assert late.payloads == [b"the last"]
        ids += late.ids
    bundle, position = first.ids[0]
    assert position == 0
    assert ids == [(bundle, 2), (bundle, 2)]
    forest["york"].crash()
    forest["york"].boot()
    forest.heal(3.0)
    again = forest._client(Reader(forest["york"], "topic:t", "again"))
    forest.settle()
    assert again.ids == [(bundle, 2)]


def test_an_empty_message_clears(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    producer.send("topic:t", b"kept", retained=True)
    forest.settle()
    producer.send("topic:t", b"not the last", b"", retained=True)
    forest.settle()
    assert len(hq.core.topics.retained) == 0
    assert hq.disk.rows(RetainedRow) == []
