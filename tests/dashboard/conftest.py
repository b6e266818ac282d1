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
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright

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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """The pages of all tests: those that stand on one machine have one process of the browser's."""
    async with await browser.new_context() as made:
        yield made


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
async def opened(context: BrowserContext, watched: Watched, served: Any) -> AsyncIterator[Opened]:
    """Open a view of the dashboard at a node's URL: `await opened(base, "tree", scheme="dark")`.

    A page that another test has left is taken first: a page of its own costs more than most views. What is
    `served` ends after the pages are left: a page complains of a node that goes.
    """
    async with AsyncExitStack() as stack:
        taken: list[Page] = []

        async def open_view(base: str, view: str = "", *, scheme: Any = "light") -> Page:
            left = [page for page in context.pages if page not in taken]
            page = left[0] if left else await context.new_page()
            taken.append(page)
            page.set_default_timeout(PATIENCE)
            await page.set_viewport_size({"width": 1360, "height": 820})
            await page.emulate_media(color_scheme=scheme)
            heard = {
                "console": watched.on_console,
                "pageerror": watched.on_error,
                "request": lambda request: watched.on_request(base, request),
            }
            for event, listener in heard.items():
                page.on(event, listener)
            stack.push_async_callback(leave, page, heard)
            await page.goto(f"{base}/dashboard/#/{view}")
            return page

        yield open_view


async def leave(page: Page, heard: dict[str, Any]) -> None:
    """Nothing of a test is left on its page for the next."""
    if page.is_closed():
        return
    for event, listener in heard.items():
        page.remove_listener(event, listener)
    await page.mouse.move(0, 0)
    await page.evaluate("localStorage.clear(); sessionStorage.clear(); location.replace('about:blank')")
    await page.wait_for_url("about:blank")  # left by itself: who leads it there gives it another process


@pytest_asyncio.fixture(loop_scope="session")
async def fake() -> AsyncIterator[FakeNode]:
    """The made-up node, not served yet."""
    yield FakeNode()
