"""The keyboard, through a pipe in place of a terminal."""

import os
import sys
from io import StringIO

import pytest

from broker.cli.top.keys import Keys, keyboard


def test_a_key_is_read_and_only_one() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"sq")
    keys = Keys(reading)
    assert keys.wait(5) == "s"
    assert keys.wait(0) == ""
    os.close(writing)
    assert keys.wait(0) == ""
    os.close(reading)


def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("q"))
    with keyboard() as keys:
        assert keys.wait(0) == ""
