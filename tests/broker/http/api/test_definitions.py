"""A node's definitions are told as one file over its API, and taken at another real node."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from nodes import running_node

from broker.api import definitions, importing
from broker.api.pages import CHUNK
from broker.api.table import OPERATIONS
from broker.core.messages.queue_names import SYSTEM
from broker.entrance.passwords import hashed
from broker.node import Node
from config.accounts import Account
from config.model import AdvisoryLog, Delivery, DestinationPolicy, Http, Listener, Site
from sapwood import connect
from sapwood.client import Client
from treeconnector.permits import Grant, Rules

WORD = "a long password"
TOKEN = {"Authorization": "Bearer operator"}


class At:
    """A node, and calls of its API with the token."""

    def __init__(self, node: Node, http: aiohttp.ClientSession) -> None:
        self.node = node
        self._http = http

    async def __call__(self, call: str, status: int = 200, **more: Any) -> Any:
        method, path = call.split(" ")
        url = f"http://127.0.0.1:{self.node.port}{path}"
        async with self._http.request(method, url, headers=TOKEN, **more) as answer:
            found = await answer.json()
            assert answer.status == status, found
        return found

    def till(self, session: str) -> Client:
        return connect(
            f"http://127.0.0.1:{self.node.port}", session=session, account="till", password=WORD, timeout=60
        )


def site_of(folder: Path, name: str, **more: Any) -> Site:
    folder.mkdir(exist_ok=True)
    for file, text in (("password", hashed(WORD)), ("token", "operator")):
        (folder / file).write_text(text, "utf-8")
        (folder / file).chmod(0o600)
    till = Account(
        name="till", password_file=folder / "password", consume=("prices/#", "queue:#"), send=("prices/#",)
    )
    site = Site(
        name=name,
        data=folder / "data",
        listener=Listener(port=0),
        advisory_log=AdvisoryLog(enabled=False),
        accounts=(till,),
        http=Http(token_file=folder / "token"),
    )
    return replace(site, **more)


@asynccontextmanager
async def running(site: Site) -> AsyncIterator[At]:
    async with running_node(site) as node, aiohttp.ClientSession() as http:
        yield At(node, http)


@pytest.fixture
async def old(tmp_path: Path) -> AsyncIterator[At]:
    policies = (DestinationPolicy(pattern="queue:sales", max_messages=500),)
    async with running(site_of(tmp_path / "old", "york", delivery=Delivery(destinations=policies))) as at:
        yield at


async def fill(at: At) -> None:
    """Something of each kind."""
    await at("POST /api/queues/sales?home=1")
    await at("POST /api/queues/returns")
    await at("POST /api/routes", json={"kind": "alias", "destination": "till", "gateway": "sales"})
    await at("POST /api/routes", json={"kind": "dumpster", "gateway": "lost"})
    await at("POST /api/permits", json={"child": "kiosk", "consume": ["prices/#"]})
    async with at.till("7") as client, client.subscribe("topic:prices/+", durable="prices"):
        pass


async def test_a_file_goes_to_a_new_node_which_keeps_messages_before_the_application_comes(
    old: At, tmp_path: Path
) -> None:
    await fill(old)
    file = await old("GET /api/definitions")
    assert [(each["name"], each["home"]) for each in file["queues"]] == [
        ("lost", True),
        ("returns", False),
        ("sales", True),
    ]
    assert file["queues"][2]["max_messages"] == 500
    assert file["subscriptions"] == [
        {"account": "till", "session": "7", "name": "prices", "topic": "prices/+"}
    ]
    assert [each["kind"] for each in file["routes"]] == ["alias", "dumpster"]
    assert [(each["child"], each["set"], each["consume"]) for each in file["permits"]] == [
        ("kiosk", True, ["prices/#"])
    ]
    site = site_of(tmp_path / "new", "york")
    async with running(site) as new:
        asked = await new("POST /api/definitions?check=1", json=file)
        assert asked["checked"]
        assert not (await new("GET /api/definitions"))["queues"]
        made = await new("POST /api/definitions", json=file)
        assert made["made"] == asked["made"] == {"queues": 3, "subscriptions": 1, "routes": 2, "permits": 1}
        (difference,) = made["differences"]
        assert difference.startswith("queues[2].max_messages: 500, the site's file here says 10000000")
        assert (await new("POST /api/definitions", json=file))["same"] == made["made"]
        assert {**(await new("GET /api/definitions")), "queues": []} == {**file, "queues": []}
    async with running(site) as new:  # all of it is on disk
        assert (await new("POST /api/definitions", json=file))["same"] == made["made"]
        await new("POST /api/publish/topic:prices/milk", data=b"1.20")
        async with new.till("7") as client, client.subscribe("topic:prices/+", durable="prices") as prices:
            delivery = await anext(aiter(prices))
            assert delivery.payload == b"1.20"
            delivery.ack()


async def test_all_mistakes_are_said_with_their_places_and_nothing_is_made(old: At) -> None:
    await fill(old)
    before = await old("GET /api/definitions")
    file = {
        "format": 1,
        "queues": [
            {"name": "fine"},
            {"name": "fine"},
            {"name": SYSTEM},
            {"name": "x@hq"},
            {"name": 7},
            {"name": "returns", "home": True},
            {"name": "y", "hone": True},
        ],
        "subscriptions": [
            {"account": "till", "session": "7", "name": "prices", "topic": "prices/milk"},
            {"account": "nobody", "session": "7", "name": "prices", "topic": "prices/#"},
            {"account": "till", "session": "7", "name": "all", "topic": "wages/#"},
            {"account": "till", "session": "", "name": "all", "topic": "prices/#"},
        ],
        "routes": [
            {"kind": "alias", "destination": "till", "gateway": "other"},
            {"kind": "default", "gateway": "nobody"},
            {"kind": "alias", "destination": "a", "gateway": "b"},
            {"kind": "alias", "destination": "b", "gateway": "a"},
        ],
        "permits": [{"child": "kiosk", "consume": ["a/#/b{"]}, {"child": "no name"}],
    }
    error = await old("POST /api/definitions", 400, json=file)
    said = error["text"].split("\n")
    assert said[0].startswith("nothing was changed")
    places = [each.split(": ")[0] for each in said[1:]]
    assert places == [
        *("queues[1]", "queues[2]", "queues[3]", "queues[4].name", "queues[5]", "queues[6]"),
        *(f"subscriptions[{index}]" for index in range(4)),
        *("routes[0]", "routes[1]", "routes[3]", "permits[0]", "permits[1]"),
    ]
    assert await old("GET /api/definitions") == before
    other = await old("POST /api/definitions", 400, json={"format": 2})
    assert "format: 2, expected 1" in other["text"]


async def test_no_secret_is_told_and_sessions_without_an_account_are_counted_alone(tmp_path: Path) -> None:
    site = site_of(tmp_path / "open", "hq", accounts=(), http=Http())
    async with running(site) as at:
        url = f"http://127.0.0.1:{at.node.port}"
        async with (
            connect(url, session="till-7-secret") as client,
            client.subscribe("topic:prices/#", durable="prices"),
        ):
            pass
        file = await at("GET /api/definitions")
        assert (file["subscriptions"], file["left_out"]) == ([], 1)
        assert "till-7" not in str(file)


async def test_a_permit_of_the_sites_file_is_compared_and_an_operators_is_set(
    old: At, tmp_path: Path
) -> None:
    await fill(old)
    permits = [
        {"child": "kiosk", "set": False, "consume": ["all/#"]},
        {"child": "shelf", "send": ["prices/#"]},
    ]
    file = {"format": 1, "node": "leeds", "permits": permits}
    answer = await old("POST /api/definitions", json=file)
    assert [each.partition(":")[0] for each in answer["differences"]] == ["node", "permits[0]"]
    assert answer["made"]["permits"] == 1
    shown = await old("GET /api/permits")
    assert {each["name"]: each["grants"][0]["consume"] for each in shown["children"]}["kiosk"] == ["prices/#"]


async def test_two_of_one_kind_that_cannot_both_be_made_are_refused(
    old: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MOST", 2)
    file: dict[str, Any] = {"format": 1, "queues": [{"name": name} for name in "abc"]}
    assert "expected 2 at most" in (await old("POST /api/definitions", 400, json=file))["text"]
    monkeypatch.setattr("broker.core.clients.local_queues.MOST_QUEUES", 1)
    file["queues"].pop()
    assert "queues: this node has 1 queues" in (await old("POST /api/definitions", 400, json=file))["text"]
    assert not (await old("GET /api/definitions"))["queues"]


async def test_a_file_is_refused_for_what_stands_in_it_and_not_for_what_the_node_has_for_itself(
    old: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(old)
    await old("POST /api/publish/queue:passing", data=b"nobody made this queue")
    file = await old("GET /api/definitions")
    there = sum(len(file[each]) for each in ("queues", "subscriptions", "routes", "permits"))
    monkeypatch.setattr(definitions, "MOST", there)
    assert await old("GET /api/definitions") == file
    monkeypatch.setattr(definitions, "MOST", there - 1)
    said = (await old("GET /api/definitions", 409))["text"]
    assert said == f"york has {there} definitions, and a file takes {there - 1}"


async def test_so_many_rules_are_looked_at_before_others_have_their_turn(
    old: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One permit may have 10,000 rules: they count, and not the permits."""
    turn, looked_at = 0, Counter[int]()

    def counted(grant: Grant) -> Rules:
        looked_at[turn] += len(grant.consume)
        return Rules(grant)

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(importing, "Rules", counted)
    task = asyncio.create_task(others())
    permits = [
        {"child": f"kiosk-{n}", "consume": [f"all/{n}/{m}" for m in range(CHUNK // 2)]} for n in range(8)
    ]
    answer = await old("POST /api/definitions", json={"format": 1, "permits": permits})
    task.cancel()
    assert answer["made"]["permits"] == 8
    assert max(looked_at.values()) <= CHUNK


async def test_a_file_is_not_read_in_one_step(old: At) -> None:
    """16 MiB of brackets took four seconds. Each item is read in its turn, and told by its place."""
    (taking,) = [each for each in OPERATIONS if (each.method, each.path) == ("POST", "/api/definitions")]
    body = b'{"format": 1, "queues": [%b, {"name": "\xff"}], "routes": [[[[[]]]]]}' % (b"[" * 50 + b"]" * 50)
    found = taking.read({}, {}, body)["body"]
    assert [bytes(each)[:2] for each in found.queues] == [b"[[", b'{"']
    said = (await old("POST /api/definitions", 400, data=body))["text"].split("\n")
    assert [line.partition(":")[0] for line in said[1:]] == ["queues[0]", "queues[1]", "routes[0]"]
