"""A store asks its own network by multicast who could be its parent, and links with whoever proves it."""

from pathlib import Path
from typing import Any

import pytest
from commands import sapwood
from harness import NOBODY_THERE, Network

from broker.cli.demo.processes import Status

SECRET = "known to hq and york"


def secret(network: Network, name: str, text: str = SECRET) -> str:
    file = network.folder / f"{name}.secret"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file.name


def add_hq(network: Network, **settings: Any) -> None:
    children = [{"name": "york", "secret_file": secret(network, "hq")}]
    network.add("hq", listener={"host": "127.0.0.1", "discoverable": True}, children=children, **settings)


def add_york(network: Network, **connector: Any) -> None:
    """A store that knows of its parent no more than the secret. All goes over loopback."""
    said = {"nodetype": "leaf", "local_addresses": ["127.0.0.1"], "secret_file": secret(network, "york")}
    network.add("york", tree_connectors=[said | connector])


def linked(status: Status) -> bool:
    return bool(status["parent"] and status["parent"]["state"] == "running")


@pytest.mark.parametrize(
    "connector", [{"uri": "srv://local"}, {"uri": NOBODY_THERE, "discover": "lan"}], ids=["alone", "behind"]
)
async def test_a_store_finds_its_parent_and_finds_it_again(
    network: Network, connector: dict[str, str]
) -> None:
    add_hq(network)
    add_york(network, **connector)
    await network.launch("hq")
    await network.launch("york")
    await network.until("york", linked, "linked")
    network.kill("hq")
    (network.ports["hq"],) = network._fresh_ports(1)
    network.nodes["hq"].url = network.url("hq")
    network.configure("hq", listener={"port": network.ports["hq"]})
    await network.launch("hq")
    await network.until_child("hq", "york")
    await network.send("hq", "queue:prices@york", [b"1"])
    assert await network.collect("york", "queue:prices", 1) == [b"1"]


async def test_whoever_cannot_prove_it_is_linked_with_nobody(network: Network) -> None:
    add_hq(network)
    add_york(network, uri="srv://local", secret_file=secret(network, "other", "another one"))
    await network.launch("hq")
    await network.launch("york")
    status = await network.until(
        "york", lambda status: bool(status["parent"]["dialling"]["error"]), "refused"
    )
    assert not linked(status)


async def test_nobody_answers_that_was_not_told_to(network: Network) -> None:
    network.add("hq", listener={"host": "127.0.0.1"})
    await network.start("hq")
    _, out, _ = await sapwood("node", "locate", "--lan", "--line", "127.0.0.1", "--json")
    assert network.url("hq").removeprefix("http") not in out


async def test_the_command_shows_who_is_there(network: Network, tmp_path: Path) -> None:
    add_hq(network)
    await network.start("hq")
    code, out, error = await sapwood("node", "locate", "--lan", "--line", "127.0.0.1")
    place = network.url("hq").removeprefix("http")
    assert (code, f"ws{place}/link  hq of tree test" in out) == (0, True), out + error
