"""A real browser without a window, a made-up node of 2,000 stores, and a real tree of three nodes.

The browser is the system's Chromium, driven by playwright. Without one every test here fails and says what
to install: nothing is skipped. Every page's console, errors and requests are watched; a test ends badly
if anything was complained of, or if a page asked anybody but its node.
"""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

sys.path.insert(0, str(Path(__file__).parent))

from fake import FakeNode

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
PATIENCE = 120_000
Opened = Callable[..., Awaitable[Page]]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser's program."""
    found = os.environ.get("SAPWOOD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.fail(
            "these tests need Chromium, and it is not there: as root 'apt-get install -y chromium' (which"
            " './dev test' does by itself), or set SAPWOOD_CHROMIUM to the path of its program",
            pytrace=False,
        )
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        await launched.close()


class Watched:
    """What went wrong on pages. `expected`: parts of complaints that belong to the test."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.expected: set[str] = set()

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if any(text in message.text for text in self.expected):
            return
        self.problems.append(f"console: {message.text}")

    def on_error(self, error: Any) -> None:
        self.problems.append(f"error: {error}")

    def on_request(self, base: str, request: Request) -> None:
        if not request.url.startswith((base, "data:")):
            self.problems.append(f"a request went elsewhere: {request.url}")


@pytest.fixture
def watched() -> Iterator[Watched]:
    watch = Watched()
    yield watch
    assert watch.problems == []


@pytest_asyncio.fixture(loop_scope="session")
async def served() -> AsyncIterator[Callable[[FakeNode], Awaitable[str]]]:
    """Serve a made-up node; returns its URL."""
    runners: list[web.AppRunner] = []

    async def serve(node: FakeNode) -> str:
        runner = web.AppRunner(node.app(), shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield serve
    for runner in runners:
        await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="session")
async def opened(browser: Browser, watched: Watched, served: Any) -> AsyncIterator[Opened]:
    """Open a view of the dashboard at a node's URL: `await opened(base, "tree", scheme="dark")`.

    What is `served` ends after the pages have: a page complains of a node that goes.
    """
    async with AsyncExitStack() as stack:

        async def open_view(base: str, view: str = "", *, scheme: Any = "light", **options: Any) -> Page:
            context = await browser.new_context(
                color_scheme=scheme, viewport={"width": 1360, "height": 820}, **options
            )
            stack.push_async_callback(context.close)
            page = await context.new_page()
            page.set_default_timeout(PATIENCE)
            page.on("console", watched.on_console)
            page.on("pageerror", watched.on_error)
            page.on("request", lambda request: watched.on_request(base, request))
            await page.goto(f"{base}/dashboard/#/{view}")
            return page

        yield open_view


@pytest_asyncio.fixture(loop_scope="session")
async def fake() -> AsyncIterator[FakeNode]:
    """The made-up node, not served yet."""
    yield FakeNode()
