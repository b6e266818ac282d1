"""Roots that list each other are one without a secret, beside listed children; nobody else gets in."""

from harness import Network
from meshes import add_mesh, until_below

CHILDREN = [{"name": "uk", "nodes": ["*"]}]


async def test_listed_nodes_are_one_beside_listed_children(network: Network) -> None:
    add_mesh(network, "hq", "hq-2", children=CHILDREN)
    network.add("uk", "hq", role="branch")
    await network.start()
    await until_below(network, "uk", "hq", "hq-2")
    for name in ("hq", "hq-2"):
        assert "has no permit for a child" not in network.nodes[name].last_words(500)
    network.nodes["hq"].signal(1)  # the file is read again: hq-2 is no child that is turned away
    await network.until("hq", lambda _: "read again" in network.nodes["hq"].last_words(500), "told")
    await network.send("hq", "queue:orders", [b"1"])
    assert await network.collect("hq-2", "queue:orders", 1) == [b"1"]


async def test_who_only_says_that_it_is_of_the_mesh_stays_outside(network: Network) -> None:
    """One lists hq and is not listed there; another has a listed name and comes as a child."""
    add_mesh(network, "hq", "hq-2", children=CHILDREN)
    core = {"name": "hq", "uri": f"ws://127.0.0.1:{network.ports['hq']}/link"}
    network.add("york", mesh={"cores": [core]})
    await network.start("hq")
    network.nodes["york"].start()
    refusal = "lists no 'york' in its mesh"
    await network.until("york", lambda _: refusal in network.nodes["york"].last_words(500), "refused")
    network.configure("hq-2", "hq", role="branch", mesh={"cores": []})
    network.nodes["hq-2"].start()
    refusal = "nodes of one mesh"
    await network.until("hq-2", lambda _: refusal in network.nodes["hq-2"].last_words(500), "refused too")
    status = await network.status("hq")
    assert not [child for child in status["children"] if child["state"] == "running"]
