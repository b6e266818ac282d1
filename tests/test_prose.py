"""Plain sentences: none has 'What …' or 'Who …' as its subject; those that are left are counted.

And words that a stranger cannot know are explained where a page first uses them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from definitions import definitions

ROOT = Path(__file__).parents[1]
HOUSES = (
    "treeconnector",
    "broker",
    "bridges",
    "config",
    "sapwood",
    "simulation",
    "audit",
    "interfaces",
    "benchmarks",
    "tests",
)
MOST = {"documents": 0, "docstrings": 610}
"""As many as there are: whoever rewrites some lowers the number."""
SLACK = 25
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
ENDS = re.compile(r"(?<=[.!?])[*_`)\"]*\s+|\n\s*\n|\n\s*[-*|#>]\s*|\n\d+\. |\s\|\s")
CODE = re.compile(r"`[^`\n]*`")
TARGET = re.compile(r"\]\([^)]*\)")
EXPLAINED = {"cell": "program", "dumpster": "no route fits", "spillage": "can never use"}
"""Words that people ask about, and a part of the sentence that says of each what it is."""
SUBJECT = re.compile(r"^[\s*_`(\"|-]*(?:What|Who)\s+\w+")


def sentences(text: str) -> Iterator[str]:
    """Sentences, items of lists and cells of tables."""
    yield from (" ".join(each.split()) for each in ENDS.split(text))


def with_such_a_subject(text: str) -> list[str]:
    """A question is none, nor is a heading of two or three words."""
    return [
        each
        for each in sentences(text)
        if SUBJECT.match(each) and not each.rstrip('*_`)"').endswith("?") and len(each.split()) > 3
    ]


def documents() -> list[Path]:
    folders = (".", "docs", "docs/decisions", "docs/tutorials", "examples/*", "benchmarks")
    return sorted(path for folder in folders for path in ROOT.glob(f"{folder}/*.md"))


def unexplained(text: str, word: str) -> str:
    """The first sentence with the word, if neither it nor one before nor the next says what that is."""
    plain = CODE.sub("", FENCED.sub("", text))
    said = [sentence for sentence in sentences(plain) if len(sentence.split()) > 1]
    named = re.compile(rf"\b{word}s?\b", re.IGNORECASE)
    for number, sentence in enumerate(said):
        if named.search(TARGET.sub("]", sentence)):
            near = "\n".join(said[: number + 2])
            explained = EXPLAINED[word] in near or "glossary.md" in sentence
            return "" if explained else sentence
    return ""


def docstrings(path: Path) -> Iterator[str]:
    yield from (ast.get_docstring(node) or "" for node in definitions(path))


def found(kind: str) -> list[str]:
    """Where they are, with the sentence."""
    if kind == "documents":
        texts = [(path, FENCED.sub("", path.read_text(encoding="utf-8"))) for path in documents()]
    else:
        sources = [path for house in HOUSES for path in sorted((ROOT / house).rglob("*.py"))]
        texts = [(path, text) for path in sources for text in docstrings(path)]
    return [f"{path.relative_to(ROOT)}: {each}" for path, text in texts for each in with_such_a_subject(text)]


@pytest.mark.parametrize("kind", MOST)
def test_sentences_whose_subject_is_what_or_who_only_become_fewer(kind: str) -> None:
    said = found(kind)
    assert len(said) <= MOST[kind], "subject, verb, object:\n" + "\n".join(said[-20:])
    few = f"only {len(said)} are left: lower MOST[{kind!r}] in {Path(__file__).name}"
    assert len(said) >= MOST[kind] - SLACK, few


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("What waits is kept. It stays.", 1),
        ("It stays. Who asks is told so.", 1),
        ("- What a child sends is checked\n- the parent checks", 1),
        ("| a | What is lost is counted | b |", 1),
        ("What is it that waits? It stays.", 0),
        ("The node keeps what waits.", 0),
        ("Whoever asks is told so.", 0),
        ("## Who may do what", 0),
        ("What it is", 0),
    ],
)
def test_such_subjects_are_found(text: str, count: int) -> None:
    assert len(with_such_a_subject("\n" + text)) == count


@pytest.mark.parametrize("word", EXPLAINED)
def test_a_page_says_what_a_word_is_where_it_first_uses_it(word: str) -> None:
    # Nobody reads the changelog from its first line to its last: it has no first place.
    pages = [path for path in documents() if path.name != "CHANGELOG.md"]
    left = {path.relative_to(ROOT): unexplained(path.read_text("utf-8"), word) for path in pages}
    left = {path: sentence for path, sentence in left.items() if sentence}
    assert not left, f"say there what it is, or link [{word}] to glossary.md: {left}"


@pytest.mark.parametrize(
    ("text", "explained"),
    [
        ("A cell is a program at a node. Each cell has a name.", True),
        ("# Two cells of one name\n\nA cell is a program that has an address.", True),
        ("# Two cells of one name\n\n**Context.** A cell is a program.", True),
        ("It asks a [cell](glossary.md).", True),
        ("It has `a cell` in its source.", True),
        ("It is a [name](cells.md).", True),
        ("It asks a cell. Then it waits. A cell is a program.", False),
        ("It asks the cells. See the [glossary](glossary.md).", False),
        ("| a | a cell | b |\n\nLater comes more. And then a program.", False),
    ],
)
def test_a_word_that_is_not_explained_is_found(text: str, explained: bool) -> None:
    assert (unexplained(text, "cell") == "") is explained
