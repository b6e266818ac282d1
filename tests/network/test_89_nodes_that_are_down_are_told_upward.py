"""Nodes that are down are known at the root, as users have it: real processes, default settings, kill -9."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
from commands import printed
from harness import Network


async def get(url: str) -> Any:
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def scraped(url: str) -> dict[str, float]:
    """The figures that have no labels."""
    async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    pairs = (line.split(" ") for line in lines if not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, value in pairs}


async def until_down(url: str, *names: str) -> Any:
    async with asyncio.timeout(120):
        while True:
            found = await get(f"{url}/api/below?down=1")
            if found["nodes"] == 3 and {each["name"] for each in found["below"]} == set(names):
                return found
            await asyncio.sleep(0.2)


async def test_the_root_says_which_nodes_are_down_and_since_when(tmp_path: Path) -> None:
    async with Network(tmp_path, {"tree": "test"}) as network:
        network.add("hq")
        network.add("north", "hq", role="branch")
        network.add("york", "north")
        network.add("leeds", "north")
        await network.start()
        url = network.url("hq")
        found = await until_down(url)
        assert (found["nodes"], found["down"], found["down_since_s"]) == (3, 0, None)
        whole = await get(f"{url}/api/below")
        assert [(each["name"], each["via"], each["since_s"]) for each in whole["below"]] == [
            ("leeds", "north", None),
            ("north", "north", None),
            ("york", "north", None),
        ]
        network.kill("york")
        found = await until_down(url, "york")
        (child,) = found["children"]
        assert (child["name"], child["state"], child["nodes"], child["down"]) == ("north", "running", 3, 1)
        (york,) = found["below"]
        assert (york["via"], york["at_least"]) == ("north", False)
        assert found["down_since_s"] == york["since_s"] >= 0
        assert (await get(f"{url}/api/below?node=north&down=1"))["below"][0]["name"] == "york"
        status = await network.status("hq")
        assert (status["below"]["nodes"], status["below"]["down"]) == (3, 1)
        said = "1 of 3 nodes below down, the longest for"
        tree = await printed("tree", "--down", "--url", url)
        assert said in tree
        assert "york" in tree
        assert "leeds" not in tree
        assert "leeds" in await printed("tree", "--url", url)
        top = await printed("top", "--tree", "--once", url)
        assert said in top
        assert "Node that is down" in top
        assert json.loads(await printed("top", "--tree", "--once", "--json", url))["below"]["down"] == 1
        assert said in await printed("status", url)
        figures = await scraped(url)
        assert (figures["sapwood_nodes_below"], figures["sapwood_nodes_below_down"]) == (3, 1)
        assert figures["sapwood_nodes_below_down_longest_seconds"] > 0
        await network.launch("york")
        await until_down(url)
        assert "3 nodes below, none down" in await printed("tree", "--down", "--url", url)
