"""The site in a browser: the search is typed into, a version is chosen, the four kinds are a click away.

Needs the system's Chromium. A page that asks for anything of another machine, or complains, fails its test.
"""

import functools
import os
import runpy
import shutil
import threading
import tomllib
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SITE = ROOT / "_site" / VERSION
OLDER = "0.0.1"
KINDS = {
    "Tutorials": "Your first tree",
    "How to": "Operations",
    "Reference": "Commands",
    "Explanation": "Guarantees",
}
"""Each kind with the first page that its tab opens, by its heading."""
PATIENCE = 60_000
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test tells what it finds."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server of files that has this version and an older one."""
    folder = tmp_path_factory.mktemp("site")
    (folder / VERSION).symlink_to(SITE)
    (folder / OLDER).mkdir()
    (folder / OLDER / "index.html").write_text("<title>older</title>")
    # The theme looks there whether the other version has the page that is open.
    (folder / OLDER / "sitemap.xml").write_text("<urlset></urlset>")
    (folder / "favicon.ico").touch()
    runpy.run_path(str(ROOT / "website" / "build.py"))["listed"](folder, VERSION)
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = os.environ.get("SAPWOOD_CHROMIUM") or shutil.which("chromium")
    assert program, "these tests need Chromium: 'apt-get install chromium', or its path in SAPWOOD_CHROMIUM"
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield made
        made.close()


def complains(said: ConsoleMessage) -> bool:
    """The list of versions needs a server, as `website/build.py` says; without one the browser refuses it."""
    refused = said.location["url"].startswith("file:") and "versions.json" in said.text + said.location["url"]
    return said.type in ("error", "warning") and not refused


@pytest.fixture
def page(browser: Browser, served: str) -> Iterator[Page]:
    problems: list[str] = []
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    made = context.new_page()
    near = (f"{served}/", "file://", "data:", "blob:")
    context.on(
        "request",
        lambda request: None if request.url.startswith(near) else problems.append(f"asked for {request.url}"),
    )
    made.on(
        "console",
        lambda said: problems.append(f"{said.location['url']}: {said.text}") if complains(said) else None,
    )
    made.on("pageerror", lambda error: problems.append(str(error)))
    yield made
    context.close()
    assert problems == []


@pytest.mark.parametrize("opened", ["by a server", "from the disk"])
def test_the_search_is_typed_into_and_leads_to_a_page(page: Page, served: str, opened: str) -> None:
    home = f"{served}/{VERSION}" if opened == "by a server" else SITE.as_uri()
    page.goto(f"{home}/index.html")
    page.locator("[data-md-component=search-query]").click()
    page.keyboard.type("stolen store")
    found = page.locator(".md-search-result__link", has_text="A stolen store").first
    expect(found).to_be_visible()
    found.click()
    page.wait_for_url(f"{home}/stolen-store.html*")
    expect(page.locator("h1")).to_contain_text("A stolen store")


def test_the_versions_are_listed_and_one_is_chosen(page: Page, served: str) -> None:
    page.goto(f"{served}/")
    page.wait_for_url(f"{served}/{VERSION}/index.html")
    expect(page.locator(".md-version__current")).to_contain_text(VERSION)
    page.locator(".md-version").hover()
    links = page.locator(".md-version__link")
    expect(links).to_have_text([VERSION, OLDER])
    links.last.click()
    page.wait_for_url(f"{served}/{OLDER}/**")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_click_away(page: Page, served: str, kind: str) -> None:
    page.goto(f"{served}/{VERSION}/index.html")
    page.locator(".md-tabs__link", has_text=kind).click()
    expect(page.locator("h1")).to_contain_text(KINDS[kind])


def test_a_diagram_is_drawn(page: Page, served: str) -> None:
    page.goto(f"{served}/{VERSION}/link.html")
    expect(page.locator(".mermaid").first).to_be_visible()
