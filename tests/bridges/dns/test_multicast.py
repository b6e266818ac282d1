"""The question by multicast, and its answer: whole, bounded, and of whoever says so. On loopback alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import dns.message
import dns.rrset
import pytest

from bridges.dns import multicast
from bridges.dns.errors import LocationError, NotThere
from bridges.dns.multicast import Answerer, Asker, answer_to, ask_lan
from bridges.dns.records import MOST, NamedParent

HERE = "127.0.0.1"
HQ = NamedParent("ws://127.0.0.1:7600/link", tree="acme", node="hq")


@pytest.fixture(autouse=True)
def port(monkeypatch: pytest.MonkeyPatch, unused_udp_port: int) -> None:
    """A port of this test's own: others may ask and answer on this machine at the same time."""
    monkeypatch.setattr(multicast, "PORT", unused_udp_port)


@pytest.fixture
async def ways() -> AsyncIterator[list[NamedParent]]:
    """The ways that somebody on loopback answers with."""
    told = [HQ]
    answerer = Answerer(lambda asker: told)
    await answerer.open(HERE)
    yield told
    answerer.close()


async def ask() -> Sequence[NamedParent]:
    return (await ask_lan("local", timeout=0.5, lines=(HERE,))).places


def question() -> bytes:
    return dns.message.make_query("_sapwood._tcp.local.", "PTR").to_wire()


def heard(*datagrams: bytes) -> Asker:
    asker = Asker()
    for data in datagrams:
        asker.datagram_received(data, (HERE, 5353))
    return asker


def answered(asker: Asker, *strings: str) -> bytes:
    """An answer to this very question with these TXT strings."""
    answer = dns.message.make_response(asker._question)
    text = " ".join(f'"{each}"' for each in strings)
    answer.answer.append(dns.rrset.from_text("x._sapwood._tcp.local.", 10, "IN", "TXT", text))
    return answer.to_wire()


async def test_whoever_answers_is_found_with_name_and_tree(ways: list[NamedParent]) -> None:
    assert await ask() == (HQ,)


async def test_all_ways_of_a_node_come_together(ways: list[NamedParent]) -> None:
    ways.append(NamedParent("wss://hq.example.com:7601/link", tree="acme", node="hq"))
    assert await ask() == tuple(ways)


async def test_two_that_answer_are_both_found(ways: list[NamedParent]) -> None:
    beside = NamedParent("ws://127.0.0.1:7700/link", tree="other", node="hq2")
    answerer = Answerer(lambda asker: [beside])
    await answerer.open(HERE)
    try:
        assert set(await ask()) == {HQ, beside}
    finally:
        answerer.close()


async def test_where_nobody_answers_it_says_so() -> None:
    with pytest.raises(NotThere, match="discoverable"):
        await ask()


async def test_a_line_that_is_not_there_is_named() -> None:
    with pytest.raises(LocationError, match=r"192\.0\.2\.1"):
        await ask_lan("local", timeout=0.1, lines=("192.0.2.1",))


async def test_answers_are_bounded_in_a_second(
    ways: list[NamedParent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multicast, "MOST_ANSWERS", 0)
    with pytest.raises(NotThere):
        await ask()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 600,
        dns.message.make_query("_other._tcp.local.", "PTR").to_wire(),
        dns.message.make_query("_sapwood._tcp.local.", "A").to_wire(),
        dns.message.make_response(dns.message.make_query("_sapwood._tcp.local.", "PTR")).to_wire(),
    ],
    ids=["nothing", "noise", "another service", "another record", "an answer"],
)
def test_what_is_no_question_for_parents_has_no_answer(data: bytes) -> None:
    assert answer_to(data, lambda: [HQ]) == b""


def test_who_can_be_dialled_nowhere_does_not_answer() -> None:
    assert answer_to(question(), list) == b""


def test_an_answer_to_another_question_is_ignored() -> None:
    assert not heard(answer_to(question(), lambda: [HQ])).found


def test_what_is_left_out_is_said() -> None:
    asker = Asker()
    for data in (
        b"\xff" * 20,
        answered(asker, "tree=acme"),
        answered(asker, "target=hq:99999"),
        answered(asker, "target=hq:7600", "carrier=gopher"),
        answered(asker, "target=hq:7600", "node=a b"),
        answered(asker, "target=hq:7600", "carrier=ws"),
    ):
        asker.datagram_received(data, (HERE, 5353))
    assert list(asker.found) == ["ws://hq:7600/link"]
    assert len(asker.notes) == 5


def test_answers_are_bounded_in_number_and_bytes() -> None:
    asker = Asker()
    for number in range(2 * multicast.MOST_PACKETS):
        asker.datagram_received(answered(asker, f"target=hq:{number + 1}", "carrier=ws"), (HERE, 5353))
    assert len(asker.found) == MOST
    assert heard(b"\x00" * (multicast.LARGEST_PACKET + 1)).notes
    asked: list[bytes] = [answered(asker, f"target=late:{number + 1}") for number in range(3)]
    for data in asked:
        asker.datagram_received(data, (HERE, 5353))
    assert not any("late" in uri for uri in asker.found)


async def test_questions_end_when_their_time_is_over() -> None:
    async with asyncio.timeout(5.0):
        with pytest.raises(NotThere):
            await ask_lan("local", timeout=0.0, lines=(HERE,))
