"""Benchmarks are no part of the wheel: their folder is found behind everything that is installed.

Their processes of Python are forks that begin with the program loaded, which is most of what one does here.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))
sys.path.append(str(ROOT / "tests" / "network"))  # for `nursery`
sys.path.append(str(Path(__file__).parent))  # for `shown_tables`

from nursery import NODES, NurseryChild, nursery  # noqa: E402 - found by the line above

from benchmarks.processes import Process, Processes  # noqa: E402

LOADED = (
    *NODES,
    *("benchmarks.payloads", "benchmarks.raw_mqtt", "benchmarks.worker", "broker.cli.app", "config.load"),
    *("argparse", "cProfile", "logging", "pstats", "sapwood.client", "sapwood.rpc", "simulation.forest"),
)


class Fork:
    """A process with the methods of `subprocess.Popen` that benchmarks use."""

    def __init__(self, words: Sequence[str], errors: int) -> None:
        theirs, mine = os.pipe()
        answers, said = os.pipe()
        self.stdin = os.fdopen(mine, "w", 1)
        self.stdout = os.fdopen(answers)
        try:
            here = nursery(*LOADED, PYTHONPATH=str(ROOT))
            self._child: NurseryChild = here.start(["-m", *words], ROOT, (said, errors, theirs), {})
        finally:
            os.close(theirs)
            os.close(said)
        self.pid, self.poll, self.wait = self._child.pid, self._child.poll, self._child.wait
        self.send_signal = self._child.send_signal

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@pytest.fixture(autouse=True, scope="session")
def _forks() -> Iterator[None]:
    def python(self: Processes, name: str, module: str, *arguments: str) -> Process:
        return self.begun(name, lambda errors: Fork([module, *arguments], errors.fileno()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Processes, "python", python)
        yield
