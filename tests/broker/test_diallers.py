"""Who dials whom in a mesh, with real nodes in this process: quietly at a start, and nobody twice."""

import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from io import StringIO
from pathlib import Path

import aiohttp
import pytest
from nodes import running_node
from rich.console import Console
from waiting import until

from broker.cli.demo.plan import free_ports
from broker.cli.status import readiness as readiness_text
from broker.cli.status import summary
from broker.cli.top.look import look
from broker.cli.top.view import frame
from broker.node import Node
from config.behaviour import Advisories, Link
from config.mesh import Core, Mesh
from config.model import AdvisoryLog, Listener, Site, TreeConnector
from config.rules import check

NAMES = ("hq-1", "hq-2", "hq-3")


def mesh(folder: Path, *names: str, dormant_after: float = 30.0) -> dict[str, Site]:
    """The files of nodes that list each other."""
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    cores = {name: Core(name=name, uri=f"ws://127.0.0.1:{port}/link") for name, port in ports.items()}
    return {
        name: check(
            Site(
                name=name,
                data=folder / name,
                listener=Listener(port=ports[name]),
                mesh=Mesh(cores=tuple(core for other, core in cores.items() if other != name)),
                link=Link(backoff_initial=0.05, backoff_max=0.1),
                advisories=Advisories(dormant_after=dormant_after),
                advisory_log=AdvisoryLog(enabled=False),
            )
        )
        for name in names
    }


def is_whole(nodes: list[Node]) -> bool:
    return all(sum(peer.up for peer in node.core.context.peers()) == len(nodes) - 1 for node in nodes)


def rest(nodes: list[Node]) -> bool:
    """Does nobody dial whom he is linked with?"""
    dialling = (each for node in nodes for each in node.report.diallers.supervisors.values())
    return all(each.linked or (each.state, each.error) == ("waiting", "") for each in dialling)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = (record for record in caplog.records if record.name.startswith("sapwood"))
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]], ids=" ".join)
async def test_a_mesh_that_starts_warns_of_nothing_and_dials_nobody_twice(
    order: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sapwood")
    sites = mesh(tmp_path, *NAMES)
    async with AsyncExitStack() as stack:
        nodes = []
        for name in order:
            nodes.append(await stack.enter_async_context(running_node(sites[name])))
            await until(lambda: "cannot be reached" in caplog.text)  # the first has tried the others
        await until(lambda: is_whole(nodes) and rest(nodes))
        assert warnings(caplog) == []


async def test_a_node_that_stays_away_is_warned_of_once_it_has_lasted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sapwood")
    sites = mesh(tmp_path, "hq-1", "hq-2", dormant_after=0.3)
    async with running_node(sites["hq-1"]):
        await until(lambda: warnings(caplog))
        said = [record for record in caplog.records if "cannot be reached" in record.getMessage()]
        assert [record.levelno for record in said] == [logging.INFO, logging.WARNING]
        assert said[0].getMessage() == said[1].getMessage()


async def test_a_satellite_without_a_core_says_that_it_is_disconnected(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    given = {"listener": Listener(port=0), "advisory_log": AdvisoryLog(enabled=False)}
    links = {"link": Link(backoff_initial=0.05, backoff_max=0.1)}
    way = TreeConnector(uri=f"ws://127.0.0.1:{port}/link")
    pool = Site(
        name="pool", data=tmp_path / "pool", scheme="satellite", tree_connectors=(way,), **given, **links
    )
    leaf = Site(
        name="leaf",
        data=tmp_path / "leaf",
        tree_connectors=(replace(way, nodetype="leaf"),),
        **given,
        **links,
    )
    core = Site(
        name="core", data=tmp_path / "core", scheme="core", **(given | {"listener": Listener(port=port)})
    )

    async def readiness(node: Node) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{node.port}/readyz") as answer,
        ):
            return answer.status, (await answer.text()).strip()

    async def said(node: Node) -> str:
        found = await node.status()
        shown = look(lambda path: found if path == "/api/status" else {}, now=1.0)
        assert shown.as_json()["disconnected"] == found["disconnected"]
        told = readiness_text(found)
        drawn = StringIO()
        Console(width=100, file=drawn).print(frame(shown, 100))
        assert told in drawn.getvalue()
        assert told in "\n".join(summary(found))
        return told

    async with running_node(check(pool)) as satellite, running_node(check(leaf)) as ordinary:
        assert (await readiness(satellite), await said(satellite)) == (
            (503, "disconnected"),
            "DISCONNECTED: no core is linked",
        )
        assert (await readiness(ordinary), await said(ordinary)) == ((200, "ready"), "ready"), (
            "it works alone"
        )
        async with running_node(check(core)):
            await until(lambda: not satellite.disconnected)
            assert (await readiness(satellite), await said(satellite)) == ((200, "ready"), "ready")
        await until(lambda: satellite.disconnected)
        assert await said(satellite) == "DISCONNECTED: no core is linked"
