"""A root alone becomes one of two at run time. The first one stops, and the second delivers what it had."""

from harness import Network
from meshes import until_below
from quick import expect, numbers, recording

COUNT = 20


async def test_a_second_root_joins_and_delivers_what_the_first_one_had(network: Network) -> None:
    secret = network.folder / "mesh.secret"
    secret.write_text("known to both")
    secret.chmod(0o600)
    network.add("hq", mesh={"secret_file": secret.name})
    network.add("uk", "hq", role="branch")
    network.add("york", "uk")
    await network.start()
    core = {"name": "hq", "uri": f"ws://127.0.0.1:{network.ports['hq']}"}
    network.add("hq-2", mesh={"cores": [core], "secret_file": secret.name})
    await network.start("hq-2")
    await until_below(network, "uk", "hq", "hq-2")
    async with network.client("york") as client, recording(client, "queue:orders") as record:
        for name in ("hq", "hq-2"):
            await network.until_known(name, "queue:orders")
        network.kill("uk")
        for name in ("hq", "hq-2"):
            await network.until_child(name, "uk", "down")
        await network.send("hq", "queue:orders", numbers(COUNT))
        assert await network.stop("hq") == 0
        status = await network.status("hq-2")
        assert sum(queue["messages"] for queue in status["queues"]) == COUNT
        await network.launch("uk")
        await until_below(network, "uk", "hq-2")
        await expect(record, numbers(COUNT))
    await network.launch("hq")
    await until_below(network, "uk", "hq", "hq-2")
    await network.until_drained("hq-2")
    await network.until("uk", lambda status: status["chain"] == ["uk", "hq"], "below the first again")
