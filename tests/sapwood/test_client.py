"""The client against a node that the test plays: confirmation, windows, rejections, reconnection."""

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from waiting import until

import sapwood
from broker.cli.demo.plan import free_ports
from sapwood import (
    Client,
    ClientClosed,
    ConnectFailed,
    NotKnown,
    RequestFailed,
    RequestTimeout,
    SendRejected,
    SendTimeout,
    SessionRefused,
    Unconfirmed,
    connect,
)
from sapwood.protocol.bundles import Message, Properties, decode_messages
from sapwood.protocol.destinations import Destination, Kind, queue
from sapwood.protocol.session_frames import Confirm, Failed, RefuseDelivery, Reject, Send, Subscribe


def messages_of(frame: Send) -> list[Message]:
    return decode_messages(frame.body, frame.count)


def payloads_of(frames: list[Send]) -> list[bytes]:
    return [message.payload for frame in frames for message in messages_of(frame)]


async def test_a_send_returns_when_it_is_confirmed(played: Any) -> None:
    played.holding = True
    async with connect(played.uri, session="till-7") as client:
        sending = asyncio.create_task(client.send("queue:sales@hq", b"one", correlation_id=4, reply_to="r"))
        await played.until(lambda: played.sent)
        assert not sending.done()
        await played.say(Confirm(1))
        await sending
    (frame,) = played.sent
    assert (frame.first, frame.count) == (1, 1)
    assert frame.destination == Destination(Kind.QUEUE, "sales", "hq")
    assert messages_of(frame) == [Message(b"one", Properties(correlation_id=4, reply_to="r"))]


async def test_the_login_names_session_secret_and_producer(played: Any) -> None:
    async with connect(played.uri, session="till-7", secret="word", producer="sales") as client:
        assert client.node == "played"
    (login,) = played.logins
    assert (login.session, login.secret, login.producer) == ("till-7", "word", "sales")


async def test_two_anonymous_clients_are_two(played: Any) -> None:
    async with connect(played.uri), connect(played.uri):
        pass
    first, second = played.logins
    assert first.session != second.session
    assert first.producer != second.producer


@pytest.mark.parametrize("is_neighbour_given_up", [False, True])
async def test_what_waited_for_a_confirmation_goes_without_another_call(
    played: Any, is_neighbour_given_up: bool
) -> None:
    played.holding = True
    async with connect(played.uri, keep_alive=3600) as client:
        for number in range(512):
            await client.publish("queue:a", b"%d" % number)
        await played.until(lambda: len(payloads_of(played.sent)) == 512)
        await client.publish("queue:b", b"late")
        await client.create("c")  # whatever was written before is there
        assert len(payloads_of(played.sent)) == 512
        if is_neighbour_given_up:
            with pytest.raises(SendTimeout):
                await client.send("queue:b", b"given up", timeout=0.1)
        await played.say(Confirm(512))
        await played.until(lambda: payloads_of(played.sent)[-1:] == [b"late"])
        await played.say(Confirm(513))


async def test_published_messages_share_a_frame_per_destination(played: Any) -> None:
    async with connect(played.uri) as client:
        for number in range(10):
            await client.publish(f"queue:{'ab'[number % 2]}", b"%d" % number)
        await client.flush()
    a, b = played.sent
    assert payloads_of([a]) == [b"0", b"2", b"4", b"6", b"8"]
    assert payloads_of([b]) == [b"1", b"3", b"5", b"7", b"9"]
    assert (a.first, b.first) == (1, 6)


async def test_options_of_a_message(played: Any) -> None:
    async with connect(played.uri) as client:
        await client.send("topic:prices/milk", "1.20", persistent=False, retained=True, scope=1)
    (frame,) = played.sent
    assert frame.destination == Destination(Kind.TOPIC, "prices/milk")
    assert (frame.persistent, frame.retained, frame.scope) == (False, True, 1)
    assert payloads_of([frame]) == [b"1.20"]


async def test_send_many_makes_full_frames(played: Any) -> None:
    payloads = [b"%d" % number for number in range(1000)]
    async with connect(played.uri) as client:
        await client.send_many("queue:q", payloads, task_id="t")
        assert client.committed == 1000
    assert [frame.count for frame in played.sent] == [256, 256, 256, 232]
    assert payloads_of(played.sent) == payloads
    assert messages_of(played.sent[3])[-1].properties.task_id == "t"


async def test_frames_are_bounded_in_bytes(played: Any) -> None:
    large = [b"x" * 100_000] * 5 + [b"y" * 1_000_000] + [b"z"]
    async with connect(played.uri) as client:
        await client.send_many("queue:q", large)
        for payload in large:
            await client.publish("queue:q", payload)
        await client.flush()
    assert [frame.count for frame in played.sent] == [2, 2, 1, 1, 1] * 2
    assert payloads_of(played.sent) == large * 2


async def test_the_window_bounds_what_is_unconfirmed(played: Any) -> None:
    played.holding = True
    async with connect(played.uri, window_messages=512) as client:
        sending = asyncio.create_task(client.send_many("queue:q", [b"x"] * 2000))
        await played.until(lambda: len(played.sent) == 2)
        await asyncio.sleep(0.05)
        assert len(played.sent) == 2
        played.holding = False
        await played.say(Confirm(512))
        await sending
    assert sum(frame.count for frame in played.sent) == 2000


async def test_a_rejected_send_says_why(played: Any) -> None:
    played.holding = True
    async with connect(played.uri) as client:
        sends = [asyncio.create_task(client.send("queue:q", b"%d" % n)) for n in range(4)]
        await played.until(lambda: sum(frame.count for frame in played.sent) == 4)
        await played.say(Reject(2, 3, "QUEUE_FULL", "q has no room"), Confirm(4))
        results = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(result) for result in results] == [type(None), SendRejected, SendRejected, type(None)]
    error = results[1]
    assert isinstance(error, SendRejected)
    assert (error.code, error.count) == ("QUEUE_FULL", 1)
    assert "1 message was not taken: q has no room [QUEUE_FULL]" in str(error)


async def test_flush_tells_what_was_not_taken_of_what_was_published(played: Any) -> None:
    played.holding = True
    async with connect(played.uri) as client:
        for number in range(10):
            await client.publish("queue:q", b"%d" % number)
        flushing = asyncio.create_task(client.flush())
        await played.until(lambda: played.sent)
        await played.say(Reject(3, 5, "QUEUE_FULL", "no room"), Confirm(10))
        with pytest.raises(SendRejected, match="3 messages were not taken") as caught:
            await flushing
        assert [(r.first, r.last) for r in caught.value.rejections] == [(3, 5)]
        await client.flush()


async def test_send_many_tells_how_many_were_not_taken(played: Any) -> None:
    played.holding = True
    async with connect(played.uri) as client:
        sending = asyncio.create_task(client.send_many("queue:q", [b"x"] * 600))
        await played.until(lambda: len(played.sent) == 3)
        await played.say(Reject(250, 300, "QUEUE_FULL", "no room"), Confirm(600))
        with pytest.raises(SendRejected) as caught:
            await sending
    assert caught.value.count == 51


async def test_after_a_lost_line_the_unconfirmed_goes_out_again_under_the_same_numbers(played: Any) -> None:
    played.holding = True
    async with connect(played.uri) as client:
        sending = asyncio.create_task(client.send_many("queue:q", [b"%d" % n for n in range(600)]))
        await played.until(lambda: len(played.sent) == 3)
        played.committed[client.producer] = 256
        played.kept = played.kept[:1]
        played.holding = False
        await played.cut()
        await sending
        assert len(played.logins) == 2
    assert [frame.first for frame in played.sent[3:]] == [257, 513]
    assert payloads_of(played.kept) == [b"%d" % n for n in range(600)]


async def test_what_is_published_while_the_line_is_down_is_sent_later(played: Any) -> None:
    async with connect(played.uri) as client:
        await client.send("queue:q", b"before")
        await played.cut()
        await client.publish("queue:q", b"while")
        await client.flush()
    assert payloads_of(played.kept) == [b"before", b"while"]


async def test_a_rejection_that_is_not_final_is_not_told(played: Any) -> None:
    """The node rejects while an earlier send is open, then the line breaks: the send may be taken yet."""
    played.holding = True
    async with connect(played.uri) as client:
        first = asyncio.create_task(client.send("queue:q", b"1"))
        await played.until(lambda: played.sent)
        second = asyncio.create_task(client.send("queue:q", b"2"))
        await played.until(lambda: len(played.sent) == 2)
        await played.say(Reject(2, 2, "QUEUE_FULL", "no room"))
        played.holding = False
        played.committed.clear()
        played.kept.clear()
        await played.cut()
        await asyncio.gather(first, second)
    assert payloads_of(played.kept) == [b"1", b"2"]


async def test_a_named_producer_goes_on_after_what_is_committed(played: Any) -> None:
    played.committed["sales"] = 41
    async with connect(played.uri, producer="sales") as client:
        assert client.committed == 41
        await client.send("queue:q", b"x")
        assert client.committed == 42
    assert played.sent[0].first == 42


async def test_two_clients_under_one_producers_name_are_told(played: Any) -> None:
    client = await connect(played.uri, producer="sales").open()
    await client.send("queue:q", b"x")
    played.committed["sales"] = 7
    await played.cut()
    await played.until(lambda: len(played.logins) == 2)
    with pytest.raises(SessionRefused, match=r"another client sends as producer 'sales'"):
        await client.send("queue:q", b"x")
    await client.close(wait=False)


async def test_creating_queues(played: Any) -> None:
    async with connect(played.uri) as client:
        assert await client.create("sales") == "sales"
        assert (await client.create()).endswith("@played")


async def test_a_request_survives_a_lost_line(played: Any) -> None:
    async with connect(played.uri) as client:
        played.deaf = True
        creating = asyncio.create_task(client.create("sales"))
        await asyncio.sleep(0.02)
        played.deaf = False
        await played.cut()
        assert await creating == "sales"


async def test_a_refused_session_is_not_tried_again(played: Any) -> None:
    played.refusal = Failed(0, "REFUSED", "wrong session secret")
    with pytest.raises(SessionRefused, match="wrong session secret") as caught:
        await connect(played.uri, secret="wrong").open()
    assert caught.value.code == "REFUSED"
    assert len(played.logins) == 1


async def test_a_session_that_is_refused_later_ends_everything(played: Any, caplog: Any) -> None:
    played.holding = True
    client = await connect(played.uri).open()
    sending = asyncio.create_task(client.send("queue:q", b"x"))
    subscription = client.subscribe("queue:q")
    await subscription.ready()
    await played.until(lambda: played.sent)
    played.refusal = Failed(0, "REFUSED", "no longer welcome")
    await played.cut()
    for waiting in (sending, subscription.__anext__(), client.create("q")):
        with pytest.raises(SessionRefused, match="no longer welcome"):
            await waiting
    over = f"the session with ws://127.0.0.1:{played.port}/session is over: the node refused the session"
    assert over in caplog.text  # which a program that only serves would hear nowhere else
    with pytest.raises(Unconfirmed, match="1 message in time"):
        await client.close()


async def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(ConnectFailed, match=r"ws://127.0.0.1:9/session cannot be reached"):
        await connect("http://127.0.0.1:9", timeout=0.2).open()


async def test_a_node_that_comes_later_is_waited_for(played: Any) -> None:
    played.refusal = Failed(0, "BUSY", "starting")
    opening = asyncio.create_task(connect(played.uri).open())
    await played.until(lambda: len(played.logins) == 2)
    played.refusal = None
    client = await opening
    await client.close()


async def test_a_line_that_nobody_reads_ends_with_its_client(
    played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sapwood.socket.CLOSE_TIMEOUT", 0.1)
    client = await connect(played.uri, timeout=0.1).open()
    line = client._session._socket._opened._conn.transport
    played.line._req.transport.pause_reading()
    for _ in range(16):
        await client.publish("queue:a", bytes(1 << 20))
    while not line.get_write_buffer_size():
        await asyncio.sleep(0)
    await client.close(wait=False)
    async with asyncio.timeout(30):
        while line.get_write_buffer_size():
            await asyncio.sleep(0.01)


async def test_a_silent_node_is_left(played: Any) -> None:
    async with connect(played.uri, keep_alive=0.05) as client:
        await played.until(lambda: any(type(frame).__name__ == "SessionPing" for frame in played.frames))
        assert len(played.lines) == 1
        played.answers_pings = False
        await played.until(lambda: len(played.logins) == 2)
        played.answers_pings = True
        await client.send("queue:q", b"x")


@contextlib.asynccontextmanager
async def slow_line(port: int) -> AsyncIterator[int]:
    """A line that takes about a second for a megabyte, in either direction."""

    async def pass_on(source: socket.socket, sink: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while part := await loop.sock_recv(source, 8192):
            await loop.sock_sendall(sink, part)
            await asyncio.sleep(0.01)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        near, _ = await loop.sock_accept(listener)
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            for each in (near, far):
                each.setblocking(False)
                for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    each.setsockopt(socket.SOL_SOCKET, buffer, 32768)
            await asyncio.gather(pass_on(near, far), pass_on(far, near))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        serving = asyncio.create_task(serve())
        try:
            yield listener.getsockname()[1]
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def test_a_long_message_on_a_slow_line_is_no_silence(played: Any) -> None:
    """It was sent again and again, from its beginning."""
    body = os.urandom(1_000_000)
    lost: list[Exception] = []
    async with (
        slow_line(played.port) as port,
        connect(f"http://127.0.0.1:{port}", keep_alive=0.3, on_lost=lost.append) as client,
    ):
        subscription = await client.subscribe("queue:q").opened()
        sending = asyncio.create_task(client.send("queue:q", body))
        await played.deliver(subscription.number, 1, [body])
        assert (await anext(subscription)).payload == body
        await sending
        assert not lost


async def test_closing_waits_for_confirmations(played: Any) -> None:
    played.holding = True
    client = await connect(played.uri).open()
    await client.publish("queue:q", b"x")
    closing = asyncio.create_task(client.close())
    await played.until(lambda: played.sent)
    assert not closing.done()
    await played.say(Confirm(1))
    await closing


async def test_closing_tells_what_was_not_confirmed(played: Any) -> None:
    played.holding = True
    client = await connect(played.uri).open()
    client._timeout = 0.1  # the line is there; of its confirmations none will come
    await client.publish("queue:q", b"x")
    with pytest.raises(Unconfirmed) as caught:
        await client.close()
    assert caught.value.count == 1


async def test_an_error_in_the_block_is_not_hidden_by_the_close(played: Any) -> None:
    played.holding = True

    async def application() -> None:
        async with connect(played.uri) as client:
            await client.publish("queue:q", b"x")
            raise KeyError("of the application")

    with pytest.raises(KeyError):
        await application()


async def test_a_closed_client_says_so(played: Any) -> None:
    client = connect(played.uri)
    with pytest.raises(ClientClosed, match="async with"):
        await client.send("queue:q", b"x")
    await client.open()
    await client.close()
    await client.close()
    for use in (client.send("queue:q", b"x"), client.create("q"), client.flush(), client.open()):
        with pytest.raises(ClientClosed):
            await use
    with pytest.raises(ClientClosed):
        client.subscribe("queue:q")


async def test_a_close_that_is_cancelled_leaves_no_line_behind(played: Any) -> None:
    before = asyncio.all_tasks()
    for steps in range(1, 12):
        client = await connect(played.uri).open()
        closing = asyncio.create_task(client.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await until(lambda: not [task for task in asyncio.all_tasks() - before if "Session" in repr(task)])
        assert client.state == "closed"
        assert client._session._socket is None
        await client.close()


async def test_another_event_loop_is_told_whose_the_client_is(played: Any) -> None:
    """Its futures would be set by a loop that does not wake it, and it would wait for ever."""

    def elsewhere(client: Client) -> None:
        for use in (client.send("queue:q", b"x"), client.publish("queue:q", b"x"), client.create("q")):
            with pytest.raises(RuntimeError, match="another event loop"):
                asyncio.run(asyncio.wait_for(use, 20))

    async with connect(played.uri) as client:
        await asyncio.to_thread(elsewhere, client)
        await client.send("queue:q", b"here")
    assert payloads_of(played.kept) == [b"here"]


async def test_nobody_has_to_ask_how_a_send_ended_that_was_given_up(played: Any) -> None:
    said: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: said.append(context["message"]))
    played.holding = True
    client = await connect(played.uri, window_messages=1).open()
    sending = asyncio.create_task(client.send_many("queue:q", [b"x" * 700_000] * 3))
    await played.until(lambda: played.sent)
    await client.close(wait=False)
    with pytest.raises(ClientClosed):
        await sending
    del sending, client
    gc.collect()
    assert said == []


async def test_an_unknown_property_or_destination_is_the_callers_mistake(played: Any) -> None:
    async with connect(played.uri) as client:
        with pytest.raises(TypeError, match="colour"):
            await client.send("queue:q", b"x", colour="red")
        with pytest.raises(ValueError, match="'queue:NAME'"):
            await client.send("sales", b"x")
        with pytest.raises(ValueError, match="credit"):
            client.subscribe(queue("q"), credit=0)
    assert not played.sent


async def test_a_refused_subscription(played: Any) -> None:
    played.refuse_queues.add("absent")
    async with connect(played.uri) as client:
        with pytest.raises(RequestFailed, match=r"subscribing to queue:absent failed: .* \[NOT_FOUND\]"):
            async for _ in client.subscribe("queue:absent"):
                pass


def test_a_name_in_an_error_steers_no_terminal() -> None:
    what = "creating queue \x1b[2Jmilk é\n"
    assert str(RequestFailed(what, "NO", "no")) == "creating queue \\x1b[2Jmilk é\\n failed: no [NO]"
    assert str(RequestTimeout(what, 2.0)) == "creating queue \\x1b[2Jmilk é\\n: no answer within 2 s"


def test_the_library_stands_alone_and_is_quick_to_import() -> None:
    code = (
        "import sys; from sapwood import *; "
        "print([m for m in ('broker','bridges','config','treeconnector','aiohttp') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_each_name_is_there_and_the_part_that_the_node_needs_does_not_wait_for_asyncio() -> None:
    code = (
        "import sys, sapwood.protocol.bundles; "
        "print('asyncio' in sys.modules, {*sapwood.__all__} <= {*dir(sapwood)})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]
    assert [name for name in sapwood.__all__ if getattr(sapwood, name).__name__ != name] == []
    assert not hasattr(sapwood, "nothing")


async def test_a_wrong_property_ends_its_own_send_only(played: Any) -> None:
    """Each of these made the client connect again and again, and no later message ever got through."""
    wrong: list[dict[str, Any]] = [
        {"timestamp": "now"},
        {"correlation_id": "a-1"},
        {"expires_in": "1500"},
        {"headers": "x"},
        {"persistent": "yes"},
        {"scope": 1 << 70},
    ]
    async with connect(played.uri) as client:
        for options in wrong:
            with pytest.raises((TypeError, ValueError)):
                await client.send("queue:q", b"wrong", **options)
            with pytest.raises((TypeError, ValueError)):
                await client.send_many("queue:q", [b"right", b"wrong"], **options)
        with pytest.raises(TypeError, match="payload"):
            await client.send_many("queue:q", [b"right", 7])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="payloads='abc' is of type str"):
            await client.send_many("queue:q", "abc")  # type: ignore[arg-type]
        await client.send("queue:q", b"right")
    assert payloads_of(played.sent) == [b"right"]
    assert len(played.logins) == 1


@pytest.mark.parametrize(
    "wrong",
    [5, None, b"queue:q", ["queue:q"], "queue:\ud800", Destination(Kind.QUEUE, 5), Destination("nix", "q")],  # type: ignore[arg-type]
)
async def test_a_wrong_destination_ends_its_own_call_only(played: Any, wrong: Any) -> None:
    """A send to one never came to an end, and a subscription to one made each connection end."""
    async with connect(played.uri) as client:
        for use in (
            lambda: client.send(wrong, b"wrong"),
            lambda: client.publish(wrong, b"wrong"),
            lambda: client.send_many(wrong, [b"wrong"]),
            lambda: client.subscribe(wrong).ready(),
        ):
            with pytest.raises((TypeError, ValueError), match=r"destination|name|kind"):
                await asyncio.wait_for(use(), 120)
        await client.send(queue("q"), b"right")
    assert payloads_of(played.sent) == [b"right"]
    assert len(played.logins) == 1


async def test_a_send_that_was_not_sent_is_taken_back(played: Any) -> None:
    async with connect(played.uri) as client:
        played.deaf = played.refuses_logins = True
        await played.cut()
        await until(lambda: client.state == "not connected")
        with pytest.raises(SendTimeout, match="it was not sent, and is taken back") as caught:
            await client.send("queue:q", b"late", timeout=0.05)
        assert not caught.value.sent
        given_up = asyncio.create_task(client.send("queue:q", b"cancelled"))
        waits = asyncio.create_task(client.send("queue:q", b"waits"))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        with pytest.raises(Unconfirmed):
            await client.flush(timeout=0.05)
        played.deaf = played.refuses_logins = False
        await waits
    assert payloads_of(played.sent) == [b"waits"]


async def test_a_send_that_was_sent_says_so(played: Any) -> None:
    played.holding = True
    async with connect(played.uri) as client:
        with pytest.raises(SendTimeout, match="it was sent, and may be taken") as caught:
            await client.send("queue:q", b"x", timeout=0.2)
        assert caught.value.sent
        cancelled = asyncio.create_task(client.send("queue:q", b"y"))
        await played.until(lambda: len(played.sent) == 2)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError) as noted:
            await cancelled
        assert noted.value.__notes__ == ["the message was sent, and may be taken"]
        played.holding = False
        await played.say(Confirm(2))


async def test_requests_and_receiving_wait_no_longer_than_is_said(played: Any) -> None:
    async with connect(played.uri) as client:
        prices = client.subscribe("queue:prices")
        assert await prices.next(timeout=0.05) is None
        await played.until(lambda: played.subscriptions)
        (number,) = played.subscriptions
        await played.deliver(number, 1, [b"one"])
        found = await prices.next(timeout=60)
        assert found is not None
        assert found.payload == b"one"
        played.deaf = True
        with pytest.raises(RequestTimeout, match="creating queue q: no answer within"):
            await client.create("q", timeout=0.05)
        with pytest.raises(RequestTimeout, match="subscribing to queue:other"):
            await client.subscribe("queue:other").ready(timeout=0.05)
        with pytest.raises(RequestTimeout, match="ending the durable subscription d"):
            await client.end_subscription("d", timeout=0.05)
        prices.close()
        assert await prices.next(timeout=60) is None


async def test_an_application_is_told_of_its_connection(played: Any, caplog: Any) -> None:
    told: list[Any] = []

    def lost(error: Exception) -> None:
        told.append(error)
        raise RuntimeError("an application's own fault")

    client = connect(played.uri, on_connected=told.append, on_lost=lost)
    assert client.state == "not open"
    async with client:
        assert (client.state, told) == ("connected", ["played"])
        await played.cut()
        await until(lambda: len(told) == 3)
        assert isinstance(told[1], ConnectFailed)
        assert told[2] == "played"
        await client.send("queue:q", b"x")
    assert client.state == "closed"
    lost_line = (
        f"the connection to ws://127.0.0.1:{played.port}/session ended: WebSocket code 1006; it tries again"
    )
    assert lost_line in caplog.text


async def test_connections_that_end_at_once_are_made_more_slowly(played: Any, monkeypatch: Any) -> None:
    """Else a client whose node ends each connection makes hundreds a second."""
    rests: list[float] = []

    async def rest(seconds: float, result: Any = None) -> Any:
        rests.append(seconds)
        return await sleep(seconds if seconds > 5.0 else 0, result)

    sleep = asyncio.sleep
    async with connect(played.uri) as client:
        monkeypatch.setattr("sapwood.session.asyncio.sleep", rest)
        for count in range(1, 12):
            await played.until(lambda count=count: len(played.logins) == count)
            await until(lambda: client.state == "connected")
            await played.say(Failed(0, "BAD_REQUEST", "you again"))
            await until(lambda: client.state == "not connected")
    assert [each for each in rests if 0.1 < each <= 5.0] == [0.2, 0.4, 0.8, 1.6, 3.2, *[5.0] * 5]


async def test_of_several_addresses_the_first_that_answers_is_taken(played: Any) -> None:
    (nobody,) = free_ports(1)
    async with connect([f"http://127.0.0.1:{nobody}", played.uri]) as client:
        await client.send("queue:q", b"x")
        assert (client.node, client.state) == ("played", "connected")
    with pytest.raises(ValueError, match="no address of a node"):
        connect([])


async def test_a_node_of_an_older_version_deletes_nothing_and_does_not_say_how_far_a_message_goes(
    played: Any,
) -> None:
    async with connect(played.uri) as client:
        with pytest.raises(NotKnown, match="node played is of a version in which only an operator deletes"):
            await client.delete("q")
        assert await client.send("topic:prices/milk", b"1") is None


async def test_a_node_of_an_older_version_takes_nothing_back(played: Any) -> None:
    async with connect(played.uri) as client:
        reader = await client.subscribe("queue:q").ready()
        (number,) = played.subscriptions
        await played.deliver(number, 1, [b"one"])
        delivery = await anext(reader)
        with pytest.raises(NotKnown, match="node played is of a version that takes no message back"):
            delivery.nack()
        assert played.refused == []
        played.returns = True
        await played.cut()
        await played.until(lambda: len(played.logins) == 2)
        await until(lambda: client.state == "connected")
        (number, *_) = played.subscriptions
        await played.until(lambda: len([each for each in played.frames if isinstance(each, Subscribe)]) == 2)
        await played.deliver(number, 1, [b"two"], bundle=b"c" * 16)
        delivery = await anext(reader)
        delivery.nack()
        await played.until(lambda: played.refused)
        assert played.refused == [RefuseDelivery(1, 1, "", True)]
        await played.deliver(number, 2, [b"two"], bundle=b"c" * 16)
        assert (await anext(reader)).payload == b"two"


async def test_nothing_is_said_of_deliveries_of_another_store(played: Any) -> None:
    """Their transfer ids are those of other messages there: acknowledged, these would be lost unseen."""
    async with connect(played.uri) as client:
        played.returns = True
        reader = await client.subscribe("queue:q").ready()
        (number,) = played.subscriptions
        await played.deliver(number, 1, [b"one", b"two", b"three"])
        one, two, three = [await anext(reader) for _ in range(3)]
        one.ack()
        played.store = b"another"
        await played.cut()
        await played.until(lambda: len(played.logins) == 2)
        await until(lambda: client.state == "connected")
        before = len(played.acknowledged)
        two.ack()
        two.batch.ack()
        three.reject("no")
        three.nack()
        await client.create("a-turn")
        assert (played.acknowledged[before:], played.refused) == ([], [])
        await played.deliver(number, 1, [b"one", b"two", b"three"])
        again = [await anext(reader) for _ in range(2)]
        assert [each.payload for each in again] == [b"two", b"three"]
        again[0].ack()
        await played.until(lambda: (2, 2) in played.acknowledged or (1, 2) in played.acknowledged)


async def test_a_producer_with_a_name_stays_at_its_node(played: Any) -> None:
    async with connect([played.uri, played.uri], session="till", producer="sales") as client:
        await client.send("queue:q", b"x")
        played.name = "other"
        await played.cut()
        await played.until(lambda: len(played.logins) > 3)
        assert client.state == "not connected"
        played.name = "played"
        await client.send("queue:q", b"y")
    assert payloads_of(played.sent) == [b"x", b"y"]


async def test_a_send_that_is_confirmed_as_its_time_ends_is_no_timeout(played: Any) -> None:
    async with connect(played.uri) as client:
        played.holding = True
        sending = asyncio.create_task(client.send("queue:q", b"x", timeout=0.5))
        await played.until(lambda: played.sent)
        client._outbox.confirm(1)
        time.sleep(0.6)
        await sending
        with pytest.raises(SendTimeout, match="it was sent"):
            await client.send_many("queue:q", [b"x"] * 70_000, wait=False, timeout=0.3)
        played.holding = False
        await played.say(Confirm(client.seal()))


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda client: client.create(5), TypeError),
        (lambda client: client.create("q", home="yes"), TypeError),
        (lambda client: client.end_subscription(7), TypeError),
        (lambda client: client.subscribe("queue:q", credit=1.5), TypeError),
        (lambda client: client.subscribe("queue:q", credit=0), ValueError),
        (lambda client: client.subscribe("topic:q", durable=7), TypeError),
        (lambda client: client.subscribe("queue:q", auto_ack=1), TypeError),
    ],
)
async def test_a_wrong_request_is_the_callers_mistake(played: Any, use: Any, kind: type[Exception]) -> None:
    async with connect(played.uri) as client:
        with pytest.raises(kind):
            await use(client)
        assert await client.create("q") == "q"
    assert len(played.logins) == 1


async def test_a_publish_waits_for_room_as_long_as_it_is_said(played: Any) -> None:
    played.holding = True
    async with connect(played.uri, window_messages=1) as client:
        await client.publish("queue:q", b"1", timeout=60)
        with pytest.raises(SendTimeout, match="it was not sent"):
            await client.publish("queue:q", b"2", timeout=0.05)
        await played.until(lambda: played.sent)
        await played.say(Confirm(1))
    assert payloads_of(played.sent) == [b"1"]


async def test_all_addresses_together_have_the_time_of_one(played: Any) -> None:
    played.deaf = True
    with pytest.raises(ConnectFailed, match=r"none of ws://.*, ws://.* answered within 0\.3 s"):
        await connect([played.uri] * 4, timeout=0.3).open()
