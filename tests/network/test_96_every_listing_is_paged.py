"""Every listing comes in pages: of this node, of one below it, and joined by the command line."""

import json
from typing import Any
from urllib.parse import quote

import aiohttp
from commands import printed
from harness import Network
from hostile import WITNESS
from thieves import thief

from sapwood.protocol import packets
from treeconnector import frames

STORES = ("bath", "deal", "ely", "leeds", "york")
BELOW = {
    "/api/links": "links",
    "/api/addresses": "known",
    "/api/cells": "cells",
    "/api/permits": "children",
    "/api/tree/north": "children",
    "/api/routes": "routes",
    "/api/below": "below",
}


async def page(http: aiohttp.ClientSession, url: str) -> Any:
    async with http.get(url) as answer:
        found = await answer.json()
        assert answer.status == 200, found
        return found


async def pages(http: aiohttp.ClientSession, url: str, what: str, limit: int) -> list[Any]:
    """All items, each page as large as it may be, and each saying how many follow."""
    found: list[Any] = []
    left: set[int] = set()
    after = ""
    while True:
        told = await page(http, f"{url}limit={limit}&after={quote(after)}")
        more = told["more"] if "more" in told else told["children_more"]
        found += told[what]
        left.add(len(found) + more)
        if told["next"] is None:
            assert more == 0
            assert len(left) == 1, left
            return found
        assert len(told[what]) == limit
        after = told["next"]


async def chain(network: Network) -> str:
    """hq, north below it, and the stores below that, each queue of which north has, too. hq's address."""
    network.add("hq")
    network.add("north", "hq", role="branch")
    for store in STORES:
        network.add(store, "north")
    await network.start()
    async with network.client("north") as client:
        for number in range(5):
            await client.create(f"sales-{number}")
    return network.url("hq")


async def test_a_node_and_one_below_it_tell_everything_in_pages(network: Network) -> None:
    url = await chain(network)
    async with aiohttp.ClientSession() as http:
        for path, what in BELOW.items():
            node = "" if path.endswith("north") else "node=north&"
            whole = (await page(http, f"{url}{path}?{node}limit=1000"))[what]
            told = await pages(http, f"{url}{path}?{node}", what, 2)
            assert [_name(each) for each in told] == [_name(each) for each in whole], path
            assert len(told) >= len(STORES), path
        own = await pages(http, f"{network.url('north')}/api/tree?", "children", 2)
        assert [each["name"] for each in own] == list(STORES)
        links = await pages(http, f"{network.url('north')}/api/links?", "links", 4)
        assert [each["name"] for each in links] == ["hq", *STORES]


def _name(item: Any) -> Any:
    return item.get("destination"), item.get("name"), item.get("gateway")


async def test_the_command_line_joins_pages_and_says_what_is_left(network: Network) -> None:
    url = await chain(network)
    asked = ("--node", "north", "--url", url)
    assert "and 4 more (--limit)" in await printed("links", "--limit", "2", *asked)
    for command, what in (("links", "links"), ("cells", "cells"), ("addresses", "known")):
        found = json.loads(await printed(command, "--limit", "3", "--json", *asked))
        assert (len(found[what]), found["more"] > 0) == (3, True), command
        assert json.loads(await printed(command, "--json", *asked))["more"] == 0
    found = json.loads(await printed("permits", "show", "--limit", "2", "--json", *asked))
    assert ([each["name"] for each in found["children"]], found["more"]) == (["bath", "deal"], 3)


async def test_holds_are_told_of_a_node_below_and_by_a_command(network: Network) -> None:
    network.add("hq")
    network.add(WITNESS, "hq")
    await network.start()
    holds = [f"queue:{number:03}" for number in range(250)]
    async with thief(network) as mallory, aiohttp.ClientSession() as http:
        held = [frames.encode(frames.Hold(name)) for name in holds]
        await mallory.say(*packets.packets(held, 60_000))
        await network.until("hq", lambda status: holding(status) == len(holds), "asked to hold")
        url = network.url("hq")
        assert await pages(http, f"{url}/api/holds?link=mallory&node=hq&", "holds", 100) == holds
        listed = (await printed("holds", "mallory", "--limit", "120", "--url", url)).splitlines()
        assert listed == [*holds[:120], "and 130 more (--limit)"]
        found = json.loads(await printed("holds", "mallory", "--limit", "1000", "--json", "--url", url))
        assert found["holds"] == holds
        assert await printed("holds", WITNESS, "--url", url) == f"{WITNESS} takes everything\n"


def holding(status: Any) -> int:
    return sum(link["held_by_peer_total"] for link in status["children"])
