"""The API of a real node: each call does what it says, and answers as it is described."""

import asyncio
import gzip
import json
from typing import Any

import msgspec
import pytest

from broker.api.pages import Cut
from broker.api.tree import Tree, here
from broker.cells.cells import CellCommand
from broker.node import Node
from sapwood import RequestFailed
from sapwood.client import Client, connect
from sapwood.subscription import Subscription

PAYLOADS = [b"%d" % number for number in range(600)]


async def bury(running: Node, client: Client, queue: str, *payloads: bytes) -> None:
    """Let messages become dead letters: nobody reads or created their queue."""
    await client.send_many(f"queue:{queue}", payloads)
    while running.core.custody.queues.get(f"queue:{queue}"):
        await asyncio.sleep(0.01)


async def ends(subscription: Subscription, why: str) -> None:
    """What had come before may still be read."""
    with pytest.raises(RequestFailed, match=why):
        async for _ in subscription:
            pass


# --- state


async def test_status_says_all_that_it_promises(api: Any, client: Client) -> None:
    await client.create("sales")
    await client.subscribe("topic:prices/#", durable="daily").ready()
    status = await api("GET /api/status")
    assert status["connections"] == status["sessions"] == 1
    assert [queue["name"] for queue in status["queues"]] == ["queue:sales"]
    assert status["subscriptions"][0]["name"] == "daily"
    assert "till-7-secret" not in json.dumps(status)
    assert set(status["rates"]) >= {"in_per_s", "out_per_s", "entered_per_s", "delivered_per_s"}


@pytest.mark.parametrize("call", ["POST /api/permits", "POST /api/publish/queue:sales"])
@pytest.mark.parametrize("body", [b"{}", gzip.compress(bytes(1_000_000))])
async def test_a_packed_body_is_refused_and_not_unpacked(api: Any, call: str, body: bytes) -> None:
    options = {"data": body, "headers": {"Content-Encoding": "gzip"}, "compress": False}
    found = await api(call, 400, **options)
    assert "expected a body that is not packed" in found["text"]


async def test_a_body_that_is_said_to_be_in_no_packing_is_taken_as_it_is(api: Any) -> None:
    """Some clients write there how its text is written."""
    options = {"data": b"milk", "headers": {"Content-Encoding": "utf-8"}, "compress": False}
    await api("POST /api/publish/topic:milk", **options)


async def test_what_is_wrong_with_a_request_is_said(api: Any) -> None:
    for call, said in (
        ("GET /api/queues?limit=0", "limit"),
        ("GET /api/queues?limit=1001", "1 to 1000"),
        ("GET /api/queues?limit=many", "number"),
        ("GET /api/queues?sort=colour", "colour"),
        ("GET /api/queues?serach=x", "serach"),
        ("GET /api/queues?after=nonsense", "after"),
        ("GET /api/queues?after=bnVsbA", "after"),
        ("GET /api/routes?kind=road", "road"),
        ("GET /api/dead?destination=topic:a/%23/b%23", "filter"),
        ("DELETE /api/dead", "which dead letters"),
        ("POST /api/dead/return", "which dead letters"),
        ("GET /api/follow?correlation_id=x", "number"),
    ):
        error = await api(call, 400)
        assert error["code"] == "BAD_REQUEST"
        assert said in error["text"], call
    error = await api("POST /api/dead/return", 400, data=b'{"reasons": "x"}')
    assert "reasons" in error["text"]


# --- queues


async def test_queues_are_listed_in_every_order_page_by_page(
    api: Any, client: Client, running: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"queue:q{number:02}" for number in range(25)]
    for count, name in enumerate(names):
        await client.create(name.removeprefix("queue:"))
        await client.send_many(name, PAYLOADS[:count])
    running.core.statistics.sample()
    monkeypatch.setattr(running.core.statistics, "sample", lambda: None)  # rates stay as they are
    for sort in ("name", "messages", "bytes", "oldest_s", "readers", "in_per_s", "latency_s"):
        found: list[str] = []
        after = ""
        while True:
            page = await api(f"GET /api/queues?sort={sort}&limit=7&after={after}")
            found += [queue["name"] for queue in page["queues"]]
            assert page["more"] == len(names) - len(found)
            if page["next"] is None:
                break
            after = page["next"]
        assert sorted(found) == names
        if sort == "messages":
            assert found == names[::-1]
    page = await api("GET /api/queues?search=Q1&limit=3")
    assert ([queue["name"][-3:] for queue in page["queues"]], page["more"]) == (["q10", "q11", "q12"], 7)
    await api(f"GET /api/queues?sort=messages&after={page['next']}", 400)


async def test_one_queue_with_its_readers_and_latency(api: Any, client: Client, running: Node) -> None:
    await client.create("sales")
    subscription = await client.subscribe("queue:sales", credit=5).ready()
    await client.send_many("queue:sales", PAYLOADS[:8])
    (await anext(subscription)).ack()
    while not (await api("GET /api/queues/sales"))["latency"]:
        pass
    detail = await api("GET /api/queues/queue%3Asales")
    assert (detail["messages"], detail["given"], detail["latency"]["count"]) == (7, 5, 1)
    (reader,) = detail["reading"]
    assert (reader["credit"], reader["session"][:5]) == (5, "till…")
    fetching, said = await asyncio.open_connection("127.0.0.1", running.port)
    said.write(b"GET /login/fetch HTTP/1.1\r\n\r\nGET /subscribe/sales HTTP/1.1\r\n\r\n")
    for _ in range(2):
        assert (await fetching.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    readers = (await api("GET /api/queues/sales"))["reading"]
    assert [each["credit"] for each in readers if not each["address"]] == [0]
    wanted = (await api("GET /api/consumers"))["consumers"]
    assert sorted(each["credit"] for each in wanted) == [0, 5]
    said.close()
    assert (await api("GET /api/queues/nothing", 404))["code"] == "NOT_FOUND"
    await api("GET /api/queues/a@b@c", 404)


async def test_the_contents_of_a_queue_page_by_page(api: Any, client: Client) -> None:
    await client.create("sales")
    subscription = await client.subscribe("queue:sales", credit=10).ready()
    await client.send_many("queue:sales", PAYLOADS[:300])
    await client.send_many("queue:sales@hq", PAYLOADS[300:], correlation_id=7, reply_to="back")
    await anext(subscription)
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = await api(f"GET /api/queues/sales/messages?limit=77&after={after}")
        found += page["messages"]
        if not page["more"]:
            break
        after = page["next"]
    assert [message["preview"] for message in found] == [payload.decode() for payload in PAYLOADS]
    assert len({message["id"] for message in found}) == 600
    assert sum(message["given"] for message in found) == 10
    assert {message["session"] for message in found[:10]} == {found[0]["session"]}
    assert found[0]["session"].startswith("till…")
    assert (found[-1]["correlation_id"], found[-1]["reply_to"], found[-1]["size"]) == (7, "back", 3)


async def test_what_is_no_text_is_shown_as_base64_and_what_is_long_is_cut(api: Any, client: Client) -> None:
    await client.create("sales")
    for payload in (b"\xff\x00", "ü".encode() * 300):
        await client.send("queue:sales", payload)
    first, second = (await api("GET /api/queues/sales/messages"))["messages"]
    assert (first["encoding"], first["preview"], first["truncated"]) == ("base64", "/wA=", False)
    assert (second["encoding"], second["preview"], second["truncated"]) == ("utf-8", "ü" * 128, True)
    assert second["size"] == 600


async def test_a_message_is_deleted_and_one_that_a_reader_has_is_not(api: Any, client: Client) -> None:
    await client.create("sales")
    await client.send_many("queue:sales", PAYLOADS[:3])
    messages = (await api("GET /api/queues/sales/messages"))["messages"]
    assert await api(f"DELETE /api/queues/sales/messages/{messages[1]['id']}") == {
        "deleted": messages[1]["id"]
    }
    await api(f"DELETE /api/queues/sales/messages/{messages[1]['id']}", 404)
    await api(f"DELETE /api/queues/sales/messages/{'0' * 32}-0", 404)
    await api("DELETE /api/queues/sales/messages/nonsense", 400)
    subscription = await client.subscribe("queue:sales").ready()
    delivery = await anext(subscription)
    error = await api(f"DELETE /api/queues/sales/messages/{messages[0]['id']}", 409)
    assert error["code"] == "GIVEN"
    assert delivery.payload == b"0"
    assert (await anext(subscription)).payload == b"2"


async def test_a_queue_is_deleted_with_its_readers_and_messages(
    api: Any, client: Client, running: Node
) -> None:
    await client.create("sales")
    subscription = await client.subscribe("queue:sales", credit=3).ready()
    await client.send_many("queue:sales", PAYLOADS)
    await anext(subscription)
    assert await api("DELETE /api/queues/sales") == {"deleted": "sales", "messages": 600, "readers": 1}
    await ends(subscription, "deleted")
    await api("DELETE /api/queues/sales", 404)
    assert running.core.counters["deleted"] == 600
    assert (await api("GET /api/consumers"))["consumers"] == []
    assert (await api("DELETE /api/queues/System", 409))["code"] == "REFUSED"


async def test_a_name_may_have_braces_as_guids_do(api: Any, client: Client) -> None:
    """The router knew no such path: the queue was seen in lists, and neither opened nor deleted."""
    await client.send("queue:{7f3}/a", b"1")
    queue = "/api/queues/%7B7f3%7D%2Fa"
    (message,) = (await api(f"GET {queue}/messages"))["messages"]
    assert (await api(f"GET {queue}/messages/{message['id']}"))["payload"] == "1"
    assert (await api(f"DELETE {queue}"))["messages"] == 1
    assert "'%7B7f3}'" in (await api("GET /api/trace/message/%257B7f3%7D", 400))["text"]


async def test_the_node_s_own_queues_are_in_no_list(api: Any) -> None:
    assert (await api("GET /api/queues"))["queues"] == []
    assert (await api("GET /api/consumers"))["consumers"] == []
    assert (await api("GET /api/sessions"))["sessions"] == []


# --- clients


async def test_sessions_show_their_connections_and_no_token(api: Any, client: Client, running: Node) -> None:
    await client.create("sales")
    await client.create()
    await client.subscribe("queue:sales", credit=2).ready()
    await client.subscribe("topic:prices/#").ready()
    await client.send_many("queue:sales", PAYLOADS[:4])
    async with connect(f"http://127.0.0.1:{running.port}", session="till-8-secret"):
        page = await api("GET /api/sessions?limit=1")
        rest = await api(f"GET /api/sessions?after={page['next']}")
    found = page["sessions"] + rest["sessions"]
    assert (page["more"], rest["more"], len({session["session"] for session in found})) == (1, 0, 2)
    (session,) = (session for session in found if session["subscriptions"])
    assert session["subscriptions"] == ["queue:sales", "topic:prices/#"]
    assert (session["unacknowledged"], session["transient"], session["in"]) == (2, 1, 4)
    (connection,) = session["connections"]
    assert (connection["kind"], connection["in"], connection["out"]) == ("stream", 4, 2)
    assert connection["bytes_in"] > 0
    assert "secret" not in json.dumps(found)


async def test_consumers_and_the_end_of_a_subscription(api: Any, client: Client) -> None:
    await client.create("sales")
    await client.subscribe("queue:sales").ready()
    durable = await client.subscribe("topic:prices/#", durable="daily").ready()
    found = (await api("GET /api/consumers"))["consumers"]
    assert [(each["destination"], each["durable"]) for each in found] == [
        ("queue:sales", ""),
        ("topic:prices/#", "daily"),
    ]
    assert (await api("GET /api/consumers?search=PRI"))["consumers"] == [found[1]]
    assert "till-7-secret" not in json.dumps(found)
    await client.send("topic:prices/a", b"x")
    ended = await api(f"DELETE /api/subscriptions/{found[1]['id']}")
    assert ended == {"ended": "prices/#", "messages": 1}
    await ends(durable, "ended")
    await api(f"DELETE /api/subscriptions/{found[1]['id']}", 404)


# --- dead letters


async def test_dead_letters_are_listed_newest_first_page_by_page(
    api: Any, client: Client, running: Node
) -> None:
    await bury(running, client, "sales", *PAYLOADS[:10])
    await bury(running, client, "stock", *PAYLOADS[10:20])
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = await api(f"GET /api/dead?limit=3&after={after}")
        found += page["letters"]
        assert page["more"] == 20 - len(found)
        if page["next"] is None:
            break
        after = page["next"]
    assert [letter["destination"] for letter in found] == ["queue:stock"] * 10 + ["queue:sales"] * 10
    assert sorted(letter["preview"] for letter in found) == sorted(str(number) for number in range(20))
    assert (page["messages"], page["reasons"]) == (20, {"QUEUE_DOES_NOT_EXIST": 20})
    assert len((await api("GET /api/dead?destination=queue:sales"))["letters"]) == 10
    assert len((await api("GET /api/dead?destination=queue:%2B"))["letters"]) == 20
    assert (await api("GET /api/dead?reason=EXPIRED"))["letters"] == []


async def test_dead_letters_are_returned_by_id_reason_and_destination(
    api: Any, client: Client, running: Node
) -> None:
    await bury(running, client, "sales", *PAYLOADS[:6])
    await bury(running, client, "stock", b"s")
    await client.create("sales")
    letters = (await api("GET /api/dead?destination=sales"))["letters"]
    chosen = [letter["id"] for letter in letters[:2]]
    assert await api("POST /api/dead/return", json={"ids": chosen}) == {"returned": 2, "kept": 0, "why": ""}
    assert await api("POST /api/dead/return", json={"ids": chosen}) == {"returned": 0, "kept": 0, "why": ""}
    assert await api("POST /api/dead/return", json={"destination": "queue:sales"}) == {
        "returned": 4,
        "kept": 0,
        "why": "",
    }
    found = (await api("GET /api/queues/sales/messages"))["messages"]
    assert sorted(message["preview"] for message in found) == [str(number) for number in range(6)]
    await client.create("stock")
    assert (await api("POST /api/dead/return", json={"reason": "QUEUE_DOES_NOT_EXIST"}))["returned"] == 1
    assert (await api("GET /api/dead"))["messages"] == 0
    await api("POST /api/dead/return", 400, json={"ids": ["x"]})


async def test_dead_letters_are_thrown_away(api: Any, client: Client, running: Node) -> None:
    await bury(running, client, "sales", *PAYLOADS[:6])
    letters = (await api("GET /api/dead"))["letters"]
    assert await api(f"DELETE /api/dead?ids={letters[0]['id']},{letters[1]['id']}") == {"messages": 2}
    assert await api("DELETE /api/dead", json={"reason": "EXPIRED"}) == {"messages": 0}
    assert await api("DELETE /api/dead?all=1") == {"messages": 4}
    assert (await api("GET /api/dead"))["letters"] == []


# --- the tree


async def test_routes_advisories_and_the_tree_of_a_node_alone(api: Any, client: Client) -> None:
    await client.create("sales")
    await client.subscribe("queue:sales").ready()
    await client.subscribe("topic:prices/#").ready()
    routes = await api("GET /api/routes")
    assert [(route["kind"], route["destination"], route["via"]) for route in routes["routes"]] == [
        ("domain", "hq", "local"),
        ("queue", "sales", "local"),
        ("topic", "prices/#", "local"),
    ]
    assert routes["counts"] == {"domain/local": 1, "queue/local": 1, "topic/local": 1}
    page = await api("GET /api/routes?limit=1&kind=topic&search=PRICES&gateway=local")
    assert [route["destination"] for route in page["routes"]] == ["prices/#"]
    advisories = (await api("GET /api/advisories?limit=2"))["advisories"]
    assert [(each["event"], each["op"], each["destination"]) for each in advisories] == [
        ("consumer", "add", "prices/#"),
        ("consumer", "add", "sales"),
    ]
    tree = await api("GET /api/tree")
    assert (tree["node"]["name"], tree["chain"], tree["parent"], tree["children"]) == ("hq", ["hq"], None, [])
    assert await api("GET /api/tree/hq") == tree
    assert (await api("GET /api/tree/nowhere", 504))["code"] == "UNREACHABLE"
    await api("GET /api/tree/no%20name", 404)


async def test_the_story_of_a_message_and_of_its_task_is_told_as_it_is_described(
    api: Any, york: Node, client: Client
) -> None:
    async with connect(f"http://127.0.0.1:{york.port}", session="york") as reader:
        subscription = await reader.subscribe("topic:prices/#").ready()
        while not (await api("GET /api/routes?kind=topic"))["routes"]:
            await asyncio.sleep(0.01)
        await client.send("topic:prices/tea", b"1", task_id="t1", correlation_id=7)
        delivery = await anext(subscription)
        delivery.ack()
        story = await api(f"GET /api/trace/message/{delivery.message_id}")
        assert [hop["node"] for hop in story["hops"]] == ["hq", "york"]
        task = await api("GET /api/trace/task/t1")
        assert task["messages"] == [delivery.message_id]
        assert {event["node"] for event in task["events"]} == {"hq", "york"}


async def test_leaving_and_forgetting_are_refused_where_they_make_no_sense(api: Any) -> None:
    assert (await api("POST /api/node/locate", 409))["code"] == "REFUSED"
    assert (await api("POST /api/node/leave", 409))["code"] == "REFUSED"
    assert (await api("POST /api/node/forget/york", 404))["code"] == "NOT_FOUND"


async def test_a_parent_sees_its_child_and_asks_it_and_not_the_other_way_round(
    api: Any, york: Node, client: Client
) -> None:
    await client.subscribe("topic:prices/#").ready()
    tree = await api("GET /api/tree")
    (child,) = tree["children"]
    assert (child["name"], child["state"], child["role"], child["below"]) == ("york", "running", "leaf", [])
    below = await api("GET /api/tree/york")
    assert (below["node"]["name"], below["chain"], below["node"]["depth"]) == ("york", ["york", "hq"], 1)
    assert (below["parent"]["name"], below["parent"]["state"]) == ("hq", "running")
    for link in (child, below["parent"]):
        assert link["bytes_in"] > 0
        assert link["heard_s"] is not None
        assert {"in", "out", "in_per_s", "out_per_s", "outbox", "spool_oldest_s", "routes"} <= set(link)
    status = await api("GET /api/status")
    (link,) = status["children"]
    assert link["bytes_in"] > 0
    assert link["heard_s"] is not None
    url = f"http://127.0.0.1:{york.port}/api/tree/hq"
    async with api.session.get(url) as answer:
        assert (answer.status, (await answer.json())["code"]) == (409, "REFUSED")
    async with api.session.get(url.replace("tree/hq", "advisories")) as answer:
        events = (await answer.json())["advisories"]
    assert ("add", "prices/#", "hq") in [(each["op"], each["destination"], each["peer"]) for each in events]


async def test_a_child_of_another_version_is_understood(api: Any, york: Node) -> None:
    """It tells more than is known here, and less."""

    def later(tree: Tree) -> Any:
        told = msgspec.to_builtins(tree)
        told["parent"].pop("outbox")
        for place in (told, told["node"], told["parent"], told.setdefault("later", {})):
            place["new"] = 1
        told["children"] = [
            {"name": "shelf", "state": "running", "since_s": 1.0, "error": "", "waiting": 0, "role": "leaf"}
            | {"dormant": False, "below": [{"name": "x", "live": True, "new": 1}], "below_more": 0, "new": 1}
        ]
        return told

    tree = await here(york.running, Cut())
    york.running.cells.commands["tree"] = CellCommand(lambda _asker, _arguments: later(tree))
    below = await api("GET /api/tree/york")
    assert (below["node"]["name"], below["parent"]["outbox"]) == ("york", 0)
    assert below["children"][0]["below"] == [{"name": "x", "live": True}]


async def test_a_child_that_is_gone_is_forgotten(api: Any, york: Node, running: Node) -> None:
    assert (await api("POST /api/node/forget/york", 409))["code"] == "REFUSED"
    await york.stop()
    while running.core.context.children()[0].up:
        await asyncio.sleep(0.01)
    assert await api("POST /api/node/forget/york") == {"forgotten": "york", "messages_routed_again": 0}
    assert (await api("GET /api/tree"))["children"] == []


async def test_a_node_leaves(api: Any, york: Node, running: Node) -> None:
    async with api.session.post(f"http://127.0.0.1:{york.port}/api/node/leave") as answer:
        found = await answer.json()
    api.check("POST", "/api/node/leave", 200, found)
    assert found == {"left": "hq", "messages_kept_here": 0, "site_broker": []}
    async with asyncio.timeout(60):
        await york.driver.stopped.wait()
        while running.core.context.children():
            await asyncio.sleep(0.01)


# --- who may


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=str,
)
async def test_no_call_is_for_foreign_pages(api: Any, headers: dict[str, str]) -> None:
    for path, operations in api.description["paths"].items():
        for method in operations:
            url = api.base + path.replace("{", "").replace("}", "")
            async with api.session.request(method, url, headers=headers) as answer:
                assert answer.status == 403, (method, path)
