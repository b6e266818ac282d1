"""The dashboard's files as they are served; what they do is tested in a browser (tests/dashboard)."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from broker.http.dashboard import Dashboard, load_pages

Client = TestClient[web.Request, web.Application]
FOLDER = Path(__file__).parents[3] / "broker" / "http" / "dashboard" / "static"
SINKS = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    app = web.Application()
    Dashboard().add_to(app.router)
    async with TestClient(TestServer(app)) as made:
        yield made


async def test_the_entry_leads_to_the_start_page(client: Client) -> None:
    async with client.get("/dashboard") as answer:
        assert answer.url.path == "/dashboard/"
        assert answer.content_type == "text/html"
        assert "<title>Sapwood</title>" in await answer.text()


async def test_every_file_comes_with_a_strict_policy(client: Client) -> None:
    for path in load_pages():
        async with client.get(f"/dashboard/{path}") as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert answer.status == 200
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "*" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "same-origin"


async def test_what_a_browser_has_is_not_sent_again(client: Client) -> None:
    async with client.get("/dashboard/main.js") as answer:
        tag = answer.headers["ETag"]
    async with client.get("/dashboard/main.js", headers={"If-None-Match": tag}) as again:
        assert again.status == 304
        assert await again.read() == b""


@pytest.mark.parametrize("path", ["../live.py", "%2e%2e/live.py", "..%2flive.py", "views", "none.js", "%00"])
async def test_no_path_leads_out_of_the_folder(client: Client, path: str) -> None:
    async with client.get(f"/dashboard/{path}") as answer:
        assert answer.status == 404


def test_all_files_are_listed_and_name_only_each_other() -> None:
    pages = load_pages()
    names = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert set(pages) == names
    for path, page in pages.items():
        text = page.body.decode()
        used = re.findall(r'(?:from|src=|href=)\s?"([^"#][^"]*)"', text)
        folder = path.rpartition("/")[0]
        found = {str((FOLDER / folder / name).resolve().relative_to(FOLDER)) for name in used}
        assert found <= names, path


def test_nothing_is_fetched_from_elsewhere_and_nothing_parses_data() -> None:
    for path, page in load_pages().items():
        text = page.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn|@import|url\((?!#)", text), path
        assert [sink for sink in SINKS if sink in text] == [], path


def test_the_start_page_holds_no_script_and_no_style() -> None:
    text = load_pages()["index.html"].body.decode()
    assert re.findall(r"<script[^>]*>([^<]+)</script>", text) == []
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_all_text_is_read_on_each_ground_in_both_schemes() -> None:
    """WCAG 2.2 asks for 4.5 to 1: faint text had 3.2 to 1 on the chosen view's name."""
    schemes = re.findall(r"color-scheme: \w+;(.*?)\}", (FOLDER / "tokens.css").read_text("utf-8"), re.DOTALL)
    assert len(schemes) == 3
    for scheme in schemes:
        colours = dict(re.findall(r"--([\w-]+): (#\w{6});", scheme))
        for text in ("text", "muted", "faint"):
            for ground in ("ground", "surface", "raised", "sunken", "hover", "chosen", "accent-soft"):
                dark, light = sorted((luminance(colours[text]), luminance(colours[ground])))
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, colours[text], ground, colours[ground])
