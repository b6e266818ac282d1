"""A store joins at one of two roots: both let it in, either renews its certificate, either puts it out."""

from pathlib import Path

import pytest
from harness import Network
from invitations import GENEROUS, Host, adopt
from meshes import until_below

from broker.enrolment.authority import KeptAuthority
from broker.enrolment.errors import EnrolmentRefused
from broker.enrolment.joining import join
from config.model import Listener, Site

CORES = ("hq-1", "hq-2")


def prepared(network: Network) -> dict[str, Host]:
    """Two roots with an authority each, that know each other's, and a secret of their mesh."""
    for name in CORES:
        network.add(name)
    hosts = {name: Host(network, name) for name in CORES}
    secret, both = network.folder / "mesh.secret", network.folder / "both.pem"
    secret.write_text("known to both")
    secret.chmod(0o600)
    for host in hosts.values():
        KeptAuthority(
            host.authority, Site(name=host.name, tree="test", listener=Listener(public_uri=host.way))
        )
    both.write_bytes(b"".join(host.ca.read_bytes() for host in hosts.values()))
    for name, other in zip(CORES, reversed(CORES), strict=True):
        hosts[name].settle(lifetime="6s")
        core = {"name": other, "uri": hosts[other].way}
        mesh = {"cores": [core], "secret_file": secret.name, "tls": {"ca": str(both)}}
        network.configure(name, mesh=mesh)
    return hosts


async def joined(network: Network, hosts: dict[str, Host], folder: Path) -> str:
    """The store has joined at the first root, and runs; its token."""
    for host in hosts.values():
        await host.launch()
    token = await hosts["hq-1"].invite("york")
    await join(token, folder)
    adopt(network, "york", folder)
    await network.launch("york")
    await until_below(network, "york", *CORES, seconds=GENEROUS)
    return token


async def test_who_joined_at_one_of_two_roots_is_a_child_of_both(network: Network, tmp_path: Path) -> None:
    hosts, folder = prepared(network), tmp_path / "york"
    token = await joined(network, hosts, folder)
    network.kill("hq-1")
    before = (await network.status("york"))["certificate"]["renewed"]
    await network.until(
        "york", lambda status: status["certificate"]["renewed"] > before, "renewed by the other", GENEROUS
    )
    network.kill("york")
    await network.launch("york")
    await network.nodes.until_linked("york", GENEROUS)
    await hosts["hq-1"].launch()
    await until_below(network, "york", *CORES, seconds=GENEROUS)
    for name in CORES:
        members = (await hosts[name].ask("/api/invitations"))["members"]
        assert [(each["name"], each["revoked"]) for each in members] == [("york", False)]
    with pytest.raises(EnrolmentRefused, match=r"another machine has joined|has renewed since"):
        await join(token, tmp_path / "thief")
    await hosts["hq-2"].ask("/api/invitations/york", "DELETE")
    for name in CORES:
        await hosts[name].until_child("york", "down")
    log = network.nodes["york"].log
    await network.until("york", lambda _: "was revoked" in log.read_text(), "told why", GENEROUS)
