"""The benchmark of many small logs works with a hundred of them, and finds each fault. Nothing is timed."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks import small_files

ROOT = Path(__file__).parents[2]


def test_of_a_hundred_files_each_fault_is_found() -> None:
    """In a process of its own: Spark keeps settings of a session that has ended."""
    command = [sys.executable, "-m", "benchmarks.small_files", "--files", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(done.stdout)
    assert (found["files"], found["rows"]) == (101, 99 * small_files.ROWS)
