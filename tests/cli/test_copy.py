"""`sapwood copy`: the words on its command line, and what `sapwood node check` says of folders."""

from pathlib import Path
from typing import Any

import pytest

from broker.cli import app as program
from broker.cli.check import examine
from broker.cli.copy import CopyPlan, plan
from broker.cli.errors import CommandError


@pytest.mark.parametrize(
    ("source", "target", "planned"),
    [
        ("prices.csv", "shop:", CopyPlan("shop", "prices.csv", Path("prices.csv"), brings=True)),
        ("/a/prices.csv", "shop:in/", CopyPlan("shop", "in/prices.csv", Path("/a/prices.csv"), brings=True)),
        ("prices.csv", "shop:new.csv", CopyPlan("shop", "new.csv", Path("prices.csv"), brings=True)),
        ("./a:b", "shop:c", CopyPlan("shop", "c", Path("a:b"), brings=True)),
        ("shop:log/a.txt", "/", CopyPlan("shop", "log/a.txt", Path("/a.txt"), brings=False)),
        ("shop:a.txt", "nowhere/", CopyPlan("shop", "a.txt", Path("nowhere/a.txt"), brings=False)),
        ("shop:a.txt", "b.txt", CopyPlan("shop", "a.txt", Path("b.txt"), brings=False)),
    ],
)
def test_one_of_both_is_at_a_node(source: str, target: str, planned: CopyPlan) -> None:
    assert plan(source, target) == planned


@pytest.mark.parametrize(
    ("source", "target"), [("a", "b"), ("shop:a", "york:b"), ("shop:", "."), ("shop:a/", "."), ("a:b", "c:d")]
)
def test_what_names_no_node_or_two_or_no_file_is_wrong_use(source: str, target: str) -> None:
    with pytest.raises(CommandError) as caught:
        plan(source, target)
    assert caught.value.exit_code == 2


def test_a_folder_that_is_not_offered_is_said(running: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(CommandError, match="hq:files: PERMIT: hq offers nothing as files"):
        program.app(["copy", str(tmp_path / "mine"), "hq:", "--url", running.url], standalone_mode=False)
    with pytest.raises(CommandError, match="hq:files: PERMIT: hq offers nothing as files"):
        program.app(["copy", "hq:a", str(tmp_path), "--url", running.url], standalone_mode=False)
    assert not [*tmp_path.glob("a"), *tmp_path.glob(".*.part")]


def test_a_folder_that_is_not_there_is_found_before_the_node_runs(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    file = tmp_path / "hq.yaml"
    folders = "folders: [{name: files, path: files, read: [hq]}, {name: logs, path: nowhere, read: [hq]}]"
    file.write_text(f"broker:\n  name: hq\n  data: {tmp_path}\n  listener: {{port: 0}}\n  {folders}\n")
    findings, exit_code = examine(file)
    told = [(found.state, found.text) for found in findings if found.subject == "folders"]
    assert told == [
        ("ok", f"{tmp_path}/files (files)"),
        ("failed", f"{tmp_path}/nowhere (logs) is not there: make it"),
    ]
    assert exit_code == 1
