"""`sapwood simulate`: what it prints and writes, and its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.cli.app import app
from broker.cli.errors import CommandError
from broker.core.neighbours.advertising import Advertising
from config.errors import ConfigurationError
from config.fleet import read_sites
from simulation.deployment import generated

WORKLOAD = """\
workload:
  hours: {opens: "00:30", closes: "01:30"}
  consumers: [{role: leaf, destination: "queue:{node}/{number}", count: 2}]
"""


def simulate(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def workload(tmp_path: Path) -> str:
    file = tmp_path / "workload.yaml"
    file.write_text(WORKLOAD)
    return str(file)


def test_a_made_chain(workload: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exit_code, text, said = simulate(
        "stores=4,regions=2", "--workload", workload, "--hours", "2", "--out", str(out)
    )
    assert exit_code == 0
    assert "tree acme: 2 branch, 4 leaf, 1 root; 2 hours, seed 1" in text
    assert "advisories received              32" in text
    assert f"summary.json are in {out}" in text
    begun = [line for line in said.splitlines() if not line.endswith("%")]
    assert begun == ["starting nodes …", "linking nodes …", "simulating …", "writing the log …"]
    assert {path.name for path in out.iterdir()} == {"advisories", "sites.csv", "summary.json"}


def test_where_there_is_no_terminal_lines_say_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cli.simulate._SILENCE", 0)
    _, _, said = simulate("stores=3,regions=1", "--hours", "0.5", "--out", str(tmp_path / "out"))
    lines = said.splitlines()
    assert lines[:5] == ["starting nodes …", *(f"starting nodes: {share}%" for share in (40, 60, 80, 100))]
    assert [line for line in lines[5:] if line.startswith("simulating: ")][-1] == "simulating: 100%"


def test_a_chain_of_a_table_as_json(workload: str, tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    generated(4, regions=1).write(table)
    arguments = ("--workload", workload, "--hours", "2", "--out", str(tmp_path / "out"), "--seed", "5")
    exit_code, text, _ = simulate(str(table), *arguments, "--json")
    assert exit_code == 0
    found = json.loads(text)
    assert found["seed"] == 5
    assert found["advisories"]["received"] == 32
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) | {"cost": found["cost"]} == found


def test_a_chain_of_a_table_without_addresses(workload: str, tmp_path: Path) -> None:
    table, out = tmp_path / "sites.csv", tmp_path / "out"
    table.write_text("name,parent,role\nhq,,root\nnorth,hq,branch\nyork,north,leaf\n")
    exit_code, text, _ = simulate(str(table), "--workload", workload, "--hours", "2", "--out", str(out))
    assert exit_code == 0
    assert "1 branch, 1 leaf, 1 root" in text
    assert [row.name for row in read_sites(out / "sites.csv")] == ["hq", "north", "york"]


@pytest.mark.parametrize("option", [("--soak", "1"), ("--replay", "failure.json")])
@pytest.mark.parametrize("given", [("stores=4",), ("--workload", "day.yaml")])
def test_histories_have_chains_of_their_own(option: tuple[str, str], given: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=f"{option[0]} and {given[-1]}: expected one of them"):
        simulate(*given, *option)


@pytest.mark.parametrize("arguments", [(), ("stores=4",), ("--out", "x")])
def test_what_is_missing_is_said(arguments: tuple[str, ...]) -> None:
    with pytest.raises(Exception, match="simulate needs a deployment and --out"):
        simulate(*arguments)


@pytest.mark.parametrize("hours", ["-1", "nan", "inf", "1e6"])
def test_hours_that_never_end_are_refused(hours: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exit_code, _, said = simulate("stores=4", "--hours", hours, "--out", str(out))
    assert exit_code == 2
    assert "--hours" in said
    assert not out.exists()


def test_an_outage_of_a_node_that_is_not_there_is_told_before_anything_is_done(tmp_path: Path) -> None:
    file, out = tmp_path / "workload.yaml", tmp_path / "out"
    file.write_text("workload:\n  outages: [{node: region-7}]\n")
    with pytest.raises(ConfigurationError, match=r"workload.yaml:2:14: outages\[0\].node: .*'region-2'"):
        simulate("stores=4,regions=2", "--workload", str(file), "--out", str(out))
    assert not out.exists()


def test_a_soak_that_goes_well() -> None:
    exit_code, text, _ = simulate("--soak", "2", "--seed", "3", "--trial", "weather")
    assert (exit_code, text) == (0, "2 seeds from 3 on: 0 failed\n")
    exit_code, text, _ = simulate("--soak", "1", "--seed", "3", "--trial", "weather", "--json")
    assert json.loads(text) == {"trial": "weather", "seed": 3, "actions": 120, "failure": None}


def test_a_soak_that_fails_tells_seed_and_history_and_how_to_see_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Advertising, "tells_upward", False)
    exit_code, text, said = simulate(
        "--soak", "1", "--seed", "1", "--trial", "interest", "--out", str(tmp_path)
    )
    assert exit_code == 1
    assert "interest, seed 1: " in text
    assert "  1 " in text
    assert "1 seed from 1 on: 1 failed" in text
    file = tmp_path / "interest-1.json"
    assert f"sapwood simulate --replay {file}" in said
    assert simulate("--replay", str(file))[0] == 1
    monkeypatch.undo()
    assert simulate("--replay", str(file))[:2] == (0, "interest, seed 1: goes well now\n")
    exit_code, text, _ = simulate("--replay", str(file), "--json")
    assert json.loads(text) == {"trial": "interest", "seed": 1, "failure": None}
