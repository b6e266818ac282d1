"""A store asks its own network by multicast who could be its parent, and links with whoever proves it."""

import asyncio
import re
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trustme
from commands import sapwood
from harness import NOBODY_THERE, PATIENCE, Network
from invitations import GENEROUS, Host, adopt

from bridges.dns.multicast import Answerer
from bridges.dns.records import NamedParent
from broker.cli.demo.plan import free_ports
from broker.cli.demo.processes import Status
from broker.enrolment.joining import join

SECRET = "known to hq and york"
TREE = f"lan-{uuid.uuid4().hex[:12]}"
"""Of this process alone: other tests may answer on this machine at the same time."""
HERE = "127.0.0.1"


def secret(network: Network, name: str, text: str = SECRET) -> str:
    file = network.folder / f"{name}.secret"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file.name


def add_hq(network: Network, **listener: Any) -> None:
    children = [{"name": "york", "secret_file": secret(network, "hq")}]
    listener = {"host": HERE, "discoverable": True} | listener
    network.add("hq", tree=TREE, listener=listener, children=children)


def add_york(network: Network, **connector: Any) -> None:
    """A store that knows of its parent no more than the secret. All goes over loopback."""
    said = {"nodetype": "leaf", "local_addresses": [HERE], "secret_file": secret(network, "york")}
    network.add("york", tree=TREE, tree_connectors=[said | connector])


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
    assert (code, f"ws{place}/link  hq of tree {TREE}" in out) == (0, True), out + error


def issue(network: Network, authority: trustme.CA, name: str) -> dict[str, str]:
    """A certificate for this name and this machine with its key in one file, as settings of `tls`."""
    file = network.folder / f"{name}.pem"
    file.touch(0o600)
    authority.issue_cert(HERE, name, common_name=name).private_key_and_cert_chain_pem.write_to_path(file)
    return {"certificate": file.name, "key": file.name}


async def refused(network: Network, text: str) -> None:
    status = await network.until(
        "york", lambda status: text in status["parent"]["dialling"]["error"], f"refused with {text!r}"
    )
    assert not linked(status)


@pytest.mark.parametrize("proof", ["a secret", "an invitation"])
async def test_a_certificate_for_another_name_makes_nobody_the_parent(network: Network, proof: str) -> None:
    """It is of the right authority, and names the host that its holder has told himself."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(network.folder / "ca.pem")
    tills, hqs = (issue(network, authority, name) for name in ("till-7.acme.example", "hq.acme.example"))
    add_hq(network, tls=tills)
    tls = {"ca": "ca.pem"}
    if proof == "a secret":
        add_york(network, uri="srv://local", tls=tls)
    else:
        tls |= issue(network, authority, "york.acme.example")
        connector = {"uri": "srv://local", "nodetype": "leaf", "local_addresses": [HERE]}
        network.add("york", tree=TREE, tree_connectors=[{**connector, "tls": tls, "renew": True}])
        network.configure("hq", children=[{"name": "york"}, {"name": "bath", "secret_file": "hq.secret"}])
    await network.launch("hq")
    await network.launch("york")
    await refused(network, "the certificate that 'hq' shows 'york' is for till-7.acme.example")
    network.kill("hq")
    network.configure("hq", listener={"tls": hqs})
    await network.launch("hq")
    await network.until("york", linked, "linked")


async def test_a_store_that_joined_by_invitation_finds_its_parent_without_a_secret(network: Network) -> None:
    hq = Host(network, "hq")
    network.add("hq", tree=TREE, permits={})
    hq.settle()
    network.configure("hq", listener={"discoverable": True})
    await hq.launch()
    folder = network.folder / "york"
    await join(await hq.invite("york"), folder)
    adopt(network, "york", folder)
    file = folder / "york.yaml"
    found = rf"\1uri: srv://local\n\1local_addresses: [{HERE}]"
    text, count = re.subn(rf'( +)uri: "{re.escape(hq.way)}"', found, file.read_text(encoding="utf-8"))
    assert count == 1
    file.write_text(text, encoding="utf-8")
    await network.launch("york")
    await network.nodes.until_linked("york", GENEROUS)
    assert "srv://local" in (await network.status("york"))["parent"]["dialling"]["uris"]


async def test_a_broker_that_anybody_tells_of_is_never_dialled(network: Network) -> None:
    """It would be sent the login of the parent's broker."""
    dialled: Counter[str] = Counter()

    async def serve(name: str) -> asyncio.Server:
        async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            dialled[name] += 1
            writer.close()

        return await asyncio.start_server(hang_up, HERE, 0)

    broker, port = await serve("broker"), await serve("port")
    places = [
        NamedParent(f"{scheme}://{HERE}:{server.sockets[0].getsockname()[1]}{path}", tree=TREE, node="hq")
        for scheme, server, path in (("mqtts", broker, ""), ("wss", port, "/link"))
    ]
    password = secret(network, "password", "of the broker")
    (away,) = free_ports(1)
    login = {"uri": f"mqtts://{HERE}:{away}", "user": "york", "password_file": password}
    add_york(network, **login, discover="lan")
    answerer = Answerer(lambda _asker: places)
    await answerer.open(HERE)
    try:
        await network.launch("york")
        async with asyncio.timeout(PATIENCE):
            while dialled["port"] < 2:
                await asyncio.sleep(0.1)
    finally:
        answerer.close()
        broker.close()
        port.close()
    assert not dialled["broker"]
