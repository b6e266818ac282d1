"""What docs/configuration.md shows is what the readers accept."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from config import xml, yaml
from config.fleet import COLUMNS
from config.model import Site

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")
BLOCKS = re.findall(r"```(xml|yaml|csv)\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block[0] != "csv"], ids=lambda block: block[1][:30]
)
def test_every_example_is_read(block: tuple[str, str]) -> None:
    kind, text = block
    assert isinstance((xml if kind == "xml" else yaml).read(text), Site)


def test_examples_that_stand_together_say_the_same() -> None:
    pairs = pairwise(BLOCKS)
    equal = [xml.read(one) == yaml.read(other) for (a, one), (b, other) in pairs if (a, b) == ("xml", "yaml")]
    assert equal == [True] * 4


def test_every_column_of_the_table_is_explained() -> None:
    table = TEXT[TEXT.index("| column |") :]
    assert {name for name in COLUMNS if f"`{name}`" not in table} == set()
