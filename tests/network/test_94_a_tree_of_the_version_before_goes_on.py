"""Three nodes start on the databases that nodes of the version before left behind, one of them killed, and
deliver all that waited in them, along the routes that were in them.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from commands import told
from harness import Network, collect

VERSIONS = sorted((Path(__file__).parents[1] / "compatibility").glob("*/tree.zip"))
READERS = {"york": "till", "hq": "sales"}


def put_back(network: Network, archive: Path) -> dict[str, Any]:
    """Lay the old data folders where the nodes look for them. Returns what is due."""
    network.add("hq")
    network.add("north", "hq", role="branch")
    network.add("york", "north")
    for name in ("hq", "north", "york"):
        network.data(name).mkdir(parents=True)
    zipfile.ZipFile(archive).extractall(network.folder / "data")
    due: dict[str, Any] = json.loads(archive.with_name("tree.json").read_text())["due"]
    return due


@pytest.mark.parametrize("archive", VERSIONS, ids=lambda archive: archive.parent.name)
async def test_all_that_waited_is_delivered_once(network: Network, archive: Path) -> None:
    due = put_back(network, archive)
    await network.start()
    dead = due.pop("hq dead")
    for where, payloads in due.items():
        node, destination, *durable = where.split()
        async with network.client(node, session=READERS[node]) as client:
            got = await collect(client, destination, len(payloads), durable="".join(durable))
        assert sorted(delivery.payload.decode() for delivery in got) == sorted(payloads), where
    for name in ("york", "north"):
        await network.until_drained(name)
    status = await network.until_drained("hq")
    assert status["dead"]["messages"] == dead
    assert [link["gaps"] for link in status["children"]] == [0], "the old positions go on"


@pytest.mark.parametrize("archive", VERSIONS, ids=lambda archive: archive.parent.name)
async def test_what_was_set_and_retained_is_still_there(network: Network, archive: Path) -> None:
    put_back(network, archive)
    await network.start()
    shown = await told(network, "hq", "route", "show", "--node", "north", "--kind", "alias")
    assert [(each["destination"], each["gateway"]) for each in shown["routes"]] == [("till", "york/prices")]
    async with network.client("north", session="new") as client:
        (kept,) = await collect(client, "topic:offers/bread", 1)
        assert kept.payload == b"004"
    permits = await told(network, "hq", "permits", "show", "north")
    assert "york" in json.dumps(permits)
    chain = (await network.status("york"))["chain"]
    assert chain == ["york", "north", "hq"]
