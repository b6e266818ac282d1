"""The table of tests is whole: each row is run by a command of its own, and all rows by the README's."""

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest
from environments import REST, TABLE, TESTS, environment_of, turn_of

TOX = configparser.ConfigParser(interpolation=None)
TOX.read(TESTS.parent / "tox.ini")


def test_each_row_is_an_environment_of_tox_and_all_together_are_the_default() -> None:
    name = next(name for name in TOX.sections() if "{" in name)
    section = TOX[name]
    assert set(name.removeprefix("testenv:").strip("{}").split(",")) == set(TABLE)
    assert "--environment {envname}" in section["commands"]
    everything = TOX["testenv"]["commands"]
    assert everything.startswith("pytest")
    assert "--environment" not in everything
    once = everything.replace(" --reruns 1 --max-suite-reruns 5 --rerun-show-tracebacks", "")
    assert section["commands"].replace(" --environment {envname}", "") == once != everything
    assert "py" in TOX["tox"]["env_list"].split(", ")


def test_each_environment_knows_where_the_checkout_has_the_client() -> None:
    own = [section["set_env"] for name, section in TOX.items() if "set_env" in section]
    assert own
    assert all("CHECKOUT = {tox_root}" in each for each in own)


def test_all_raw_children_attack_in_the_environment_for_that() -> None:
    said = TOX["testenv:hostile"]["commands"]
    raw = [
        path
        for path in TESTS.joinpath("network").glob("test_*.py")
        if any(f"from {program} import" in path.read_text("utf-8") for program in ("hostile", "thieves"))
    ]
    assert len(raw) > 5
    assert [path.name for path in raw if path.name not in said] == []


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in TABLE.items() for path in paths])
def test_each_path_is_there_and_has_tests(name: str, path: str) -> None:
    place = TESTS / path
    files = [place] if place.is_file() else list(place.rglob("test_*.py"))
    assert files, path
    assert sum(path in paths for paths in TABLE.values()) == 1, f"{path} stands in several rows"
    assert any(environment_of(file) == name for file in files)


def test_the_longest_path_decides_and_the_rest_is_of_the_network() -> None:
    assert environment_of(TESTS / "broker" / "core" / "test_root.py") == "unit"
    assert environment_of(TESTS / "broker" / "core" / "test_chaos.py") == "network"
    assert environment_of(TESTS / "network" / "test_30_mosquitto.py") == "brokers"
    assert environment_of(TESTS / "network" / "test_10_kill_in_turn.py") == REST
    assert environment_of(TESTS / "test_project.py") == REST


def test_files_run_in_the_order_of_the_table_and_those_that_no_row_names_last_in_theirs() -> None:
    spark, *others = TABLE["spark"]
    inside = (TESTS / spark / "test_run.py", *(TESTS / other for other in others))
    rest = (TESTS / TABLE[REST][-1], TESTS / "test_project.py", TESTS / TABLE["brokers"][0])
    for files in (inside, rest):
        assert sorted(set(files), key=turn_of) == list(files)


def apart(folder: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests with the real `conftest` and a table in which they are of `unit`."""
    for name in ("conftest.py", "environments.py"):
        (folder / name).write_text((TESTS / name).read_text().replace('"arrows"', '"test_one.py"'))
    (folder / "test_one.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    return subprocess.run([*command, *options, str(folder)], capture_output=True, text=True, cwd=folder)


def test_a_test_of_unit_that_starts_a_process_or_opens_a_line_fails(tmp_path: Path) -> None:
    openings = (
        "subprocess.run(['true'])",
        "socket.create_server(('127.0.0.1', 0))",
        "socket.create_connection(('127.0.0.1', 9))",
    )
    tests = (f"def test_{number}():\n    {opening}\n" for number, opening in enumerate(openings))
    done = apart(tmp_path, "import socket, subprocess\n" + "".join(tests), "--environment", "unit")
    assert done.returncode == 1, done.stdout + done.stderr
    refused = r"^E +AssertionError: a test of `unit` starts no process and opens no line"
    assert len(re.findall(refused, done.stdout, re.MULTILINE)) == len(openings), done.stdout


LEAVES = """
import asyncio
import socket

async def test_leaves():
    left, _ = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=left)
    reader.itself = reader, writer

def test_makes_much():
    assert len([{} for _ in range(200_000)]) == 200_000
"""


def test_a_connection_that_is_left_open_is_told_of_the_test_that_leaves_it(tmp_path: Path) -> None:
    said = ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function", "filterwarnings=error")
    done = apart(tmp_path, LEAVES, *(f"--override-ini={each}" for each in said))
    assert "unclosed transport" in done.stdout, done.stdout + done.stderr
    assert "test_one.py::test_leaves" in done.stdout
    assert "test_one.py::test_makes_much" not in done.stdout
