"""A name that is drawn: readable, kept with the store, never that of a file."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from nodes import running_node

from broker import process
from broker.core.sessions.sessions import Connection
from broker.naming import draw, named, renamed
from broker.node import Node
from broker.store import Store, StoreCorrupt
from config.load import load
from config.model import AdvisoryLog, Listener, Site
from sapwood.protocol.errors import Refusal
from sapwood.protocol.names import own_name
from treeconnector.link import Link


def test_a_drawn_name_is_readable_and_legal() -> None:
    names = {draw() for _ in range(200)}
    assert len(names) > 190
    for name in names:
        assert own_name(name) == name
        assert re.fullmatch(r"[a-z]+-[a-z]+-\d{5}", name)
    assert draw(lambda items: items[0]) == "amber-acacia-00000"


def test_a_file_need_not_give_a_name(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("broker:\n  tree: acme\n")
    site = load(file)
    assert (site.name, site.data) == ("", tmp_path / "data" / "unnamed")
    first = named(site)
    assert first.name
    assert named(site).name != first.name, "nothing is kept before the store is made"
    Store.open(first.data_directory, tree="acme", node=first.name).close()
    assert named(site).name == first.name
    assert named(Site(name="york", data=site.data)).name == "york"


def test_the_store_goes_with_its_node_under_another_name(tmp_path: Path) -> None:
    store = Store.open(tmp_path, tree="sapwood", node="york")
    before = store.store_id
    store.close()
    site = renamed(Site(name="york", data=tmp_path))
    assert site.name != "york"
    assert Store.owner(tmp_path) == site.name
    store = Store.open(tmp_path, tree="sapwood", node=site.name)
    assert store.store_id == before
    store.close()


def test_what_is_no_store_has_no_name(tmp_path: Path) -> None:
    assert Store.owner(tmp_path) == ""
    (tmp_path / "node.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreCorrupt, match="does not begin as a database"):
        Store.owner(tmp_path)


async def test_what_an_application_has_left_keeps_the_name(tmp_path: Path) -> None:
    log = AdvisoryLog(enabled=False)
    async with running_node(
        Site(name="york", data=tmp_path, listener=Listener(port=0), advisory_log=log), draws=1
    ) as node:
        assert not node.naming.is_in_use()
        connection = Connection(lambda frame: None, "test")
        node.switch.login(connection, "till-7")
        node.switch.create(connection, "till")
        assert node.naming.is_in_use()
        assert repr(node.naming) == "<Naming york drawn=True taken=False>"


async def test_a_parent_that_refuses_every_name_is_given_so_many_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The node started again and again, several times a second, and nobody could look at it."""
    started = []

    async def run_once(node: Node, _stop: asyncio.Event) -> int | None:
        await node.start()
        try:
            started.append(node.site.name)
            node.naming.ended(cast("Link", SimpleNamespace(refusal=Refusal.NAME)))
            return None if node.naming.taken else 0
        finally:
            await node.stop()

    monkeypatch.setattr(process, "_run_once", run_once)
    monkeypatch.setattr(process, "MOST_DRAWN", 2)
    site = Site(data=tmp_path, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))
    assert await process._run(replace(site, name=""), None) == 0
    assert len(set(started)) == len(started) == 3
    assert f"this node is {started[-1]} from now on, whatever its parent says" in caplog.text
    assert await process._run(replace(site, name=started[-1]), None) == 0
    assert len(started) == 4, "a name of the file is never overruled"
