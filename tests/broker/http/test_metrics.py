"""What a real node answers at `/metrics`, read by Prometheus' own parsers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text
from waiting import until

from broker.entrance.operators import Operators
from broker.http.settings import HttpSettings
from broker.node import Node
from config.model import AdvisoryLog, Limits, Link, Listener, Metrics, Permits, Site, TreeConnector
from sapwood import SendRejected, connect

OPEN = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.1"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
Starter = Callable[..., Awaitable[Node]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Starter]:
    """Starts nodes, each with the given settings, and stops them at the end."""
    nodes: list[Node] = []

    async def one(name: str = "hq", parent: Node | None = None, **settings: Any) -> Node:
        ways = [TreeConnector(uri=f"ws://127.0.0.1:{parent.port}/link", nodetype="leaf")] if parent else []
        site = Site(
            name=name,
            data=tmp_path / name,
            listener=Listener(port=0),
            advisory_log=AdvisoryLog(enabled=False),
            tree_connectors=tuple(ways),
            link=Link(backoff_initial=0.01, backoff_max=0.1),
            permits=Permits() if parent else Permits(default="open"),
            **settings,
        )
        node = Node(site)
        await node.start()
        nodes.append(node)
        return node

    yield one
    for node in reversed(nodes):
        await node.stop()


def url(node: Node) -> str:
    return f"http://127.0.0.1:{node.port}"


async def scrape(node: Node, headers: dict[str, str] | None = None) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url(node)}/metrics", headers=headers) as got,
    ):
        assert got.status == 200, await got.text()
        return await got.text()


async def samples(node: Node) -> Samples:
    """Every sample of an answer; fails on one that is there twice."""
    found: Samples = {}
    for family in read_text(await scrape(node)):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"twice: {sample}"
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def names_of(found: Samples, name: str, label: str) -> set[str]:
    return {dict(labels)[label] for found_name, labels in found if found_name == name}


async def move(node: Node, queue: str, count: int) -> None:
    """Send, receive and acknowledge."""
    async with connect(url(node), session="a-secret-writer") as writer, connect(url(node)) as reader:
        await writer.create(queue)
        subscription = await reader.subscribe(f"queue:{queue}").ready()
        sending = asyncio.create_task(writer.send_many(f"queue:{queue}", [b"x" * 100] * count))
        got = 0
        async for batch in subscription.batches():
            got += len(batch.payloads)
            batch.ack()
            if got == count:
                break
        await sending
        await until(lambda: node.core.counters["acknowledged"] >= count)


async def test_a_node_under_load(start: Starter) -> None:
    node = await start()
    working = asyncio.create_task(move(node, "sales", 20_000))
    while not working.done():
        text, open_metrics = await asyncio.gather(scrape(node), scrape(node, OPEN))
        assert {f.name for f in read_text(text)} >= {"sapwood_messages_entered"}
        assert {f.name for f in read_open(open_metrics)} >= {"sapwood_messages_entered"}
        await asyncio.sleep(0.05)
    await working
    found = await samples(node)
    for name in ("entered", "delivered", "acknowledged"):
        assert value(found, f"sapwood_messages_{name}_total") == 20_000
    assert value(found, "sapwood_queue_messages_entered_total", queue="sales") == 20_000
    assert value(found, "sapwood_queue_messages_left_total", queue="sales") == 20_000
    assert value(found, "sapwood_queue_latency_seconds_count", queue="sales") == 20_000
    assert value(found, "sapwood_queue_messages", queue="sales") == 0
    assert value(found, "sapwood_message_latency_seconds_bucket", le="+Inf") == 20_000
    commits = value(found, "sapwood_store_commit_duration_seconds_count")
    assert 0 < commits <= node.driver.committer.commits, "one may have come since"
    assert value(found, "sapwood_store_used_bytes") > 0


async def test_a_backlog_and_who_has_it(start: Starter) -> None:
    node = await start()
    async with connect(url(node), session="a-secret-writer") as writer, connect(url(node)) as reader:
        await writer.create("sales")
        await writer.send_many("queue:sales", [b"x" * 10] * 30)
        subscription = await reader.subscribe("queue:sales", credit=20).ready()
        await anext(subscription.batches())
        found = await samples(node)
        text = await scrape(node)
    assert value(found, "sapwood_queue_messages", queue="sales") == 30
    assert (
        value(found, "sapwood_queue_size_bytes", queue="sales")
        == node.core.custody.queues["queue:sales"].size
    )
    assert value(found, "sapwood_queue_readers", queue="sales") == 1
    assert value(found, "sapwood_queue_given_messages", queue="sales") == 20
    assert value(found, "sapwood_queue_oldest_age_seconds", queue="sales") >= 0
    assert value(found, "sapwood_sessions") == 2
    unacknowledged = "sapwood_session_unacknowledged_messages"
    assert sum(v for (name, _), v in found.items() if name == unacknowledged) == 20
    (writing,) = (x for x in names_of(found, unacknowledged, "session") if x.startswith("a-se"))
    assert value(found, "sapwood_session_messages_sent_total", session=writing) == 30
    assert "a-secret-writer" not in text


async def test_both_ends_of_a_link(start: Starter) -> None:
    hq = await start()
    store = await start("store", hq)
    await until(lambda: store.core.parent is not None and store.core.parent.up)
    async with connect(url(store)) as reader, connect(url(hq)) as writer:
        subscription = await reader.subscribe("topic:prices").ready()
        await until(lambda: hq.core.table.counts().get(("topic", "store"), 0) == 1)  # type: ignore[call-overload]
        await writer.send_many("topic:prices", [b"1", b"2"])
        await anext(subscription)
    above, below = await samples(hq), await samples(store)
    link = {"link": "store", "relation": "child"}
    assert value(above, "sapwood_link_state", **link, state="running") == 1
    assert value(above, "sapwood_link_state", **link, state="down") == 0
    assert value(above, "sapwood_links", relation="child", state="running") == 1
    assert value(above, "sapwood_link_messages_sent_total", **link) == 2
    assert value(below, "sapwood_link_messages_received_total", link="hq", relation="parent") == 2
    assert value(above, "sapwood_link_sent_bytes_total", **link) > 0
    assert value(above, "sapwood_advisories_received_total", direction="up") >= 2
    assert value(below, "sapwood_advisories_sent_total", direction="up") == value(
        above, "sapwood_advisories_received_total", direction="up"
    )
    assert value(below, "sapwood_parent_up") == 1
    assert value(below, "sapwood_tree_depth") == 1
    assert ("sapwood_parent_up", frozenset()) not in above
    await store.stop()
    await until(lambda: not hq.core.neighbours["store"].up)
    above = await samples(hq)
    assert value(above, "sapwood_link_state", **link, state="down") == 1
    assert value(above, "sapwood_link_messages_sent_total", **link) == 2


async def test_names_are_bounded_and_totals_are_whole(start: Starter) -> None:
    hq = await start(metrics=Metrics(max_queues=5, max_links=2, max_sessions=3))
    for name in ("a", "b", "c", "d"):
        store = await start(name, hq)
        await until(lambda store=store: store.core.parent is not None and store.core.parent.up)  # type: ignore[misc]
    clients = [connect(url(hq)) for _ in range(10)]
    async with clients[0] as writer:
        for client in clients[1:]:
            await client.__aenter__()
        for number in range(40):
            await writer.create(f"queue-{number}")
            await writer.send_many(f"queue:queue-{number}", [b"x"] * (number + 1))
        found = await samples(hq)
        for client in clients[1:]:
            await client.__aexit__(None, None, None)
    shown = names_of(found, "sapwood_queue_messages", "queue")
    assert shown == {"other", *(f"queue-{number}" for number in range(35, 40))}
    for metric in ("sapwood_queue_messages", "sapwood_queue_messages_entered_total"):
        assert sum(v for (name, _), v in found.items() if name == metric) == 40 * 41 / 2
    assert value(found, "sapwood_queue_messages", queue="other") == 35 * 36 / 2
    links = names_of(found, "sapwood_link_state", "link")
    assert len(links) == 3
    assert value(found, "sapwood_link_state", link="other", relation="child", state="running") == 2
    assert value(found, "sapwood_links", relation="child", state="running") == 4
    assert len(names_of(found, "sapwood_session_connections", "session")) == 4
    assert value(found, "sapwood_session_connections", session="other") == 7
    assert value(found, "sapwood_sessions") == 10


async def test_made_up_names_have_no_labels(start: Starter) -> None:
    node = await start()
    async with connect(url(node)) as client:
        mailbox = await client.create()
        await client.send(f"queue:{mailbox.partition('@')[0]}", b"reply")
        await client.send("queue:reply-of-a-moment@elsewhere", b"reply")
        await client.create('quote" back\\slash')
        found = await samples(node)
    assert names_of(found, "sapwood_queue_messages", "queue") == {'quote" back\\slash', "other"}
    assert value(found, "sapwood_queue_messages", queue="other") == 2
    assert value(found, "sapwood_queues", kind="transient") == 1


async def test_what_is_refused_and_what_dies(start: Starter) -> None:
    node = await start(limits=Limits(queue_quota=5))
    async with connect(url(node)) as client:
        await client.create("sales")
        with pytest.raises(SendRejected):
            await client.send_many("queue:sales", [b"x"] * 8)
    place = node.core.custody.queues["queue:sales"]
    copy = place.waiting.popleft()
    node.core.custody.bury(copy, "ORIGIN: 'somebody' is not below us")
    found = await samples(node)
    assert value(found, "sapwood_messages_refused_total", code="QUEUE_FULL") == 3
    assert value(found, "sapwood_dead_letters_total", reason="ORIGIN") == 5
    assert value(found, "sapwood_dead_letters_total", reason="EXPIRED") == 0
    assert value(found, "sapwood_dead_letter_messages") == 5


async def test_what_ended_with_its_session_is_counted_from_the_first_scrape_on(start: Starter) -> None:
    node = await start()
    name = "sapwood_messages_transient_ended_total"
    assert value(await samples(node), name) == 0
    async with connect(url(node)) as client:
        await client.send_many(f"queue:{await client.create()}", [b"x"] * 7)
    await until(lambda: "transient_ended" in node.core.counters)
    assert value(await samples(node), name) == 7


async def test_every_counter_of_the_node_is_shown(start: Starter) -> None:
    node = await start()
    node.core.counters["something_new"] = 3
    found = await samples(node)
    numbers = iter(range(1000, 2000))
    for key in node.core.counters:
        node.core.counters[key] = next(numbers)
    after = await samples(node)
    shown = {v for (name, labels), v in after.items() if name.endswith("_total") and not labels}
    assert shown >= set(node.core.counters.values())
    assert value(found, "sapwood_something_new_total") == 3


async def test_who_may_look(start: Starter) -> None:
    node = await start()
    address = f"{url(node)}/metrics"
    async with aiohttp.ClientSession() as session:
        for headers, status in (
            ({}, 200),
            ({"X-Forwarded-For": "10.0.0.1"}, 403),
            ({"Origin": "http://evil.example"}, 403),
            ({"Host": "evil.example"}, 403),
        ):
            async with session.get(address, headers=headers) as got:
                assert got.status == status, headers


async def test_a_scraper_with_the_token_may_look_from_elsewhere(start: Starter) -> None:
    from broker.http.port import listen

    node = await start()
    port = await listen(node, "127.0.0.1", 0, settings=HttpSettings(operators=Operators("secret")))
    address = f"http://127.0.0.1:{port.addresses[0][1]}/metrics"
    elsewhere = {"X-Forwarded-For": "10.0.0.1"}
    async with aiohttp.ClientSession() as session:
        for token, status in (("secret", 200), ("wrong", 403)):
            async with session.get(address, headers={**elsewhere, "Authorization": f"Bearer {token}"}) as got:
                assert got.status == status
    await port.cleanup()


async def test_the_type_of_the_answer(start: Starter) -> None:
    node = await start()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url(node)}/metrics") as got:
            assert got.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        async with session.get(f"{url(node)}/metrics", headers={**OPEN, "Accept-Encoding": "gzip"}) as got:
            assert got.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            assert got.headers["Content-Encoding"] == "gzip"


async def test_others_have_their_turns_while_the_figures_of_many_queues_are_gathered(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await start(metrics=Metrics(max_queues=5))
    async with connect(url(node)) as client:
        for number in range(300):
            await client.create(f"q{number:03}")
    monkeypatch.setattr("broker.shares.SLICE", 0.0)
    monkeypatch.setattr("broker.metrics.label_limit.STEP", 1)
    turns, answer = 0, asyncio.create_task(samples(node))
    while not answer.done():
        turns += 1
        await asyncio.sleep(0)
    found = answer.result()
    assert turns > 4 * 300
    assert value(found, "sapwood_queues", kind="persistent") == 300
    assert len(names_of(found, "sapwood_queue_messages", "queue")) == 6
