"""A file that is not YAML is told in our words, and the place is that of the mistake."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.errors import ConfigurationError
from config.yaml import read

FOREIGN = re.compile(
    r"scalar|token|<|mapping|node content|flow|block|stream|scann|parsing|simple key|sequence"
)


def problem(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(text, "f")
    (one,) = caught.value.problems
    return str(one)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("broker: a: b", "f:1:10: this is not YAML: ': ' cannot stand here: put the whole value in quotes"),
        ("broker:\n\tname: a", "f:2:1: this is not YAML: a tab stands here: indent with spaces"),
        ("broker:\n  name: @x", "f:2:9: this is not YAML: a value cannot begin with @: put it in quotes"),
        ("broker:\n  name: a\nx", "f:3:2: this is not YAML: expected ': ' after the key of line 3"),
        ("broker: {name: a", "expected ',' or '}': the '{' of line 1 is not closed"),
        ("broker:\n  name: [a, b", "expected ',' or ']': the '[' of line 2 is not closed"),
        ('broker:\n  name: "a\n', "the quote that begins in line 2 is not closed"),
        (
            'broker:\n  name: "C:\\data"',
            "\\d means nothing in double quotes: write \\\\d, or use single quotes",
        ),
        ('broker: "\\xZZ"', "expected 2 hexadecimal digits after the backslash"),
        ("broker:\n  name: a\n listener: {}", "f:3:2: this is not YAML: this does not belong to the section"),
        ("broker: {name: a}}", "a bracket or quote too many"),
        ("broker: - a", "a list's '- ' cannot stand here: begin a new line with it"),
        ("broker: [", "expected a value, and found none"),
        ("broker:\n  name: |x\n", "'|' and '>' stand alone at the end of their line"),
        ("broker: &", "'&' and '*' are not allowed: put the value in quotes"),
        ("broker: !<x", "'!' is not allowed: put the value in quotes"),
        ("%X y", "expected '---'"),
        ("%YAML 1", "a line that begins with '%' is not allowed"),
        ("broker: ? a", "'? ' cannot stand here: put the whole value in quotes"),
        ("broker: {name: \x07}", "f:1:16: the character U+0007 is not allowed in YAML: remove it"),
    ],
)
def test_it_says_what_is_wrong_and_what_to_do(text: str, told: str) -> None:
    found = problem(text)
    assert told in found
    assert not FOREIGN.search(found)


PIECES = st.sampled_from(
    ["broker", "name", ": ", ":", "\n", "  ", " ", "\t", "- ", "? ", "{", "}", "[", "]", ",", '"', "'", "\\q",
     "&a", "*a", "!", "!<", "|", ">", "%", "@", "`", "#", "---", "...", "\\x", "1", "|9", "%TAG ! x",
     "%YAML 2.0"]
)  # fmt: skip


@settings(max_examples=500)
@given(st.lists(PIECES, max_size=12))
def test_no_word_is_the_parser_s(pieces: list[str]) -> None:
    try:
        read("".join(pieces), "f")
    except ConfigurationError as error:
        for found in error.problems:
            if "this is not YAML: " in str(found):
                said = str(found).partition("this is not YAML: ")[2]
                assert not FOREIGN.search(said), said
