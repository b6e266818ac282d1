"""A store that is stopped, away and back keeps its place: routes stay, and messages wait for it.

Also while it cannot reach HQ: it starts from what it knew.
"""

from harness import Network, child_state, receiving, until_count, waiting

NUMBERS = [str(number).encode() for number in range(200)]
AWAY = {"advisories": {"dormant_after": "300ms"}}


async def _chain(network: Network) -> None:
    network.add("hq", **AWAY)
    network.add("north", "hq", role="branch", line=True, **AWAY)
    network.add("york", "north", line=True)
    await network.start()


async def test_a_store_is_upgraded(network: Network) -> None:
    await _chain(network)
    async with network.client("york") as york:
        await york.create("prices")
        subscription = await york.subscribe("topic:offers/#", durable="till").ready()
        reader = await york.subscribe("queue:prices").ready()
        await network.until_known("hq", "topic:offers/#")
        assert await network.stop("york") == 0
        del subscription, reader
        await network.until_child("north", "york", "down")
        await network.send("hq", "queue:prices", NUMBERS)
        await network.send("hq", "topic:offers/a", NUMBERS)
        await network.until("north", lambda status: waiting(status) >= 400, "keeping what is for the store")
    await network.start("york")
    async with (
        network.client("york", session=york.name) as back,
        receiving(back, "queue:prices") as prices,
        receiving(back, "topic:offers/#", "till") as offers,
    ):
        await until_count(prices, 200)
        await until_count(offers, 200)
        assert [delivery.payload for delivery in prices] == NUMBERS
        assert [delivery.payload for delivery in offers] == NUMBERS
        assert network.advisories("hq", "remove") == [], "a restart withdraws nothing"
    await network.until_drained("north")
    status = await network.until_drained("hq")
    assert status["children"][0]["gaps"] == 0


async def test_a_store_restarted_while_cut_off_still_sends_hq_what_hq_wants(network: Network) -> None:
    await _chain(network)
    async with network.client("hq") as hq, receiving(hq, "topic:sales/#") as sales:
        await network.until_known("york", "topic:sales/#")
        await network.line("york").cut()
        assert await network.stop("york") == 0
        await network.launch("york")
        status = await network.status("york")
        assert child_state(status, "york") == ""
        assert status["chain"] == ["york", "north", "hq"]
        await network.send("york", "topic:sales/till-1", NUMBERS)
        network.kill("york")
        await network.launch("york")
        await network.status("york")
        assert not sales
        await network.line("york").restore()
        await until_count(sales, 200)
        assert [delivery.payload for delivery in sales] == NUMBERS
    await network.until_drained("york")
