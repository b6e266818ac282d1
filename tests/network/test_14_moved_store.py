"""A site that its file sends to another parent takes its place there, and what was kept for it follows.

So does a level that is put in above a region. And one that leaves for good is kept nothing for any more.
"""

import aiohttp
from harness import Network, Status, child_state, receiving, until_count, waiting

NUMBERS = [str(number).encode() for number in range(300)]
QUICKLY = {"link": {"keep_alive": "1s", "dead_after": "5s"}, "advisories": {"dormant_after": "300ms"}}


def _names(status: Status) -> set[str]:
    return {child["name"] for child in status["children"]}


async def _regions(network: Network) -> None:
    network.add("hq", **QUICKLY)
    network.add("north", "hq", role="branch", line=True, **QUICKLY)
    network.add("south", "hq", role="branch", **QUICKLY)
    network.add("york", "north", line=True, **QUICKLY)
    await network.start()


async def test_a_store_moves_to_another_region_and_its_spool_follows(network: Network) -> None:
    await _regions(network)
    async with network.client("york") as york:
        await york.create("prices")
        await york.subscribe("topic:offers/#", durable="till").ready()
        await york.subscribe("queue:prices").ready()
        await network.until_known("hq", "queue:prices")
        await network.until_known("hq", "topic:offers/#")
        await network.send("york", "queue:sales", NUMBERS[:50])
        session = york.name
        network.kill("york")
        await network.send("hq", "queue:prices", NUMBERS)
        await network.send("hq", "topic:offers/a", NUMBERS)
        await network.send("hq", "queue:till-1@york", NUMBERS)
        await network.until("north", lambda status: waiting(status) >= 900, "keeping what is for the store")
    network.configure("york", "south", line=False)
    await network.start("york")
    async with (
        network.client("york", session=session) as back,
        receiving(back, "queue:prices") as prices,
        receiving(back, "topic:offers/#", "till") as offers,
        receiving(back, "queue:till-1") as directed,
    ):
        for got in (prices, offers, directed):
            await until_count(got, 300)
            assert sorted(got, key=lambda each: int(each.payload)) == sorted(
                {each.payload: each for each in got}.values(), key=lambda each: int(each.payload)
            ), "twice"
    north = await network.until_drained("north")
    assert "york" not in _names(north)
    assert child_state(await network.status("south"), "york") == "running"
    assert await network.collect("hq", "queue:sales", 50) == NUMBERS[:50]
    await network.send("hq", "queue:till-1@york", [b"after"])
    assert await network.collect("york", "queue:till-1", 1) == [b"after"]


async def test_a_store_moves_while_its_old_region_is_away(network: Network) -> None:
    await _regions(network)
    async with network.client("york") as york, receiving(york, "topic:offers/#", "till") as offers:
        await network.until_known("hq", "topic:offers/#")
        await network.line("north").cut()
        await network.send("hq", "topic:offers/a", NUMBERS)
        await network.send("york", "queue:sales", NUMBERS)
        await network.until("north", lambda status: waiting(status) >= 300, "keeping the store's messages")
        assert await network.stop("york") == 0
        network.configure("york", "south", line=False)
        await network.start("york")
        await network.line("north").restore()
        await until_count(offers, 300)
        assert [each.payload for each in offers] == NUMBERS
    assert await network.collect("hq", "queue:sales", 300) == NUMBERS
    status = await network.until("north", lambda status: "york" not in _names(status), "rid of the store")
    assert status["dead"]["messages"] == 0
    assert (await network.status("hq"))["dead"]["messages"] == 0


async def test_a_level_is_put_in_above_a_region(network: Network) -> None:
    network.add("hq", **QUICKLY)
    network.add("north", "hq", role="branch", line=True, **QUICKLY)
    network.add("york", "north", **QUICKLY)
    await network.start()
    async with (
        network.client("york") as york,
        receiving(york, "queue:prices") as prices,
        receiving(york, "topic:offers/#") as offers,
    ):
        await network.until_known("hq", "topic:offers/#")
        await network.until_known("hq", "queue:prices")
        assert await network.stop("north") == 0
        await network.send("hq", "queue:prices", NUMBERS)
        await network.send("hq", "topic:offers/a", NUMBERS)
        await network.send("york", "queue:sales", NUMBERS)
        network.add("uk", "hq", role="branch", **QUICKLY)
        await network.start("uk")
        network.configure("north", "uk", role="branch", line=False)
        await network.start("north")
        for got in (prices, offers):
            await until_count(got, 300)
            assert [each.payload for each in got] == NUMBERS
        assert await network.collect("hq", "queue:sales", 300) == NUMBERS
        status = await network.until(
            "hq", lambda status: _names(status) == {"uk"}, "above the new level only"
        )
        assert status["dead"]["messages"] == 0
    chain = ["york", "north", "uk", "hq"]
    await network.until("york", lambda status: status["chain"] == chain, "told of the new level")


async def test_a_node_leaves_for_good(network: Network) -> None:
    await _regions(network)
    async with network.client("york") as york, receiving(york, "queue:prices"):
        await network.until_known("hq", "queue:prices")
        await york.send_many("queue:sales", NUMBERS)
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{network.url('york')}/api/node/leave") as answer,
        ):
            assert answer.status == 200
        north = await network.until("north", lambda status: not status["children"], "without the store")
        assert north["routes"].get("queue/york") is None
    hq = await network.until(
        "hq", lambda status: status["routes"].get("queue/north") is None, "without the store's routes"
    )
    assert hq["dead"]["messages"] == 0
    assert await network.collect("hq", "queue:sales", 300) == NUMBERS
    await network.send("hq", "queue:prices", [b"kept at HQ"])
    hq = await network.status("hq")
    assert [queue["messages"] for queue in hq["queues"] if queue["name"] == "queue:prices"] == [1]
