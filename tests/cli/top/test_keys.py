"""The keyboard, through a pipe in place of a terminal."""

import os
import sys
from io import StringIO

import pytest

from broker.cli.top.keys import Keys, keyboard


def test_keys_are_read_one_by_one_and_arrows_are_none() -> None:
    reading, writing = os.pipe()
    keys = Keys(reading)
    for typed, expected in ((b"sq", ["s", "q", ""]), (b"\x1b[A", ["", ""]), (b"+", ["+", ""])):
        os.write(writing, typed)
        assert [keys.wait(0) for _ in expected] == expected
    os.close(writing)
    assert keys.wait(0) == ""
    os.close(reading)


def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("q"))
    with keyboard() as keys:
        assert keys.wait(0) == ""
