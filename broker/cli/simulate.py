"""`sapwood simulate`: a whole chain for a day in one process, and the nightly test of the design."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker.cli.errors import FAILED, WELL, WRONG_USE, CommandError, make_given
from broker.cli.output import note, printable
from simulation.run import Progress
from treeconnector.wording import counted

_SILENCE: Final = 10.0
"""Seconds between two words of how far it is, where there is no terminal."""


def run_simulation(
    deployment: str, workload: Path | None, hours: float, out: Path | None, seed: int, *, as_json: bool
) -> int:
    """Simulate, and print the summary."""
    from simulation.deployment import deployment as read_deployment
    from simulation.run import Task, simulate
    from simulation.summary import as_text
    from simulation.workload import Workload, read_workload

    if not deployment or out is None:
        raise CommandError(
            "simulate needs a deployment and --out: a table of sites or stores=2200,regions=25,"
            " and a new folder for the log",
            WRONG_USE,
        )
    chain = read_deployment(deployment)
    roles = {place.name: place.role for place in chain.places}
    task = Task(chain, read_workload(workload, roles) if workload else Workload(), hours, seed)
    make_given(out)
    with _progress() as progress:
        found = simulate(task, out, progress)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        print(printable(as_text(found)))
        print(f"\nthe advisory log, sites.csv and summary.json are in {out}")
    return WELL


def refuse_chain(option: str, deployment: str, workload: Path | None) -> None:
    """Raises `CommandError` if a chain was given beside an option that brings its own."""
    if given := deployment or workload:
        raise CommandError(
            f"{option} and {given}: expected one of them; {option} lives through histories of its own chains",
            WRONG_USE,
        )


def run_soak(first: int, count: int, only: str, out: Path | None, *, as_json: bool) -> int:
    """Live through random histories; print, and below `out` keep, the shortest form of those that fail."""
    from simulation.soak import soak

    failures = 0
    if out is not None:
        make_given(out)
    for outcome in soak(first, count, only):
        failure = outcome.failure
        if as_json:
            found = None if failure is None else {"where": failure.where, "text": failure.text}
            line = {"trial": outcome.trial, "seed": outcome.seed, "actions": outcome.length}
            print(json.dumps(line | {"failure": found}, ensure_ascii=False), flush=True)
        elif sys.stderr.isatty():
            print(f"\r{outcome.seed - first + 1} of {count}", end="", file=sys.stderr, flush=True)
        if failure is None:
            continue
        failures += 1
        if not as_json:
            print(printable(str(failure)), flush=True)
        if out is not None:
            file = out / f"{failure.trial}-{failure.seed}.json"
            failure.write(file)
            note(f"sapwood: to see it again: sapwood simulate --replay {file}")
    if not as_json:
        print(f"{counted(count, 'seed')} from {first} on: {failures} failed")
    return FAILED if failures else WELL


def run_again(file: Path, *, as_json: bool) -> int:
    """Live through a history that was kept; 1 if it still goes wrong."""
    from simulation.soak import read_failure, replay

    kept = read_failure(file)
    found = replay(kept)
    if as_json:
        failure = None if found is None else {"where": found.where, "text": found.text}
        print(json.dumps({"trial": kept.trial, "seed": kept.seed, "failure": failure}, ensure_ascii=False))
    else:
        text = f"{kept.trial}, seed {kept.seed}: goes well now" if found is None else str(found)
        print(printable(text))
    return WELL if found is None else FAILED


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on a terminal; elsewhere a line for each new thing that is done, and at times how far."""
    if not sys.stderr.isatty():
        doing, said_at = "", 0.0

        def say(what: str, share: float) -> None:
            nonlocal doing, said_at
            now = time.monotonic()
            if what != doing:
                note(f"{what} …")
            elif now - said_at >= _SILENCE:
                note(f"{what}: {share:.0%}")
            else:
                return
            doing, said_at = what, now

        yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:18}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=1.0)

        def show(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        yield show
