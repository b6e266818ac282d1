"""The commands for permits against a node in this process."""

from typing import Any

import pytest

from broker.cli import app as program

Sapwood = Any


def test_permits_of_a_child_that_has_not_come_are_kept_and_shown_and_it_is_said(
    running: Any, sapwood: Sapwood, capsys: pytest.CaptureFixture[str]
) -> None:
    def set_for(child: str, *rules: str) -> tuple[str, str]:
        program.app(["permits", "set", child, *rules, "--url", running.url], standalone_mode=False)
        said = capsys.readouterr()
        return said.out, said.err

    said, noted = set_for("york", "--consume", "prices/#")
    assert said.startswith("york (not here yet, set by an operator)")
    assert "hq has no child 'york' yet; it has none at all" in noted
    assert "`sapwood permits unset york` takes it back" in noted
    assert "hq has no child 'leeds' yet; it knows york\n" in set_for("leeds", "--send", "queue:orders")[1]
    assert "hq has no child 'yorc' yet; did you mean 'york'?" in set_for("yorc", "--send", "nothing")[1]
    sapwood("permits", "unset", "yorc")
    shown = sapwood("permits", "show", "--json")["children"]
    assert [(each["name"], each["state"], each["set"]) for each in shown] == [
        ("leeds", "unknown", True),
        ("york", "unknown", True),
    ]
    assert "york (not here yet, set by an operator)" in sapwood("permits", "show", "york")
