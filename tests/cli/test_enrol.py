"""Words of `sapwood join` for people."""

import shlex
from pathlib import Path

import pytest

from broker.cli import enrol


def test_commands_that_are_to_be_copied_hold_for_each_name_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Größe & more" / "york.yaml"
    enrol._say_what_is_next(file, "mqtt://localhost")
    commands = capsys.readouterr().out.splitlines()[1:]
    assert [shlex.split(line)[:4] for line in commands] == [
        ["sapwood", "node", verb, str(file)] for verb in ("check", "run")
    ]
