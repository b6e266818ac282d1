"""A node whose file gives no name has one all the same, keeps it, and gives way where it is taken."""

import json
import re

from harness import Network

from broker.store import Store


def nameless(network: Network, name: str) -> None:
    """Take the name out of a node's file."""
    file = network.nodes[name].file
    given = json.loads(file.read_text())
    del given["broker"]["name"]
    file.write_text(json.dumps(given))


async def test_a_drawn_name_is_kept_over_restarts(network: Network) -> None:
    network.add("hq")
    network.add("store", "hq")
    nameless(network, "store")
    await network.start()
    name = str((await network.status("store"))["name"])
    assert re.fullmatch(r"[a-z]+-[a-z]+-\d{5}", name)
    await network.until_child("hq", name)
    network.kill("store")
    await network.start("store")
    assert (await network.status("store"))["name"] == name


async def test_a_drawn_name_that_is_taken_is_drawn_again_before_anybody_used_it(network: Network) -> None:
    network.add("hq")
    network.add("york", "hq")
    network.add("store", "hq")
    nameless(network, "store")
    Store.open(network.data("store"), tree="test", node="york").close()
    await network.start("hq", "york")
    await network.launch("store")
    status = await network.until(
        "store",
        lambda status: status["name"] != "york" and (status["parent"] or {}).get("state") == "running",
        "linked under another name",
        60,
    )
    await network.until_child("hq", str(status["name"]))
    await network.until_child("hq", "york")


async def test_a_drawn_name_that_is_in_use_stays(network: Network) -> None:
    network.add("hq")
    network.add("york", "hq")
    network.add("store", "hq")
    nameless(network, "store")
    Store.open(network.data("store"), tree="test", node="york").close()
    await network.launch("store")
    await network.status("store")
    async with network.client("store") as client:
        await client.create("till")
    network.kill("store")
    await network.start("hq", "york")
    await network.launch("store")
    status = await network.until(
        "store", lambda status: "another node has this name" in json.dumps(status), "refused", 60
    )
    assert status["name"] == "york"
