"""Calls and servers over a real node in this process."""

import asyncio
import json
import math
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nodes import running_node

from broker.core.errors import NotFound
from broker.core.messages.queue import Queue
from broker.node import Node
from config.model import Advisories, AdvisoryLog, Listener, Site
from sapwood import (
    CallTimeout,
    Client,
    ClientClosed,
    Interface,
    NobodyServes,
    ReplyLost,
    Rpc,
    ServiceError,
    connect,
    current_request,
    current_task,
    task,
)
from sapwood.protocol.bundles import Message, Properties, decode_messages, encode_message
from sapwood.protocol.destinations import queue
from sapwood.protocol.session_frames import Deliver

PATIENCE = 180.0


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    site = Site(
        name="hq",
        data=tmp_path,
        listener=Listener(port=0),
        advisories=Advisories(linger=0.0),
        advisory_log=AdvisoryLog(enabled=False),
    )
    async with running_node(site) as made:
        yield made


@pytest.fixture
async def client(node: Node) -> AsyncIterator[Client]:
    async with asyncio.timeout(60), connect(f"http://127.0.0.1:{node.port}", session="caller") as made:
        yield made


@pytest.fixture
async def rpc(client: Client) -> AsyncIterator[Rpc]:
    async with Rpc(client, timeout=PATIENCE) as made:
        yield made


async def level(article: int, place: str = "shelf") -> dict[str, Any]:
    return {"article": article, "place": place, "level": 12}


async def never() -> None:
    await asyncio.Event().wait()


async def test_a_call_returns_the_result(rpc: Rpc) -> None:
    async with rpc.serve("stock", {"level": level}) as server:
        assert await rpc.call("stock", "level", article=4711) == {
            "article": 4711,
            "place": "shelf",
            "level": 12,
        }
        assert (server.answered, server.errors) == (1, 0)


async def test_what_goes_over_the_wire_is_plain_json(rpc: Rpc, client: Client) -> None:
    await client.create("stock")
    async with client.subscribe("queue:stock") as requests:
        calling = asyncio.create_task(
            rpc.call("stock", "level", interface="stock", version="1.2", article=4711, timeout=7)
        )
        request = await anext(requests)
        assert json.loads(request.payload) == {
            "method": "level",
            "parameters": {"article": 4711},
            "interface": "stock",
            "version": "1.2",
        }
        asked = request.properties
        assert (asked.interface, asked.interface_version, asked.content_type) == (
            "stock",
            "1.2",
            "application/json",
        )
        assert asked.expires_in == 7000
        assert asked.reply_to.endswith("@hq")
        await client.send(
            f"queue:{asked.reply_to}", '{"result": [1, 2], "more": 1}', correlation_id=asked.correlation_id
        )
        assert await calling == [1, 2]


async def test_a_handler_s_error_is_the_answer(rpc: Rpc) -> None:
    def refuse() -> None:
        raise ServiceError("NO_SUCH_ARTICLE", "never heard of it", {"article": 1})

    async with rpc.serve("stock", {"refuse": refuse}):
        with pytest.raises(ServiceError) as caught:
            await rpc.call("stock", "refuse")
    assert (caught.value.code, caught.value.message, caught.value.data) == (
        "NO_SUCH_ARTICLE",
        "never heard of it",
        {"article": 1},
    )


@pytest.mark.parametrize("tracebacks", [False, True])
async def test_an_exception_is_an_answer_and_its_traceback_only_if_asked(rpc: Rpc, tracebacks: bool) -> None:
    def fail(secret: str) -> None:
        raise KeyError("drawer")

    async with rpc.serve("stock", {"fail": fail, "level": level}, tracebacks=tracebacks) as server:
        with pytest.raises(ServiceError, match=r"KeyError: 'drawer' \[FAILED\]") as caught:
            await rpc.call("stock", "fail", secret="x")
        assert ("test_rpc.py" in json.dumps(caught.value.data)) is tracebacks
        assert (await rpc.call("stock", "level", article=1))["level"] == 12
        assert (server.answered, server.errors) == (2, 1)


@pytest.mark.parametrize(
    ("method", "options", "code"),
    [
        ("levels", {}, "UNKNOWN_METHOD"),
        ("level", {"interface": "orders"}, "UNKNOWN_INTERFACE"),
        ("level", {"version": "2.0"}, "UNKNOWN_VERSION"),
        ("level", {"article": "x"}, "BAD_PARAMETERS"),
        ("level", {"article": 1, "colour": "red"}, "BAD_PARAMETERS"),
        ("level", {}, "BAD_PARAMETERS"),
        ("circle", {}, "BAD_RESULT"),
    ],
)
async def test_what_cannot_be_served_is_answered(
    rpc: Rpc, method: str, options: dict[str, Any], code: str
) -> None:
    handlers = {"level": level, "circle": lambda: object()}
    async with rpc.serve("stock", handlers, interface="stock", version="1.4"):
        with pytest.raises(ServiceError) as caught:
            await rpc.call("stock", method, **options)
    assert caught.value.code == code


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"method": 1}', b"\xff\xfe", b"[" * 100_000])
async def test_what_is_no_request_is_answered_and_the_server_goes_on(
    rpc: Rpc, client: Client, payload: bytes
) -> None:
    async with rpc.serve("stock", {"level": level}):
        mailbox = await client.create()
        async with client.subscribe(f"queue:{mailbox}", auto_ack=True) as replies:
            await client.send("queue:stock", payload, reply_to=mailbox, correlation_id=5)
            reply = await anext(replies)
        assert json.loads(reply.payload)["error"]["code"] == "BAD_REQUEST"
        assert reply.properties.correlation_id == 5
        await client.send("queue:stock", payload)
        await client.send("queue:stock", payload, reply_to="no\nname")
        assert (await rpc.call("stock", "level", article=1))["article"] == 1
        assert (await rpc.call("stock", "level", article=1, timeout=math.inf))["article"] == 1


@pytest.mark.parametrize(("timeout", "error"), [(math.nan, ValueError), ("5", TypeError), (True, TypeError)])
async def test_a_time_that_is_none_is_said_so(rpc: Rpc, client: Client, timeout: Any, error: Any) -> None:
    with pytest.raises(error, match="timeout"):
        await rpc.call("stock", "level", timeout=timeout)
    with pytest.raises(error, match="timeout"):
        Rpc(client, timeout=timeout)


async def test_nobody_serves_is_told_at_once_and_the_request_is_not_kept(node: Node, rpc: Rpc) -> None:
    with pytest.raises(NobodyServes, match=r"nobody serves 'stock', says node 'hq'") as caught:
        await rpc.call("stock", "level", article=1, timeout=None)
    assert (caught.value.queue, caught.value.method, caught.value.node) == ("stock", "level", "hq")
    assert (
        node.core.custody.queues.get("queue:stock") is None
        or not node.core.custody.queue_for(
            node.core.custody.queues["queue:stock"].destination  # type: ignore[arg-type]
        ).messages
    )


async def test_no_application_can_say_that_nobody_serves(rpc: Rpc, client: Client) -> None:
    await client.create("stock")
    async with client.subscribe("queue:stock", auto_ack=True) as requests:
        calling = asyncio.create_task(rpc.call("stock", "level"))
        asked = (await anext(requests)).properties
        await client.send(
            f"queue:{asked.reply_to}",
            '{"error": {"code": "NOBODY_SERVES", "message": "so I say"}}',
            correlation_id=asked.correlation_id,
            headers={"notice": "NOBODY_SERVES"},
        )
        with pytest.raises(ServiceError, match="so I say"):
            await calling


async def test_no_reply_in_time_ends_a_call_and_a_late_one_is_ignored(rpc: Rpc, client: Client) -> None:
    await client.create("stock")
    async with client.subscribe("queue:stock", auto_ack=True) as requests:
        with pytest.raises(CallTimeout, match=r"'stock' did not answer 'level' within 2 s"):
            await rpc.call("stock", "level", timeout=2)  # a call that has not left by then is withdrawn
        asked = (await anext(requests)).properties
        for _ in range(2):
            await client.send(
                f"queue:{asked.reply_to}", b'{"result": 1}', correlation_id=asked.correlation_id
            )
        await client.send(f"queue:{asked.reply_to}", b"what?")
        calling = asyncio.create_task(rpc.call("stock", "level"))
        again = (await anext(requests)).properties
        assert again.correlation_id != asked.correlation_id
        for result in (2, 3):
            await client.send(
                f"queue:{again.reply_to}",
                json.dumps({"result": result}).encode(),
                correlation_id=again.correlation_id,
            )
        assert await calling == 2
        async with asyncio.timeout(PATIENCE):
            while rpc.late < 4:
                await asyncio.sleep(0.01)


async def test_a_cancelled_call_is_forgotten(rpc: Rpc) -> None:
    async with rpc.serve("stock", {"never": never}) as server:
        calling = asyncio.create_task(rpc.call("stock", "never"))
        async with asyncio.timeout(PATIENCE):
            while "1/8 busy" not in repr(server):
                await asyncio.sleep(0.01)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert "0 calls under way" in repr(rpc)
        await server.close(grace=0)


async def test_a_thousand_calls_at_once(rpc: Rpc) -> None:
    async def square(number: int) -> int:
        await asyncio.sleep(0)
        return number * number

    async with rpc.serve("sums", {"square": square}, workers=50) as server:
        results = await asyncio.gather(*(rpc.call("sums", "square", number=n) for n in range(1000)))
        assert results == [n * n for n in range(1000)]
        assert server.answered == 1000


async def test_not_more_than_the_workers_work_at_once(rpc: Rpc) -> None:
    busy, most, all_work = 0, 0, asyncio.Event()

    async def work() -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == 3:
            all_work.set()
        await all_work.wait()
        await asyncio.sleep(0.001)
        busy -= 1

    async with rpc.serve("work", {"work": work}, workers=3):
        await asyncio.gather(*(rpc.call("work", "work") for _ in range(30)))
    assert most == 3


async def test_plain_functions_work_side_by_side_in_threads(rpc: Rpc) -> None:
    import threading

    meeting = threading.Barrier(4)

    def meet() -> str:
        meeting.wait(PATIENCE)
        return current_task()

    async with rpc.serve("work", {"meet": meet}, workers=4):
        with task("together"):
            assert await asyncio.gather(*(rpc.call("work", "meet") for _ in range(4))) == ["together"] * 4


async def test_a_task_goes_on_to_nested_calls_and_sends(rpc: Rpc, client: Client) -> None:
    await client.create("log")
    seen: dict[str, Properties] = {}

    async def order() -> str:
        seen["order"] = current_request().properties
        await client.send("queue:log", b"ordered")
        return str(await rpc.call("stock", "reserve"))

    async def reserve() -> str:
        seen["reserve"] = current_request().properties
        return current_task()

    async with rpc.serve("orders", {"order": order}), rpc.serve("stock", {"reserve": reserve}):
        first, second = await rpc.call("orders", "order"), await rpc.call("orders", "order")
        assert first != second
        with task() as mine:
            assert await rpc.call("orders", "order") == mine
    assert seen["order"].task_id == seen["reserve"].task_id == mine
    async with client.subscribe("queue:log", auto_ack=True) as log:
        assert [(await anext(log)).properties.task_id for _ in range(3)] == [first, second, mine]
    assert current_task() == ""
    with pytest.raises(LookupError):
        current_request()


async def test_the_reply_comes_first_and_a_server_that_dies_before_leaves_the_request(
    node: Node, rpc: Rpc
) -> None:
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await never()

    async with connect(f"http://127.0.0.1:{node.port}", session="first") as other:
        first = await Rpc(other).serve("stock", {"work": hang}).open()
        calling = asyncio.create_task(rpc.call("stock", "work"))
        await started.wait()
        await first.close(grace=0)
    async with rpc.serve("stock", {"work": lambda: current_request().redelivered}):
        assert await calling is True


async def test_a_second_reply_is_ignored(node: Node, rpc: Rpc, client: Client) -> None:
    """A server that has replied and dies before its acknowledgement."""
    async with connect(f"http://127.0.0.1:{node.port}", session="first") as other:
        await other.create("stock")
        async with other.subscribe("queue:stock") as requests:
            calling = asyncio.create_task(rpc.call("stock", "level", article=1))
            asked = (await anext(requests)).properties
            await other.send(
                f"queue:{asked.reply_to}", b'{"result": "first"}', correlation_id=asked.correlation_id
            )
            assert await calling == "first"
    async with rpc.serve("stock", {"level": level}) as server:
        assert (await rpc.call("stock", "level", article=2))["article"] == 2
        async with asyncio.timeout(PATIENCE):
            while server.answered < 2 or not rpc.late:
                await asyncio.sleep(0.01)
    assert rpc.late == 1


async def test_several_interfaces_and_versions_on_one_queue(rpc: Rpc) -> None:
    class Stock:
        def level(self) -> str:
            return "stock"

        def _secret(self) -> str:
            return "hidden"

    offers = [
        Interface(Stock(), "stock", "1.2"),
        Interface({"level": lambda: "stock 2"}, "stock", "2.0"),
        Interface({"level": lambda: "water"}, "water"),
    ]
    async with rpc.serve("shop", offers):
        assert await rpc.service("shop", interface="stock", version="1.1").level() == "stock"
        assert await rpc.service("shop", interface="stock", version="2.0").level() == "stock 2"
        assert await rpc.service("shop", interface="water", version="9").level() == "water"
        with pytest.raises(ServiceError, match="UNKNOWN_INTERFACE"):
            await rpc.call("shop", "level")
        with pytest.raises(ServiceError, match="UNKNOWN_METHOD"):
            await rpc.request("shop", "_secret", {}, interface="stock")


async def test_parameters_may_have_any_name(rpc: Rpc) -> None:
    async with rpc.serve("echo", {"echo": lambda **given: given}):
        given = {"timeout": 1, "queue": "q", "method": "m", "self": "s", "interface": "i", "version": "v"}
        assert await rpc.request("echo", "echo", given) == given
        assert await rpc.service("echo").echo(**given) == given
        with pytest.raises(TypeError, match="'echo' cannot be written as JSON"):
            await rpc.call("echo", "echo", thing=object())


async def test_a_handler_without_an_exception_s_manners_is_a_failure_like_any_other(rpc: Rpc) -> None:
    """No future takes a StopIteration, so that neither the call nor its worker would end."""

    class Rude(BaseException):
        pass

    async def rude() -> None:
        raise Rude("so")

    handlers = {
        "first": lambda: next(iter([])),
        "leave": lambda: sys.exit(3),
        "rude": rude,
        "one": lambda: 1,
    }
    async with rpc.serve("stock", handlers, workers=1) as server:
        with pytest.raises(ServiceError, match=r"raised StopIteration \[FAILED\]"):
            await rpc.call("stock", "first", timeout=20)
        with pytest.raises(ServiceError, match=r"raised SystemExit \[FAILED\]"):
            await rpc.call("stock", "leave", timeout=20)
        with pytest.raises(ServiceError, match=r"^Rude: so \[FAILED\]"):
            await rpc.call("stock", "rude", timeout=20)
        assert await rpc.call("stock", "one") == 1
    assert "0/1 busy" in repr(server)


async def test_a_result_that_is_too_large_is_answered_so(rpc: Rpc) -> None:
    async with rpc.serve("echo", {"large": lambda: "x" * (17 * 1024 * 1024)}):
        with pytest.raises(ServiceError, match="RESULT_TOO_LARGE"):
            await rpc.call("echo", "large")


async def test_a_server_that_is_closed_ends_its_work_and_leaves_the_rest(node: Node, rpc: Rpc) -> None:
    go_on = asyncio.Event()

    async def slow() -> str:
        await go_on.wait()
        return "first"

    server = await rpc.serve("work", {"slow": slow}, workers=1).open()
    calls = [asyncio.create_task(rpc.call("work", "slow")) for _ in range(3)]
    async with asyncio.timeout(PATIENCE):
        while "1/1 busy" not in repr(server):
            await asyncio.sleep(0.01)
    closing = asyncio.create_task(server.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    async with rpc.serve("work", {"slow": lambda: "second"}):
        assert sorted(await asyncio.gather(*calls)) == ["first", "second", "second"]


async def test_an_awaited_server_ends_with_its_client(node: Node) -> None:
    async with connect(f"http://127.0.0.1:{node.port}") as client:
        server = Rpc(client).serve("work", {"level": level})
        serving = asyncio.ensure_future(server)
        async with Rpc(client) as rpc:
            while True:
                try:
                    await rpc.call("work", "level", article=1)
                    break
                except NobodyServes:
                    await asyncio.sleep(0.01)
    with pytest.raises(ClientClosed):
        await serving


async def test_a_caller_that_is_closed_forgets_its_calls(client: Client) -> None:
    rpc = Rpc(client)
    async with rpc.serve("stock", {"never": never}) as server:
        calling = asyncio.create_task(rpc.call("stock", "never"))
        async with asyncio.timeout(PATIENCE):
            while "1/8 busy" not in repr(server):
                await asyncio.sleep(0.01)
        await rpc.close()
        with pytest.raises(ReplyLost):
            await calling
        await server.close(grace=0)


async def test_a_call_and_its_reply_outlive_a_restart_of_the_node(node: Node, tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{node.port}"
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "done"

    async with connect(uri) as client, Rpc(client, timeout=60) as rpc, rpc.serve("work", {"slow": slow}):
        calling = asyncio.create_task(rpc.call("work", "slow"))
        await started.wait()
        await node.stop()
        listener = Listener(port=node.port)
        again = Node(Site(name="hq", data=tmp_path, listener=listener, advisories=Advisories(linger=0.0)))
        await again.start()
        go_on.set()
        assert await calling == "done"
        await again.stop()


async def test_calls_and_servers_go_on_after_a_broken_line(node: Node, rpc: Rpc, client: Client) -> None:
    """The session ends with its only connection, and its reply queue with it."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(number: int) -> int:
        began.set()
        await go_on.wait()
        return number

    async with rpc.serve("work", {"slow": slow}):
        calling = asyncio.create_task(rpc.call("work", "slow", number=1))
        await began.wait()
        socket = client._session._socket
        assert socket is not None
        await socket.close()
        go_on.set()
        assert await calling == 1
        assert await rpc.call("work", "slow", number=2) == 2
    assert client._session._socket is not socket


async def test_a_reply_queue_that_is_refused_after_a_broken_line_is_made_anew(played: Any) -> None:
    """In flight: whether it was done is not known. Afterwards: calls work again."""
    async with connect(played.uri) as client, Rpc(client, timeout=PATIENCE) as rpc:
        calling = asyncio.create_task(rpc.call("stock", "level"))
        await played.until(lambda: played.sent)
        (mailbox,) = (frame.destination.name for frame in played.subscriptions.values())
        played.refuse_queues.add(mailbox)
        await played.cut()
        with pytest.raises(ReplyLost, match="went with the connection"):
            await calling
        again = asyncio.create_task(rpc.call("stock", "level"))
        await played.until(lambda: len(played.sent) == 2)
        number, asked = list(played.subscriptions.items())[-1]
        assert asked.destination.name != mailbox
        (message,) = decode_messages(played.sent[-1].body, 1)
        reply = Message(b'{"result": 5}', Properties(correlation_id=message.properties.correlation_id))
        body = encode_message(reply)
        await played.say(Deliver(number, asked.destination, 1, 1, b"r" * 16, 0, 0, len(body), body))
        assert await again == 5


async def test_workers_and_handlers_are_checked(rpc: Rpc) -> None:
    with pytest.raises(ValueError, match="workers=0"):
        rpc.serve("stock", {"level": level}, workers=0)
    with pytest.raises(ValueError, match="no interface"):
        rpc.serve("stock", [])
    wrong: list[tuple[str, dict[str, Any]]] = [("workers", {"workers": 1.5}), ("version", {"version": 1.2})]
    for name, options in [*wrong, ("interface", {"interface": 5})]:
        with pytest.raises(TypeError, match=f"{name}="):
            rpc.serve("stock", {"level": level}, **options)
    five: Any = 5
    with pytest.raises(TypeError, match="queue=5"):
        rpc.serve(five, {"level": level})
    with pytest.raises(TypeError, match="queue=5"):
        await rpc.call(five, "level")
    with pytest.raises(TypeError, match="method=5"):
        await rpc.call("stock", five)
    with pytest.raises(ValueError, match="nothing to serve"):
        rpc.serve("stock", {})
    with pytest.raises(ValueError, match="`tell`"):
        await rpc._client.send("queue:stock", b"", tell=True)
    with pytest.raises(AttributeError):
        _ = rpc.service("stock")._repr_html_


async def test_a_server_whose_queue_is_deleted_makes_it_again_however_often_that_fails(
    node: Node, rpc: Rpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues, failures = node.core.switch.local_queues, [1, 2]
    existing = queues.existing

    def refusing(name: str) -> Queue:
        if name == "work" and failures:
            raise NotFound(f"not now {failures.pop()}")
        return existing(name)

    async with rpc.serve("work", {"level": level}):
        assert await rpc.call("work", "level", article=1)
        monkeypatch.setattr(queues, "existing", refusing)
        node.core.removal.delete_queue("work")
        node.wake()
        async with asyncio.timeout(PATIENCE):
            while failures or not node.core.custody.queue_for(queue("work")).consumers:
                await asyncio.sleep(0.01)
        assert await rpc.call("work", "level", article=2)
