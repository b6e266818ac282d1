"""HQ, a region and a store: messages go down to the store's queue, up to HQ's, and by topic."""

from harness import Network, receiving, until_count


async def test_messages_go_down_and_up_the_tree(network: Network) -> None:
    network.add("hq")
    network.add("north", "hq", role="branch")
    network.add("york", "north")
    await network.start()
    numbers = [str(number).encode() for number in range(500)]
    async with (
        network.client("york") as york,
        network.client("hq") as hq,
        receiving(york, "queue:prices") as prices,
        receiving(hq, "queue:sales") as sales,
        receiving(york, "topic:offers/#") as offers,
    ):
        await network.until_known("hq", "topic:offers/#")
        await hq.send_many("queue:prices", numbers)
        await york.send_many("queue:sales", numbers)
        await hq.send_many("topic:offers/north", numbers)
        for got in (prices, sales, offers):
            await until_count(got, 500)
            assert [delivery.payload for delivery in got] == numbers
    for name in ("hq", "north", "york"):
        await network.until_drained(name)
        assert await network.stop(name) == 0
