"""The site that `website/build.py` has made: nothing comes from elsewhere, everything is found."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SITE = ROOT / "_site" / VERSION
PAGES = sorted(SITE.rglob("*.html"))
LOADED = re.compile(r'<(?:script|img|iframe|source)\b[^>]*?\bsrc="([^"]+)"|<link\b[^>]*?\bhref="([^"]+)"')


def test_there_are_pages() -> None:
    assert len(PAGES) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(SITE)))
def test_a_page_loads_only_files_of_the_site(page: Path) -> None:
    for found in LOADED.findall(page.read_text("utf-8")):
        target = next(filter(None, found)).partition("?")[0]
        assert not re.match(r"\w+:|//", target), target
        place = SITE / target[1:] if target.startswith("/") else page.parent / target
        assert page.name == "404.html" or place.exists(), target


def test_the_search_finds_pages_that_are_made_of_the_code() -> None:
    index = json.loads((SITE / "search" / "search_index.json").read_text())
    places = {each["location"].partition("#")[0] for each in index["docs"]}
    for name in ("commands", "http-api", "settings", "client"):
        assert f"reference/{name}.html" in places
    assert any(each["title"] == "sapwood send" for each in index["docs"])


def test_versions_are_listed_and_the_first_page_leads_to_this_one() -> None:
    versions = json.loads((SITE.parent / "versions.json").read_text())
    assert VERSION in [each["version"] for each in versions]
    assert f"url={VERSION}/index.html" in (SITE.parent / "index.html").read_text()
