"""The reference pages have everything that the code has, and the navigation has every document."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import sapwood
from broker.api.table import OPERATIONS
from broker.cli.app import app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made: dict[str, str] = runpy.run_path(str(ROOT / "website" / "reference.py"))["pages"]()
    return made


def test_each_command_is_there_with_its_options(pages: dict[str, str]) -> None:
    def names(command: Any, name: str) -> list[str]:
        inner = getattr(command, "commands", {})
        return [each for word, found in inner.items() for each in names(found, f"{name} {word}")] or [name]

    missing = [name for name in names(get_command(app), "sapwood") if f" {name}\n" not in pages["commands"]]
    assert missing == []
    assert "--durable <str>" in pages["commands"]


def test_each_operation_is_there(pages: dict[str, str]) -> None:
    wanted = [f"### `{each.method} {each.path}`" for each in OPERATIONS]
    assert [each for each in wanted if each not in pages["http-api"]] == []


def test_each_name_of_the_library_is_there(pages: dict[str, str]) -> None:
    assert [name for name in sapwood.__all__ if f".{name}\n" not in pages["client"]] == []


def test_settings_are_there_in_both_forms(pages: dict[str, str]) -> None:
    assert "tree_connectors:" in pages["settings"]
    assert "<treeConnector" in pages["settings"]


def test_each_page_leads_to_the_words_before_it_uses_them(pages: dict[str, str]) -> None:
    openings = {name: text.partition("\n## ")[0] for name, text in pages.items()}
    assert [name for name, text in openings.items() if "](../glossary.md)" not in text] == []


def test_the_navigation_has_every_document_once() -> None:
    said = (ROOT / "website" / "mkdocs.yml").read_text().partition("\nnav:")[2]
    documents = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    shown = [str(path) for path in documents if path.parts[0] != "decisions"]
    assert {name: said.count(f" {name}\n") for name in shown} == dict.fromkeys(shown, 1)
