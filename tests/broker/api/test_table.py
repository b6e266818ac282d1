"""One declaration is enough: toy operations, added while the tests run, is found wherever operators look.

It is found over HTTP, in the OpenAPI description, as a command of a remote cell, and on the command line.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import typer
from typer.testing import CliRunner

from broker.api import __main__ as writer
from broker.api import table
from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, PAGE, Answer, Operation, Parameter, PlainCommand, operation
from broker.api.pages import Cut, page_of
from broker.api.table import NOUNS, OPERATIONS, catalogue
from broker.cells.cells import NodeCells
from broker.cli import plain
from broker.core.errors import BadRequest
from broker.http.api import api
from broker.node import Node
from config.model import AdvisoryLog, Listener, Permits, Site, TreeConnector

LEAST = Parameter("least", "Only crumbs of at least this size.", "integer", default=0, least=0)


class Crumbs(Answer):
    """A toy's answer."""

    node: str
    crumbs: list[int]
    more: int
    next: str | None


@operation(
    "GET",
    "/api/crumbs",
    "What the birds left.",
    "toys",
    (AT, LEAST, *PAGE),
    remote="crumbs",
    errors=AWAY,
    commands=(PlainCommand("crumbs", "List what the birds left.", ("crumbs",)),),
)
async def crumbs(node: RunningNode, least: int, cut: Cut) -> Crumbs:
    """Ten of them."""
    page = await page_of(range(10), lambda each: (each,), cut, lambda each: each >= least)
    return Crumbs(node=node.name, crumbs=page.items, more=page.more, next=page.next)


@operation(
    "POST",
    "/api/crumbs/{kind}",
    "Feed the birds.",
    "toys",
    (AT, Parameter("kind", "Of crumbs.", in_path=True)),
    remote="feed",
    changes=True,
    errors=AWAY,
    commands=(PlainCommand("bird feed", "Feed the birds."),),
)
def feed(node: RunningNode, kind: str) -> dict[str, str]:
    """Says what was fed, and where."""
    if kind == "stones":
        raise BadRequest("birds eat no stones")
    return {"fed": kind, "at": node.name}


class Seeds(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A toy's body."""

    kinds: list[str]
    grams: int = 5
    gently: bool = False
    node: str = ""


@operation(
    "DELETE",
    "/api/crumbs",
    "Sow what is left.",
    "toys",
    body=Seeds,
    remote="sow",
    errors=AWAY,
    commands=(
        PlainCommand(
            "bird sow",
            "Sow what is left.",
            texts={"kinds": "Of seeds.", "grams": "Of each.", "gently": "Softly.", "node": "Where."},
            places={"kinds": "KIND"},
        ),
    ),
)
def sow(node: RunningNode, body: Seeds) -> dict[str, str]:
    """Says what was sown, and where."""
    how = " gently" if body.gently else ""
    return {"sown": f"{body.grams} g of {', '.join(body.kinds)}{how}", "at": node.name}


TOYS: tuple[Operation, ...] = (crumbs.operation, feed.operation, sow.operation)  # type: ignore[attr-defined]


@pytest.fixture
async def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """hq, with york below it; both have the toys."""
    monkeypatch.setattr(table, "OPERATIONS", (*OPERATIONS, *TOYS))
    monkeypatch.setattr(api, "OPERATIONS", (*OPERATIONS, *TOYS))
    quiet = AdvisoryLog(enabled=False)
    hq = Node(
        Site(
            name="hq",
            data=tmp_path / "hq",
            listener=Listener(port=0),
            advisory_log=quiet,
            permits=Permits(default="open"),
        )
    )
    await hq.start()
    connector = TreeConnector(nodetype="leaf", uri=f"ws://127.0.0.1:{hq.port}/link")
    york = Node(
        Site(
            name="york",
            data=tmp_path / "york",
            listener=Listener(port=0),
            advisory_log=quiet,
            tree_connectors=(connector,),
        )
    )
    await york.start()
    async with asyncio.timeout(60):
        while not (hq.core.context.children() and hq.core.context.children()[0].up and york.core.parent):
            await asyncio.sleep(0.01)
    yield hq
    await york.stop()
    await hq.stop()


async def asked(node: Node, call: str) -> tuple[int, Any]:
    method, path = call.split(" ")
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{node.port}{path}") as answer,
    ):
        return answer.status, await answer.json()


async def test_it_is_asked_over_http_here_and_of_a_node_below(tree: Node) -> None:
    status, found = await asked(tree, "GET /api/crumbs?least=3&limit=2")
    assert (status, found["node"], found["crumbs"], found["more"]) == (200, "hq", [3, 4], 5)
    status, found = await asked(tree, f"GET /api/crumbs?node=york&least=3&limit=2&after={found['next']}")
    assert (status, found["node"], found["crumbs"], found["more"]) == (200, "york", [5, 6], 3)
    async with aiohttp.ClientSession() as session:
        body = {"kinds": ["rye"], "node": "york"}
        where = f"http://127.0.0.1:{tree.port}/api/crumbs"
        async with session.delete(where, json=body) as answer:
            assert await answer.json() == {"sown": "5 g of rye", "at": "york"}
        async with session.delete(where, json={**body, "later": 1}) as answer:
            assert answer.status == 400
    assert await asked(tree, "POST /api/crumbs/rye?node=york") == (200, {"fed": "rye", "at": "york"})
    status, error = await asked(tree, "GET /api/crumbs?least=-1")
    assert (status, error["code"]) == (400, "BAD_REQUEST")
    for where in ("", "?node=york"):
        status, error = await asked(tree, f"POST /api/crumbs/stones{where}")
        assert (status, error["code"]) == (400, "BAD_REQUEST")
        assert "birds eat no stones" in error["text"]


async def test_it_is_a_command_of_the_cell_that_reads_what_it_is_asked(tree: Node) -> None:
    cells: NodeCells = tree.running.cells
    assert (await cells.ask("york", "crumbs", {"limit": 3}))["crumbs"] == [0, 1, 2]
    assert (await cells.ask("york", "sow", {"kinds": ["oats"]}))["sown"] == "5 g of oats"
    assert (await cells.ask("york", "crumbs", {"later": "words"}))["crumbs"] == list(range(10))
    for wrong in ({"least": "many"}, {"limit": 0}, {"limit": 10**9}, {"least": True}, {"after": 7}):
        with pytest.raises(Exception, match=next(iter(wrong))):
            await cells.ask("york", "crumbs", wrong)


async def test_it_is_described(tree: Node) -> None:
    _, description = await asked(tree, "GET /api/openapi.json")
    said = description["paths"]["/api/crumbs"]["get"]
    assert said["summary"] == "What the birds left."
    assert [each["name"] for each in said["parameters"]] == ["node", "least", "limit", "after"]
    body = description["paths"]["/api/crumbs"]["delete"]["requestBody"]["content"]["application/json"]
    assert body["schema"] == {"$ref": "#/components/schemas/Seeds"}
    assert description["components"]["schemas"]["Crumbs"]["required"] == ["node", "crumbs", "more", "next"]


async def test_it_is_a_command_of_the_command_line(tree: Node) -> None:
    program = typer.Typer()
    plain.add_to(program, catalogue(TOYS))

    async def sapwood(*arguments: str) -> Any:
        url = f"http://127.0.0.1:{tree.port}"
        return await asyncio.to_thread(CliRunner().invoke, program, [*arguments, "--url", url])

    found = await sapwood("crumbs", "--node", "york", "--least", "7", "--json")
    assert json.loads(found.stdout)["crumbs"] == [7, 8, 9]
    assert "crumbs: 9" in (await sapwood("crumbs")).output
    assert "fed: rye" in (await sapwood("bird", "feed", "rye", "--node", "york")).output
    sown = await sapwood("bird", "sow", "rye", "oats", "--gently", "--node", "york")
    assert sown.stdout == "sown: 5 g of rye, oats gently\nat: york\n"
    assert "at: hq" in (await sapwood("bird", "sow", "rye", "--grams", "7")).output
    assert "KIND" in (await sapwood("bird", "sow")).output
    refused = await sapwood("bird", "feed", "stones")
    assert "birds eat no stones" in str(refused.exception)
    assert "List what the birds left." in (await sapwood("crumbs", "--help")).output


def test_the_command_line_has_the_commands_of_the_table() -> None:
    written = Path(plain.__file__).with_name("commands.json").read_text(encoding="utf-8")
    assert written == writer.text(), "operations changed: run `python -m broker.api`"
    kinds = writer.ROUTE_KINDS.read_text(encoding="utf-8")
    assert kinds == writer.route_kinds(), "kinds of routes changed: run `python -m broker.api`"


def test_every_noun_has_operations_and_every_declaration_names_what_its_function_takes() -> None:
    assert all(
        any(each.noun == noun.__name__.rpartition(".")[2] or each.work is None for each in OPERATIONS)
        for noun in NOUNS
    )
    for each in OPERATIONS:
        if each.work is None:
            continue
        values: dict[str, Any] = {name.name: "x" for name in each.parameters}
        if each.body is not None:
            values["body"] = None
        code = each.work.__code__
        takes = set(code.co_varnames[1 : code.co_argcount])
        assert takes == set(each.arguments(values)) or code.co_flags & 0x08, each.path
