"""Calls across a real tree: told at once, answered by a successor, a thousand at once, seen as one task."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from harness import Network

from sapwood import Client, NobodyServes, Rpc, current_request, current_task, task
from sapwood.deduplication import Seen
from sapwood.journal import Journal

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0
SERVER = """
import asyncio, sys
from sapwood import Rpc, connect

async def main(address, name, service):
    async def work(number: int) -> str:
        print("began", flush=True)
        if name == "first":
            await asyncio.Event().wait()
        return f"{number} done by {name}"

    async with connect(address) as client, Rpc(client).serve(service, {"work": work}, workers=2) as server:
        print("serving", flush=True)
        await server.run()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def tree(network: Network) -> Network:
    """HQ, a region, two stores."""
    network.add("hq")
    network.add("north", "hq", role="branch")
    network.add("york", "north")
    network.add("leeds", "north")
    await network.start()
    return network


class Program:
    """A Python program of its own, and what it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self, line: str) -> str:
        """Wait for a line that begins so."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while True:
                got = (await self._process.stdout.readline()).decode()
                assert got, f"the program ended without saying {line!r}"
                if got.startswith(line):
                    return got

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def interrupt(self) -> int:
        self._process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            return await self._process.wait()

    async def ended(self) -> tuple[int, str]:
        async with asyncio.timeout(PATIENCE):
            output, _ = await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode, output.decode()


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[Program]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def server(network: Network, node: str, name: str, service: str = "work") -> AsyncIterator[Program]:
    async with program("-c", SERVER, network.url(node), name, service) as made:
        await made.says("serving")
        yield made


async def everything_has_gone(network: Network) -> None:
    """Nothing waits anywhere, and nothing is a dead letter."""
    for name in network.nodes.by_name:
        status = await network.until_drained(name)
        assert status["dead"]["messages"] == 0


async def test_a_store_is_told_at_once_that_nobody_serves(tree: Network) -> None:
    async with tree.client("york") as client, Rpc(client) as rpc:
        for _ in range(3):
            with pytest.raises(NobodyServes, match="nobody serves 'work', says node 'hq'"):
                await rpc.call("work", "work", timeout=None, number=1)
        with pytest.raises(NobodyServes, match="says node 'leeds'"):
            await rpc.call("work@leeds", "work", timeout=None, number=1)
        async with server(tree, "leeds", "second"):
            await tree.until_known("hq", "queue:work")
            assert await rpc.call("work", "work", number=2) == "2 done by second"
            assert await rpc.call("work@leeds", "work", number=3) == "3 done by second"
            await tree.until_drained("leeds")  # the acknowledgements are there: nothing comes again
        await tree.until_known("hq", "queue:work", "remove")
        with pytest.raises(NobodyServes):
            await rpc.call("work", "work", timeout=None, number=4)
    await everything_has_gone(tree)
    assert (await tree.status("hq"))["counters"]["nobody_serves"] == 4


async def test_a_server_killed_in_the_middle_is_answered_by_its_successor(tree: Network) -> None:
    """On the same node, on the caller's, at the root."""
    for successor in ("leeds", "york", "hq"):
        await answered_by(tree, successor, f"work-{successor}")


async def answered_by(tree: Network, successor: str, service: str) -> None:
    async with tree.client("york") as client, Rpc(client, timeout=PATIENCE) as rpc:
        async with server(tree, "leeds", "first", service) as first:
            await tree.until_known("hq", f"queue:{service}")
            calls = [asyncio.create_task(rpc.call(service, "work", number=number)) for number in range(4)]
            await first.says("began")
            await first.says("began")
            await first.kill()
        async with server(tree, successor, "second", service):
            results = await asyncio.gather(*calls, return_exceptions=True)
            await everything_has_gone(tree)  # a server that is killed too soon has not acknowledged it all
    for number, result in enumerate(results):
        assert result == f"{number} done by second" or (number > 1 and isinstance(result, NobodyServes))
    assert results[:2] == ["0 done by second", "1 done by second"]


async def test_a_call_outlives_the_nodes_between(tree: Network) -> None:
    """The caller's node, the region and the server's node are killed while the request is in work."""
    go_on, began = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        began.set()
        await go_on.wait()
        return "done"

    async with (
        tree.client("york") as client,
        tree.client("leeds") as other,
        Rpc(client, timeout=PATIENCE) as rpc,
        Rpc(other).serve("work", {"work": work}),
    ):
        await tree.until_known("hq", "queue:work")
        calling = asyncio.create_task(rpc.call("work", "work"))
        await began.wait()
        for name in ("york", "north", "leeds"):
            tree.kill(name)
        for name in ("north", "york", "leeds"):
            await tree.launch(name)
        go_on.set()
        assert await calling == "done"


async def test_a_thousand_calls_at_once_between_two_stores(tree: Network) -> None:
    async def square(number: int) -> int:
        return number * number

    async with (
        tree.client("leeds") as serving,
        tree.client("york") as calling,
        Rpc(serving).serve("sums", {"square": square}, workers=64),
        Rpc(calling, timeout=PATIENCE) as rpc,
    ):
        await tree.until_known("hq", "queue:sums")
        results = await asyncio.gather(*(rpc.call("sums", "square", number=n) for n in range(1000)))
        assert results == [n * n for n in range(1000)]
        assert rpc.late == 0
    await everything_has_gone(tree)


async def test_nested_calls_are_one_task_of_the_trace(tree: Network) -> None:
    async with (
        tree.client("leeds") as at_leeds,
        tree.client("hq") as at_hq,
        tree.client("york") as at_york,
        Rpc(at_leeds, timeout=PATIENCE) as orders,
    ):

        async def order() -> list[str]:
            return [current_task(), await orders.call("stock", "reserve")]

        async def reserve() -> str:
            return current_task()

        async with (
            orders.serve("orders", {"order": order}),
            Rpc(at_hq).serve("stock", {"reserve": reserve}),
            Rpc(at_york, timeout=PATIENCE) as rpc,
        ):
            await tree.until_known("hq", "queue:orders")
            with task() as name:
                assert await rpc.call("orders", "order") == [name, name]
        found = await _ask(tree, "hq", f"/api/trace/task/{name}")
    destinations = {event["queue"].removeprefix("queue:") for event in found["events"]}
    assert {"orders", "stock"} <= destinations
    assert {event["node"] for event in found["events"]} >= {"york", "leeds", "hq"}
    assert sum("@york" in destination for destination in destinations) == 1
    assert sum("@leeds" in destination for destination in destinations) == 1


async def _ask(network: Network, node: str, path: str) -> Any:
    async with aiohttp.ClientSession() as http, http.get(network.url(node) + path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_a_journal_is_published_once_though_node_and_program_are_killed(
    network: Network, tmp_path: Path
) -> None:
    """The node is killed under way; then the program stops without a word, and another run goes on."""
    network.add("hq")
    await network.start()
    wanted = [f"{number}".encode() for number in range(20_000)]

    def client() -> Client:
        return network.client("hq", session="till-7", producer="sales")

    with Journal(tmp_path / "journal") as journal:
        journal.append_many(("queue:sales", payload) for payload in wanted)
        first = await client().open()
        publishing = asyncio.create_task(journal.publish(first))
        for left in (18_000, 14_000):
            while len(journal) > left:
                await asyncio.sleep(0.01)
            network.kill("hq")
            await network.start("hq")
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        await first.close(wait=False)
        assert 0 < len(journal) <= 14_000
    with Journal(tmp_path / "journal") as journal:
        async with client() as second:
            await journal.publish(second)
        assert len(journal) == 0
    seen, got, again = Seen(), [], 0
    async with network.client("hq") as reader:
        async with asyncio.timeout(PATIENCE):
            await reader.create("sales")
            async for delivery in reader.subscribe("queue:sales"):
                delivery.ack()
                if seen.add(delivery.key):
                    got.append(delivery.payload)
                else:
                    again += 1
                if len(got) == len(wanted):
                    break
    assert got == wanted
    assert again <= 1000


async def test_services_are_tested_by_a_node_that_delivers_twice(network: Network) -> None:
    network.add("hq", debug={"deliver_twice": 1, "seed": 3})
    await network.start()
    handled: list[int] = []
    seen, done = Seen(), []

    async def work(number: int) -> int:
        handled.append(number)
        if seen.add(current_request().key):
            done.append(number)
        return number

    async with network.client("hq") as client, Rpc(client, timeout=PATIENCE) as rpc:
        async with rpc.serve("work", {"work": work}, workers=4):
            assert [await rpc.call("work", "work", number=n) for n in range(20)] == list(range(20))
        assert sorted(handled) == sorted([*range(20), *range(20)])
        assert sorted(done) == list(range(20))
    status = await network.until_drained("hq")
    assert any("DEBUG MODE: 100.0%" in warning for warning in status["warnings"])
    assert "DEBUG MODE" in network.nodes["hq"].log.read_text()


async def test_a_plain_client_of_such_a_node_may_acknowledge_twice(network: Network) -> None:
    network.add("hq", debug={"deliver_twice": 1})
    await network.start()
    async with aiohttp.ClientSession(network.url("hq"), connector=aiohttp.TCPConnector(limit=1)) as http:

        async def get(path: str) -> tuple[int, str]:
            async with http.get(path) as answer:
                return answer.status, await answer.text()

        for path in ("/login/till-7", "/create/sales", "/subscribe/sales"):
            assert (await get(path))[0] == 200
        async with http.post("/send/sales/5", data=b"one") as answer:
            assert answer.status == 200
        first = json.loads((await get("/transfer/-1/10"))[1])["messages"]
        ((number, message),) = first
        assert (message["payload"], message["correlation_id"]) == ("one", 5)
        assert await get(f"/ack/{number}") == (200, "")
        again = [[number, message | {"redelivered": True}]]
        assert json.loads((await get(f"/transfer/{number}/10"))[1])["messages"] == again
        assert await get(f"/ack/{number}") == (200, "")
        assert json.loads((await get(f"/transfer/{number}/0"))[1])["messages"] == []
        assert (await get(f"/ack/{number + 1}"))[0] == 200
    await network.until_drained("hq")


async def test_the_examples_run(tree: Network, tmp_path: Path) -> None:
    examples = ROOT / "examples" / "rpc"
    async with program(str(examples / "client.py"), tree.url("york")) as alone:
        assert await alone.ended() == (
            1,
            "nobody serves 'stock', says node 'hq': 'level' was not done\n",
        )
    database = str(tmp_path / "stock.db")
    async with program(str(examples / "server.py"), tree.url("leeds"), database) as serving:
        assert await serving.says("serving") == "serving 'stock' at node leeds\n"
        await tree.until_known("hq", "queue:stock")
        async with program(str(examples / "client.py"), tree.url("york")) as asking:
            code, output = await asking.ended()
        assert code == 0
        assert "article 47: 1000 on the shelf\nreserved 10, 990 are left" in output
        assert "there is no article 4711 [NO_SUCH_ARTICLE]" in output
        async with program(str(examples / "plain_client.py"), tree.url("hq")) as plain:
            assert await plain.ended() == (0, "article 48: 1000 on the shelf\nreserved 10, 990 are left\n")
        assert await serving.interrupt() == 0


async def test_a_client_of_another_session_cannot_be_mistaken_for_a_node(tree: Network) -> None:
    """A reply that only looks like a notice is a service's error."""
    async with tree.client("hq") as forger, tree.client("york") as client, Rpc(client) as rpc:
        await forger.create("work")
        async with forger.subscribe("queue:work", auto_ack=True) as requests:
            await tree.until_known("north", "queue:work")
            calling = asyncio.create_task(rpc.call("work", "work", timeout=PATIENCE))
            asked = (await anext(requests)).properties
            text = json.dumps({"error": {"code": "NOBODY_SERVES", "message": "", "data": None}})
            await forger.send(
                f"queue:{asked.reply_to}",
                text,
                correlation_id=asked.correlation_id,
                headers={"notice": "NOBODY_SERVES"},
            )
            with pytest.raises(Exception, match="NOBODY_SERVES") as caught:
                await calling
            assert not isinstance(caught.value, NobodyServes)
