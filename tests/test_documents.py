"""What the documents say is so: links lead somewhere, commands and their options are there, files load."""

import functools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from audit.options import parser
from broker.cli.app import app
from config import xml, yaml
from config.load import load

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path
    for folder in (".", "docs", "docs/decisions", "docs/tutorials", "examples/*", "benchmarks")
    for path in ROOT.glob(f"{folder}/*.md")
)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
IN_TEXT = re.compile(r"`(?:\./dev )?(sapwood (?!link \d)[^`]*)`")  # but for the label of a proof
LINE = re.compile(r"^(?:\$ )?(?:\./dev )?(sapwood .*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(document.read_text("utf-8")):
        if link.startswith("https://"):
            continue
        place, _, anchor = link.partition("#")
        target = (document.parent / place).resolve() if place else document
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of the program, as far as a shell would give them to it."""
    lines = [line for _, block in FENCED.findall(text) for line in LINE.findall(block)]
    for line in [*lines, *IN_TEXT.findall(FENCED.sub("", text))]:
        words = shlex.split(re.split(r"\s#\s|[|>…\\]", line.replace("'", "").replace('"', ""))[0])[1:]
        yield words


@functools.cache
def program() -> Any:
    """All commands: to make them takes longer than to look for one."""
    return get_command(app)


def options(words: list[str]) -> tuple[set[str], str]:
    """The options that a command takes, and its name."""
    command = program()
    name = []
    while words and words[0] in getattr(command, "commands", {}):
        name.append(words.pop(0))
        command = command.commands[name[-1]]
    if name == ["audit"]:
        return {option for action in parser()._actions for option in action.option_strings}, "audit"
    taken = {option for parameter in command.params for option in parameter.opts}
    return taken | {"--help"}, " ".join(name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_commands_and_their_options_are_there(document: Path) -> None:
    for words in commands(document.read_text("utf-8")):
        if not words:
            continue
        said = " ".join(words)
        taken, name = options(words)
        assert name or words[0].startswith("--"), f"sapwood {said}"
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= taken, f"sapwood {said}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_that_are_shown_are_read(document: Path) -> None:
    for kind, block in FENCED.findall(document.read_text("utf-8")):
        if kind == "yaml" and block.startswith("broker:"):
            yaml.read(block)
        if kind == "xml" and block.startswith("<broker"):
            xml.read(block)


def yes_or_no(schema: Any) -> Iterator[str]:
    """The settings of a site's file that are true or false."""
    for name, value in schema.items() if isinstance(schema, dict) else ():
        if isinstance(value, dict) and value.get("type") == "boolean":
            yield name
        yield from yes_or_no(value)


def test_true_and_false_are_written_as_a_file_has_them() -> None:
    schema = json.loads((ROOT / "config/schema/sapwood.schema.json").read_text("utf-8"))
    names = "|".join(sorted(set(yes_or_no(schema))))
    wrong = re.compile(rf"\b(?:{names}): (?:yes|no|on|off)\b")
    assert wrong.search("listener: {discoverable: yes}")
    sources = (path for house in ("broker", "bridges", "config") for path in (ROOT / house).rglob("*.py"))
    for path in (*DOCUMENTS, *sources):
        assert wrong.findall(path.read_text("utf-8")) == [], path


def test_files_of_the_examples_load() -> None:
    files = sorted((ROOT / "examples").glob("*/sites/*/*.*ml"))
    assert len(files) == 18
    for file in files:
        assert load(file).name == file.stem


def test_decisions_are_numbered_without_holes_and_each_is_in_the_index() -> None:
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    assert re.findall(r"\]\(decisions/(0.*?)\)", index) == [file.name for file in files]
    for number, file in enumerate(files, 1):
        assert file.name.startswith(f"{number:04d}-"), f"{file.name}: the next free number is {number:04d}"
        assert file.read_text("utf-8").startswith(f"# {number:04d}: "), file.name


def test_every_table_of_an_audit_is_told() -> None:
    written = re.findall(r'output\.write\("(\w+)"', (ROOT / "audit" / "run.py").read_text("utf-8"))
    told = (ROOT / "docs" / "audit.md").read_text("utf-8")
    assert written
    assert [name for name in written if f"`{name}`" not in told] == []
