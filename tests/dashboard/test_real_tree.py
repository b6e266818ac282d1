"""The dashboard of real nodes: HQ, a region and a store, with applications that send, read and call."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect

from broker.node import Node
from config.channels import Forward
from config.mesh import Core, Mesh
from config.model import Advisories, AdvisoryLog, Delivery, Link, Listener, Permits, Site, TreeConnector
from sapwood import Rpc, connect, task

pytestmark = pytest.mark.asyncio(loop_scope="session")
expect.set_options(timeout=120_000)

HOSTILE = '<img src=x onerror="document.title=1">'
VIEWS = (
    "overview",
    "charts",
    "tree",
    "topology",
    "queues",
    "consumers",
    "sessions",
    "routes",
    "channels",
    "node",
    "dead",
    "advisories",
    "trace",
    "follow",
)
Opened = Callable[..., Awaitable[Page]]
ALONE = Mesh()
OPEN = Permits(default="open")


class Tree:
    """Three nodes in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: dict[str, Node] = {}

    async def add(
        self, name: str, parent: str = "", role: Any = "leaf", port: int = 0, mesh: Mesh = ALONE
    ) -> Node:
        connectors = ()
        if parent:
            uri = f"ws://127.0.0.1:{self.nodes[parent].port}/link"
            connectors = (TreeConnector(nodetype=role, uri=uri),)
        node = Node(
            Site(
                name=name,
                data=self.folder / name,
                listener=Listener(port=port),
                tree_connectors=connectors,
                mesh=mesh,
                permits=OPEN if not connectors or role == "branch" else Permits(),
                advisories=Advisories(linger=0.0, dormant_after=3600.0),
                advisory_log=AdvisoryLog(enabled=False),
                delivery=Delivery(hold_time=0.2),
                link=Link(backoff_initial=0.05, backoff_max=0.2),
            )
        )
        await node.start()
        self.nodes[name] = node
        return node

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.nodes[name].port}"

    async def until(self, name: str, holds: Callable[[dict[str, Any]], Any]) -> None:
        async with asyncio.timeout(60):
            while not holds(await self.nodes[name].status()):
                await asyncio.sleep(0.01)


@pytest_asyncio.fixture(loop_scope="session")
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    made = Tree(tmp_path)
    await made.add("hq")
    await made.add("north", "hq", "branch")
    await made.add("york", "north")
    await made.until("hq", lambda status: status["routes"].get("domain/north") == 2)
    yield made
    for node in reversed(made.nodes.values()):
        await node.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def mesh(tmp_path: Path) -> AsyncIterator[Tree]:
    """Two roots that are one, and a region that is linked with both."""
    made = Tree(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("what both know")
    secret.chmod(0o600)
    await made.add("hq", mesh=Mesh(secret_file=secret))
    core = Core(name="hq", uri=f"ws://127.0.0.1:{made.nodes['hq'].port}/link")
    await made.add("hq-2", mesh=Mesh(secret_file=secret, cores=(core,)))
    await made.add("north", "hq", "branch")
    await made.until("north", lambda status: len(running(status, "parents")) == 2)
    yield made
    for node in reversed(made.nodes.values()):
        await node.stop()


def running(status: dict[str, Any], links: str) -> list[str]:
    return [link["name"] for link in status[links] if link["state"] == "running"]


def rows(page: Page) -> Locator:
    return page.locator(".table .row")


async def test_every_view_of_every_node_shows_itself(tree: Tree, opened: Opened) -> None:
    for name in ("hq", "north", "york"):
        page = await opened(tree.url(name))
        await expect(page.locator(".chain strong")).to_have_text(name)
        for view in VIEWS:
            await page.goto(f"{tree.url(name)}/dashboard/#/{view}")
            await expect(page.locator("#content h1")).to_be_visible()
            await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
            await expect(page.get_by_text("it runs a version without that")).to_have_count(0)


async def test_a_browser_that_asks_for_the_node_comes_to_the_dashboard(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"))
    await page.goto(tree.url("hq"))
    await expect(page.locator(".chain strong")).to_have_text("hq")
    async with aiohttp.ClientSession() as program, program.get(tree.url("hq")) as answer:
        assert answer.status == 200
        assert answer.content_type != "text/html"


async def test_a_queue_grows_and_shrinks_before_one_s_eyes(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"), "queues")
    async with connect(tree.url("hq"), session="accounts") as client:
        await client.create("invoices")
        row = rows(page).filter(has_text="invoices")
        await expect(row.locator(".cell").nth(1)).to_have_text("0")
        await client.send_many("queue:invoices", [b"%d" % number for number in range(25)])
        await expect(row.locator(".cell").nth(1)).to_have_text("25")
        async for delivery in client.subscribe("queue:invoices"):
            delivery.ack()
            if delivery.payload == b"24":
                break
        await expect(row.locator(".cell").nth(1)).to_have_text("0")
        await page.goto(f"{tree.url('hq')}/dashboard/#/sessions")
        await expect(rows(page)).to_have_count(1)
        await expect(rows(page)).to_contain_text("acco…")  # masked
    await expect(rows(page)).to_have_count(0)


async def test_a_store_that_goes_is_seen_from_hq_and_from_its_region(tree: Tree, opened: Opened) -> None:
    at_hq, at_north = await opened(tree.url("hq"), "tree"), await opened(tree.url("north"), "tree")
    await rows(at_hq).filter(has_text="north").get_by_role("button", name="Unfold north").click()
    for page in (at_hq, at_north):
        await expect(rows(page).filter(has_text="york").locator(".mark")).to_have_text("running")
    await tree.nodes.pop("york").stop()
    for page in (at_north, at_hq):
        await expect(rows(page).filter(has_text="york").locator(".mark")).to_have_text("down")
    await at_north.goto(f"{tree.url('north')}/dashboard/#/overview")
    await expect(at_north.locator(".lines")).to_contain_text("The link of york is down")
    await at_north.goto(f"{tree.url('north')}/dashboard/#/tree")
    await expect(rows(at_north).filter(has_text="hq").locator(".mark")).to_have_text("running")


async def test_the_picture_shows_a_store_that_goes(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"), "topology")
    region = page.locator(".topology .cards .node")
    await expect(region).to_contain_text("2 up")
    await region.click()
    store = page.locator(".topology .cards .node")
    await expect(store).to_contain_text(re.compile("york.*leaf.*running"))
    await tree.nodes.pop("york").stop()
    await expect(store).to_contain_text("down")
    page = await opened(tree.url("north"), "topology")
    await expect(page.locator(".topology .way .node")).to_have_count(2)
    await expect(page.locator(".topology .way")).to_contain_text(
        re.compile("hq.*above.*running.*north.*branch")
    )


async def test_a_dead_letter_is_returned_and_read(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"), "dead")
    async with connect(tree.url("hq")) as client:
        await client.send("queue:nobody", b"read me")
        await expect(rows(page)).to_contain_text("QUEUE_DOES_NOT_EXIST")
        await expect(rows(page)).to_contain_text("read me")
        subscription = client.subscribe("queue:nobody") if await client.create("nobody") else None
        assert subscription is not None
        await subscription.ready()
        await rows(page).get_by_role("checkbox").check()
        await page.get_by_role("button", name="Return 1").click()
        await expect(page.locator(".notice")).to_have_text("1 letter returned.")
        delivery = await asyncio.wait_for(anext(subscription), 120)
        assert delivery.payload == b"read me"
        delivery.ack()
    await expect(rows(page)).to_have_count(0)


async def test_a_message_is_shown_whole_and_a_queue_is_purged(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"))
    long = json.dumps({"article": 1004, "note": "x" * 1000})
    async with connect(tree.url("hq")) as client:
        await client.create("receipts")
        await client.send("queue:receipts", long.encode(), correlation_id=7)
        await client.send("queue:receipts", b"\x00\x01till\xff" * 3)
    await page.goto(f"{tree.url('hq')}/dashboard/#/queues/queue%3Areceipts")
    panel = page.locator(".panel")
    await panel.get_by_role("row", name=re.compile("1004")).get_by_role("button", name="Show").click()
    payload = panel.get_by_label("The payload")
    await expect(payload).to_have_text(json.dumps(json.loads(long), indent=2))
    await expect(panel).to_contain_text("correlation_id")
    forms = panel.get_by_role("group", name="Show it as")
    await forms.get_by_role("button", name="Text").click()
    await expect(payload).to_have_text(long)
    await forms.get_by_role("button", name="Hex").click()
    await expect(payload).to_contain_text(
        '00000000  7b 22 61 72 74 69 63 6c 65 22 3a 20 31 30 30 34  {"article": 1004'
    )
    await forms.get_by_role("button", name="JSON").click()
    await expect(payload).to_have_text(json.dumps(json.loads(long), indent=2))
    async with page.expect_download() as download:
        await panel.get_by_role("button", name="Download").click()
    assert (await (await download.value).path()).read_bytes() == long.encode()
    await panel.get_by_role("row", name=re.compile("base64")).get_by_role("button", name="Show").click()
    await expect(payload).to_contain_text(
        "00000000  00 01 74 69 6c 6c ff 00 01 74 69 6c 6c ff 00 01  ..till...till..."
    )
    await expect(forms.get_by_role("button", name="JSON")).to_have_count(0)
    await forms.get_by_role("button", name="Text").click()
    await expect(payload).to_contain_text("till")
    await panel.get_by_role("button", name="Hide").click()
    await expect(payload).to_have_count(0)
    await panel.get_by_role("button", name="Purge…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Throw away").click()
    await expect(page.locator(".notice")).to_have_text("2 messages thrown away.")
    await expect(panel).to_contain_text("None.")


async def test_a_queue_is_created_and_a_message_is_published_from_the_page(
    tree: Tree, opened: Opened
) -> None:
    page = await opened(tree.url("hq"), "queues")
    await page.get_by_role("button", name="Create a queue…").click()
    form = page.get_by_role("dialog", name="Create a queue")
    await form.get_by_label("Name").fill("refunds/york")
    await form.get_by_label("Its messages stay").check()
    await form.get_by_role("button", name="Create").click()
    panel = page.locator(".panel")
    await expect(panel).to_contain_text("created here, home")
    await panel.get_by_role("button", name="Publish…").click()
    form = page.get_by_role("dialog", name="Publish a message")
    await expect(form.get_by_label("Destination")).to_have_value("queue:refunds/york")
    await form.get_by_label("Payload", exact=True).fill('{"pence": 46}')
    await form.get_by_label("Reply to").fill("queue:answers")
    await form.get_by_label("Expires in seconds").fill("3600")
    await form.get_by_label("Correlation id").fill("7")
    await form.get_by_label("Content type").fill("application/json")
    await form.get_by_label("Headers").fill("kind: refund\nurgent")
    await form.get_by_role("button", name="Publish").click()
    await expect(panel.get_by_role("row", name=re.compile("pence"))).to_have_count(1)
    async with connect(tree.url("hq")) as client:
        message = await anext(client.subscribe("queue:refunds/york"))
        said = message.properties
        assert (message.payload, said.reply_to, said.correlation_id) == (b'{"pence": 46}', "queue:answers", 7)
        assert message.properties.headers == {"kind": "refund", "urgent": ""}
        assert message.properties.content_type == "application/json"
        message.ack()
    (change, *_) = tree.nodes["hq"].running.trail.latest()
    assert (change.who, change.operation) == ("local", "POST /api/publish/{destination}")


async def test_definitions_go_to_a_file_and_come_from_it_after_a_question(
    tree: Tree, opened: Opened, tmp_path: Path, watched: Any
) -> None:
    watched.expected |= {"status of 400"}
    page = await opened(tree.url("hq"))
    async with aiohttp.ClientSession() as http:
        for path in ("queues/sales?home=1", "queues/returns"):
            (await http.post(f"{tree.url('hq')}/api/{path}")).raise_for_status()
    await page.get_by_role("button", name="Definitions…").click()
    panel = page.locator(".panel")
    async with page.expect_download() as download:
        await panel.get_by_role("button", name="Export").click()
    file = tmp_path / (await download.value).suggested_filename
    assert file.name == "hq-definitions.json"
    await (await download.value).save_as(file)
    given = json.loads(file.read_text("utf-8"))
    assert [(each["name"], each["home"]) for each in given["queues"]] == [("returns", False), ("sales", True)]
    york = await opened(tree.url("york"))
    await york.get_by_role("button", name="Definitions…").click()
    panel = york.locator(".panel")
    await panel.get_by_label("A file of definitions").set_input_files(file)
    await expect(panel).to_contain_text("To be made: 2 queues. There already: nothing.")
    await expect(panel).to_contain_text("the file is of 'hq', this is 'york'")
    await panel.get_by_role("button", name="Import…").click()
    await york.get_by_role("dialog", name="Import definitions").get_by_role("button", name="Import").click()
    await expect(york.locator(".notice")).to_have_text("2 queues made at york.")
    await expect(panel).to_contain_text("To be made: nothing. There already: 2 queues.")
    assert tree.nodes["york"].core.custody.queues["queue:sales"].home
    given["queues"] = [{"name": HOSTILE}, {"name": "x@hq"}]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(given), "utf-8")
    await panel.get_by_label("A file of definitions").set_input_files(wrong)
    await expect(panel.locator(".banner")).to_contain_text("queues[1]: 'x@hq'")


async def test_a_form_that_is_sent_twice_at_once_publishes_one_message(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"), "queues")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/publish/" in request.url else None)
    await page.get_by_role("button", name="Publish…").click()
    form = page.get_by_role("dialog", name="Publish a message")
    await form.get_by_label("Destination").fill("queue:once")
    await form.locator("form").evaluate("form => { form.requestSubmit(); form.requestSubmit(); }")
    await expect(form).to_have_count(0)
    assert len(asked) == 1


async def test_a_row_is_the_same_while_its_age_grows(tree: Tree, opened: Opened) -> None:
    """Else whoever reaches for its button would find another in its place."""
    page = await opened(tree.url("hq"))
    async with connect(tree.url("hq")) as client:
        await client.create("ages")
        await client.send("queue:ages", b"a coat")
    await page.goto(f"{tree.url('hq')}/dashboard/#/queues/queue%3Aages")
    row = page.locator(".panel").get_by_role("row", name=re.compile("a coat"))
    button, told = row.get_by_role("button", name="Show"), row.get_by_role("cell").nth(2)
    await button.evaluate("button => { button.seen = true; }")
    young = await told.text_content()
    assert young
    await expect(told).not_to_have_text(young)
    assert await button.evaluate("button => button.seen")


async def test_chosen_messages_are_moved_from_the_page(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"))
    async with connect(tree.url("hq")) as client:
        await client.create("wrong")
        await client.create("right")
        await client.send_many("queue:wrong", [b"one", b"two", b"three"])
    await page.goto(f"{tree.url('hq')}/dashboard/#/queues/queue%3Awrong")
    panel = page.locator(".panel")
    for text in ("one", "three"):
        await panel.get_by_role("row", name=re.compile(text)).get_by_role("checkbox").check()
    await panel.get_by_role("button", name="Move 2…").click()
    form = page.get_by_role("dialog", name="Move 2 messages")
    await form.get_by_label("To the queue").fill("right")
    await form.get_by_role("button", name="Move").click()
    await expect(page.locator(".notice")).to_have_text("2 messages moved to queue:right.")
    await expect(panel.get_by_role("row", name=re.compile("one|three"))).to_have_count(0)
    await expect(panel.get_by_role("row", name=re.compile("two"))).to_have_count(1)
    await page.goto(f"{tree.url('hq')}/dashboard/#/queues/queue%3Aright")
    await expect(panel.get_by_role("row", name=re.compile("one|three"))).to_have_count(2)


async def test_a_session_is_closed(tree: Tree, opened: Opened) -> None:
    lost = asyncio.Event()
    async with connect(tree.url("hq"), session="stuck-till-4", on_lost=lambda _error: lost.set()) as client:
        await client.create("errands")
        page = await opened(tree.url("hq"), "sessions")
        await rows(page).filter(has_text="stuc").click()
        await page.get_by_role("button", name="Close the session…").click()
        question = page.get_by_role("dialog", name="Close this session?")
        await question.get_by_role("button", name="Close the session").click()
        await expect(page.locator(".notice")).to_have_text("1 connection closed.")
        await asyncio.wait_for(lost.wait(), 120)


async def test_a_channel_is_seen_by_whom_it_was_opened_to_what_and_how_much_it_moved(
    tree: Tree, opened: Opened
) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    to = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    forwards = tree.nodes["hq"].report.access.forwards
    forwards.configure([Forward(name="till", to=to, permit=("hq",))])
    page = await opened(tree.url("hq"), "channels")
    await expect(page.locator("#since")).to_contain_text("Offers till. Since its start 0 opened")
    async with server, aiohttp.ClientSession() as session:
        async with session.ws_connect(f"{tree.url('hq')}/channel/hq/till") as channel:
            assert await channel.receive_str() == "open"
            await channel.send_bytes(b"x" * 2048)
            assert await channel.receive_bytes() == b"x" * 2048
            await expect(rows(page).first).to_contain_text(re.compile("hqtill@hq.*local at 127.0.0.1:"))
            await expect(rows(page).first).to_contain_text(re.compile("open.*2[,.]05? kB|open.*2.0 KiB"))
            await rows(page).first.click()
            await expect(page.locator(".panel")).to_contain_text("2,048 bytes")
        await expect(page.get_by_text("No channel goes through this node now.")).to_be_visible()


def answered_late(page: Page) -> Callable[[Route], Awaitable[None]]:
    """The answer to a deletion comes when the page has asked for its list three times more."""

    async def handle(route: Route) -> None:
        if route.request.method != "DELETE":
            await route.continue_()
            return
        answer = await route.fetch()
        for _ in range(3):
            await page.wait_for_event("request", lambda request: "/api/queues?" in request.url)
        await route.fulfill(response=answer)

    return handle


async def test_a_message_and_a_queue_are_deleted(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"))
    async with connect(tree.url("hq")) as client:
        await client.create("invoices")
        await client.send_many("queue:invoices", [b"wrong", b"right"])
    await page.goto(f"{tree.url('hq')}/dashboard/#/queues/queue%3Ainvoices")
    panel, dialog = page.locator(".panel"), page.get_by_role("dialog", name=re.compile("Delete"))
    await panel.get_by_role("row", name=re.compile("wrong")).get_by_role("button", name="Delete").click()
    await dialog.get_by_role("button", name="Delete the message").click()
    await expect(panel.get_by_role("row", name=re.compile("wrong"))).to_have_count(0)
    await expect(panel.get_by_role("row", name=re.compile("right"))).to_have_count(1)
    await page.route("**/api/queues/queue%3Ainvoices", answered_late(page))
    await panel.get_by_role("button", name="Delete the queue…").click()
    await dialog.get_by_role("button", name="Delete the queue").click()
    await expect(panel).to_have_count(0)
    await expect(rows(page).filter(has_text="invoices")).to_have_count(0)


async def test_a_hostile_queue_is_shown_as_text(tree: Tree, opened: Opened) -> None:
    async with connect(tree.url("hq"), session=HOSTILE) as client:
        await client.create(HOSTILE)
        await client.send(f"queue:{HOSTILE}", HOSTILE.encode())
        page = await opened(tree.url("hq"), "queues")
        await expect(rows(page)).to_contain_text(HOSTILE)
        await rows(page).click()
        await expect(page.locator(".panel td.wrap")).to_have_text(HOSTILE)
        await page.goto(f"{tree.url('hq')}/dashboard/#/overview")
        await expect(page.locator("#content")).to_contain_text(HOSTILE)
        assert await page.locator("img[src=x]").count() == 0
        assert await page.title() != "1"


async def test_the_path_of_a_message_across_three_nodes(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("hq"), "follow")
    async with connect(tree.url("york")) as reader, connect(tree.url("hq")) as writer:
        await reader.create("prices")
        subscription = await reader.subscribe("queue:prices").ready()
        await tree.until("hq", lambda status: "queue/north" in status["routes"])
        await page.get_by_role("button", name="Follow").click()
        await expect(page.get_by_role("button", name="Stop")).to_be_visible()
        await expect(page.locator(".empty")).to_contain_text("nothing has matched yet")
        await writer.send("queue:prices", b"46")
        (await asyncio.wait_for(anext(subscription), 120)).ack()
        await rows(page).filter(has_text="entered").locator("a").first.click()
        await expect(page.locator("#content h1")).to_have_text("Trace")
        await page.get_by_role("button", name="Ask again").click()
        await expect(page.locator(".lane-name > title")).to_have_text(["hq", "north", "york"])
        await expect(page.locator(".timeline .arrow")).to_have_count(2)


async def test_a_cell_is_pinged_and_the_way_to_it_is_shown(tree: Tree, opened: Opened) -> None:
    page = await opened(tree.url("york"), "routes")
    await page.get_by_label("Cell to ping").fill("System@hq")
    await page.get_by_role("button", name="Ping").click()
    await expect(page.locator("#content").get_by_role("status")).to_contain_text("System@hq is there")
    await page.get_by_role("button", name="Traceroute").click()
    hops = page.locator(".hops li")
    await expect(hops).to_have_count(3)
    await expect(hops.last).to_contain_text("hq, ")
    await page.get_by_role("button", name="Who has").click()
    own = tree.nodes["hq"].core.logical_addresses.own
    await expect(page.locator("#content").get_by_role("status")).to_contain_text(f"hq is {own}")
    await page.get_by_label("Cell to ping").fill(f"{HOSTILE}@nowhere")
    await page.get_by_role("button", name="Traceroute").click()
    await expect(page.locator("#content").get_by_role("status")).to_contain_text(
        "hq knows no way: it waits there"
    )
    assert await page.title() != "1"


async def test_a_route_at_another_node_is_set_and_removed_each_after_a_question(
    tree: Tree, opened: Opened
) -> None:
    page = await opened(tree.url("hq"), "routes")
    await page.get_by_label("Node to ask").fill("north")
    await page.get_by_role("button", name="Ask it").click()
    await expect(page.locator("#content h1")).to_have_text("Routes at north")
    await expect(rows(page).filter(has_text="default")).to_contain_text("hq")
    await page.get_by_role("button", name="Set a route…").click()
    panel, question = page.locator(".panel"), page.locator("dialog")
    await panel.get_by_label("Address").fill(f"till{HOSTILE}@york")
    await panel.get_by_label("Neighbour").fill("york")
    for answer in ("Cancel", "Set it"):
        assert not list(tree.nodes["north"].core.table.static)
        await panel.get_by_role("button", name="Set the route…").click()
        await expect(question).to_contain_text(f"exact till{HOSTILE}@york → york")
        await question.get_by_role("button", name=answer).click()
    await expect(page.locator(".notice").first).to_contain_text("At north the route exact")
    (route,) = tree.nodes["north"].core.table.static
    assert route.to == "york"
    row = rows(page).filter(has_text="set by hand")
    await row.click()
    await panel.get_by_role("button", name="Remove the route…").click()
    await question.get_by_role("button", name="Remove it").click()
    await expect(row).to_have_count(0)
    assert not list(tree.nodes["north"].core.table.static)
    assert await page.title() != "1"


async def test_what_a_node_refuses_is_said_and_what_follows_a_link_cannot_be_removed(
    tree: Tree, opened: Opened, watched: Any
) -> None:
    watched.expected |= {"status of 404"}
    page = await opened(tree.url("hq"), "routes/north")
    await page.get_by_role("button", name="Set a route…").click()
    panel = page.locator(".panel")
    await panel.get_by_label("Kind of route").select_option("default")
    await expect(panel.get_by_label("Address")).to_have_count(0)
    await panel.get_by_label("Neighbour").fill("bath")
    await panel.get_by_role("button", name="Set the route…").click()
    await page.locator("dialog").get_by_role("button", name="Set it").click()
    await expect(page.locator(".notice.bad")).to_contain_text(
        "north has no neighbour 'bath': it has hq, york"
    )
    await panel.get_by_role("button", name="Close").click()
    await rows(page).filter(has_text="default").click()
    await expect(panel).to_contain_text("comes and goes by itself")
    await expect(panel.get_by_role("button", name="Remove the route…")).to_have_count(0)


async def test_links_and_cells_of_any_node_are_listed(tree: Tree, opened: Opened, watched: Any) -> None:
    watched.expected |= {"status of 504"}
    async with connect(tree.url("north")) as client:
        await client.create("stock")
        page = await opened(tree.url("hq"), "tree")
        await rows(page).filter(has_text="north").click()
        await page.get_by_role("link", name="its links").click()
        await expect(page.locator("#content h1")).to_have_text("Links at north")
        await expect(rows(page)).to_have_count(2)
        await rows(page).filter(has_text="york").click()
        incarnation = str(tree.nodes["york"].core.logical_addresses.own)
        await expect(page.locator(".panel")).to_contain_text(incarnation)
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Cells").click()
        await expect(page.locator("#content h1")).to_have_text("Cells at north")
        await expect(rows(page).filter(has_text="stock")).to_contain_text("queue")
        await expect(rows(page).filter(has_text="RoutingMgr")).to_contain_text("the node's")
        await page.get_by_label("Node to ask").fill("nowhere")
        await page.get_by_role("button", name="Ask it").click()
        await expect(page.locator(".table .empty")).to_contain_text("nowhere")


async def test_all_parents_and_all_nodes_of_a_mesh_are_shown(mesh: Tree, opened: Opened) -> None:
    at_north, at_hq = await opened(mesh.url("north"), "tree"), await opened(mesh.url("hq"), "tree")
    above = rows(at_north).filter(has_text="above")
    await expect(above).to_have_count(2)
    await expect(above.locator(".label")).to_have_text(["hq", "hq-2"])
    await expect(above.locator(".mark")).to_have_text(["running", "running"])
    await expect(rows(at_hq).filter(has_text="same mesh").locator(".label")).to_have_text("hq-2")
    async with aiohttp.ClientSession() as program, program.get(f"{mesh.url('north')}/api/tree") as answer:
        told = await answer.json()
    assert [parent["name"] for parent in told["parents"]] == ["hq", "hq-2"]
    assert told["mesh"] == []
    await mesh.nodes.pop("hq-2").stop()
    await expect(above.filter(has_text="hq-2").locator(".mark")).not_to_have_text("running")
    await expect(above.filter(has_text="running")).to_have_count(1)
    await at_hq.goto(f"{mesh.url('hq')}/dashboard/#/overview")
    await expect(at_hq.locator(".lines")).to_contain_text("The link to hq-2, of the same mesh, is")
    async with aiohttp.ClientSession() as program, program.get(f"{mesh.url('hq')}/api/tree") as answer:
        (other,) = (await answer.json())["mesh"]
    assert (other["name"], other["state"]) != ("hq-2", "running")


async def test_a_call_across_the_tree_is_one_timeline(tree: Tree, opened: Opened) -> None:
    async with connect(tree.url("york")) as till, connect(tree.url("hq")) as desk:
        caller, service = Rpc(till), Rpc(desk)
        async with service.serve("stock", {"level": lambda article: 3}):
            await tree.until("york", lambda status: status["parent"]["state"] == "running")
            with task("sale-4711"):
                assert await caller.call("stock", "level", article=1004, timeout=120) == 3
            page = await opened(tree.url("hq"), "trace/task/sale-4711")
            await expect(page.locator(".lane-name > title")).to_have_text(["york", "north", "hq"])
            await expect(page.locator(".timeline .arrow.reply")).to_have_count(2)
            await expect(page.locator("dl.facts")).to_contain_text("2 messages")
        await caller.close()
        await service.close()


async def test_a_stopping_node_is_said_to_be_silent_and_is_found_again(
    tree: Tree, opened: Opened, watched: Any
) -> None:
    watched.expected |= {"ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET"}
    page = await opened(tree.url("york"))
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
    port = tree.nodes["york"].port
    await tree.nodes.pop("york").stop()
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "lost")
    await tree.add("york", "north", port=port)
    await expect(page.locator("#connection")).to_have_attribute("data-connection", "live")
