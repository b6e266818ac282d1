"""The synchronous client, from several threads, against a real node in a process of its own."""

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sapwood
from broker.cli.demo.plan import free_ports
from sapwood import (
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    NobodyServes,
    ServiceError,
    current_task,
    sync,
    task,
)

PATIENCE = 180.0


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("node")
    (port,) = free_ports(1)
    site = {"name": "hq", "listener": {"port": port}, "advisories": {"linger": "0s"}}
    (folder / "hq.yaml").write_text(json.dumps({"broker": site}))
    with (folder / "log").open("w") as log:
        command = [sys.executable, "-m", "broker.cli", "node", "run", str(folder / "hq.yaml")]
        process = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


@pytest.fixture
def client(uri: str) -> Iterator[sync.Client]:
    with sync.connect(uri, timeout=PATIENCE) as made:
        yield made


def test_send_and_receive(client: sync.Client) -> None:
    client.create("sales")
    client.send("queue:sales", b"one", correlation_id=1)
    client.publish("queue:sales", "two")
    client.flush()
    client.send_many("queue:sales", [b"three", b"four"])
    assert client.node == "hq"
    assert client.committed == 4
    with client.subscribe("queue:sales") as sales:
        got = [next(sales) for _ in range(4)]
        assert [delivery.payload for delivery in got] == [b"one", b"two", b"three", b"four"]
        assert (got[0].properties.correlation_id, got[0].origin, got[0].redelivered) == (1, "hq", False)
        assert got[0].key == got[0].message_id
        assert not got[0].notice
        for delivery in got[:3]:
            delivery.ack()
        assert sales.next(timeout=0.01) is None
    with client.subscribe("queue:sales") as sales:
        last = next(sales)
        assert (last.payload, last.redelivered) == (b"four", True)
        last.ack()
        sales.close()
        assert list(sales) == []


def test_calls_from_many_threads_over_one_client(client: sync.Client) -> None:
    def square(number: int) -> int:
        return number * number

    with client.rpc.serve("sums", {"square": square}, workers=4), ThreadPoolExecutor(16) as threads:
        calls = [threads.submit(client.rpc.call, "sums", "square", number=n) for n in range(200)]
        assert [call.result(PATIENCE) for call in calls] == [n * n for n in range(200)]


def test_several_threads_that_wait_at_one_subscription_lose_nothing(client: sync.Client) -> None:
    name = client.create()
    with client.subscribe(f"queue:{name}") as subscription, ThreadPoolExecutor(2) as threads:
        first = [threads.submit(subscription.next, PATIENCE) for _ in range(2)]
        time.sleep(0.3)  # both wait for a bundle of their own by then
        client.send_many(f"queue:{name}", [b"1", b"2"])
        client.send_many(f"queue:{name}", [b"3", b"4"])
        found = [each.result(PATIENCE) for each in first]
        found += [subscription.next(5), subscription.next(5)]
    assert sorted(each.payload for each in found if each) == [b"1", b"2", b"3", b"4"]


def test_a_task_goes_through_threads(client: sync.Client) -> None:
    stock = client.rpc.service("stock")

    with (
        client.rpc.serve("orders", {"order": lambda: [current_task(), stock.reserve()]}),
        client.rpc.serve("stock", {"reserve": current_task}),
        task() as mine,
    ):
        assert client.rpc.call("orders", "order") == [mine, mine]


def test_errors_are_the_same(client: sync.Client) -> None:
    def refuse() -> None:
        raise ServiceError("NO", "no", 1)

    gate = threading.Event()
    with client.rpc.serve("errors", {"refuse": refuse, "wait": lambda: gate.wait(PATIENCE)}):
        with pytest.raises(ServiceError) as caught:
            client.rpc.call("errors", "refuse")
        assert (caught.value.code, caught.value.data) == ("NO", 1)
        with pytest.raises(CallTimeout):
            client.rpc.call("errors", "wait", timeout=0.05)
        gate.set()
    with pytest.raises(NobodyServes):
        client.rpc.call("nothing", "here")


def test_a_client_that_is_not_open_says_so(uri: str) -> None:
    client = sync.connect(uri)
    with pytest.raises(ClientClosed, match="not open"):
        client.send("queue:x", b"")
    assert "not open" in repr(client)
    with client:
        server, rpc = client.rpc.serve("gone", {"x": lambda: 1}), client.rpc
        reader = client.subscribe("queue:gone")
    with pytest.raises(ClientClosed):
        client.send("queue:x", b"")
    with pytest.raises(ClientClosed):
        server.wait()
    for used in (client, server, rpc, reader):
        used.close()
    with (
        pytest.raises(ConnectFailed),
        sync.connect(uri, session="", timeout=0.2) as _,
        sync.connect("http://127.0.0.1:1", timeout=0.2),
    ):
        pass


def test_who_waits_when_the_client_is_closed_is_told(uri: str) -> None:
    client = sync.connect(uri).open()
    client.create("silent")
    with ThreadPoolExecutor(1) as threads:
        subscription = client.subscribe("queue:silent")
        waiting = threads.submit(next, subscription)
        time.sleep(0.05)
        client.close()
        with pytest.raises(ClientClosed):
            waiting.result(PATIENCE)
    assert [thread.name for thread in threading.enumerate() if uri in thread.name and not thread.daemon] == []


def test_a_coroutine_handler_cannot_block_its_own_loop(client: sync.Client) -> None:
    async def wrong() -> None:
        client.send("queue:x", b"")

    with client.rpc.serve("wrong", {"wrong": wrong}), pytest.raises(ServiceError, match="own thread"):
        client.rpc.call("wrong", "wrong")


CALLER = """
import sys, time
from sapwood import sync
with sync.connect(sys.argv[1]) as client:
    client.create("silent")
    print("calling", flush=True)
    try:
        client.rpc.call("silent", "never", timeout=None)
    except KeyboardInterrupt:
        print("interrupted", client.rpc, flush=True)
    with client.rpc.serve("loud", {"answer": lambda: 42}):
        print(client.rpc.call("loud", "answer"), flush=True)
"""


def test_ctrl_c_forgets_the_call_and_the_client_goes_on(
    uri: str, client: sync.Client, tmp_path: Path
) -> None:
    root = Path(__file__).parents[2]
    program = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CALLER, uri],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert program.stdout is not None
    client.create("silent")
    with client.subscribe("queue:silent") as silent:
        request = silent.next(timeout=PATIENCE)
        assert request is not None
        program.send_signal(signal.SIGINT)
        request.ack()
        output, _ = program.communicate(timeout=60)
    lines = output.splitlines()
    assert lines[0] == "calling"
    assert lines[1].startswith("interrupted")
    assert "0 calls under way" in lines[1]
    assert lines[2] == "42"
    assert program.returncode == 0


def test_a_handler_that_exits_does_not_take_the_client_with_it(client: sync.Client) -> None:
    async def leave() -> None:
        sys.exit(3)

    with client.rpc.serve("leaving", {"leave": leave, "stay": lambda: 1}, workers=2):
        with pytest.raises(ServiceError, match=r"SystemExit: 3 \[FAILED\]"):
            client.rpc.call("leaving", "leave", timeout=PATIENCE)
        assert client.rpc.call("leaving", "stay") == 1


ENDING = """
import asyncio, signal, sys, time
from sapwood import Rpc, connect

async def work() -> None:
    print("working", flush=True)
    time.sleep(60)

async def main() -> None:
    async with connect(sys.argv[1]) as client, Rpc(client).serve("ending", {"work": work}) as server:
        print("serving", flush=True)
        await server.run()

signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
asyncio.run(main())
"""


def test_a_signal_that_ends_a_program_ends_it_in_the_middle_of_a_handler(
    uri: str, client: sync.Client
) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", ENDING, uri],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "serving\n"
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.rpc.call, "ending", "work", timeout=PATIENCE)
        assert program.stdout.readline() == "working\n"
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=PATIENCE)
        assert program.returncode == 5
        with client.rpc.serve("ending", {"work": lambda: "of another"}):
            assert asked.result(PATIENCE) == "of another"


FORKING = """
import os, sys
from sapwood import ClientClosed, sync
with sync.connect(sys.argv[1]) as client:
    client.create("forked")
    subscription = client.subscribe("queue:forked")
    client.send("queue:forked", b"x")
    delivery = subscription.next()
    child = os.fork()
    if not child:
        for use in (lambda: client.send("queue:forked", b"child"), subscription.next, delivery.ack):
            try:
                use()
            except ClientClosed as error:
                print(error, flush=True)
        client.close()
        os._exit(0)
    os.waitpid(child, 0)
    delivery.ack()
    client.send("queue:forked", b"parent")
    print(subscription.next().payload, flush=True)
"""


def test_a_process_that_was_forked_is_told_whose_the_client_is(uri: str) -> None:
    root = Path(__file__).parents[2]
    output = subprocess.run(
        [sys.executable, "-c", FORKING, uri],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
        timeout=PATIENCE,
        check=True,
    ).stdout.splitlines()
    assert output[:3] == ["this client is of the process that forked: connect anew in this one"] * 3
    assert output[3:] == ["b'parent'"]


def test_it_has_what_the_asynchronous_one_has() -> None:
    """Names and parameters; a `batches` of its own gives batches for any thread."""
    pairs: list[tuple[type, type, set[str]]] = [
        (sapwood.Client, sync.Client, set()),
        (sapwood.Subscription, sync.SyncSubscription, OF_THE_SESSION),
        (sapwood.Delivery, sync.SyncDelivery, {"batch", "transfer_id", "count", "index"}),
        (sapwood.Rpc, sync.SyncRpc, set()),
    ]
    for one, other, but in pairs:
        for name in public(one) - but:
            assert hasattr(other, name), f"{other.__name__}.{name}"
            wanted, found = parameters(one, name), parameters(other, name)
            assert wanted <= found, f"{other.__name__}.{name}: {wanted - found}"
    assert parameters(sapwood, "connect") == parameters(sync, "connect")


OF_THE_SESSION = {"ready", "opened", "closed", "granted", "failed", "arrived", "forget_waiting", "move"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def parameters(owner: object, name: str) -> set[str]:
    found = getattr(owner, name)
    return set(inspect.signature(found).parameters) if callable(found) else set()


def test_a_wait_ends_when_it_is_said_to(client: sync.Client) -> None:
    client.create("slow")
    reader = client.subscribe("queue:slow", auto_ack=True, timeout=PATIENCE)
    assert reader.next(timeout=0.05) is None
    client.send_many("queue:slow", [b"1", b"2"], timeout=PATIENCE)
    client.send("queue:slow", b"3", timeout=PATIENCE)
    found = reader.next(timeout=PATIENCE)
    assert found is not None
    assert found.payload == b"1"
    batch = reader.next_batch(timeout=PATIENCE)
    assert batch is not None
    assert (batch.payloads, [each.payload for each in batch]) == ([b"3"], [b"3"])
    batch.ack()
    assert client.state == "connected"
    with pytest.raises(TypeError, match="expected seconds"):
        client.send("queue:slow", b"4", timeout="1")  # type: ignore[arg-type]


def test_a_message_that_is_given_back_comes_again(client: sync.Client, uri: str) -> None:
    client.create("tried")
    with client.subscribe("queue:tried", timeout=PATIENCE) as reader:
        client.send_many("queue:tried", [b"1", b"2"])
        first, second = reader.next(PATIENCE), reader.next(PATIENCE)
        assert first is not None
        assert second is not None
        first.nack()
        again = reader.next(PATIENCE)
        assert again is not None
        assert (again.payload, again.redelivered, first.redelivered) == (b"1", True, False)
        again.ack()
        second.ack()
    with sync.connect(uri, timeout=PATIENCE) as other, other.subscribe("queue:tried") as rest:
        assert rest.next(timeout=0.5) is None


def test_the_till_of_the_examples_keeps_its_sales_until_a_node_takes_them(
    uri: str, client: sync.Client, tmp_path: Path
) -> None:
    till = Path(__file__).parents[2] / "examples" / "client" / "till.py"
    (nobody,) = free_ports(1)

    def sell(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-W", "error", str(till), *arguments]
        environment = os.environ | {"PYTHONPATH": str(till.parents[2])}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    away = f"http://127.0.0.1:{nobody}"
    failed = sell(away, "--wait", "0.2")
    assert (failed.returncode, failed.stdout) == (1, "3 sales are on this disk\n")
    assert str(nobody) in failed.stderr
    client.create("sales")
    sold = sell(away, uri, "--sales", "2", "--wait", "60")
    assert sold.stdout.splitlines() == ["5 sales are on this disk", "connected to hq", "hq took 5 sales"]
    with client.subscribe("queue:sales", auto_ack=True) as sales:
        receipts = [json.loads(next(sales).payload)["receipt"] for _ in range(5)]
        assert receipts == [0, 1, 2, 0, 1]
        assert sales.next(timeout=0) is None
