"""Tables in Markdown, as the page of figures has them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def assert_are_tables(shown: str) -> None:
    """Each has rows of as many cells as its head."""
    found = re.findall(r"(?:^\|.*\n?)+", shown, re.MULTILINE)
    assert found
    for rows in found:
        columns = [line.count("|") for line in rows.splitlines()]
        assert len(columns) > 2, rows
        assert len(set(columns)) == 1, rows


def found_and_shown(result: Path, table: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
    """The figures that a benchmark has written; its table can be made of them."""
    found: dict[str, Any] = json.loads(result.read_text())
    assert found["machine"]["cores"] > 0
    assert_are_tables(table(found))
    return found
