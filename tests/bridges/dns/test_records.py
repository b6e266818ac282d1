"""What records say, how odd ones are left out, and the order of RFC 2782."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.dns.records import (
    MOST,
    MOST_NOTES,
    MOST_TEXTS,
    NamedParent,
    Notes,
    Service,
    in_order,
    places,
    read_text,
)
from config.kinds import Fault
from config.uris import ANNOUNCED_URI, address

HERE = Service(10, 5, 7600, "uk.example.com")


def found(
    *texts: tuple[bytes, ...], services: tuple[Service, ...] = (HERE,)
) -> tuple[list[NamedParent], list[str]]:
    notes = Notes()
    return places(services, texts, notes), list(notes.all())


def test_what_a_node_registers_is_what_is_read() -> None:
    place = NamedParent("wss://uk.example.com:7600/link", 10, 5, "acme", "region-uk", "0f" * 16, "17", 300.0)
    assert found(tuple(each.encode() for each in place.text), services=(place.service,)) == ([place], [])


def test_without_txt_a_way_is_wss_at_the_usual_path() -> None:
    assert found() == ([NamedParent("wss://uk.example.com:7600/link", 10, 5)], [])


def test_one_txt_without_target_is_for_all_that_have_none_of_their_own() -> None:
    other = Service(20, 0, 1883, "UK2.example.com")
    ways, notes = found(
        (b"carrier=ws", b"tree=acme"),
        (b"target=uk2.example.com:1883", b"carrier=mqtt"),
        services=(HERE, other),
    )
    assert [(way.uri, way.tree) for way in ways] == [
        ("ws://uk.example.com:7600/link", "acme"),
        ("mqtt://uk2.example.com:1883", ""),
    ]
    assert notes == []


def test_keys_of_a_later_version_are_left_aside() -> None:
    (way,), notes = found((b"carrier=ws", b"colour=green"))
    assert (way.uri, notes) == ("ws://uk.example.com:7600/link", [])


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((b"hello",), "expected KEY=VALUE"),
        ((b"carrier=ws", b"carrier=wss"), "twice"),
        ((b"carrier=\xff\x00",), "left out"),
        ((b"x=" + b"a" * 250,) * 9, "2048 at most"),
        ((), "says nothing"),
    ],
)
def test_a_txt_record_that_is_none_of_ours_is_left_out_and_said(texts: tuple[bytes, ...], said: str) -> None:
    _, notes = found(texts)
    assert any(said in note for note in notes)
    assert all(len(note) < 400 and note.isprintable() for note in notes)


@pytest.mark.parametrize(
    ("service", "text"),
    [
        (HERE._replace(host="127.0.0.1"), b"carrier=ws"),
        (HERE._replace(host=""), b"carrier=ws"),
        (HERE._replace(host="uk example"), b"carrier=ws"),
        (HERE._replace(host="uk@evil.example.com"), b"carrier=ws"),
        (HERE._replace(host="uk/evil"), b"carrier=ws"),
        (HERE._replace(port=0), b"carrier=ws"),
        (HERE, b"carrier=srv"),
        (HERE, b"carrier=http"),
        (HERE, b"path=link"),
        (HERE, b"path=@evil.example.com/link"),
        (HERE, b"path=:99/link"),
        (HERE, b"node=local"),
        (HERE, b"tree=a b"),
        (HERE, b"incarnation=XYZ"),
        (HERE, b"lease=-1"),
        (HERE, b"lease=99999999999"),
        (HERE, b"beat=" + b"9" * 40),
    ],
)
def test_a_way_that_cannot_be_is_left_out_and_said(service: Service, text: bytes) -> None:
    ways, notes = found((text,), services=(service,))
    assert ways == []
    assert len(notes) == 1


def test_a_thousand_records_are_cut_and_that_is_said() -> None:
    many = tuple(Service(1, 1, port, "uk.example.com") for port in range(1, 1001))
    ways, notes = found(*[(b"carrier=ws", b"x=%d" % each) for each in range(1000)], services=many)
    assert len(ways) == MOST
    assert any(f"more than {MOST} ways" in note for note in notes)
    assert any(f"more than {MOST_TEXTS} TXT" in note for note in notes)


def test_which_of_many_ways_are_left_out_depends_on_no_order_of_the_answer() -> None:
    services = [
        Service(20 - (number > 290), number % 9, 7600, f"uk{number}.example.com") for number in range(300)
    ]
    texts = [(f"target={each.target}".encode(), b"carrier=ws") for each in services]
    first, _ = found(*texts, services=tuple(services))
    for seed in range(5):
        chance = random.Random(seed)
        texts, services = chance.sample(texts, len(texts)), chance.sample(services, len(services))
        assert found(*texts, services=tuple(services))[0] == first
    assert sum(way.priority == 19 for way in first) == 9
    assert {way.uri.partition(":")[0] for way in first} == {"ws"}
    assert min(way.weight for way in first if way.priority == 20) == 1


def test_a_thousand_odd_records_make_few_notes() -> None:
    _, notes = found(*[(b"odd %d" % each,) for each in range(1000)])
    assert len(notes) == MOST_NOTES + 1
    assert notes[-1].startswith("and ")


@given(
    st.lists(
        st.tuples(st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 65535), st.text(max_size=20))
    ),
    st.lists(st.lists(st.binary(max_size=40) | st.sampled_from([b"carrier=ws", b"target=a:1", b"path=/a"]))),
)
def test_whatever_the_records_hold_only_uris_that_a_file_could_hold_come_out(
    services: list[tuple[int, int, int, str]], texts: list[list[bytes]]
) -> None:
    notes = Notes()
    for place in places([Service(*each) for each in services], texts, notes):
        assert ANNOUNCED_URI.parse(place.uri) == place.uri
        assert address(place.uri).uri == place.uri
    assert len(notes.all()) <= MOST_NOTES + 1


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_a_txt_record_is_read_or_refused(strings: list[bytes]) -> None:
    try:
        said = read_text(strings)
    except Fault as fault:
        said = {"refused": str(fault)}
    assert said
    assert all(value.isprintable() for value in said.values())


def test_the_smaller_priority_comes_first_whatever_the_weight() -> None:
    first, second = NamedParent("wss://a:1/link", 1, 0), NamedParent("wss://b:1/link", 2, 60000)
    for seed in range(20):
        assert in_order([second, first], random.Random(seed)) == [first, second]


def test_equal_priorities_are_drawn_by_weight() -> None:
    """3 to 1, and all of them in the end."""
    heavy, light = NamedParent("wss://a:1/link", 1, 30), NamedParent("wss://b:1/link", 1, 10)
    chance = random.Random(7)
    draws = [in_order([light, heavy], chance) for _ in range(4000)]
    assert all(set(each) == {heavy, light} for each in draws)
    firsts = Counter(each[0].uri for each in draws)
    assert 2.5 < firsts[heavy.uri] / firsts[light.uri] < 3.5


def test_weight_0_has_a_small_chance_and_alone_the_whole() -> None:
    """With weights beside it, it is chosen only where the number drawn is 0."""
    none, much = NamedParent("wss://a:1/link", 1, 0), NamedParent("wss://b:1/link", 1, 50)
    chance = random.Random(3)
    firsts = Counter(in_order([much, none], chance)[0].uri for _ in range(2000))
    assert 0 < firsts[none.uri] < 120
    assert in_order([none], chance) == [none]
