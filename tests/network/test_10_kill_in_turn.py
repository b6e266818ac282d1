"""Every confirmed message arrives, once and in order, though leaf, branch and root are killed under load."""

import asyncio
import random
from contextlib import AsyncExitStack

from harness import Network
from quick import Producer, Record, add_chain, expect, recording

ROUNDS = 21
CHAIN = ("hq", "north", "york")
FLOWS = {
    "queue:sales": ("york", "hq", ""),
    "queue:prices": ("hq", "york", ""),
    "topic:offers/north": ("hq", "york", "offers"),
    "topic:alarms/york": ("york", "hq", "alarms"),
}
"""destination -> the node of its producer, that of its consumer, name of the durable subscription."""


async def kill_in_turn(network: Network, records: dict[str, Record]) -> None:
    chance = random.Random(10)
    for round_number in range(ROUNDS):
        victim = CHAIN[round_number % 3]
        await network.nodes.until_linked(victim)
        await asyncio.sleep(chance.uniform(0, 0.3))
        network.kill(victim)
        for destination, record in records.items():
            record.kills += FLOWS[destination][1] == victim
        await asyncio.sleep(chance.uniform(0, 0.2))
        await network.launch(victim)


async def test_everything_confirmed_arrives_once_and_in_order(network: Network) -> None:
    add_chain(network, *CHAIN)
    await network.start()
    async with AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(network.client(name)) for name in ("hq", "york")}
        records: dict[str, Record] = {}
        for destination, (_, consumer, durable) in FLOWS.items():
            records[destination] = await stack.enter_async_context(
                recording(clients[consumer], destination, durable)
            )
        await network.until_known("york", "topic:alarms/york")
        await network.until_known("hq", "topic:offers/north")
        producers = {
            destination: Producer(await stack.enter_async_context(network.client(entry)), destination, seed)
            for seed, (destination, (entry, _, _)) in enumerate(FLOWS.items())
        }
        running = [asyncio.create_task(producer.run()) for producer in producers.values()]
        await kill_in_turn(network, records)
        for producer in producers.values():
            producer.enough = True
        await asyncio.gather(*running)
        for destination, record in records.items():
            sent = producers[destination].confirmed
            assert len(sent) > ROUNDS
            await expect(record, sent)
            print(f"{destination}: {len(sent)} messages, {record.given_again} given again after a kill")
    for name in CHAIN:
        await network.until_drained(name)
