"""Who may connect: how many in all, of strangers, and of one address; and who makes room."""

import asyncio
import logging
import socket
from typing import Any

import pytest

from broker.intake import Acceptor, Admission, Bounds, Guest, open_listeners
from broker.intake.admission import GRACE


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def admission(clock: Clock, **bounds: int) -> Admission:
    return Admission(Bounds()._replace(**bounds), clock)


def admitted(made: Admission, address: str = "10.0.0.1") -> Guest:
    guest = made.admit(address)
    assert guest is not None
    return guest


def ended(guest: Guest) -> list[Guest]:
    gone: list[Guest] = []
    guest.end = lambda: gone.append(guest)
    return gone


def test_strangers_of_one_address_are_few_and_the_oldest_makes_room() -> None:
    clock = Clock()
    made = admission(clock, strangers_per_address=2)
    first, second = admitted(made), admitted(made)
    gone = ended(first)
    assert made.admit("10.0.0.1") is None
    assert made.admit("10.0.0.2") is not None
    clock.now += GRACE
    assert made.admit("10.0.0.1") is not None
    assert gone == [first]
    assert first.gone
    assert not second.gone
    assert made.turned_away == {"address": 2}


def test_who_has_logged_in_counts_no_more_and_is_never_sent_away() -> None:
    clock = Clock()
    made = admission(clock, strangers_per_address=1, connections=2)
    known = admitted(made)
    known.prove()
    gone = ended(known)
    admitted(made)
    clock.now += 2 * GRACE
    assert made.admit("10.0.0.9") is not None, "the stranger makes room"
    made.admit("10.0.0.1")
    assert gone == []
    assert len(made) == 2
    known.leave()
    known.leave()
    assert made.applications == 0


def test_too_many_strangers_wait_until_one_has_had_its_time() -> None:
    clock = Clock()
    made = admission(clock, strangers=2)
    admitted(made, "10.0.0.1")
    assert not made.must_wait
    admitted(made, "10.0.0.2")
    assert made.must_wait
    clock.now += GRACE
    assert not made.must_wait
    admitted(made, "10.0.0.3")
    assert made.strangers == 2


def test_the_last_places_are_for_links() -> None:
    made = admission(Clock(), connections=16)
    for _ in range(14):
        guest = admitted(made)
        assert guest.may_log_in
        guest.prove()
    late = admitted(made)
    assert not late.may_log_in
    late.prove(is_link=True)
    assert (made.applications, made.links, made.strangers) == (14, 1, 0)
    assert made.turned_away == {"applications": 1}


def test_all_of_an_ipv6_network_are_one_address() -> None:
    made = admission(Clock(), strangers_per_address=1)
    admitted(made, "2001:db8::1")
    assert made.admit("2001:db8::2") is None
    assert made.admit("2001:db8:0:1::1") is not None
    admitted(made, "::ffff:10.0.0.1")
    assert made.admit("10.0.0.1") is None


def test_a_process_with_few_files_has_few_connections() -> None:
    assert Bounds().within(1024).connections == 1024 - 64
    assert Bounds().within(1 << 20) == Bounds()


def test_refusals_are_said_now_and_then_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    made = admission(clock, strangers_per_address=1)
    admitted(made)
    with caplog.at_level(logging.WARNING, "sapwood.intake"):
        for _ in range(5):
            assert made.admit("10.0.0.1") is None
        clock.now += 11
        made.turn_away("address", "10.0.0.1")
    assert [record.message.split("): ")[-1] for record in caplog.records] == [
        "1 time, the last from 10.0.0.1",
        "5 times, the last from 10.0.0.1",
    ]


class Echo(asyncio.Protocol):
    def __init__(self, guest: Guest, heard: list[bytes]) -> None:
        self.guest = guest
        self.heard = heard

    def connection_made(self, transport: Any) -> None:
        transport.write(b"hello")

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)


async def test_an_evicted_connection_is_cut_off_at_once() -> None:
    clock = Clock()
    made = admission(clock, strangers=1)
    (listener,) = open_listeners("127.0.0.1", 0)
    acceptor = Acceptor([listener], made, lambda guest: Echo(guest, []))
    port = listener.getsockname()[1]
    first, first_writer = await asyncio.open_connection("127.0.0.1", port)
    assert await first.readexactly(5) == b"hello"
    clock.now += GRACE
    second, second_writer = await asyncio.open_connection("127.0.0.1", port)
    assert await second.readexactly(5) == b"hello"
    assert await first.read() == b""
    assert made.turned_away == {"strangers": 1}
    acceptor.close()
    made.make_room("strangers")
    assert await second.read() == b""
    for writer in (first_writer, second_writer):
        writer.close()
        await writer.wait_closed()


async def test_no_files_left_is_said_and_the_oldest_makes_room(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Admission()
    gone = ended(admitted(made))

    class Full:
        def setblocking(self, _flag: bool) -> None:
            """As a socket does."""

        def fileno(self) -> int:
            return pipe.fileno()

        def accept(self) -> Any:
            raise OSError(24, "Too many open files")

        def close(self) -> None:
            """As a socket does."""

    pipe, other = socket.socketpair()
    with pipe, other, caplog.at_level(logging.WARNING, "sapwood.intake"):
        acceptor = Acceptor([Full()], made, lambda guest: Echo(guest, []))  # type: ignore[list-item]
        other.send(b"x")
        async with asyncio.timeout(120):
            while not gone:
                await asyncio.sleep(0.01)
        acceptor.close()
    assert "connections cannot be accepted: Too many open files" in caplog.text
