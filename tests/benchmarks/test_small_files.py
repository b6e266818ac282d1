"""The benchmark of many small logs works with a hundred of them, and finds each fault. Nothing is timed."""

import json
from typing import TYPE_CHECKING

import pytest

from audit import session
from benchmarks import small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_of_a_hundred_files_each_fault_is_found(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the session of all tests, which goes on."""
    monkeypatch.setattr(session, "start", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    assert small_files.main(["--files", "100"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["files"], found["rows"]) == (101, 99 * small_files.ROWS)
