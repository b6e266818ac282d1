"""The traffic of a demo that goes on: the same messages over and over, through nodes that come and go."""

import asyncio
from pathlib import Path

import pytest

from broker.cli.demo import plan
from broker.cli.demo.processes import NodeProcess, Nodes
from broker.cli.demo.trickle import Trickle

pytestmark = pytest.mark.network


async def test_messages_go_on_flowing_and_a_killed_node_ends_nothing(tmp_path: Path) -> None:
    whole = plan.read_chain()
    names = {"hq", "north", "york"}
    chain = plan.Chain(tuple(place for place in whole.places if place.name in names))
    ports = plan.Ports.choose(chain)
    files = plan.write_configurations(chain, plan.Ports(ports.nodes, ports.nodes["hq"]), tmp_path)
    urls = {name: ports.url(name) for name in files}
    parcels = [*plan.price_lists(chain)[:3], *plan.offers(chain)[:3]]
    parcels += [parcel for parcel in plan.sales(whole) if parcel.source == "york"][:3]
    async with Nodes([NodeProcess(name, file, urls[name]) for name, file in files.items()]) as nodes:
        for name in files:
            nodes[name].start()
        await nodes.until_all_linked(files, 60)
        trickle = Trickle(chain, urls, pause=0.01)
        flowing = asyncio.create_task(trickle.run(parcels))
        await until(lambda: trickle.arrived > 3 * len(parcels), flowing)
        nodes["york"].kill()
        nodes["york"].start()
        arrived = trickle.arrived
        await until(lambda: trickle.arrived > arrived + 3 * len(parcels), flowing)
        assert repr(trickle) == f"<Trickle sent={trickle.sent} arrived={trickle.arrived}>"
        flowing.cancel()
        await asyncio.gather(flowing, return_exceptions=True)


async def until(holds: object, flowing: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(60):
        while not holds():  # type: ignore[operator]
            assert not flowing.done(), flowing
            await asyncio.sleep(0.02)
