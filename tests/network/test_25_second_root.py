"""A region whose file is changed to another root stays where it belongs, and both ends say why."""

from harness import Network
from quick import QUICK_SITE

from broker.cli.http import ask


async def test_a_region_meets_a_second_root(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add("hq2", **QUICK_SITE)
    network.add("north", "hq", role="branch", **QUICK_SITE)
    network.add("york", "north", **QUICK_SITE)
    await network.start()
    assert await network.stop("north") == 0
    network.configure("north", "hq2", role="branch")
    await network.launch("north")
    said = "'north' belongs below the root 'hq', but 'hq2' is below the root 'hq2'"
    await network.until(
        "north", lambda status: said in status["parent"]["dialling"]["error"], "kept from another root"
    )
    await network.until("hq2", lambda _status: said in network.nodes["hq2"].log.read_text(), "told why")
    await network.until("york", lambda status: status["chain"] == ["york", "north", "hq"], "where it belongs")
    ask(network.url("north"), "/api/node/forget/hq", method="POST")
    await network.until("york", lambda status: status["chain"][-1] == "hq2", "moved, as it was told to")
