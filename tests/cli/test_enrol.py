"""Words of `sapwood join` for people."""

import shlex
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from broker.cli import enrol
from broker.cli.app import app
from broker.cli.errors import CommandError
from broker.cli.node_api import NodeApi


def test_commands_that_are_to_be_copied_hold_for_each_name_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Größe & more" / "york.yaml"
    enrol._say_what_is_next(file, "mqtt://localhost")
    commands = capsys.readouterr().out.splitlines()[1:]
    assert [shlex.split(line)[:4] for line in commands] == [
        ["sapwood", "node", verb, str(file)] for verb in ("check", "run")
    ]


def test_an_invitation_for_longer_than_the_node_gives_one_is_refused_with_the_longest() -> None:
    wanted = enrol.ChildWanted("york", "leaf", (), "91d")
    with pytest.raises(CommandError, match=r"--expires: expected a duration .* from 1s to 90d, found '91d'"):
        enrol.invite_child(cast("NodeApi", None), wanted, as_json=False)


@pytest.mark.parametrize("option", ["--site-broker=mqtt://localhost", "--public-uri=wss://york:7600/link"])
def test_a_node_that_joins_again_is_told_that_its_file_stays(option: str) -> None:
    done = CliRunner().invoke(app, ["join", "sapwood1-x", "--again", option])
    assert "--again leaves the file: no --site-broker, no --public-uri" in str(done.exception or done.output)
