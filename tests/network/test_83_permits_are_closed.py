"""A parent whose file says nothing of permits: a hostile child reads, takes, forges and claims nothing.

The parents run with the defaults that a user gets; nothing here is opened but in the tests that say so.
"""

from secrets import token_bytes
from typing import Any

import aiohttp
import pytest
from harness import Network, receiving, until_count
from hostile import peer, until_logged
from quick import numbers
from thieves import PERSISTENT, Thief, advise, thief

from broker.grants import OPEN
from sapwood import Rpc
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Message, Properties
from treeconnector.frames import Granted
from treeconnector.identity import Identity, new_uuid
from treeconnector.link import Link, LinkSettings
from treeconnector.link_events import BundleArrived
from treeconnector.permits import NOTHING, Grant, pack

STORE = "leeds"
CLOSED: dict[str, Any] = {"permits": {}}


async def start(network: Network, **hq: Any) -> None:
    network.add("hq", **(CLOSED | hq))
    network.add(STORE, "hq")
    await network.start()


async def test_two_nodes_talk_in_the_names_of_the_store(network: Network) -> None:
    await start(network)
    async with (
        network.client(STORE) as leeds,
        network.client("hq") as hq,
        receiving(leeds, "queue:leeds") as queue,
        receiving(leeds, "topic:leeds/#") as topics,
        receiving(hq, "topic:leeds/temperature") as told,
    ):
        await network.send("hq", "queue:leeds", numbers(20))
        await network.until_known("hq", "topic:leeds/#")
        await network.send("hq", "topic:leeds/prices", numbers(20))
        await network.send(STORE, "topic:leeds/temperature", numbers(20))
        await until_count(queue, 20)
        await until_count(told, 20)
        await until_count(topics, 40)
        assert sorted(each.payload for each in topics) == sorted(numbers(20) * 2)


async def test_a_child_reads_no_topics_of_others_and_takes_from_no_ones_queue(network: Network) -> None:
    await start(network)
    others = [
        "topic:#",
        "topic:prices/#",
        "topic:leeds/#",
        "queue:orders",
        "queue:leeds/prices",
        "queue:leeds",
    ]
    async with (
        network.client(STORE) as leeds,
        receiving(leeds, "queue:leeds/prices") as prices,
        thief(network) as mallory,
    ):
        await mallory.say(advise(*others, "topic:mallory/#"))
        await mallory.until(lambda: len(mallory.refused()) >= len(others), "declined")
        assert set(mallory.refused()) == set(others)
        await network.send("hq", "topic:prices/uk", numbers(3))
        await network.send("hq", "topic:leeds/x", numbers(3))
        await network.send("hq", "queue:leeds/prices", numbers(50))
        await until_count(prices, 50)
        await network.send("hq", "topic:mallory/last", numbers(1))
        await mallory.until(lambda: "topic:mallory/last" in mallory.read(), "given its own")
        assert set(mallory.read()) == {"topic:mallory/last"}


async def test_a_child_sends_to_nobodys_names_but_its_own(network: Network) -> None:
    await start(network)
    async with (
        network.client("hq") as hq,
        network.client(STORE) as leeds,
        receiving(hq, "topic:#") as topics,
        receiving(hq, "queue:orders") as orders,
        receiving(leeds, "queue:leeds") as queue,
        thief(network) as mallory,
    ):
        for where in ("topic:leeds/x", "topic:prices/x", "queue:orders", "queue:leeds", "queue:System@hq"):
            await mallory.say(mallory.bundle(where, b"lie"))
        await mallory.say(mallory.bundle("topic:mallory/x", b"true"))
        await until_count(topics, 1)
        await network.until("hq", lambda status: status["counters"]["refused"] >= 5, "refusing")
        assert [each.payload for each in topics] == [b"true"]
        assert (orders, queue) == ([], [])


async def claiming(network: Network, role: str, parent: str = "hq") -> str:
    """What the parent says to a child that says it is this."""
    async with peer(network) as mallory:
        mallory.link = Link(
            Identity("test", "mallory", role, new_uuid(token_bytes), 1, new_uuid(token_bytes)),
            LinkSettings(),
            dials=True,
            chain=["mallory"],
            now=0.0,
            nonce=bytes(32),
        )
        await mallory.say(*mallory.link.data_to_send())
        return f"{(refused := await mallory.last_word()).reason} {refused.text}"


@pytest.mark.parametrize(
    ("settings", "role", "text"),
    [
        (CLOSED, "branch", "lets it have no nodes below it"),
        (CLOSED, "root", "a root has no parent"),
        ({"children": [{"name": "mallory", "role": "leaf"}]}, "branch", "as a leaf, not as a branch"),
        ({"permits": "open", "children": [{"name": "mallory", "role": "leaf"}]}, "branch", "as a leaf, not"),
        ({"children": [{"name": "mallory", "role": "branch"}]}, "leaf", "as a branch, not as a leaf"),
    ],
    ids=str,
)
async def test_a_child_is_what_its_entry_says(
    network: Network, settings: dict[str, Any], role: str, text: str
) -> None:
    network.add("hq", **(CLOSED | settings))
    await network.start()
    assert text in await claiming(network, role)
    status = await network.status("hq")
    assert status["children"] == []
    await until_logged(network, "hq", text)


async def test_a_branch_with_its_nodes_links_and_so_do_its_stores(network: Network) -> None:
    """An open headquarters opens no region, and a region gives no more than it has."""
    network.add(
        "hq",
        children=[{"name": "uk", "role": "branch", "nodes": ["york"], "consume": ["{name}/#", "prices/#"]}],
        **CLOSED,
    )
    network.add("uk", "hq", role="branch", permits={"consume": ["{name}/#", "prices/#", "payroll/#"]})
    network.add("york", "uk")
    await network.start()
    async with network.client("york") as york, receiving(york, "topic:prices/#") as prices:
        await network.until_known("hq", "topic:prices/#")
        await network.send("hq", "topic:prices/uk", numbers(5))
        await until_count(prices, 5)
        async with thief(network, "york-2", "uk") as mallory:
            await mallory.say(advise("topic:payroll/#", origin="york-2"))
            await mallory.until(mallory.refused, "declined")
            assert "hq lets uk" in mallory.refused()["topic:payroll/#"]


async def test_an_open_node_says_so(network: Network) -> None:
    await start(network, permits="open")
    assert OPEN in (await network.status("hq"))["warnings"]
    assert OPEN in network.nodes["hq"].last_words(50)
    async with thief(network) as mallory:
        await mallory.say(advise("topic:#", "domain:mallory"))
        await network.until_known("hq", "topic:#")
        await network.send("hq", "topic:payroll/june", numbers(1))
        await mallory.until(lambda: "topic:payroll/june" in mallory.read(), "given everything")


def forgeries(mallory: Thief, where: str) -> list[Any]:
    flags = (0, Flag.REROUTED, Flag.MAYBE_DUPLICATE, Flag.REROUTED | Flag.MAYBE_DUPLICATE | Flag.RETAINED)
    return [
        mallory.bundle(where, b"lie", origin=origin, flags=PERSISTENT | flag)
        for origin in ("hq", STORE, "nobody", "")
        for flag in flags
    ]


@pytest.mark.parametrize("permits", [{}, "open"], ids=["closed", "open"])
async def test_no_origin_is_forged_whatever_is_permitted(network: Network, permits: Any) -> None:
    await start(network, permits=permits)
    async with (
        network.client("hq") as hq,
        receiving(hq, "topic:#") as topics,
        receiving(hq, "queue:mallory/orders") as orders,
        thief(network) as mallory,
    ):
        lies = [*forgeries(mallory, "topic:mallory/x"), *forgeries(mallory, "queue:mallory/orders")]
        await mallory.say(*lies, mallory.bundle("queue:mallory/orders", b"true"))
        await until_count(orders, 1)
        status = await network.until(
            "hq", lambda status: status["counters"]["refused"] >= len(lies), "refusing all forgeries"
        )
        assert ([each.payload for each in orders], topics) == ([b"true"], [])
        assert {reason.partition(":")[0] for reason in status["dead"]["reasons"]} == {"ORIGIN"}


def asking(mallory: Thief, where: str, reply_to: str) -> Any:
    """A request whose answer is to go there."""
    plain = bundles.encode_message(Message(b"{}", Properties(correlation_id=7, reply_to=reply_to)))
    return mallory.bundle(where, b"", body=plain, size=len(plain))


def add(one: int, other: int) -> int:
    return one + other


async def test_no_service_writes_for_a_child_where_it_may_not(network: Network) -> None:
    permits = {"send": ["{name}/#", "queue:adder"]}
    await start(network, permits=permits)
    forbidden = ["payroll", "queue:payroll", "payroll@hq", "topic:prices/uk", "leeds", "queue:leeds/x"]
    forbidden += ["transient-1@leeds", "queue:transient-1@hq", "System.1@hq", "a b@c@d"]
    async with (
        network.client("hq") as hq,
        network.client(STORE) as leeds,
        receiving(hq, "queue:payroll") as payroll,
        receiving(hq, "topic:#") as topics,
        receiving(leeds, "queue:leeds") as queue,
        Rpc(hq).serve("adder", {"add": add}),
        thief(network) as mallory,
    ):
        await mallory.say(advise("domain:mallory", "queue:mallory/answers"))
        await mallory.say(*(asking(mallory, "queue:adder", where) for where in forbidden))
        own = ["transient-1@mallory", "queue:mallory/answers"]
        await mallory.say(*(asking(mallory, "queue:adder", where) for where in own))
        wanted = {"queue:transient-1@mallory", "queue:mallory/answers"}
        await mallory.until(lambda: wanted <= set(mallory.read()), "answered where it may be")
        status = await network.until(
            "hq", lambda status: status["counters"]["refused"] >= len(forbidden), "refusing"
        )
        assert (payroll, topics, queue) == ([], [], [])
        assert set(mallory.read()) == wanted
        assert all(reason.startswith("PERMIT") for reason in status["dead"]["reasons"])
        async with Rpc(leeds) as caller:
            assert await caller.call("adder", "add", one=2, other=3) == 5


async def test_a_child_grants_nobody_anything(network: Network) -> None:
    """Who says what a node may do is its parent, and no store below it."""
    await start(network)
    async with (
        network.client(STORE) as leeds,
        receiving(leeds, "queue:leeds") as queue,
        thief(network) as mallory,
    ):
        await mallory.say(Granted(pack([Grant("mallory", "hq", (NOTHING,), (NOTHING,))]), False))
        assert "Granted" in await mallory.until_ended()
        await network.send("hq", "queue:leeds", numbers(5))
        await until_count(queue, 5)


async def test_what_was_given_comes_back_with_the_origin_that_it_had(network: Network) -> None:
    await start(network)
    async with (
        network.client("hq") as hq,
        thief(network) as mallory,
    ):
        await mallory.say(advise("queue:mallory"))
        await network.until_known("hq", "queue:mallory")
        await network.send("hq", "queue:mallory", [b"pay 1"])
        await mallory.until(lambda: "queue:mallory" in mallory.read(), "given")
        given = next(each for each in mallory.heard(BundleArrived))
        back = {
            "id": given.header.id,
            "count": given.header.count,
            "size": given.header.size,
            "flags": given.header.flags | Flag.REROUTED,
            "body": given.body,
        }
        await mallory.say(advise("queue:mallory", op="remove"))
        await mallory.say(mallory.bundle("queue:mallory", origin=STORE, **back))
        await network.until("hq", lambda status: status["counters"]["refused"] == 1, "refusing the forgery")
        async with receiving(hq, "queue:mallory") as queue:
            await mallory.say(mallory.bundle("queue:mallory", origin=given.header.origin, **back))
            await until_count(queue, 1)
            assert [each.payload for each in queue] == [b"pay 1"]


async def test_no_fresh_queue_of_another_node_is_named_at_an_open_parent(network: Network) -> None:
    """`permits: open` lets a child send everywhere in its own name, and have nobody else write for it."""
    await start(network, permits="open")
    forbidden = ["transient-1@leeds", "queue:transient-1@hq", "System.1@leeds"]
    async with (
        network.client("hq") as hq,
        network.client(STORE) as leeds,
        Rpc(hq).serve("adder", {"add": add}),
        thief(network) as mallory,
    ):
        await mallory.say(advise("domain:mallory", "queue:answers"))
        await mallory.say(*(asking(mallory, "queue:adder", where) for where in forbidden))
        await mallory.say(*(asking(mallory, "queue:adder", at) for at in ("transient-1@mallory", "answers")))
        wanted = {"queue:transient-1@mallory", "queue:answers"}
        await mallory.until(lambda: wanted <= set(mallory.read()), "answered where it may be")
        status = await network.until(
            "hq", lambda status: status["counters"]["refused"] >= len(forbidden), "refusing"
        )
        assert status["counters"]["refused"] == len(forbidden)
        assert all(reason.startswith("PERMIT") for reason in status["dead"]["reasons"])
        async with Rpc(leeds) as caller:
            assert await caller.call("adder", "add", one=2, other=3) == 5


@pytest.mark.parametrize("server", ["hq", STORE, "over HTTP"])
async def test_what_waited_while_permits_changed_is_not_answered_where_it_may_not_be_now(
    network: Network, server: str
) -> None:
    send = ["{name}/#", "queue:adder"]
    children = [
        {"name": "mallory", "send": [*send, "queue:payroll"]},
        {"name": STORE, "consume": ["#"], "send": ["#"]},
    ]
    await start(network, children=children)
    async with thief(network) as mallory:
        await mallory.say(advise("queue:mallory/answers"))
        for where in ("payroll", "mallory/answers"):
            await mallory.say(asking(mallory, "queue:adder", where))
        await network.until("hq", lambda status: status["counters"]["in"] >= 2, "keeping the requests")
        children[0]["send"] = send
        network.configure("hq", children=children)
        async with aiohttp.ClientSession() as http:
            async with http.post(f"{network.url('hq')}/api/permits/reload") as answer:
                assert answer.status == 200, await answer.text()
            if server == "over HTTP":
                assert await asked_over_http(http, network.url("hq")) == ["mallory/answers"]
                return
        async with (
            network.client("hq") as hq,
            network.client(server) as serving,
            receiving(hq, "queue:payroll") as payroll,
            Rpc(serving).serve("adder", {"add": add}),
        ):
            await mallory.until(lambda: mallory.read() == ["queue:mallory/answers"], "answered")
            status = await network.until(
                "hq", lambda status: status["counters"]["refused"] == 1, "refusing the other"
            )
            assert [reason.partition(":")[0] for reason in status["dead"]["reasons"]] == ["PERMIT"]
            assert payroll == []


async def asked_over_http(http: aiohttp.ClientSession, url: str) -> list[str]:
    """Where a client that speaks plain HTTP is asked to answer."""
    for path in ("/login/till-7", "/create/adder", "/subscribe/adder"):
        async with http.get(url + path) as answer:
            assert answer.status == 200, await answer.text()
    async with http.get(url + "/transfer/-1/10") as answer:
        return [each["reply_to"] for _, each in (await answer.json())["messages"]]


async def test_a_server_answers_in_fresh_queues_of_the_nodes_that_asked_only(network: Network) -> None:
    """Also where no parent has looked: the forger is an application at headquarters."""
    await start(network)
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        return number

    async with (
        network.client("hq") as hq,
        network.client(STORE) as leeds,
        Rpc(leeds).serve("leeds/work", {"work": work}),
        Rpc(hq) as caller,
    ):
        victim = await leeds.create()
        request = b'{"method": "work", "parameters": {"number": 666}}'
        await hq.send("queue:leeds/work", request, reply_to=victim, correlation_id=1)
        assert await caller.call("leeds/work", "work", number=7) == 7
        status = await network.until(STORE, lambda status: status["dead"]["messages"] == 1, "refusing")
        assert ["REJECTED" in reason for reason in status["dead"]["reasons"]] == [True]
        assert done == [7]
