"""Satellites that know one srv:// name only link with all cores that stand behind it, later ones too."""

from pathlib import Path
from typing import Any

from bind_server import BindServer
from harness import Network
from meshes import until_below
from quick import QUICK_SITE

from broker.cli.demo.processes import Status

LEASE = "30s"
"""Nothing here waits for the end of one."""


def add_core(network: Network, name: str, known: str, bind: BindServer, domain: str, key: Path) -> None:
    """A core that registers itself, and dials one that is there already, if any."""
    secret = network.folder / "mesh.secret"
    secret.write_text("known to all cores")
    secret.chmod(0o600)
    network.add(name, scheme="core", **QUICK_SITE)
    cores = [{"name": known, "uri": f"ws://127.0.0.1:{network.ports[known]}/link"}] if known else []
    network.configure(
        name,
        registration=bind.registration(domain, key, lease=LEASE),
        listener={"public_uri": f"ws://localhost:{network.ports[name]}/link"},
        mesh={"cores": cores, "secret_file": secret.name},
    )


def add_satellite(network: Network, name: str, bind: BindServer, domain: str) -> None:
    connector: dict[str, Any] = {"uri": f"srv://{domain}", "name_servers": [bind.place]}
    network.add(name, scheme="satellite", tree_connectors=[connector], **QUICK_SITE)


async def test_cores_find_each_other_where_they_register(
    network: Network, bind: BindServer, domain: str, key: Path
) -> None:
    names = ("core-a", "core-b", "core-c")
    for name in names:
        add_core(network, name, "", bind, domain, key)
        network.configure(name, mesh={"secret_file": "mesh.secret", "name_servers": [bind.place]})
    add_satellite(network, "sat-1", bind, domain)
    await network.launch("core-b")
    await bind.until(domain, "SRV", 1)
    for name in ("core-a", "sat-1", "core-c"):
        await network.launch(name)
    for name in names:
        others = sorted(set(names) - {name})

        def whole(status: Status, others: list[str] = others) -> bool:
            return sorted(link["name"] for link in status["mesh"] if link["state"] == "running") == others

        await network.until(name, whole, f"linked with {others}")
    await until_below(network, "sat-1", *names)


async def test_satellites_link_with_all_cores_of_one_name(
    network: Network, bind: BindServer, domain: str, key: Path
) -> None:
    add_core(network, "core-a", "", bind, domain, key)
    add_core(network, "core-b", "core-a", bind, domain, key)
    add_satellite(network, "sat-1", bind, domain)
    add_satellite(network, "sat-2", bind, domain)
    for name in ("core-a", "core-b"):
        await network.launch(name)
    await bind.until(domain, "SRV", 2)
    for name in ("sat-1", "sat-2"):
        await network.launch(name)
    for name in ("sat-1", "sat-2"):
        await until_below(network, name, "core-a", "core-b")
    add_core(network, "core-c", "core-b", bind, domain, key)
    await network.launch("core-c")
    for name in ("sat-1", "sat-2"):
        await until_below(network, name, "core-a", "core-b", "core-c")
    network.kill("core-a")
    network.kill("sat-1")
    await network.launch("sat-1")
    await until_below(network, "sat-1", "core-b", "core-c")
    await network.send("sat-2", "queue:job@sat-1", [b"across"])
    assert await network.collect("sat-1", "queue:job", 1) == [b"across"]
    await network.launch("core-a")
    for name in ("sat-1", "sat-2"):
        await until_below(network, name, "core-a", "core-b", "core-c")
