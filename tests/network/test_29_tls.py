"""A tree whose lines are wss: with client certificates for every child, and nobody let in without one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import trustme
from harness import PATIENCE, Network

from sapwood import connect

pytestmark = pytest.mark.network


def issue(folder: Path, authority: trustme.CA, name: str, host: str) -> dict[str, str]:
    """A certificate with its key, as files that only their owner reads; returns the settings."""
    made = authority.issue_cert(host)
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    made.private_key_pem.write_to_path(key)
    key.chmod(0o600)
    certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    return {"certificate": certificate.name, "key": key.name}


def dialling(network: Network, **tls: str) -> dict[str, Any]:
    uri = f"wss://127.0.0.1:{network.ports['hq']}/link"
    connector = {"nodetype": "leaf", "uri": uri, "tls": {"ca": "servers.pem", **tls}}
    return {"tree_connectors": [connector]}


async def test_children_with_a_certificate_are_linked_and_no_others(network: Network) -> None:
    servers, children, foreign = trustme.CA(), trustme.CA(), trustme.CA()
    servers.cert_pem.write_to_path(network.folder / "servers.pem")
    children.cert_pem.write_to_path(network.folder / "children.pem")
    own = issue(network.folder, servers, "hq", "127.0.0.1")
    network.add("hq", listener={"tls": {**own, "client_ca": "children.pem"}})
    for name in ("york", "bath"):
        certificate = issue(network.folder, children, name, f"{name}.example.com")
        network.add(name, "hq", **dialling(network, **certificate))
    stranger = issue(network.folder, foreign, "stranger", "stranger.example.com")
    network.add("stranger", "hq", **dialling(network, **stranger))
    network.add("bare", "hq", **dialling(network))
    for name in network.nodes.by_name:
        await network.launch(name)
    for name in ("york", "bath"):
        await network.nodes.until_linked(name, PATIENCE)
    await network.until_refused("bare", "it may ask for a client certificate")
    await network.until_refused("stranger", f"wss://127.0.0.1:{network.ports['hq']}/link")
    prices = [b"%d" % number for number in range(50)]
    await network.send("bath", "queue:prices@york", prices)
    assert await network.collect("york", "queue:prices", 50) == prices
    for name in ("bare", "stranger"):
        assert (await network.status(name))["parent"]["state"] != "running"


async def test_a_certificate_proves_one_name_and_applications_need_none(network: Network) -> None:
    servers, children = trustme.CA(), trustme.CA()
    servers.cert_pem.write_to_path(network.folder / "servers.pem")
    children.cert_pem.write_to_path(network.folder / "children.pem")
    own = issue(network.folder, servers, "hq", "127.0.0.1")
    network.add("hq", listener={"tls": {**own, "client_ca": "children.pem"}})
    durham = issue(network.folder, children, "durham", "durham.example.com")
    network.add("durham", "hq", **dialling(network, **durham))
    network.add("bath", "hq", **dialling(network, **durham))
    for name in network.nodes.by_name:
        await network.launch(name)
    await network.nodes.until_linked("durham", PATIENCE)
    await network.until_refused("bath", "is for durham.example.com: give it one for 'bath'")
    ca = str(network.folder / "servers.pem")
    async with connect(f"https://127.0.0.1:{network.ports['hq']}", ca=ca) as application:
        await application.send("queue:prices@durham", b"42")
        async with asyncio.timeout(180):
            assert await network.collect("durham", "queue:prices", 1) == [b"42"]
    assert "child bath at 127.0.0.1:" in network.nodes.by_name["hq"].log.read_text()
