"""`sapwood operator token`: the lines that it prints are ones that a node's file may have."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.cli.app import app
from broker.cli.errors import CommandError
from config.load import load


@pytest.mark.parametrize("name", ["night-desk", "123", "1e5", "yes", "null"])
def test_the_lines_let_that_operator_in(tmp_path: Path, name: str) -> None:
    said = CliRunner().invoke(app, ["operator", "token", name])
    assert said.exit_code == 0
    file = tmp_path / "hq.yaml"
    file.write_text("broker:\n  name: hq\n" + said.output[said.output.index("  operators:") :])
    assert [operator.name for operator in load(file).operators] == [name]


@pytest.mark.parametrize("name", ["a b", "a: b", "", "x}", "Local"])
def test_a_name_that_no_file_may_have_gets_no_token(name: str) -> None:
    said = CliRunner().invoke(app, ["operator", "token", name])
    assert isinstance(said.exception, CommandError)
    assert "the operator's name: expected 1 to 64 letters" in str(said.exception)
    assert "token of" not in said.output
