"""A store that knows only srv://DOMAIN finds its region, wherever that is; regions say where they are."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import trustme
from bind_server import KEY, KEY_NAME, OTHER_KEY, BindServer
from commands import sapwood
from harness import Network
from quick import QUICK_SITE

LEASE = "3s"


def store(bind: BindServer, domain: str, **further: Any) -> dict[str, Any]:
    connector = {"nodetype": "leaf", "uri": f"srv://{domain}", "name_servers": [bind.place], **further}
    return {"tree_connectors": [connector], **QUICK_SITE}


def region(
    network: Network, name: str, bind: BindServer, domain: str, key: Path, **further: Any
) -> dict[str, Any]:
    given = bind.registration(domain, key, **{"lease": LEASE, **further})
    listener = {"public_uri": f"ws://localhost:{network.ports[name]}/link"}
    return {"registration": given, "listener": listener, **QUICK_SITE}


def add_region(
    network: Network, name: str, bind: BindServer, domain: str, key: Path, parent: str = "", **further: Any
) -> None:
    """A node that registers itself. Its port is known only once it was added."""
    network.add(name, parent, role="branch")
    network.configure(name, parent, role="branch", **region(network, name, bind, domain, key, **further))


async def test_a_store_that_knows_a_domain_only_finds_its_region(
    network: Network, bind: BindServer, domain: str
) -> None:
    """Records that an operator has written: as short as they may be."""
    network.add("north", **QUICK_SITE)
    network.add("york", "north", **store(bind, domain))
    bind.set(domain, "SRV", f"0 5 {network.ports['north']} localhost.")
    bind.set(domain, "TXT", '"carrier=ws" "tree=test" "node=north"')
    await network.start()
    await network.send("north", "queue:prices", [b"1"])
    assert await network.collect("york", "queue:prices", 1) == [b"1"]
    dialling = (await network.status("york"))["parent"]["dialling"]
    assert dialling["uri"] == f"ws://localhost:{network.ports['north']}/link"
    (found,) = dialling["location"]
    assert (found["ways"][0]["node"], found["error"], found["notes"]) == ("north", "", [])


async def test_a_region_that_moves_to_another_port_is_followed_without_a_restart(
    network: Network, bind: BindServer, domain: str, key: Path
) -> None:
    add_region(network, "north", bind, domain, key)
    network.add("york", "north", **store(bind, domain))
    await network.launch("north")
    await bind.until(domain, "SRV", 1)
    await network.start("york")
    process = (await network.status("york"))["pid"]
    await network.send("york", "queue:sales", [b"before"])
    before = network.ports["north"]
    await network.stop("north")
    assert await asyncio.to_thread(bind.records, domain, "SRV") == []
    network.add("north")
    assert network.ports["north"] != before
    network.configure("north", **region(network, "north", bind, domain, key))
    await network.launch("north")
    await network.until_child("north", "york")
    assert (await network.status("york"))["pid"] == process
    assert await network.collect("north", "queue:sales", 1) == [b"before"]


async def test_a_parent_that_dns_names_no_more_is_left_on_request(
    network: Network, bind: BindServer, domain: str
) -> None:
    """Two nodes that may stand in for each other: the link that works is ended only because DNS says so."""
    network.add("hq", **QUICK_SITE)
    for name in ("north", "south"):
        network.add(name, "hq", role="branch", **QUICK_SITE)
    network.add("york", "north", **store(bind, domain))
    bind.set(domain, "SRV", f"0 5 {network.ports['north']} localhost.")
    bind.set(domain, "TXT", '"carrier=ws"')
    await network.start()
    await network.until_child("north", "york")
    bind.set(domain, "SRV", f"0 5 {network.ports['south']} localhost.")
    _, said, _ = await sapwood("node", "locate", "--url", network.url("york"))
    assert f"srv://{domain}: looked up" in said
    assert f"ws://localhost:{network.ports['south']}/link" in said
    await network.until_child("south", "york")


async def test_dns_that_is_away_cuts_nothing_off(network: Network, bind: BindServer, domain: str) -> None:
    network.add("north", **QUICK_SITE)
    network.add("york", "north", **store(bind, domain))
    bind.set(domain, "SRV", f"0 5 {network.ports['north']} localhost.")
    bind.set(domain, "TXT", '"carrier=ws"')
    await network.start()
    bind.kill()
    try:
        network.kill("north")
        await network.start("north")
        await network.until_child("north", "york")
        (found,) = (await network.status("york"))["parent"]["dialling"]["location"]
        assert found["failures"] >= 1
        assert "DNS" in found["error"]
    finally:
        bind.start()


async def test_records_are_registered_renewed_and_withdrawn(
    network: Network, bind: BindServer, domain: str, key: Path
) -> None:
    add_region(network, "north", bind, domain, key)
    await network.launch("north")
    (service,) = await bind.until(domain, "SRV", 1)
    assert service == f"10 10 {network.ports['north']} localhost."
    (text,) = await bind.until(domain, "TXT", 1)
    status = await network.status("north")
    for said in (
        "carrier=ws",
        "path=/link",
        "tree=test",
        "node=north",
        f"incarnation={status['incarnation'].replace('-', '')}",
    ):
        assert f'"{said}"' in text
    later = await network.until(
        "north", lambda status: status["registration"]["renewals"] >= 3, "registered three times"
    )
    assert later["registration"]["state"] == "registered"
    assert await network.stop("north") == 0
    assert await asyncio.to_thread(bind.records, domain, "SRV") == []
    assert await asyncio.to_thread(bind.records, domain, "TXT") == []


async def test_the_record_of_a_node_that_was_killed_ends_by_its_lease(
    network: Network, bind: BindServer, domain: str, key: Path
) -> None:
    """Its sibling, which lives, removes it, and keeps its own."""
    for name in ("north", "south"):
        add_region(network, name, bind, domain, key)
        await network.launch(name)
    await bind.until(domain, "SRV", 2)
    network.kill("north")
    (left,) = await bind.until(domain, "SRV", 1)
    assert f" {network.ports['south']} " in left
    await bind.until(domain, "TXT", 1)
    await network.until(
        "south", lambda status: status["registration"]["swept"] == 1, "aware of what it swept"
    )


async def test_what_a_killed_node_left_goes_when_it_comes_back_elsewhere(
    network: Network, bind: BindServer, domain: str, key: Path
) -> None:
    add_region(network, "north", bind, domain, key, lease="1h")
    await network.launch("north")
    await bind.until(domain, "SRV", 1)
    network.kill("north")
    network.add("north")
    network.configure("north", **region(network, "north", bind, domain, key, lease="1h"))
    await network.launch("north")
    await network.until("north", lambda status: status["registration"]["renewals"] == 1, "registered")
    (left,) = await asyncio.to_thread(bind.records, domain, "SRV")
    assert f" {network.ports['north']} " in left


@pytest.mark.parametrize(
    ("name", "secret", "zone", "said"),
    [
        (KEY_NAME, OTHER_KEY, "example.test", "has another secret for the key 'sapwood'"),
        ("nobody", KEY, "example.test", "does not know the key 'nobody'"),
        ("reader", KEY, "example.test", "let the key 'reader' change"),
        (KEY_NAME, KEY, "test", "it is not the server of the zone 'test'"),
    ],
)
async def test_a_key_that_is_wrong_is_said_and_stops_nothing_else(
    network: Network,
    bind: BindServer,
    domain: str,
    tmp_path: Path,
    name: str,
    secret: str,
    zone: str,
    said: str,
) -> None:
    file = tmp_path / "wrong.key"
    file.write_text(secret)
    file.chmod(0o600)
    add_region(network, "north", bind, domain, file, key_name=name, zone=zone)
    network.add("york", "north", **QUICK_SITE)
    await network.start()
    status = await network.until("north", lambda status: status["registration"]["failures"] > 1, "refused")
    assert status["registration"]["state"] == "waiting"
    assert said in status["registration"]["error"]
    assert status["children"][0]["state"] == "running"
    assert await network.stop("north") == 0


async def test_a_store_uses_no_way_without_tls_where_its_file_says_tls(
    network: Network, bind: BindServer, domain: str
) -> None:
    """DNS cannot take TLS away."""
    network.add("north", **QUICK_SITE)
    network.add("york", "north", **store(bind, domain, tls={"verify_hostname": False}))
    bind.set(domain, "SRV", f"0 5 {network.ports['north']} localhost.")
    bind.set(domain, "TXT", '"carrier=ws"')
    await network.start("north")
    await network.launch("york")
    status = await network.until(
        "york", lambda status: status["parent"]["dialling"]["failures"] > 1, "waiting for a way with TLS"
    )
    assert "without TLS" in status["parent"]["dialling"]["error"]
    assert (await network.status("north"))["children"] == []


@pytest.mark.parametrize("named", ["localhost", "uk.example.com"])
async def test_over_tls_the_certificate_names_the_target_of_the_record(
    network: Network, bind: BindServer, domain: str, tmp_path: Path, named: str
) -> None:
    """And nothing else: what answers at the target with another name is not linked with."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert(named).private_key_and_cert_chain_pem.write_to_path(tmp_path / "node.pem")
    pem = str(tmp_path / "node.pem")
    network.add("north", listener={"tls": {"certificate": pem, "key": pem}}, **QUICK_SITE)
    network.add("york", "north", **store(bind, domain, tls={"ca": str(tmp_path / "ca.pem")}))
    bind.set(domain, "SRV", f"0 5 {network.ports['north']} localhost.")
    await network.launch("north")
    await network.launch("york")
    if named == "localhost":
        await network.until("york", lambda status: status["parent"]["state"] == "running", "linked")
        return
    status = await network.until(
        "york", lambda status: "another host" in status["parent"]["dialling"]["error"], "refused"
    )
    assert status["parent"]["name"] == ""
