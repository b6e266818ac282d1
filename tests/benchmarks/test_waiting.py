"""A control group is made where the kernel keeps them, in both layouts."""

import json
from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import tables, waiting
from benchmarks.waiting import control_group, memory_groups

LIMIT = 256 * 2**20


def first_layout(root: Path) -> None:
    (root / "memory").mkdir()
    (root / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")


def second_layout(
    root: Path, controllers: str = "cpuset cpu io memory pids", given_on: str = "cpu\n"
) -> None:
    (root / "cgroup.controllers").write_text(f"{controllers}\n")
    (root / "cgroup.subtree_control").write_text(given_on)


def bound_in(root: Path, file: str) -> str:
    """What a group's file says of its bound while it is there; the kernel's files go with their folder."""
    with control_group(LIMIT, root) as group:
        assert group is not None
        said = (group / file).read_text()
        (group / file).unlink()
    assert not group.exists()
    return said


def test_the_first_layout_has_a_tree_for_memory(tmp_path: Path) -> None:
    first_layout(tmp_path)
    assert memory_groups(tmp_path) == (tmp_path / "memory", "memory.limit_in_bytes")
    assert bound_in(tmp_path, "memory.limit_in_bytes") == str(LIMIT)


def test_the_second_layout_has_one_tree_whose_groups_get_memory(tmp_path: Path) -> None:
    second_layout(tmp_path)
    assert bound_in(tmp_path, "memory.max") == str(LIMIT)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"


def test_what_is_given_on_already_is_not_asked_for(tmp_path: Path) -> None:
    second_layout(tmp_path, given_on="cpu memory\n")
    assert memory_groups(tmp_path) == (tmp_path, "memory.max")
    assert (tmp_path / "cgroup.subtree_control").read_text() == "cpu memory\n"


@pytest.mark.parametrize("there", [True, False])
def test_where_nothing_bounds_memory_there_is_no_group(tmp_path: Path, there: bool) -> None:
    if there:
        second_layout(tmp_path, controllers="cpu io")
    assert memory_groups(tmp_path) is None
    with control_group(LIMIT, tmp_path) as group:
        assert group is None


def test_of_both_layouts_the_one_with_memory_counts(tmp_path: Path) -> None:
    first_layout(tmp_path)
    second_layout(tmp_path, controllers="")
    assert memory_groups(tmp_path) == (tmp_path / "memory", "memory.limit_in_bytes")


@pytest.mark.network
def test_a_few_messages_wait_while_the_node_is_away_and_all_come(tmp_path: Path) -> None:
    said: list[str] = []
    folder, result = tmp_path / "stores", tmp_path / "result.json"
    folder.mkdir()
    options = ["--messages", "300", "--directory", str(folder), "--json", str(result)]
    assert waiting.main(options, say=said.append) == 0
    found = found_and_shown(result, tables.waiting)["figures"]
    assert found.items() <= json.loads(said[0]).items()
    assert found["messages"] == 300
    assert found["sent/s"] > 0 < found["drained/s"]
    assert list(folder.iterdir()) == []
