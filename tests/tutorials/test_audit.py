"""The tutorial of the audit; apart, since it needs Spark."""

from pathlib import Path
from typing import TYPE_CHECKING

from pages import steps

if TYPE_CHECKING:
    from conftest import Reader

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "audit.md"


def test_its_commands_work_and_show_what_it_says(reader: "Reader") -> None:
    for step in steps(PAGE):
        reader.does(step)
