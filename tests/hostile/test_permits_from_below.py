"""Each kind of rule of docs/permits.md, tried from below: a raw child asks a real node for all that the rule
allows, and for all that lies beside it.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest
from harness import Network, receiving
from thieves import Thief, advise, thief

from sapwood.protocol.destinations import Kind, parse
from treeconnector.link_events import Advised


class Case(NamedTuple):
    """What a child has, by its list, and what of it is allowed and what refused. `{name}` is the child."""

    rules: tuple[str, ...]
    allowed: tuple[str, ...]
    refused: tuple[str, ...]


CONSUME = (
    Case(
        ("prices/#",), ("topic:prices/tea", "queue:prices/tea"), ("topic:#", "topic:+/tea", "topic:price/tea")
    ),
    Case(("topic:prices/#",), ("topic:prices/tea",), ("queue:prices/tea", "topic:prices2/tea")),
    Case(("queue:orders",), ("queue:orders",), ("topic:orders", "queue:orders2", "queue:Orders")),
    Case(("a/+/c",), ("topic:a/b/c",), ("topic:a/c", "topic:a/b/b/c", "topic:a/#", "topic:a/+/#")),
    Case(("store/{name}/#",), ("topic:store/{name}/x",), ("topic:store/leeds/x", "topic:store/+/x")),
    Case(("queue:orders-*",), ("queue:orders-7",), ("queue:orders", "topic:orders-7", "queue:my-orders-7")),
    Case(("nothing",), (), ("topic:a", "queue:a", "topic:{name}/x", "queue:{name}/x")),
)
SEND = (
    Case(("prices/#",), ("topic:prices/tea", "queue:prices/tea"), ("topic:price", "topic:store/leeds/x")),
    Case(("topic:prices/#",), ("topic:prices/tea",), ("queue:prices/tea", "topic:prices2/tea")),
    Case(("queue:orders",), ("queue:orders",), ("topic:orders", "queue:orders2", "queue:orders@leeds")),
    Case(("a/+/c",), ("topic:a/b/c",), ("topic:a/c", "topic:a/b/b/c")),
    Case(("store/{name}/#",), ("topic:store/{name}/x",), ("topic:store/leeds/x", "topic:store/x")),
    Case(("queue:orders-*",), ("queue:orders-7",), ("queue:orders", "topic:orders-7")),
    Case(("till@hq",), ("queue:till@hq",), ("queue:till@leeds", "queue:till", "queue:System@hq")),
    Case(("#@uk-*",), (), ("queue:till@hq", "queue:System@leeds", "topic:uk-1")),
    Case(("nothing",), (), ("topic:a", "queue:a", "topic:{name}/x", "queue:till@hq", "queue:RoutingMgr@hq")),
)
NODES = (
    Case(("london-*",), ("london-1",), ("leeds", "hq", "london", "paris-1")),
    Case(("{name}-*",), ("{name}-1",), ("leeds", "hq", "{name}2", "other-1")),
    Case(("london",), ("london",), ("london-1", "leeds", "hq")),
    Case((), (), ("leeds", "hq", "{name}-1")),
)
PAYLOAD = b"from below"


def named(texts: tuple[str, ...], name: str) -> list[str]:
    return [text.replace("{name}", name) for text in texts]


async def parent(network: Network, cases: tuple[Case, ...], of: str, **more: Any) -> list[str]:
    """A node with a child for each case; returns their names."""
    names = [f"child{number}" for number in range(len(cases))]
    # a list that is given, but empty, is the default; the others are closed so that only this one counts
    closed: dict[str, Any] = {"consume": ["nothing"], "send": ["nothing"], **more}
    children = [
        {"name": name, **closed} | ({of: list(case.rules)} if case.rules else {})
        for name, case in zip(names, cases, strict=True)
    ]
    network.add("hq", children=[*children, {"name": "leeds", "consume": ["#"], "send": ["#"]}])
    network.add("leeds", "hq")
    await network.start()
    return names


async def refusals(network: Network, child: str) -> int:
    (link,) = [link for link in (await network.status("hq"))["children"] if link["name"] == child]
    return int(link["refused"])


async def test_each_rule_of_consume(network: Network) -> None:
    names = await parent(network, CONSUME, "consume")
    for name, case in zip(names, CONSUME, strict=True):
        await try_each_rule_of_consume(network, name, case)


async def try_each_rule_of_consume(network: Network, name: str, case: Case) -> None:
    allowed, refused = named(case.allowed, name), named(case.refused, name)
    async with thief(network, name) as child:
        await child.say(advise(*refused, *allowed, origin=name))
        await child.until(lambda: len(child.refused()) >= len(refused), f"declined {case}")
        for text in allowed:
            await network.send("hq", text, [PAYLOAD])
        await child.until(lambda: len(child.read()) >= len(allowed), f"given {allowed}")
        assert set(child.refused()) == set(refused), case
        assert sorted(child.read()) == sorted(allowed), case


async def test_each_rule_of_send(network: Network) -> None:
    names = await parent(network, SEND, "send")
    for name, case in zip(names, SEND, strict=True):
        await try_each_rule_of_send(network, name, case)


async def try_each_rule_of_send(network: Network, name: str, case: Case) -> None:
    allowed, refused = named(case.allowed, name), named(case.refused, name)
    async with AsyncExitStack() as stack:
        hq, leeds = network.client("hq"), network.client("leeds")
        for client in (hq, leeds):
            await stack.enter_async_context(client)
        readings = {"topic:#"} | {reader(text) for text in (*allowed, *refused) if "@" not in text}
        readings |= {"queue:till"}
        got = [await stack.enter_async_context(receiving(hq, each)) for each in sorted(readings)]
        at_leeds = [await stack.enter_async_context(receiving(leeds, each)) for each in ("queue:till",)]
        child = await stack.enter_async_context(thief(network, name))
        await child.say(*(child.bundle(text, PAYLOAD, text.encode()) for text in (*refused, *allowed)))
        await child.until(lambda: child.acked == child.number, f"{case} dealt with")
        await until(lambda: sum(map(len, got)) >= 2 * len(allowed), f"{case} came")
        came = {each.payload for one in got for each in one} - {PAYLOAD}
        assert came == {text.encode() for text in allowed}, case
        assert not any(at_leeds), case
        assert await refusals(network, name) == len(refused), case


def reader(text: str) -> str:
    return text if text.startswith("queue:") else "topic:#"


async def test_each_rule_of_nodes_and_no_origin_from_elsewhere(network: Network) -> None:
    names = await parent(network, NODES, "nodes", send=["queue:orders"])
    for name, case in zip(names, NODES, strict=True):
        await try_each_rule_of_nodes_and_no_origin_from_elsewhere(network, name, case)


async def try_each_rule_of_nodes_and_no_origin_from_elsewhere(
    network: Network, name: str, case: Case
) -> None:
    allowed, refused = named(case.allowed, name), named(case.refused, name)
    role = "branch" if case.rules else "leaf"
    async with (
        network.client("hq") as hq,
        receiving(hq, "queue:orders") as orders,
        thief(network, name, role=role) as child,
    ):
        await child.say(advise(*(f"domain:{each}" for each in (*refused, *allowed)), origin=name))
        await child.until(lambda: len(child.refused()) >= len(refused), f"declined {case}")
        assert set(child.refused()) == {f"domain:{each}" for each in refused}, case
        bundles = [child.bundle("queue:orders", each.encode(), origin=each) for each in refused]
        bundles += [child.bundle("queue:orders", each.encode(), origin=each) for each in (name, *allowed)]
        await child.say(*bundles)
        await until(lambda: len(orders) >= 1 + len(allowed), f"{case} came")
        await child.until(lambda: child.acked == child.number, f"{case} dealt with")
        assert {each.payload.decode() for each in orders} == {name, *allowed}, case
    status = await network.status("hq")
    assert "ORIGIN" in {reason.partition(":")[0] for reason in status["dead"]["reasons"]}
    leeds = [link for link in status["children"] if link["name"] == "leeds"]
    assert [link["state"] for link in leeds] == ["running"]


async def test_a_child_hears_of_no_consumer_that_it_may_not_send_to(network: Network) -> None:
    cases = (Case(("queue:orders",), (), ()),)
    (name,) = await parent(network, cases, "send")
    async with (
        network.client("hq") as hq,
        network.client("leeds") as leeds,
        receiving(hq, "queue:payroll"),
        receiving(leeds, "topic:store/leeds/#"),
        receiving(hq, "queue:orders"),
        thief(network, name) as child,
    ):
        await child.until(lambda: "orders" in heard(child), "told of orders")
        assert heard(child) == {"orders"}


def heard(child: Thief) -> set[str]:
    told = [advice for event in child.heard(Advised) for advice in event.advices]
    return {advice.name for advice in told if advice.kind != Kind.DOMAIN}


@pytest.mark.parametrize(
    "text", [each for case in (*CONSUME, *SEND) for each in (*case.allowed, *case.refused)]
)
def test_what_is_tried_are_destinations(text: str) -> None:
    parse(text.replace("{name}", "york"))


async def until(holds: Any, what: str) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)
    assert holds(), what
