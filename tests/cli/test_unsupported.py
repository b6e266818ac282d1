"""What a file may say and this version cannot do: refused before anything is made."""

from pathlib import Path

import pytest

from broker.cli.check import examine
from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.run import run_file


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("  scheme: satellite\n", "scheme 'satellite'"),
    ],
)
def test_it_is_refused_by_name_and_nothing_is_made(tmp_path: Path, extra: str, said: str) -> None:
    file = tmp_path / "york.yaml"
    file.write_text(f"broker:\n  name: york\n{extra}")
    with pytest.raises(CommandError) as refused:
        run_file(file, log_json=False)
    assert refused.value.exit_code == WRONG_USE
    assert f"{file}: {said}" in str(refused.value)
    findings, exit_code = examine(file)
    assert exit_code == WRONG_USE
    assert [(finding.state, finding.text.startswith(said)) for finding in findings] == [("failed", True)]
    assert list(tmp_path.iterdir()) == [file]
