"""Exceptions as texts and exit codes."""

import os

import pytest

from broker.cli.errors import FAILED, WRONG_USE, CommandError, explain
from config.errors import ConfigurationError
from sapwood.options import text
from sapwood.protocol.errors import InvalidName, StoreError


@pytest.mark.parametrize(
    ("error", "text", "exit_code"),
    [
        (CommandError("no"), "no", FAILED),
        (CommandError("no", WRONG_USE), "no", WRONG_USE),
        (ConfigurationError("bad key"), "bad key", WRONG_USE),
        (InvalidName("bad name"), "bad name", WRONG_USE),
        (StoreError("damaged"), "damaged", FAILED),
        (
            FileNotFoundError(2, "No such file or directory", "x.yaml"),
            "x.yaml: No such file or directory",
            FAILED,
        ),
        (OSError("odd"), "odd", FAILED),
        (
            OSError(24, "Too many open files", "port.py"),
            "Too many open files: raise the limit of this process (ulimit -n, or LimitNOFILE of its unit)",
            FAILED,
        ),
    ],
    ids=repr,
)
def test_what_is_ours_or_the_system_s_is_one_text(error: Exception, text: str, exit_code: int) -> None:
    assert explain(error) == (text, exit_code)


def test_anything_else_is_called_unexpected() -> None:
    text, exit_code = explain(ZeroDivisionError("division by zero"))
    assert text.startswith("unexpected ZeroDivisionError: division by zero")
    assert exit_code == FAILED


def test_bytes_of_the_command_line_that_are_no_text_are_wrong_use() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        os.fsdecode(b"preise-\xfc.csv").encode()
    assert explain(caught.value) == ("'preise-\\udcfc.csv' is no text in UTF-8", WRONG_USE)
    with pytest.raises(ValueError, match="expected Unicode text") as told:
        text("name", caught.value.object)
    assert explain(told.value) == explain(caught.value)
