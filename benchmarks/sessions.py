"""The cost of a session's requests to the node's core, by how many reply queues it has made and reads.

`python -m benchmarks.sessions`. CPU time of one thread, no disk and no HTTP: an empty transfer, one queue
more made and subscribed to, and the longest step of closing the session: others have turns between steps.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.processes import machine
from broker.core.sessions.sessions import Connection
from simulation.forest import Forest

SIZES = (0, 1_000, 100_000)
_ROUNDS = 100


def spent(work: Callable[[], object], rounds: int = 1) -> float:
    """Microseconds of CPU time for each of so many rounds."""
    began = time.thread_time()
    for _ in range(rounds):
        work()
    return (time.thread_time() - began) / rounds * 1e6


def row(subscriptions: int) -> tuple[float, float, float]:
    """(transfer, create and subscribe, longest step of close), in microseconds."""
    forest = Forest()
    core = forest.add("hq").core
    connection = Connection(lambda frame: None, "benchmark", "http")
    core.switch.login(connection, "client")

    def make() -> None:
        core.switch.subscribe(connection, core.switch.create(connection, ""))

    for _ in range(subscriptions - _ROUNDS):
        make()
    forest.settle()
    core.switch.transfer(connection, -1)
    transfer = spent(lambda: core.switch.transfer(connection, -1), _ROUNDS)
    more = spent(make, _ROUNDS)
    steps = [spent(lambda: core.switch.close(connection))]
    while (due := core.clock.next) is not None:
        core.advance(due)
        steps.append(spent(core.clock.run_due))
    return transfer, more, max(steps)


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="reply queues that it reads")
    parser.add_argument("--json", type=Path, help="write everything there")
    options = parser.parse_args(arguments)
    found = {"machine": machine(), "rows": [(size, *row(size)) for size in options.sizes]}
    say(tables.sessions(found))
    if options.json:
        options.json.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
