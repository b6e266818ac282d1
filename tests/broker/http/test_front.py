"""What stands first on each connection: order, patience, and the way to the general server."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from broker import shares
from broker.entrance.operators import Operators
from broker.http.front import MOST_OF_A_STRANGER, Front
from broker.http.pipeline import PATIENCE, SLOWEST
from broker.http.settings import HttpSettings
from broker.http.verbs import Verbs


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True
        self.closed = self.aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 7600)}.get(name, default)

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def statuses(self) -> list[int]:
        parts = self.written.split(b"HTTP/1.1 ")[1:]
        return [int(part[:3]) for part in parts]


class Inner(asyncio.Protocol):
    """The general server."""

    def __init__(self) -> None:
        self.data = b""
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Stand:
    """A Front with everything around it."""

    def __init__(self, node: Any, **settings: Any) -> None:
        self.node = node
        self.inner = Inner()
        self.fronts: set[Front] = set()
        self.front = Front(Verbs(node, HttpSettings(**settings)), lambda: self.inner, self.fronts)
        self.transport = Transport()
        self.front.connection_made(self.transport)

    def say(self, *requests: str) -> None:
        self.front.data_received("".join(f"{request}\r\n\r\n" for request in requests).encode())


@pytest.fixture(autouse=True)
def long_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice ends with time: on a busy machine at any request, and here where a test says so."""
    monkeypatch.setattr(shares, "SLICE", 60.0)


@pytest.fixture
async def stand(node: Any) -> Stand:
    return Stand(node)


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def sends(count: int) -> bytes:
    return b"POST /send/q/1 HTTP/1.1\r\nContent-Length: 1\r\n\r\nx" * count


async def test_who_speaks_tls_to_a_port_without_is_told_at_once(stand: Stand) -> None:
    stand.front.data_received(b"\x16\x03\x01\x02\x00")
    assert stand.transport.statuses() == [400]
    assert stand.transport.closed


async def test_sends_share_a_commit_and_a_transfer_waits_for_them(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1", "GET /create/q HTTP/1.1")
    await turn()
    stand.say("GET /subscribe/q HTTP/1.1")
    stand.transport.written = b""
    switch = stand.node.switch
    wake, stand.node.wake = stand.node.wake, lambda: None
    stand.front.data_received(sends(3) + b"GET /transfer/-1/0 HTTP/1.1\r\n\r\n")
    assert len(switch.queues["q"]) == 3
    assert stand.transport.written == b""
    stand.node.wake = wake
    wake()
    await turn()
    assert stand.transport.statuses() == [200] * 4
    assert stand.transport.written.endswith(b"]}")


async def test_no_more_than_so_many_are_under_way(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1")
    wake, stand.node.wake = stand.node.wake, lambda: None
    stand.front.data_received(sends(1000))
    assert len(stand.node.switch.queues["q"]) == 256
    stand.node.wake = wake
    wake()
    for _ in range(10):
        await turn()
    assert len(stand.node.switch.queues["q"]) == 1000
    assert stand.transport.statuses() == [200] * 1001


async def test_who_does_not_read_is_read_no_further(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1")
    stand.node.switch.quota = 6_000
    stand.front.pause_writing()
    stand.front.data_received(sends(6_000))
    assert not stand.transport.reading
    assert stand.node.switch.queues == {}
    stand.front.resume_writing()
    for _ in range(200):
        await turn()
    assert stand.transport.reading
    assert stand.transport.statuses() == [200] * 6_001


async def test_who_does_not_read_is_read_no_further_in_the_middle_of_a_request_either(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1", "POST /send/q/1 HTTP/1.1\r\nContent-Length: 300000")
    stand.front.pause_writing()
    stand.front.data_received(b"x" * 300_000)
    assert stand.transport.reading
    stand.front.data_received(sends(6000))
    assert not stand.transport.reading
    stand.front.resume_writing()
    await turn()
    assert stand.transport.statuses()[:2] == [200, 200]


async def test_a_body_in_chunks_waits_for_the_answers_before_it(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1")
    wake, stand.node.wake = stand.node.wake, lambda: None
    stand.front.data_received(sends(2))
    stand.say("POST /send/q/1 HTTP/1.1\r\nTransfer-Encoding: chunked")
    stand.front.data_received(b"2\r\nab\r\n0\r\n\r\n")
    stand.node.wake = wake
    wake()
    await turn()
    assert [message.payload for _, message in stand.node.switch.queues["q"]] == [b"x", b"x", b"ab"]
    assert stand.transport.statuses() == [200] * 4


async def test_an_idle_connection_that_is_logged_in_stays_for_ever(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1")
    stand.front.look_after(1e12)
    assert not stand.transport.closed
    stand.say("GET /create/q HTTP/1.1")
    await turn()
    assert stand.transport.statuses() == [200, 200]


@pytest.mark.parametrize(
    "data", [b"", b"GET /login", b"POST /send/q/1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"]
)
async def test_who_does_not_log_in_is_closed_after_a_while(stand: Stand, data: bytes) -> None:
    if data:
        stand.front.data_received(data)
    stand.transport.written = b""
    stand.front.look_after(asyncio.get_running_loop().time() + PATIENCE - 10)
    assert not stand.transport.closed
    stand.front.look_after(asyncio.get_running_loop().time() + PATIENCE + 10)
    assert stand.transport.closed
    assert stand.transport.statuses() == [408]


@pytest.mark.parametrize("data", [b"GET /crea", b"POST /send/q/1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"])
async def test_who_stops_in_the_middle_of_a_request_is_closed_too(stand: Stand, data: bytes) -> None:
    stand.say("GET /login/t HTTP/1.1")
    stand.front.data_received(data)
    stand.front.look_after(asyncio.get_running_loop().time() + PATIENCE + 10)
    assert stand.transport.statuses() == [200, 408]
    stand.front.connection_lost(None)
    assert stand.node.switch.tokens == {}
    assert stand.fronts == set()


async def test_a_page_is_the_general_servers_and_so_is_all_that_follows(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1", "GET /a b HTTP/1.1", "GET /create/q HTTP/1.1")
    assert stand.transport.statuses() == [200]
    assert stand.inner.data == (
        b"GET /a%20b HTTP/1.1\r\nHost: localhost\r\n\r\nGET /create/q HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    stand.front.connection_lost(None)
    await asyncio.sleep(0)
    assert stand.inner.lost
    assert stand.node.switch.tokens == {}


async def test_a_page_waits_for_the_answers_before_it(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1")
    wake, stand.node.wake = stand.node.wake, lambda: None
    stand.front.data_received(sends(1) + b"GET /docs HTTP/1.1\r\n\r\n")
    assert stand.inner.data == b""
    stand.node.wake = wake
    wake()
    await turn()
    assert stand.inner.data.startswith(b"GET /docs ")


async def test_what_comes_before_the_general_server_is_there_waits_for_it(stand: Stand) -> None:
    waiting: list[Callable[[], None]] = []
    stand.front._prepared = lambda call: bool(waiting) or waiting.append(call) is not None
    stand.say("GET /login/t HTTP/1.1", "GET /docs HTTP/1.1", "GET /create/q HTTP/1.1")
    assert stand.transport.statuses() == [200]
    assert stand.inner.data == b""
    waiting[0]()
    assert stand.inner.data.startswith(b"GET /docs HTTP/1.1\r\n")
    assert b"GET /create/q" in stand.inner.data


async def test_bodies_of_others_are_left_alone(stand: Stand) -> None:
    body = b"GET /login/t HTTP/1.1\r\n\r\n"
    head = b"POST /api/x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
    data = head + body + b"GET /y HTTP/1.1\r\nHost: h\r\n\r\n"
    for byte in data:
        stand.front.data_received(bytes([byte]))
    assert stand.inner.data == data


async def test_after_an_upgrade_nothing_is_looked_at(stand: Stand) -> None:
    stand.say("GET /session HTTP/1.1\r\nUpgrade: websocket")
    stand.front.data_received(b"\x82\x05\r\n\r\nx")
    assert stand.inner.data.endswith(b"Upgrade: websocket\r\n\r\n\x82\x05\r\n\r\nx")


async def test_chunks_reach_the_general_server_as_one_body(stand: Stand) -> None:
    stand.say("POST /api/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nA: b")
    stand.front.data_received(b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert stand.inner.data == (
        b"POST /api/x HTTP/1.1\r\nHost: localhost\r\nA: b\r\nContent-Length: 3\r\n\r\nabc"
    )


async def test_a_mistake_is_told_after_what_is_still_under_way(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1")
    wake, stand.node.wake = stand.node.wake, lambda: None
    stand.front.data_received(sends(1) + b"nonsense\r\n\r\nGET /create/never HTTP/1.1\r\n\r\n")
    assert stand.transport.statuses() == [200]
    stand.node.wake = wake
    wake()
    await turn()
    assert stand.transport.statuses() == [200, 200, 400]
    assert stand.transport.closed
    assert "never" not in stand.node.switch.queues


async def test_a_stranger_sends_small_bodies_only_whatever_they_are_for(stand: Stand) -> None:
    stand.say(f"GET /login/t HTTP/1.1\r\nContent-Length: {MOST_OF_A_STRANGER + 1}")
    assert stand.transport.statuses() == [413]
    other = Stand(stand.node)
    other.say(f"POST /a/page HTTP/1.1\r\nContent-Length: {MOST_OF_A_STRANGER + 1}")
    assert other.transport.statuses() == [413]
    assert other.transport.closed
    assert other.inner.data == b""
    chunked = Stand(stand.node)
    chunked.say("POST /a/page HTTP/1.1\r\nTransfer-Encoding: chunked")
    chunked.front.data_received(b"%x\r\n" % (MOST_OF_A_STRANGER + 1))
    assert chunked.transport.statuses() == [413]


async def test_who_shows_the_token_may_send_more(node: Any) -> None:
    stand = Stand(node, operators=Operators("secret"))
    size = MOST_OF_A_STRANGER + 1
    stand.say(f"POST /a/page HTTP/1.1\r\nAuthorization: Bearer secret\r\nContent-Length: {size}")
    stand.front.data_received(bytes(size))
    assert stand.inner.data.endswith(bytes(size))


async def test_where_no_token_is_configured_this_machine_may_administrate_with_more(stand: Stand) -> None:
    size = MOST_OF_A_STRANGER + 1
    stand.say(f"POST /api/definitions HTTP/1.1\r\nContent-Length: {size}")
    stand.front.data_received(bytes(size))
    assert stand.inner.data.endswith(bytes(size))
    for page in ("Origin: http://elsewhere.example", "X-Forwarded-For: 10.0.0.1"):
        other = Stand(stand.node)
        other.say(f"POST /api/definitions HTTP/1.1\r\n{page}\r\nContent-Length: {size}")
        assert other.transport.statuses() == [413]
        assert other.inner.data == b""


async def test_where_a_token_is_configured_nobody_else_administrates_with_more(node: Any) -> None:
    stand = Stand(node, operators=Operators("secret"))
    stand.say(f"POST /api/definitions HTTP/1.1\r\nContent-Length: {MOST_OF_A_STRANGER + 1}")
    assert stand.transport.statuses() == [413]
    assert stand.inner.data == b""


@pytest.mark.parametrize("known", [False, True])
async def test_a_byte_now_and_then_does_not_keep_a_request_alive(stand: Stand, known: bool) -> None:
    if known:
        stand.say("GET /login/t HTTP/1.1")
    now = asyncio.get_running_loop().time()
    stand.front.data_received(b"GET /create/")
    stand.transport.written = b""
    for second in range(0, int(PATIENCE) + 10, 10):
        stand.front._pipeline.heard = now + second
        stand.front.data_received(b"x")
        stand.front.look_after(now + second)
    stand.front.look_after(now + PATIENCE + 11)
    assert stand.transport.statuses() == [408]


async def test_a_long_body_has_the_time_that_it_takes(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1", "POST /send/q/1 HTTP/1.1\r\nContent-Length: 1000000")
    now = asyncio.get_running_loop().time()
    stand.front.data_received(bytes(60 * SLOWEST))
    stand.front.look_after(now + PATIENCE + 50)
    assert not stand.transport.closed
    stand.front.look_after(now + PATIENCE + 70)
    assert stand.transport.closed


async def test_nothing_that_was_read_outlives_the_connection(stand: Stand) -> None:
    stand.say("GET /login/t HTTP/1.1", "POST /send/q/1 HTTP/1.1\r\nContent-Length: 1000000")
    stand.front.data_received(bytes(500_000))
    assert len(stand.front._data) == 500_000
    stand.front.connection_lost(None)
    assert len(stand.front._data) == 0


async def test_only_a_websocket_is_an_upgrade(stand: Stand) -> None:
    stand.say("GET /a/page HTTP/1.1\r\nUpgrade: other", "GET /b HTTP/1.1")
    assert b"Upgrade" not in stand.inner.data
    assert b"GET /b HTTP/1.1" in stand.inner.data


async def test_others_have_turns_between_requests_that_came_together(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.say("GET /login/t HTTP/1.1", "GET /create/q HTTP/1.1")
    await turn()
    stand.transport.written = b""
    monkeypatch.setattr(shares, "SLICE", 0.0)
    stand.front.data_received(sends(20))
    turns = 0
    while len(stand.node.switch.queues["q"]) < 20:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 19 * shares.TURNS
    await turn()
    assert stand.transport.statuses() == [200] * 20


async def test_while_others_have_their_turns_no_more_is_read_than_else(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.say("GET /login/t HTTP/1.1", "GET /create/q HTTP/1.1")
    await turn()
    monkeypatch.setattr(shares, "SLICE", 0.0)
    stand.front.data_received(sends(10_000))
    assert not stand.transport.reading
    assert len(stand.node.switch.queues["q"]) <= 1
    monkeypatch.setattr(shares, "SLICE", 60.0)
    while not stand.transport.reading:
        await asyncio.sleep(0)
    assert len(stand.transport.statuses()) > 1000


async def test_a_connection_that_goes_while_others_have_their_turns_is_not_read_again(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.say("GET /login/t HTTP/1.1", "GET /create/q HTTP/1.1")
    await turn()
    monkeypatch.setattr(shares, "SLICE", 0.0)
    stand.front.data_received(sends(20))
    stand.front.connection_lost(None)
    for _ in range(4 * shares.TURNS):
        await asyncio.sleep(0)
    assert len(stand.node.switch.queues["q"]) <= 1


async def test_a_page_and_the_end_of_its_connection_in_one_turn_are_no_mistake(stand: Stand) -> None:
    """With the general server itself, which begins a turn later."""
    mistakes: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: mistakes.append(context))
    server = web.AppRunner(web.Application())
    await server.setup()
    made: list[asyncio.Protocol] = []

    def general() -> asyncio.Protocol:
        assert server.server is not None
        made.append(server.server())
        return made[0]

    stand.front._make_inner = general
    stand.say("GET /docs HTTP/1.1")
    stand.front.connection_lost(None)
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()
    assert mistakes == []
    assert len(made) == 1
    assert made[0].transport is None  # type: ignore[attr-defined]
    await server.cleanup()
