"""`sapwood definitions` against a node in this process: to a file, and from one."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.cli.errors import CommandError

Sapwood = Any


def test_a_file_is_written_and_taken_again(running: Any, sapwood: Sapwood, tmp_path: Path) -> None:
    sapwood("queue", "create", "sales")
    sapwood("route", "add", "alias", "till", "sales")
    file = tmp_path / "hq.json"
    said = sapwood("definitions", "export", str(file))
    assert said == f"{file} has 1 queue, 1 route of hq\n"
    assert sapwood("definitions", "import", str(file)) == (
        "made at hq: nothing; there already: 1 queue, 1 route\n"
    )
    sapwood("route", "remove", "alias", "till", "sales")
    asked = sapwood("definitions", "import", str(file), "--check")
    assert asked == "would be made at hq: 1 route; there already: 1 queue\n"
    assert "till" not in sapwood("route", "show")
    made = sapwood("definitions", "import", str(file), "--json")
    assert (made["made"]["routes"], made["checked"]) == (1, False)
    assert "till" in sapwood("route", "show")
    assert [each.name for each in tmp_path.iterdir() if "json" in each.name] == ["hq.json"]
    assert sapwood("definitions", "export") == file.read_text("utf-8")


def test_all_mistakes_of_a_long_file_are_printed(running: Any, sapwood: Sapwood, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    queues = [{"name": f"{'n' * 100}{number}@york"} for number in range(60)]
    file.write_text(json.dumps({"format": 1, "queues": queues}), "utf-8")
    with pytest.raises(CommandError) as error:
        sapwood("definitions", "import", str(file))
    said = str(error.value).split("\n")
    assert [each.partition(":")[0] for each in said[1:]] == [f"queues[{number}]" for number in range(60)]
    for text in ("[]", "{", "[" * 100_000):
        file.write_text(text, "utf-8")
        with pytest.raises(CommandError, match="expected the JSON that") as error:
            sapwood("definitions", "import", str(file))
        assert error.value.exit_code == 2
