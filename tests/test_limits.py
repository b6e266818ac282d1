"""The page of limits says what the code says: each constant has its value there, each test is one."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from definitions import definitions

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "limits.md").read_text("utf-8")
CONSTANT = re.compile(
    r"`((?:broker|bridges|sapwood|treeconnector)\.[a-z_.0-9]+\.[A-Z_]+)` ([\d,]+)(?: ([KMG]iB))?"
)
UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| kept")]


def named() -> set[str]:
    return {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in definitions(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("found", list(CONSTANT.finditer(PAGE)), ids=lambda found: found[1])
def test_a_constant_has_the_value_that_the_page_says(found: re.Match[str]) -> None:
    module, _, name = found[1].rpartition(".")
    said = int(found[2].replace(",", "")) * UNITS[found[3] or ""]
    assert getattr(importlib.import_module(module), name) == said


def test_each_constant_is_said_with_its_value() -> None:
    assert len(CONSTANT.findall(PAGE)) == len(re.findall(r"`[a-z_.0-9]+\.[A-Z_]+`", PAGE)) > 60


def test_each_row_has_its_columns_and_its_tests_are_there() -> None:
    known = named()
    assert len(ROWS) > 60
    for row in ROWS:
        kept, *_, shown, _ = row.split(" |")
        assert row.count(" |") == 6, row
        tests = set(re.findall(r"`(test_\w+)`", shown))
        assert tests, f"{kept}: which test tries it?"
        assert tests <= known, kept
