"""A process that is killed at any moment loses nothing that it was told is on disk, and halves nothing."""

import random
import signal
import subprocess
import sys
from pathlib import Path

from broker.core.rows import CopyRow

ROUNDS = 20
PER_TRANSACTION = 7
PROGRAM = """
import sys
from broker.core.rows import BundleRow, CopyRow, Transaction
from broker.store import Store

store = Store.open(sys.argv[1], tree="acme", node="store-1", log_limit=256 * 1024, journal_limit=64 * 1024)
row = max((copy.row for copy in store.load().rows(CopyRow)), default=0)
while True:
    transaction = Transaction()
    for row in range(row + 1, row + 8):
        transaction.put(BundleRow(row, b"header", b"x" * 400))
        transaction.put(CopyRow(row, row, "queue:q", 0, b"", "", 0, 0, 0, ""))
    store.apply(transaction)
    print(row, flush=True)
"""


def acknowledged_before_kill(directory: Path, lines: int) -> int:
    """Let it write, kill it after so many acknowledgements, and return the last that it made."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(directory)], stdout=subprocess.PIPE, text=True
    )
    said = [child.stdout.readline() for _ in range(lines)]
    child.send_signal(signal.SIGKILL)
    said += child.stdout.read().splitlines(keepends=True)
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return int([line for line in said if line.endswith("\n")][-1])


def test_kill_at_random_moments(opened, tmp_path):
    choice = random.Random(20)
    before = 0
    for _ in range(ROUNDS):
        last = acknowledged_before_kill(tmp_path, choice.randrange(1, 300))
        store = opened()
        loaded = store.load()
        copies, bundles = loaded.rows(CopyRow), loaded.bundles
        assert len(copies) >= last > before
        assert len(copies) % PER_TRANSACTION == 0
        assert [copy.row for copy in copies] == list(range(1, len(copies) + 1))
        assert [bundle.row for bundle in bundles] == [copy.bundle for copy in copies]
        assert all(bundle.size == 400 for bundle in bundles)
        before = len(copies)
        store.close()
    store = opened()
    assert store.start == 2 * ROUNDS + 1
    assert store._writing().execute("PRAGMA integrity_check").fetchone() == ("ok",)
