"""A link that only one end believes in does not keep a restarted store out."""

from harness import Network

PATIENT = {"link": {"keep_alive": "1h", "dead_after": "1s"}}


async def test_a_store_comes_back_although_its_parent_still_holds_the_old_link(network: Network) -> None:
    network.add("hq", **PATIENT)
    network.add("york", "hq", line=True, **PATIENT)
    network.add("leeds", "hq", **PATIENT)
    await network.start()
    before = await network.until_child("hq", "york")
    network.line("york").stall()
    network.kill("york")
    still = await network.status("hq")
    assert {child["name"]: child["state"] for child in still["children"]} == {
        "york": "running",
        "leeds": "running",
    }
    network.configure("york", "hq", line=False)
    await network.start("york")
    status = await network.until(
        "hq",
        lambda status: (
            any(
                child["name"] == "york"
                and child["state"] == "running"
                and child["since_s"] < before["running_s"]
                for child in status["children"]
            )
            and status["running_s"] > before["running_s"]
        ),
        "linked with the restarted store",
    )
    assert [child["gaps"] for child in status["children"]] == [0, 0]
    await network.send("hq", "queue:prices", [b"1"])
    assert await network.collect("york", "queue:prices", 1) == [b"1"]
