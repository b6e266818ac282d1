"""Every command of every tutorial works, in the order of the page, and shows what the page says."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pages import LASTING, steps

if TYPE_CHECKING:
    from conftest import Reader

PAGES = Path(__file__).parents[2] / "docs" / "tutorials"
QUICK = ["first-tree", "rpc-service", "store-with-mosquitto", "two-languages"]


@pytest.mark.parametrize("page", QUICK)
def test_its_commands_work_and_show_what_it_says(page: str, reader: "Reader") -> None:
    for step in steps(PAGES / f"{page}.md"):
        reader.does(step)


def test_every_tutorial_is_tried_and_each_shows_something() -> None:
    pages = {path.stem: steps(path) for path in PAGES.glob("*.md")}
    assert set(pages) == {*QUICK, "audit"}
    assert all(len([step for step in found if step.shows]) >= 3 for found in pages.values())
    used = {
        begin
        for found in pages.values()
        for step in found
        for begin in LASTING
        if step.command.startswith(begin)
    }
    assert used == set(LASTING)
