"""How a store went is told after the store was killed, by itself and to its parent; no server is needed."""

import asyncio
from typing import Any

from commands import refused, told
from harness import PATIENCE, Network

EVERY = {"every": "1s"}


async def until_drawn(network: Network, node: str, least: int, *more: str) -> dict[str, Any]:
    """The chart of what waits, once it has so many points."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = await told(network, node, "chart", "waiting", *more)
            if len(found["at"]) >= least:
                return found
            await asyncio.sleep(0.2)


async def test_the_chart_of_a_killed_store_goes_on(network: Network) -> None:
    network.add("hq", history=EVERY)
    network.add("york", "hq", history=EVERY)
    await network.start()
    await network.send("york", "queue:sales@york", [b"1", b"2", b"3"])
    async with asyncio.timeout(PATIENCE):
        while (before := await until_drawn(network, "york", 2))["series"][0]["values"][-1] != 3.0:
            await asyncio.sleep(0.2)
    network.kill("york")
    size = (network.data("york") / "history.ring").stat().st_size
    await network.start("york")
    after = await until_drawn(network, "york", len(before["at"]) + 2)
    kept = len(before["at"])
    assert after["at"][:kept] == before["at"]
    assert after["series"][0]["values"][:kept] == before["series"][0]["values"]
    assert after["series"][0]["values"][-1] == 3.0
    assert (network.data("york") / "history.ring").stat().st_size == size
    above = await until_drawn(network, "hq", kept, "--node", "york")
    assert (above["node"], above["at"][:kept]) == ("york", before["at"])
    assert "expected some of entered, " in await refused(network, "york", "chart", "nonsense", exit_code=2)
    network.configure("york", "hq", history={"enabled": False})
    await network.restart("york")
    assert "takes no samples" in await refused(network, "york", "chart")
