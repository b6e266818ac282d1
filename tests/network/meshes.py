"""Meshes of real nodes, for the numbered tests."""

from typing import Any

from harness import PATIENCE, Network

from broker.cli.demo.processes import Status


def add_mesh(network: Network, *names: str, **settings: Any) -> None:
    """Roots that are one, not started yet; the file of each names all others."""
    for name in names:
        network.add(name, **settings)
    ways = {name: f"ws://127.0.0.1:{network.ports[name]}/link" for name in names}
    for name in names:
        cores = [{"name": other, "uri": uri} for other, uri in ways.items() if other != name]
        network.configure(name, mesh={"cores": cores})


def above(status: Status) -> set[str]:
    """The parents with which a node is linked."""
    known = status["parents"] or [status["parent"] or {"name": "", "state": ""}]
    return {each["name"] for each in known if each["state"] == "running"}


async def until_below(network: Network, name: str, *parents: str, seconds: float = PATIENCE) -> None:
    """Wait until a node is linked with exactly these."""
    await network.until(
        name, lambda status: above(status) == set(parents), f"linked with {' and '.join(parents)}", seconds
    )
