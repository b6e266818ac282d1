"""A DNS server that lies in every way it can: each answer is bounded, and becomes an answer or an error."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rrset
import pytest

from bridges.dns.errors import LocationError, NotThere
from bridges.dns.lookup import LONGEST_TTL, SHORTEST_TTL, LookupResult, cancellable, look_up, server_place
from bridges.dns.records import MOST

OWNER = "_sapwood._tcp.uk.example.com."
Reply = Callable[[dns.message.Message], bytes]


@contextmanager
def lying(reply: Reply) -> Iterator[str]:
    """A DNS server on UDP, whose answers `reply` makes of questions; yields its place."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        opened.settimeout(0.05)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                try:
                    data, asker = opened.recvfrom(4096)
                except TimeoutError:
                    continue
                opened.sendto(reply(dns.message.from_wire(data)), asker)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{opened.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def answering(ttl: int, **records: list[str]) -> Reply:
    """Answers with these records by kind, to whatever is asked; `ANY_` kinds to every question."""

    def reply(question: dns.message.Message) -> bytes:
        made = dns.message.make_response(question)
        asked = question.question[0]
        for kind, texts in records.items():
            if texts and (kind.startswith("ANY_") or kind == asked.rdtype.name):
                made.answer.append(dns.rrset.from_text_list(asked.name, ttl, "IN", kind[-3:], texts))
        return made.to_wire(max_size=65535)

    return reply


async def ask(reply: Reply, timeout: float = 5.0) -> LookupResult:
    with lying(reply) as server:
        return await look_up("uk.example.com", servers=(server,), timeout=timeout)


async def test_a_good_answer_is_taken() -> None:
    answer = await ask(answering(60, SRV=["1 2 7600 a.example.com."], TXT=['"carrier=ws" "tree=acme"']))
    assert [(place.uri, place.tree, place.priority, place.weight) for place in answer.places] == [
        ("ws://a.example.com:7600/link", "acme", 1, 2)
    ]
    assert (answer.ttl, answer.notes) == (60.0, ())


async def test_a_ttl_of_nothing_or_of_years_is_bounded() -> None:
    assert (await ask(answering(0, SRV=["1 2 7600 a."]))).ttl == SHORTEST_TTL
    assert (await ask(answering(2**31 - 1, SRV=["1 2 7600 a."]))).ttl == LONGEST_TTL


async def test_too_many_records_are_cut() -> None:
    answer = await ask(answering(60, SRV=[f"1 2 {port} a.example.com." for port in range(1, 800)]))
    assert len(answer.places) == MOST
    assert any("left out" in note for note in answer.notes)


async def test_a_chain_of_aliases_without_end_is_an_error() -> None:
    def reply(question: dns.message.Message) -> bytes:
        made = dns.message.make_response(question)
        name = question.question[0].name
        made.answer.append(dns.rrset.from_text(name, 60, "IN", "CNAME", "b.example.com."))
        made.answer.append(dns.rrset.from_text("b.example.com.", 60, "IN", "CNAME", name.to_text()))
        return made.to_wire()

    with pytest.raises(LocationError, match=r"_sapwood\._tcp\.uk\.example\.com"):
        await ask(reply)


async def test_records_of_another_type_are_no_answer() -> None:
    def reply(question: dns.message.Message) -> bytes:
        made = dns.message.make_response(question)
        made.answer.append(dns.rrset.from_text(question.question[0].name, 60, "IN", "A", "127.0.0.1"))
        return made.to_wire()

    with pytest.raises(LocationError):
        await ask(reply)


async def test_a_service_that_is_decidedly_not_there() -> None:
    """RFC 2782: the target '.'."""
    with pytest.raises(NotThere, match="says that the service is not to be had"):
        await ask(answering(60, SRV=["0 0 0 ."]))


async def test_no_such_name_says_which() -> None:
    def reply(question: dns.message.Message) -> bytes:
        made = dns.message.make_response(question)
        made.set_rcode(3)
        return made.to_wire()

    with pytest.raises(NotThere, match="check the domain's name"):
        await ask(reply)


@pytest.mark.parametrize("wire", [b"", b"\0", b"\xff" * 12, b"\0" * 500])
async def test_bytes_that_are_no_answer_are_an_error_in_time(wire: bytes) -> None:
    def reply(question: dns.message.Message) -> bytes:
        return question.to_wire()[:2] + wire

    with pytest.raises(LocationError):
        await ask(reply, timeout=0.5)


async def test_a_server_that_always_fails_is_an_error() -> None:
    def reply(question: dns.message.Message) -> bytes:
        made = dns.message.make_response(question)
        made.set_rcode(2)
        return made.to_wire()

    with pytest.raises(LocationError, match=r"the DNS server 127\.0\.0\.1@\d+ answered SERVFAIL$"):
        await ask(reply, timeout=5)


async def test_a_lost_question_for_txt_fails_the_whole_look_up() -> None:
    """Else one lost packet would change the carrier."""

    def reply(question: dns.message.Message) -> bytes:
        if question.question[0].rdtype.name == "TXT":
            return b""
        return answering(60, SRV=["1 2 7600 a.example.com."])(question)

    with pytest.raises(LocationError):
        await ask(reply, timeout=0.5)


async def test_a_truncated_answer_without_a_server_on_tcp_is_an_error() -> None:
    def reply(question: dns.message.Message) -> bytes:
        made = dns.message.make_response(question)
        made.flags |= dns.flags.TC
        return made.to_wire()

    with pytest.raises(LocationError):
        await ask(reply, timeout=0.5)


async def test_a_silent_server_is_an_error_that_says_how_long() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(LocationError, match=r"did not answer within 0\.3 s"):
            await look_up("uk.example.com", servers=(f"127.0.0.1:{silent.getsockname()[1]}",), timeout=0.3)


@pytest.mark.parametrize("domain", ["a..b", ".", "-" * 64, "a" * 64, "x." * 200])
async def test_a_domain_that_is_none_is_an_error(domain: str) -> None:
    with pytest.raises(LocationError):
        await look_up(domain, servers=("127.0.0.1:9",), timeout=0.3)


async def test_what_swallows_a_cancellation_is_left_behind() -> None:
    """As `asyncio.wait_for` may until Python 3.12, when its answer comes at the same moment."""
    begun = asyncio.Event()

    async def deaf() -> int:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return 1

    task = asyncio.create_task(cancellable(deaf()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_ends_when_it_is_cancelled() -> None:
    with lying(lambda _question: b"") as server:
        task = asyncio.create_task(look_up("uk.example.com", servers=(server,), timeout=60.0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.0.0.53", ("10.0.0.53", 53)),
        ("10.0.0.53:5300", ("10.0.0.53", 5300)),
        ("[::1]", ("::1", 53)),
        ("[::1]:5300", ("::1", 5300)),
        ("ns1.example.com", ("ns1.example.com", 53)),
    ],
)
def test_a_server_is_taken_apart(text: str, place: tuple[str, int]) -> None:
    assert server_place(text) == place
