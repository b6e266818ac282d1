"""Generated code across three nodes, each side a program of its own; a killed server has a successor."""

import asyncio
import importlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from commands import sapwood
from harness import Network

from sapwood import Rpc, task

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "interfaces"
PATIENCE = 180.0
SLOW = """
import asyncio, sys
from server import Stock, Stock_server_dispatcher
from sapwood import Rpc, connect

class Slow(Stock):
    async def level(self, *, article):
        print("began", flush=True)
        await asyncio.Event().wait()

async def main(url):
    served = [Stock_server_dispatcher(Slow())]
    async with connect(url) as client, Rpc(client).serve("stock", served) as server:
        print("serving", flush=True)
        await server.run()

asyncio.run(main(sys.argv[1]))
"""


@asynccontextmanager
async def program(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=EXAMPLES / "python",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLES / 'python'}"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def says(process: asyncio.subprocess.Process, line: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert (await process.stdout.readline()).decode().startswith(line)


async def printed(*words: str) -> str:
    async with program(*words) as process, asyncio.timeout(PATIENCE):
        output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    return output.decode()


async def test_the_examples_programs_talk_across_the_tree(tree: Network) -> None:
    async with program("server.py", tree.url("york")) as server:
        await says(server, "serving stock")
        await tree.until_known("hq", "queue:stock")
        lines = (await printed("caller.py", tree.url("hq"))).splitlines()
        assert lines == [
            "12 pieces, in aisle 3",
            "only 12 are there",
            "[MovementCounted(), MovementSold(value=3)]",
            "HQ knows no article 1",
        ]
        level = ("-m", "chain.stock_v1", "--url", tree.url("hq"), "--json", "level", "--article", "4711")
        assert json.loads(await printed(*level)) == {"pieces": 12, "places": [{"aisle": 3, "pieces": 12}]}


async def test_nested_calls_of_generated_code_are_one_task(
    tree: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service at north asks one at york before it answers hq; each has the functions of `stock`."""
    monkeypatch.syspath_prepend(EXAMPLES / "python")
    v1 = importlib.import_module("chain.stock_v1")
    async with (
        tree.client("hq") as hq,
        tree.client("north") as north,
        tree.client("york") as york,
        Rpc(north, timeout=PATIENCE) as asking,
        Rpc(hq, timeout=PATIENCE) as rpc,
    ):

        class Outer(v1.Stock_skeleton):  # type: ignore[misc]
            async def level(self, *, article: int) -> object:
                return await v1.StockClient(asking, "inner").level(article=article)

        async with (
            Rpc(york).serve("inner", [v1.Stock_server_dispatcher(v1.Stock_test())]),
            asking.serve("outer", [v1.Stock_server_dispatcher(Outer())]),
        ):
            await tree.until_known("hq", "queue:inner")
            await tree.until_known("hq", "queue:outer")
            with task() as name:
                assert (await v1.StockClient(rpc, "outer").level(article=1)).pieces == 1
    code, output, errors = await sapwood("trace", "--task", name, "--url", tree.url("hq"))
    assert code == 0, errors
    assert f"task {name} · 4 messages" in output
    entered = [line.split()[1] for line in output.splitlines() if " entered " in line]
    assert entered == ["hq", "north", "york", "north"]


async def test_a_server_killed_in_the_middle_is_answered_by_its_successor(tree: Network) -> None:
    level = ("-m", "chain.stock_v1", "--url", tree.url("hq"), "--timeout", "60", "level", "--article", "4711")
    async with program("-c", SLOW, tree.url("york")) as first:
        await says(first, "serving")
        await tree.until_known("hq", "queue:stock")
        calling = asyncio.create_task(printed(*level))
        await says(first, "began")
        first.kill()
        async with program("server.py", tree.url("north")) as second:
            await says(second, "serving stock")
            assert await calling == 'pieces: 12\nplaces: [{"aisle":3,"pieces":12}]\n'
