"""The house itself: no class name stands twice in it, and each package says what its modules hold."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import bridges

HOUSE = Path(bridges.__file__).parent
PACKAGES = sorted(file.parent for file in HOUSE.rglob("__init__.py"))
CONCERNS = {
    "bridge",
    "connection",
    "taking",
    "publishing",
    "discovery",
    "consumers",
    "messages",
    "ownership",
    "inspection",
}


def test_no_class_name_stands_twice() -> None:
    names = Counter(
        node.name
        for file in HOUSE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    "package", PACKAGES, ids=lambda package: package.relative_to(HOUSE.parent).as_posix()
)
def test_each_package_says_what_its_modules_hold(package: Path) -> None:
    modules = {file.stem for file in package.glob("*.py")} - {"__init__"}
    modules |= {file.parent.name for file in package.glob("*/__init__.py")}
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", said, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == modules


@pytest.mark.parametrize("kind", ["mosquitto", "rabbitmq"])
def test_site_brokers_have_the_same_files_for_the_same_concern(kind: str) -> None:
    assert {file.stem for file in (HOUSE / "site_brokers" / kind).glob("*.py")} >= CONCERNS
