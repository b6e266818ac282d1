"""Three roots as one: each is killed under load, then all lines of one region are cut. All arrives, once."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from harness import Network
from quick import Producer, Record, expect_in_any_order, recording

from broker.cli.demo.line import CutLine
from broker.cli.demo.plan import free_ports
from broker.cli.demo.processes import Status

CORES = ("hq-1", "hq-2", "hq-3")
STORES = {"north": ("york", "leeds", "hull"), "south": ("bath", "wells", "poole")}
FLOWS = {
    "queue:till": ("york", "bath"),
    "queue:returns": ("wells", "leeds"),
    "queue:stock": ("hq-2", "hull"),
    "topic:news/all": ("leeds", "poole"),
}
"""destination -> the node of its producer and that of its consumer."""
EVERYWHERE: dict[str, Any] = {"delivery": {"destinations": [{"pattern": "topic:news/#", "scope": "tree"}]}}


def build(network: Network) -> list[CutLine]:
    """Three roots, two regions of three stores each. Returns the lines that the roots announce: region
    north has no other way to them, region south dials their own ports.
    """
    for name in CORES:
        network.add(name, **EVERYWHERE)
    ports = [port for port in free_ports(30) if port not in network.ports.values()]
    lines = [CutLine(port, network.ports[core]) for port, core in zip(ports, CORES, strict=False)]
    outside = [f"ws://127.0.0.1:{line.port}/link" for line in lines]
    inside = [f"ws://127.0.0.1:{network.ports[core]}/link" for core in CORES]
    for name, announced in zip(CORES, outside, strict=True):
        ways = zip(CORES, inside, strict=True)
        others = [{"name": core, "uri": uri} for core, uri in ways if core != name]
        network.configure(name, mesh={"cores": others}, listener={"public_uri": announced})
    for region, uris in zip(STORES, (outside, inside), strict=True):
        connector = {"nodetype": "branch", "uri": uris[0], "uris": uris[1:]}
        network.add(region, tree_connectors=[connector])
        for store in STORES[region]:
            network.add(store, region, **EVERYWHERE)
    return lines


def running(status: Status, kind: str) -> set[str]:
    return {each["name"] for each in status[kind] if each["state"] == "running"}


async def until_whole(network: Network) -> None:
    """Every root is linked with the others, every region with every root."""
    for name in CORES:
        await network.until(name, lambda status: len(running(status, "mesh")) == 2, "linked with the others")
    for name in STORES:
        await network.until(name, lambda status: running(status, "parents") == set(CORES), "linked with all")


async def kill_each_in_turn(network: Network) -> None:
    for victim in CORES:
        network.kill(victim)
        await asyncio.sleep(0.5)
        await network.launch(victim)
        await until_whole(network)


async def cut_all(network: Network, lines: list[CutLine]) -> None:
    for line in lines:
        await line.cut()
    await network.until("north", lambda status: not running(status, "parents"), "cut off")
    await asyncio.sleep(0.5)
    for line in lines:
        await line.restore()
    await until_whole(network)


async def test_what_was_confirmed_arrives_once_whichever_root_is_killed(network: Network) -> None:
    lines = build(network)
    async with AsyncExitStack() as stack:
        for line in lines:
            await stack.enter_async_context(line)
        for names in (CORES, tuple(STORES), *STORES.values()):
            await network.start(*names)
        await until_whole(network)
        records: dict[str, Record] = {}
        for destination, (_, consumer) in FLOWS.items():
            client = await stack.enter_async_context(network.client(consumer))
            durable = "news" if destination.startswith("topic:") else ""
            records[destination] = await stack.enter_async_context(recording(client, destination, durable))
        for name in CORES:
            for destination in FLOWS:
                await network.until_known(name, destination)
        producers = {
            destination: Producer(
                await stack.enter_async_context(network.client(entry)), destination, seed, pause=0.2
            )
            for seed, (destination, (entry, _)) in enumerate(FLOWS.items())
        }
        sending = [asyncio.create_task(producer.run()) for producer in producers.values()]
        await kill_each_in_turn(network)
        await cut_all(network, lines)
        for producer in producers.values():
            producer.enough = True
        await asyncio.gather(*sending)
        for destination, record in records.items():
            assert producers[destination].confirmed
            await expect_in_any_order(record, producers[destination].confirmed)
        for name in network.ports:
            await network.until_drained(name)
    carried = {name: (await network.status(name))["counters"] for name in network.ports}
    late = sum(counters["out_of_order"] for counters in carried.values())
    dropped = sum(counters["duplicates_dropped"] for counters in carried.values())
    sent = sum(len(producer.confirmed) for producer in producers.values())
    print(f"{sent} messages arrived once; {late} late and marked, {dropped} repetitions dropped by id")
