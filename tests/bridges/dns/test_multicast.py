"""The question by multicast, and its answer: whole, bounded, and of whoever says so. On loopback alone."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import dns.message
import dns.rrset
import pytest

from bridges.dns import multicast
from bridges.dns.errors import LocationError, NotThere
from bridges.dns.multicast import Answerer, Asker, answer_to, ask_lan
from bridges.dns.records import NamedParent

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
    assert [each.uri for each in await ask()] == [each.uri for each in ways]


async def test_a_broker_is_not_taken_from_anybody(ways: list[NamedParent]) -> None:
    ways += [
        NamedParent("mqtts://evil:8883", tree="acme", node="hq"),
        NamedParent("amqp://evil", tree="acme"),
    ]
    found = await ask_lan("local", timeout=0.5, lines=(HERE,))
    assert found.places == (HQ,)
    assert "no broker" in found.notes[0]


async def test_two_that_answer_are_both_found(ways: list[NamedParent]) -> None:
    beside = NamedParent("ws://127.0.0.1:7700/link", tree="other", node="hq2")
    answerer = Answerer(lambda asker: [beside])
    await answerer.open(HERE)
    try:
        assert {(each.node, each.tree) for each in await ask()} == {("hq", "acme"), ("hq2", "other")}
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
    assert [each.uri for each in asker.in_turn()] == ["ws://hq:7600/link"]
    assert len(asker.notes) == 4


def hosts(count: int) -> list[str]:
    return [f"192.0.2.{number}" for number in range(count)]


def test_answers_are_bounded_in_number_and_bytes() -> None:
    asker = Asker()
    for host in hosts(2 * multicast.MOST_PACKETS):
        asker.datagram_received(answered(asker, f"target={host}:1", "carrier=ws"), (host, 5353))
    assert len(asker.found) == multicast.MOST_PACKETS
    assert len(asker.in_turn()) == multicast.MOST
    asker = Asker()
    asker.datagram_received(answered(asker, "target=hq:1").ljust(multicast.LARGEST_PACKET + 1), (HERE, 5353))
    assert asker.notes
    assert not asker.found


def test_one_host_takes_nothing_from_the_others_and_its_second_way_comes_behind_all_first() -> None:
    asker = Asker()
    for number in range(5000):
        asker.datagram_received(answered(asker, f"target=evil:{number + 1}"), ("192.0.2.66", 5353))
    for number in range(2):
        asker.datagram_received(answered(asker, f"target=hq:760{number}", "carrier=ws"), (HERE, 5353))
    found = [(each.priority, each.uri) for each in asker.in_turn()]
    assert found[:4] == [
        (0, "wss://evil:1/link"),
        (0, "ws://hq:7600/link"),
        (1, "wss://evil:2/link"),
        (1, "ws://hq:7601/link"),
    ]
    assert len(found) == 2 + multicast.MOST_OF_ONE


def test_nobody_speaks_for_the_way_of_another_host() -> None:
    asker = Asker()
    asker.datagram_received(answered(asker, "target=hq:7600", "tree=acme"), (HERE, 5353))
    asker.datagram_received(answered(asker, "target=hq:7600", "tree=other"), ("192.0.2.66", 5353))
    assert [each.tree for each in asker.in_turn()] == ["acme", "other"]


def test_ways_of_one_host_are_few() -> None:
    asker = Asker()
    answer = dns.message.make_response(asker._question)
    for number in range(20):
        name = f"x{number}._sapwood._tcp.local."
        answer.answer.append(dns.rrset.from_text(name, 10, "IN", "TXT", f'"target=evil:{number + 1}"'))
    asker.datagram_received(answer.to_wire(), (HERE, 5353))
    assert len(asker.in_turn()) == multicast.MOST_WAYS_OF_ONE


class Line:
    """Counts what is sent."""

    def __init__(self) -> None:
        self.to: list[str] = []

    def sendto(self, data: bytes, to: tuple[str, int]) -> None:
        self.to.append(to[0])


async def test_one_host_that_floods_leaves_answers_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 7.0)
    answerer, line = Answerer(lambda asker: [HQ]), Line()
    answerer._transport = line  # type: ignore[assignment]
    for _ in range(10_000):
        answerer.datagram_received(question(), ("192.0.2.66", 4000))
    for host in hosts(10):
        answerer.datagram_received(question(), (host, 4000))
    assert line.to.count("192.0.2.66") == multicast.MOST_ANSWERS_TO_ONE
    assert [host for host in line.to if host != "192.0.2.66"] == hosts(10)


def test_only_the_head_is_read_of_what_can_be_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(*_: object, **__: object) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(dns.message, "from_wire", parsed)
    asked = question()
    for data in (
        asked[:11],
        asked[:-5],
        bytes((asked[0], asked[1], asked[2] | 0x80)) + asked[3:],
        bytes((asked[0], asked[1], 0x28)) + asked[3:],
        asked[:5] + b"\x02" + asked[6:],
        asked.ljust(multicast.LARGEST_PACKET + 1),
        dns.message.make_query("_other._tcp.local.", "PTR").to_wire(),
        dns.message.make_query("_sapwood._tcp.local.", "TXT").to_wire(),
    ):
        assert answer_to(data, lambda: [HQ]) == b""


def test_ways_that_have_no_room_in_a_packet_are_left_out() -> None:
    ways = [NamedParent(f"wss://hq-{n}.{'x' * 60}.example:7600/{'y' * 60}", tree="acme") for n in range(32)]
    answer = answer_to(question(), lambda: ways)
    assert 0 < len(answer) <= multicast.LARGEST_PACKET
    assert 5 < len(dns.message.from_wire(answer).answer[0]) < 32


async def test_nothing_goes_beyond_the_next_router(ways: list[NamedParent]) -> None:
    made = multicast._asking(HERE)
    with made:
        assert made.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 1
        assert made.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == 1


async def test_questions_end_when_their_time_is_over() -> None:
    async with asyncio.timeout(5.0):
        with pytest.raises(NotThere):
            await ask_lan("local", timeout=0.0, lines=(HERE,))
