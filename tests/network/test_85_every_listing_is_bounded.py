"""A hostile child makes its parent keep as much as it takes: no answer about it is large, and all is listed,
a page at a time.
"""

import asyncio
from typing import Any

import aiohttp
from harness import Network
from hostile import WITNESS, undisturbed
from thieves import Thief, advise, thief

from sapwood.protocol import packets
from treeconnector import frames

HOLDS = 19_990
LARGEST = 256 * 1024
SMALL = ["/api/status", "/api/tree", "/api/links", "/api/queues", "/api/holds?link=mallory", "/metrics", "/"]
SMALL += ["/api/routes", "/api/advisories", "/api/dead", "/api/sessions", "/api/consumers", "/api/addresses"]
SMALL += ["/api/permits", "/api/cells", "/api/tree/hq", "/api/below"]
PERMITS = {"consume": ["{name}/#", "queue:last-word"], "send": ["{name}/#", "queue:last-word"]}


async def fill(mallory: Thief) -> None:
    """Holds, routes, refused routes and refused bundles, all with the longest names."""
    names = [f"queue:{number:06d}{'h' * 90}" for number in range(HOLDS)]
    for start in range(0, HOLDS, 500):
        held = [frames.encode(frames.Hold(name)) for name in names[start : start + 500]]
        await mallory.say(*packets.packets(held, 60_000))
    for number in range(300):
        await mallory.say(advise(f"topic:mallory/{number}{'r' * 1000}", f"topic:{number}{'d' * 1000}"))
        await mallory.say(mallory.bundle(f"queue:{number}{'q' * 240}", b"refused"))
        await mallory.until_room()
    await mallory.until(lambda: mallory.acked == mallory.number, "heard")


async def get(http: aiohttp.ClientSession, url: str) -> bytes:
    async with http.get(url) as answer:
        body = await answer.read()
        assert answer.status == 200, (url, body[:300])
        return body


async def test_no_answer_is_large_and_all_holds_are_listed_in_pages(network: Network) -> None:
    network.add("hq", permits=PERMITS)
    network.add(WITNESS, "hq")
    await network.start()
    url = network.url("hq")
    async with undisturbed(network), thief(network) as mallory, aiohttp.ClientSession() as http:
        await fill(mallory)
        status = await network.until(
            "hq", lambda status: len(_link(status)["held_by_peer"]) == 10, "asked to hold", 60
        )
        assert _link(status)["held_by_peer_total"] == HOLDS
        sizes = {path: len(await get(http, url + path)) for path in SMALL}
        sizes["live"] = await _first_line(http, f"{url}/api/live?parts=status,tree,queues")
        assert max(sizes.values()) < LARGEST, sizes
        assert await _all_holds(http, url) == HOLDS
        assert not mallory.end


def _link(status: dict[str, Any]) -> dict[str, Any]:
    return next(link for link in status["children"] if link["name"] == "mallory")


async def _first_line(http: aiohttp.ClientSession, url: str) -> int:
    async with http.get(url, read_bufsize=1 << 22) as answer:
        return len(await answer.content.readline())


async def _all_holds(http: aiohttp.ClientSession, url: str) -> int:
    found: set[str] = set()
    after = ""
    async with asyncio.timeout(180):
        while True:
            query = {"link": "mallory", "limit": "1000"} | ({"after": after} if after else {})
            async with http.get(f"{url}/api/holds", params=query) as answer:
                page = await answer.json()
            found.update(page["holds"])
            assert len(page["holds"]) <= 1000
            if (after := page["next"]) is None:
                return len(found)
