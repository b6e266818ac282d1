"""A fresh machine becomes a node by one command; who has no right to a name does not get it."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from harness import Network, collect
from invitations import GENEROUS, Host, adopt, sapwood

from broker.cli.demo.plan import free_ports
from broker.enrolment.contact import NotTheParent
from broker.enrolment.errors import EnrolmentRefused
from broker.enrolment.joining import join
from broker.enrolment.messages import AUTHORITIES_PATH
from config.load import load


async def test_a_whole_chain_joins_by_invitation_and_messages_pass(network: Network) -> None:
    hq = Host(network, "hq")
    await hq.start(lifetime="1h")
    code, said = await sapwood("invite", "north", "--role", "branch", "--url", hq.url, "--ca", str(hq.ca))
    assert code == 0, said
    north_folder, york_folder = network.folder / "north", network.folder / "york"
    code, said = await sapwood("join", said.split()[-1], "--dir", str(north_folder))
    assert code == 0, said
    assert "north has joined the tree test as a branch below hq" in said
    code, said = await sapwood(
        "permits", "set", "north", "--nodes", "york", "--url", hq.url, "--ca", str(hq.ca)
    )
    assert (code, "not here yet" in said) == (0, True), said
    adopt(network, "north", north_folder)
    north = Host(network, "north")
    north.authority = north_folder / "authority"
    await north.launch()
    await join(await north.invite("york", uris=[north.way]), york_folder)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (york_folder / "tls").iterdir()}
    assert modes == {"node.pem": 0o600, "authorities.pem": 0o644}
    assert load(york_folder / "york.yaml").role == "leaf"
    adopt(network, "york", york_folder)
    await network.launch("york")
    await network.nodes.until_linked("york", GENEROUS)
    await hq.until_child("north", "running")
    async with hq.client() as client:
        await client.send_many("queue:prices@york", [b"%d" % number for number in range(50)])
    assert await network.collect("york", "queue:prices", 50, GENEROUS) == [b"%d" % n for n in range(50)]
    await network.send("york", "queue:york/sales", [b"sold"])
    async with hq.client() as client:
        assert [got.payload for got in await collect(client, "queue:york/sales", 1, GENEROUS)] == [b"sold"]


async def test_who_has_no_right_gets_no_certificate(network: Network, tmp_path: Path) -> None:
    hq = Host(network, "hq")
    await hq.start(lifetime="1h")
    token = await hq.invite("york")
    await join(token, tmp_path / "york")
    with pytest.raises(EnrolmentRefused, match="another machine has joined as 'york' with this token"):
        await join(token, tmp_path / "thief")
    code, said = await sapwood("join", token[:-7] + token[-6:], "--dir", str(tmp_path / "typing"))
    assert (code, "typing error" in said) == (2, True)
    assert not (tmp_path / "typing").exists()
    short = await hq.invite("bath", lifetime=1)
    await until_ended(hq, "bath")
    with pytest.raises(EnrolmentRefused, match="the invitation of 'bath' has ended"):
        await join(short, tmp_path / "bath")
    revoked = await hq.invite("durham")
    await hq.ask("/api/invitations/durham", "DELETE")
    with pytest.raises(EnrolmentRefused, match="knows no such invitation, or it was revoked"):
        await join(revoked, tmp_path / "durham")
    log = network.nodes.by_name["hq"].log.read_text()
    assert "a second machine tried the invitation of york" in log
    assert token not in log


async def until_ended(host: Host, name: str) -> None:
    async with asyncio.timeout(GENEROUS):
        while True:
            listed = (await host.ask("/api/invitations"))["invitations"]
            if [each["state"] for each in listed if each["name"] == name] == ["ended"]:
                return
            await asyncio.sleep(0.2)


async def test_a_revoked_child_is_out_at_once(network: Network, tmp_path: Path) -> None:
    hq = Host(network, "hq")
    await hq.start(lifetime="1h")
    await join(await hq.invite("york"), tmp_path / "york")
    adopt(network, "york", tmp_path / "york")
    await network.launch("york")
    await network.nodes.until_linked("york", GENEROUS)
    code, said = await sapwood("invite", "--revoke", "york", "--url", hq.url, "--ca", str(hq.ca))
    assert (code, "york may link no more" in said) == (0, True), said
    await network.until(
        "york",
        lambda status: "'york' was revoked at 'hq'" in status["parent"]["dialling"]["error"],
        "refused",
        GENEROUS,
    )
    await hq.until_child("york", "down")


async def test_nobody_between_is_taken_for_the_parent(network: Network, tmp_path: Path) -> None:
    """Another node at the address; and one that shows the true authority, but has no certificate from it."""
    hq, evil = Host(network, "hq"), Host(network, "evil")
    await hq.start()
    await evil.start()
    for name, between in (("one", evil_node), ("two", relay)):
        async with between(evil, hq) as way:
            token = await hq.invite(name, uris=[way])
            with pytest.raises(NotTheParent, match="fingerprint" if name == "one" else "is not the parent"):
                await join(token, tmp_path / name, patience=0)
            assert not (tmp_path / name / f"{name}.yaml").exists()


@contextlib.asynccontextmanager
async def evil_node(evil: Host, _hq: Host):
    yield evil.way


@contextlib.asynccontextmanager
async def relay(_evil: Host, hq: Host):
    """Ends TLS itself, and hands on what is public."""
    (port,) = free_ports(1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    true = hq.ca.read_bytes()

    async def authorities(_request: web.Request) -> web.Response:
        return web.Response(body=true)

    app.router.add_get(AUTHORITIES_PATH, authorities)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    try:
        yield f"wss://127.0.0.1:{port}/link"
    finally:
        await runner.cleanup()
