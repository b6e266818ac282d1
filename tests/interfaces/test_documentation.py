"""The document of the language has its grammar as it is, and examples that are right."""

import re
from pathlib import Path

from interfaces.check import check
from interfaces.layout import format_text
from interfaces.load import Catalogue
from interfaces.model import BUILT_IN
from interfaces.parse import parse
from interfaces.tokens import MAX_CHARACTERS, MAX_DEPTH

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "interfaces.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def test_the_grammar_is_the_one_that_is_read() -> None:
    assert blocks("ebnf") == [(ROOT / "interfaces" / "grammar.lark").read_text("utf-8")]


def test_examples_are_right_and_laid_out() -> None:
    (example,) = blocks("idl")
    assert check(Catalogue({"a.idl": parse(example)})) == []
    assert format_text(example) == example


def test_each_type_is_described_and_the_limits_are_those() -> None:
    types = TEXT.partition("## Types")[2].partition("## Rules")[0]
    assert [name for name in BUILT_IN if not re.search(rf"`{name}\b", types)] == []
    assert f"{MAX_CHARACTERS // 1024} Ki characters at most, and {MAX_DEPTH} levels" in TEXT
