"""One simulation from its beginning to its end: a world, who lives in it, its log and its summary."""

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from simulation import summary
from simulation.advisory_log import Counts, ParquetLog, every
from simulation.deployment import Deployment
from simulation.machine import Machine
from simulation.population import Population, core_settings, line_of, speed_of
from simulation.usage import Usage
from simulation.workload import Workload
from simulation.world import World, WorldSettings, populate
from treeconnector.link import LinkSettings

_SLICE: Final = 300.0
_PAUSE: Final = 2.0
_MOMENT: Final = 0.01
_STEPS: Final = 200
_DEFAULT_TREE: Final = "acme"

Progress = Callable[[str, float], None]
"""Told what is being done, and which share of it is."""


@dataclass(frozen=True, slots=True)
class Task:
    """What to simulate. `hours` of virtual time; `seed`: the same one gives the same log.

    The workload's outages are of nodes of the deployment (`read_workload` sees to that).
    """

    deployment: Deployment
    workload: Workload
    hours: float = 24.0
    seed: int = 1


class Simulation:
    """One run. `run` does it all; `world` can be looked at afterwards."""

    def __init__(self, task: Task, log: ParquetLog | None = None) -> None:
        workload, self.task = task.workload, task
        link = workload.link
        self.counts = Counts()
        self.deliveries = summary.Deliveries()
        self._log = log
        self._began, self._processor = time.perf_counter(), time.process_time()
        settings = WorldSettings(
            tree=workload.tree or task.deployment.tree or _DEFAULT_TREE,
            start=workload.start_microseconds,
            backoff_initial=link.backoff_initial,
            backoff_max=link.backoff_max,
            core=core_settings(workload),
            links=LinkSettings(
                keep_alive=link.keep_alive, dead_after=link.dead_after, handshake_timeout=link.connect_timeout
            ),
        )
        sink = every([self.counts, log]) if log is not None else self.counts
        self.world = World(settings, task.seed, sink)
        self.usage = Usage()
        counts = self.usage.follow if workload.messages else _nobody
        self._population = Population(self.world, task.deployment, workload, self.deliveries, counts)

    def __repr__(self) -> str:
        return f"<Simulation of {len(self.task.deployment)} nodes, {self.world!r}>"

    def run(self, progress: Progress = lambda what, share: None) -> dict[str, Any]:
        """Build the chain, let `hours` pass, and return the summary."""
        with rare_collection():
            self._build(progress)
            end = self.task.hours * 3600
            self._link(progress, end)
            while self.world.now < end:
                self.world.run(min(self.world.now + _SLICE, end))
                progress("simulating", self.world.now / end)
            if self._log is not None:
                progress("writing the log", 1.0)
                self._log.close()
            return self._summary()

    def _build(self, progress: Progress) -> None:
        """All machines start, a level after the other from the root down, and find each other.

        Told of by the machines: the lowest level has nearly all of them.
        """
        world, workload = self.world, self.task.workload
        populate(
            world,
            self.task.deployment,
            lambda role: line_of(workload, role, world.random),
            lambda role: speed_of(workload, role, world.random),
        )
        self._population.start()
        depths = self.task.deployment.depths()
        booted, total = count(1), len(world.machines)
        step = max(total // _STEPS, 1)

        def boot(machine: Machine) -> None:
            world.boot(machine)
            if (number := next(booted)) % step == 0:
                progress("starting nodes", number / total)

        for machine in world.machines.values():
            world.at(depths[machine.name] * _PAUSE, boot, machine)
        world.run(max(depths.values()) * _PAUSE)

    def _link(self, progress: Progress, end: float) -> None:
        """Let the nodes of the lowest level find their parents, which of a large chain is half the work."""
        world, links = self.world, 2 * max(len(self.world.machines) - 1, 1)
        until = min(world.now + _PAUSE, end)
        while world.now < until:
            world.run(min(world.now + _MOMENT, until))
            progress("linking nodes", min(self.counts.events["link", "up"] / links, 1.0))

    def _summary(self) -> dict[str, Any]:
        task, world, counts = self.task, self.world, self.counts
        machines = list(world.machines.values())
        processor = time.process_time() - self._processor
        return {
            "tree": world.settings.tree,
            "seed": task.seed,
            "hours": task.hours,
            "start": task.workload.start,
            "nodes": summary.nodes(task.deployment),
            "consumer_events": counts.events["consumer", "add"] + counts.events["consumer", "remove"],
            "advisories": summary.advisories(counts),
            "links": {op: counts.events["link", op] for op in ("up", "down", "blocked")},
            "starts": counts.events["node", "start"],
            "log_rows": counts.rows,
            "line_bytes": world.bytes,
            "messages": summary.messages(machines, self.deliveries),
            "spools": summary.spools(machines, task.deployment.depths()),
            "routes": summary.routes(machines),
            "cost": {
                "seconds": round(time.perf_counter() - self._began, 3),
                "processor_seconds": round(processor, 3),
                "events": world.happened,
                "event_us": round(processor / max(world.happened, 1) * 1e6, 1),
                "memory": peak_memory(),
            },
        }


def _nobody(machine: Machine) -> None:
    """Where nothing is sent, no route is used."""


@contextmanager
def rare_collection() -> Iterator[None]:
    """Cycles are rare here and objects are many: the collector looks at them a hundred times less often."""
    before = gc.get_threshold()
    gc.set_threshold(before[0] * 100, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def simulate(task: Task, out: Path, progress: Progress = lambda what, share: None) -> dict[str, Any]:
    """Run a task; below `out` write `advisories/`, `sites.csv` and `summary.json`. Returns the summary.

    Its `cost`, which is never the same twice, is not in the file.
    Where messages were sent, `TREE.usage.jsonl` says which routes they used.

    Raises `SapwoodError` if a log lies there already, or pyarrow is not installed.
    """
    out.mkdir(parents=True, exist_ok=True)
    simulation = Simulation(task, ParquetLog(out / "advisories"))
    task.deployment.write(out / "sites.csv")
    found = simulation.run(progress)
    if task.workload.messages:
        simulation.usage.write(out / f"{simulation.world.settings.tree}.usage.jsonl")
    kept = {name: value for name, value in found.items() if name != "cost"}
    (out / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    return found


def peak_memory() -> int:
    """The most bytes of memory that this process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
