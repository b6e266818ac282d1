#!/usr/bin/env python3
"""Makes the documents' pictures: the dashboard of a real tree of nine nodes, and the report of its audit.

    python website/pictures.py              # into docs/images; `tox -e pictures` does this
    python website/pictures.py --out DIR --only dashboard-overview-light

The nodes are those of `sapwood demo`, with traffic, a store that is killed, and calls across the tree. Needs
Chromium, and for the report Java or the extra `spark`.

Each picture says in its text `Pages` which pages it is of: `stale` finds those that have changed since.
"""

import argparse
import asyncio
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from PIL import Image, PngImagePlugin
from playwright.async_api import Browser, Page, async_playwright, expect

from broker.cli.demo import plan
from broker.cli.demo.line import CutLine
from broker.cli.demo.processes import NodeProcess, Nodes, patience
from broker.cli.demo.trickle import Trickle
from sapwood import Client, NobodyServes, Rpc, connect, task

ROOT: Final = Path(__file__).parents[1]
IMAGES: Final = ROOT / "docs" / "images"
DASHBOARD: Final = ROOT / "broker" / "http" / "dashboard" / "static"
REPORT: Final = tuple(ROOT / "audit" / name for name in ("report.py", "report.css", "report.js", "page.py"))
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")
COLOURS: Final = 192
TASK: Final = "sale-4711"
GONE: Final = "winchester"
SECONDS: Final = 60.0
LIMIT: Final = 1000 * patience(SECONDS)
"""Milliseconds, for what a page is to show."""
Shot = Callable[[Page, "Tree"], Awaitable[None]]


class Tree:
    """The running nodes. `message`: id of a message from HQ to the store york."""

    def __init__(self, chain: plan.Chain, urls: dict[str, str], nodes: Nodes, folder: Path) -> None:
        self.chain, self.urls, self.nodes, self.folder = chain, urls, nodes, folder
        self.message = ""

    @property
    def dashboard(self) -> str:
        return f"{self.urls[self.chain.root.name]}/dashboard/#/"


# --- the pictures


async def overview(page: Page, tree: Tree) -> None:
    await page.goto(f"{tree.dashboard}overview")
    await page.locator(".tile .spark .stroke").first.wait_for()
    line = re.compile("L".join([".*"] * 12))
    await expect(page.locator(".tile .spark .stroke").first).to_have_attribute("d", line, timeout=LIMIT)


async def tree_of_nodes(page: Page, tree: Tree) -> None:
    await page.goto(f"{tree.dashboard}tree")
    for region in ("north", "south"):
        await page.get_by_role("button", name=f"Unfold {region}").click()
    await page.locator(".row", has_text=GONE).locator(".mark.state-down").wait_for()


async def topology(page: Page, tree: Tree) -> None:
    await page.goto(f"{tree.dashboard}topology")
    await page.locator(".topology .cards .node", has_text="1 down").wait_for()


async def region(page: Page, tree: Tree) -> None:
    await page.goto(f"{tree.dashboard}topology/south")
    await page.locator(".topology .cards .node.state-down", has_text=GONE).wait_for()


async def queue(page: Page, tree: Tree) -> None:
    await page.goto(f"{tree.dashboard}queues")
    await page.locator(".row", has_text="invoices").click()
    await page.locator(".panel table td").first.wait_for()


async def message(page: Page, tree: Tree) -> None:
    await page.goto(f"{tree.dashboard}trace/message/{tree.message}")
    await page.locator(".timeline svg .lane-name", has_text="york").wait_for()


async def calls(page: Page, tree: Tree) -> None:
    await page.goto(f"{tree.dashboard}trace/task/{TASK}")
    await page.locator(".timeline svg .lane-name", has_text="exeter").wait_for()


async def report(page: Page, tree: Tree) -> None:
    await page.goto((tree.folder / "report" / "report.html").as_uri())
    await page.locator("h1").first.wait_for()


PICTURES: Final[dict[str, tuple[Shot, int]]] = {
    "dashboard-overview-light": (overview, 800),
    "dashboard-tree-light": (tree_of_nodes, 480),
    "dashboard-topology-light": (topology, 330),
    "dashboard-topology-dark": (region, 330),
    "dashboard-queue-dark": (queue, 700),
    "dashboard-trace-light": (message, 700),
    "dashboard-task-dark": (calls, 700),
    "audit-report-light": (report, 900),
}
"""By the name of the file, which ends with the scheme: what to show, and the picture's height."""


# --- the tree


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Tree]:
    """The demo's nine nodes, linked, with their traffic; a store has been killed."""
    chain = plan.read_chain()
    ports = plan.Ports.choose(chain)
    files = plan.write_configurations(chain, ports, folder)
    for file in files.values():
        opened(file)
    urls = {place.name: ports.url(place.name) for place in chain.places}
    nodes = Nodes([NodeProcess(name, file, urls[name]) for name, file in files.items()])
    async with CutLine(ports.line, ports.nodes[chain.root.name]), nodes:
        for name in files:
            nodes[name].start()
        await nodes.until_all_linked(files, SECONDS)
        tree = Tree(chain, urls, nodes, folder)
        traffic = asyncio.create_task(
            Trickle(chain, urls, pause=0.2).run(plan.sales(chain) + plan.offers(chain))
        )
        try:
            await act(tree)
            yield tree
        finally:
            traffic.cancel()
            await asyncio.gather(traffic, return_exceptions=True)


def opened(file: Path) -> None:
    """Every child may do everything, since calls go where no table of the demo has them; and routes are
    dormant soon."""
    site = json.loads(file.read_text("utf-8"))
    settings = site["broker"]
    settings.pop("children", None)
    settings["advisories"] |= {"dormant_after": "2s"}
    if settings.get("tree_connectors", [{}])[0].get("nodetype") != "leaf":
        settings["permits"] = {"default": "open"}
    file.write_text(json.dumps(site), "utf-8")


async def act(tree: Tree) -> None:
    """What the pictures show besides the traffic."""
    async with contextlib.AsyncExitStack() as stack:

        async def client(node: str, name: str) -> Client:
            return await stack.enter_async_context(connect(tree.urls[node], session=name, producer=name))

        desk, till = await client("hq", "desk"), await client("york", "till")
        await desk.create("invoices")
        for number in range(40):
            await desk.send("queue:invoices", json.dumps({"invoice": number, "pence": 100 * number}))
        await till.create("york/leaflet")
        subscription = till.subscribe("queue:york/leaflet")
        async with asyncio.timeout(patience(SECONDS)):
            await desk.send("queue:york/leaflet", "half price: white loaf, small")
            delivery = await subscription.next()
        assert delivery is not None
        delivery.ack()
        tree.message = delivery.message_id
        await call(stack, await client("north", "warehouse"), await client("exeter", "shelves"), till)
    tree.nodes[GONE].kill()


async def call(stack: contextlib.AsyncExitStack, warehouse: Client, shelves: Client, till: Client) -> None:
    """The till in york asks for stock in north, which asks the shelves in exeter."""
    inner, outer, caller = Rpc(shelves), Rpc(warehouse), Rpc(till)
    for each in (inner, outer, caller):
        await stack.enter_async_context(each)

    async def count(article: int) -> int:
        return article % 40

    async def level(article: int) -> Any:
        return await outer.call("shelves", "count", article=article)

    for served in (inner.serve("shelves", {"count": count}), outer.serve("stock", {"level": level})):
        await stack.enter_async_context(served)
    async with asyncio.timeout(patience(SECONDS)):
        while not await known(outer):
            await asyncio.sleep(0.2)
    with task(TASK):
        await caller.call("stock", "level", article=4711, timeout=patience(SECONDS))


async def known(outer: Rpc) -> bool:
    """Whether the way to the shelves has come as far as here."""
    try:
        await outer.call("shelves", "count", article=1)
    except NobodyServes:
        return False
    return True


def audited(folder: Path) -> None:
    """The report of what the nodes have logged."""
    table = folder / "sites.csv"
    table.write_text(plan.read_text("stores.csv"), "utf-8")
    logs = folder / "logs"
    for found in sorted(folder.glob("data/*/advisories")):
        shutil.copytree(found, logs / found.parent.name)
    words = [sys.executable, "-m", "broker.cli", "audit", str(logs), "--deployment", str(table)]
    subprocess.run([*words, "--out", str(folder / "report")], check=True, stdout=subprocess.DEVNULL)


# --- to the files


async def make(out: Path, names: list[str]) -> None:
    """Write these pictures into a folder."""
    program = os.environ.get("SAPWOOD_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise SystemExit("pictures need Chromium, and it is not there: as root 'apt-get install -y chromium'")
    of_nodes = [name for name in names if not name.startswith("audit")]
    with tempfile.TemporaryDirectory(prefix="sapwood-pictures-") as place:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=program, args=FLAGS)
            async with running(Path(place)) as tree:
                for name in of_nodes:
                    await take(browser, tree, name, out)
            if of_nodes != names:
                await asyncio.to_thread(audited, Path(place))
                for name in names:
                    if name not in of_nodes:
                        await take(browser, tree, name, out)
            await browser.close()


async def take(browser: Browser, tree: Tree, name: str, out: Path) -> None:
    show, height = PICTURES[name]
    scheme: Any = name.rpartition("-")[2]
    page = await browser.new_page(color_scheme=scheme, viewport={"width": 1200, "height": height})
    page.set_default_timeout(LIMIT)
    await show(page, tree)
    write(out / f"{name}.png", await page.screenshot())
    await page.close()
    print(out / f"{name}.png")


def write(path: Path, screenshot: bytes) -> None:
    """As a small file: so many colours, and which pages it is of."""
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    said = PngImagePlugin.PngInfo()
    said.add_text("Pages", pages(path.stem))
    picture.save(path, optimize=True, pnginfo=said)


def pages(name: str) -> str:
    """A digest of the pages that a picture is of."""
    files = REPORT if name.startswith("audit") else sorted(filter(Path.is_file, DASHBOARD.rglob("*")))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def said_of(path: Path) -> object:
    """Of which pages a picture says that it is."""
    with Image.open(path) as picture:
        return picture.info.get("Pages")


def stale(folder: Path = IMAGES) -> list[str]:
    """The pictures that are missing, or of pages that have changed since they were made."""
    found = []
    for name in PICTURES:
        path = folder / f"{name}.png"
        if not path.exists() or said_of(path) != pages(name):
            found.append(name)
    return found


def main() -> int:
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    reader.add_argument("--out", type=Path, default=IMAGES)
    reader.add_argument(
        "--only", action="append", choices=sorted(PICTURES), help="one of them; may be repeated"
    )
    given = reader.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    asyncio.run(make(given.out, given.only or list(PICTURES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
