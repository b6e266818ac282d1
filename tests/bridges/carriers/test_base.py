"""What every carrier guarantees, adapter by adapter."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from aiohttp import web
from mosquitto_server import MosquittoServer
from rabbitmq_server import RabbitServer

from bridges.carriers import memory, websocket, websocket_accept
from bridges.carriers.amqp import AmqpBroker
from bridges.carriers.base import (
    BUFFER_BYTES,
    SOON,
    Carrier,
    CarrierBroken,
    CarrierClosed,
    CarrierEnded,
    PacketTooLarge,
)
from bridges.carriers.brokered.carrier import BrokeredCarrier, connect
from bridges.carriers.brokered.envelopes import Knock
from bridges.carriers.brokered.line import Broker, BrokerAccess
from bridges.carriers.brokered.listener import Listener, answer
from bridges.carriers.mqtt import MqttBroker
from config.schemes import CARRIERS

MAX_PACKET = 4096
WebSocket = websocket.DialledWebSocket | websocket_accept.AcceptedWebSocket
Pair = tuple[Carrier, Carrier]
Opener = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Pair]]


@asynccontextmanager
async def memory_pair(_request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    yield memory.pair(MAX_PACKET)


@asynccontextmanager
async def ws_pair(_request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    accepted: asyncio.Queue[Carrier] = asyncio.Queue()
    over = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        carrier = await websocket_accept.accept(request, max_packet=MAX_PACKET)
        accepted.put_nowait(carrier)
        await over.wait()
        await carrier.close()
        return carrier.response

    app = web.Application()
    app.router.add_get("/link", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    near = await websocket.connect(f"ws://127.0.0.1:{port}/link", max_packet=MAX_PACKET)
    far = await accepted.get()
    try:
        yield near, far
    finally:
        over.set()
        await asyncio.gather(near.close(), far.close())
        await runner.cleanup()


@asynccontextmanager
async def brokered_pair(broker: Broker) -> AsyncIterator[Pair]:
    answers: asyncio.Queue[asyncio.Task[BrokeredCarrier]] = asyncio.Queue()

    def welcome(child: str, knock: Knock) -> None:
        answers.put_nowait(asyncio.create_task(answer(broker, child, knock, max_packet=MAX_PACKET)))

    listening = asyncio.Event()
    listener = asyncio.create_task(Listener(broker, "hq", welcome).run(listening.set))
    await listening.wait()
    near = await connect(broker, "store.0042", max_packet=MAX_PACKET)
    far = await (await answers.get())
    try:
        yield near, far
    finally:
        await asyncio.gather(near.close(), far.close())
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


@asynccontextmanager
async def mqtt_pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    server: MosquittoServer = request.getfixturevalue("mosquitto")
    async with brokered_pair(MqttBroker(BrokerAccess("127.0.0.1", server.port), "acme", MAX_PACKET)) as both:
        yield both


@asynccontextmanager
async def amqp_pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    server: RabbitServer = request.getfixturevalue("rabbitmq")
    async with brokered_pair(AmqpBroker(BrokerAccess("127.0.0.1", server.port), "acme")) as both:
        yield both


OPENERS: dict[str, Opener] = {"memory": memory_pair, "ws": ws_pair, "mqtt": mqtt_pair, "amqp": amqp_pair}


def test_every_scheme_that_carries_links_is_held_to_it() -> None:
    assert {protocol.scheme for protocol in CARRIERS} == OPENERS.keys() - {"memory"}


@pytest.fixture(params=OPENERS)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    async with OPENERS[request.param](request) as both:
        yield both


async def collect(carrier: Carrier, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            batch = await carrier.receive()
            assert batch
            found += batch
    return found


async def fill(carrier: Carrier) -> None:
    """Send until the line itself takes no more."""
    while carrier.writable:
        while carrier.writable:
            carrier.send([b"p" * MAX_PACKET])
        await asyncio.sleep(0.2)


async def test_packets_arrive_whole_and_in_order_both_ways(pair: Pair) -> None:
    there = [bytes([i % 251]) * (1 + i * 7 % MAX_PACKET) for i in range(500)]
    back = [b"back %d" % i for i in range(300)]
    pair[0].send(there)
    pair[1].send(back[:100])
    pair[1].send(back[100:])
    assert await collect(pair[1], 500) == there
    assert await collect(pair[0], 300) == back


async def test_a_packet_is_bytes(pair: Pair) -> None:
    for sender, receiver in (pair, pair[::-1]):
        sender.send([b"x"])
        assert [type(packet) for packet in await collect(receiver, 1)] == [bytes]


async def test_everything_that_has_arrived_comes_at_once(pair: Pair) -> None:
    for sender, receiver in (pair, pair[::-1]):
        sender.send([b"first"])
        assert await receiver.receive() == [b"first"]
        sender.send([b"%d" % i for i in range(20)])
        rest: list[bytes] = []
        calls = 0
        while len(rest) < 20:
            rest += await receiver.receive()
            calls += 1
        assert rest == [b"%d" % i for i in range(20)]
        assert calls <= 3


async def test_the_largest_packet_passes_and_a_larger_one_is_the_callers_fault(pair: Pair) -> None:
    pair[0].send([b"m" * MAX_PACKET])
    assert await collect(pair[1], 1) == [b"m" * MAX_PACKET]
    with pytest.raises(PacketTooLarge, match=r"4097 bytes .* 4096 at most"):
        pair[0].send([b"m" * (MAX_PACKET + 1)])
    pair[0].send([b"still open"])
    assert await collect(pair[1], 1) == [b"still open"]


async def test_an_empty_packet_is_a_packet(pair: Pair) -> None:
    pair[0].send([b"", b"a"])
    assert await collect(pair[1], 2) == [b"", b"a"]


async def test_the_buffer_says_when_it_is_full_and_when_it_has_room_again(pair: Pair) -> None:
    sender, receiver = pair
    packet = b"p" * MAX_PACKET
    sent = 0
    assert sender.writable
    while sender.writable:
        sender.send([packet])
        sent += 1
    assert sender.room <= 0
    assert sent * MAX_PACKET >= BUFFER_BYTES
    waiting = asyncio.create_task(sender.drain())
    assert len(await collect(receiver, sent)) == sent
    async with asyncio.timeout(60):
        await waiting
    assert sender.writable


async def test_an_unread_line_makes_the_sender_wait(pair: Pair) -> None:
    """However much the line itself can hold, a sender that respects `drain` stops at last."""
    sender, receiver = pair
    await fill(sender)
    waiting = asyncio.create_task(sender.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    await collect(
        receiver,
        2 * BUFFER_BYTES // MAX_PACKET if isinstance(sender, WebSocket) else 1,
    )
    async with asyncio.timeout(60):
        await waiting


async def test_a_line_that_takes_no_more_is_not_idle_and_is_again_when_all_has_left(pair: Pair) -> None:
    """Whoever sends only while it is idle has little on its way, however much the line could hold."""
    sender, receiver = pair
    async with asyncio.timeout(60):
        await sender.until_idle()
    assert sender.is_idle
    await fill(sender)
    assert not sender.is_idle
    waiting = asyncio.create_task(sender.until_idle())
    await asyncio.sleep(5 * SOON)

    async def read() -> None:
        while True:
            await receiver.receive()

    reading = asyncio.create_task(read())
    async with asyncio.timeout(60):
        assert not await waiting, "it was not soon"
        assert sender.is_idle
        assert await sender.until_idle()
    reading.cancel()


async def test_nobody_waits_for_a_carrier_that_has_ended_to_be_idle(pair: Pair) -> None:
    await fill(pair[0])
    waiting = asyncio.create_task(pair[0].until_idle())
    await asyncio.sleep(0)
    await pair[0].close()
    with pytest.raises(CarrierClosed):
        await waiting
    assert not pair[0].is_idle


async def test_a_cancelled_receive_loses_nothing(pair: Pair) -> None:
    waiting = asyncio.create_task(pair[1].receive())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    pair[0].send([b"kept"])
    assert await collect(pair[1], 1) == [b"kept"]


async def test_closing_sends_what_was_buffered_and_tells_why(pair: Pair) -> None:
    packets = [b"%d" % i * 100 for i in range(200)]
    pair[0].send(packets)
    closing = asyncio.create_task(pair[0].close("stopping for an upgrade"))
    assert await collect(pair[1], 200) == packets
    with pytest.raises(CarrierEnded, match="stopping for an upgrade"):
        await pair[1].receive()
    await closing
    with pytest.raises(CarrierClosed, match="closed here: stopping for an upgrade"):
        await pair[0].receive()


@pytest.mark.parametrize("closer", [0, 1])
async def test_after_the_end_everything_says_so(pair: Pair, closer: int) -> None:
    ours, theirs = pair[closer], pair[1 - closer]
    closing = asyncio.create_task(ours.close("done"))
    with pytest.raises(CarrierEnded):
        await theirs.receive()
    await closing
    use: list[Callable[[], Awaitable[object]]] = [theirs.receive, theirs.drain]
    for call in use:
        with pytest.raises(CarrierEnded):
            await call()
    with pytest.raises(CarrierEnded):
        theirs.send([b"x"])
    with pytest.raises(CarrierClosed):
        ours.send([b"x"])
    assert not ours.writable
    assert not theirs.writable
    await ours.close("again")
    await theirs.close()


async def test_closing_wakes_who_receives_and_who_drains(pair: Pair) -> None:
    carrier = pair[0]
    receiving = asyncio.create_task(carrier.receive())
    await fill(carrier)
    draining = asyncio.create_task(carrier.drain())
    await asyncio.sleep(0)
    reading = asyncio.create_task(collect(pair[1], 10**9))
    await carrier.close("over")
    for waiting in (receiving, draining):
        with pytest.raises(CarrierClosed):
            await waiting
    with pytest.raises(CarrierEnded):
        await reading


async def test_a_carrier_shows_itself(pair: Pair) -> None:
    assert "open, 0 bytes buffered" in repr(pair[0])
    assert pair[0].peer in repr(pair[0])
    await pair[0].close()
    assert "CarrierClosed" in repr(pair[0])


async def test_a_cut_line_breaks_both_ends_and_loses_what_was_under_way() -> None:
    left, right = memory.pair()
    left.send([b"lost"])
    left.cut()
    for end in (left, right):
        with pytest.raises(CarrierBroken, match="was cut"):
            await end.receive()
