"""The way of one message through three nodes in memory: its modules and functions, phase by phase.

    python -m benchmarks.message_path            the table
    python -m benchmarks.message_path --calls    each call besides, as a tree
    python -m benchmarks.message_path --write    the table into docs/architecture.md

A message for a reader in york is sent at hq and goes through north. Those before it warmed all caches.
Only Python functions of the node's core and the protocol count: no comprehension, nothing of the store, of
carriers or of this harness. A generator counts each time that it goes on.

Aim: from a packet's arrival at north to the hand-over of its transaction at most 12 modules and 60 calls.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from benchmarks import pages
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site
from simulation.wire import Wire

ROOT: Final = Path(__file__).parents[1]
DOCUMENT: Final = ROOT / "docs" / "architecture.md"
HOUSES: Final = ("treeconnector", "broker", "sapwood")
NAME: Final = "message_path"
_INLINED: Final = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"))
WARMED_BY: Final = 3


class Call(NamedTuple):
    """One call. `depth`: of calls that count."""

    depth: int
    module: str
    function: str


class Phase(NamedTuple):
    """What happened at a node between two moments."""

    node: str
    name: str
    calls: list[Call]

    @property
    def modules(self) -> list[str]:
        return sorted({call.module for call in self.calls})

    @property
    def functions(self) -> int:
        return len({(call.module, call.function) for call in self.calls})


class Tracer:
    """Collects calls while a phase lasts."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []

    @contextmanager
    def phase(self, node: str, name: str) -> Iterator[None]:
        """Calls of one phase; a phase of that name that there is goes on."""
        known = (each for each in self.phases if (each.node, each.name) == (node, name))
        phase = next(known, None)
        if phase is None:
            phase = Phase(node, name, [])
            self.phases.append(phase)
        sys.setprofile(self._collector(phase.calls))
        try:
            yield
        finally:
            sys.setprofile(None)

    @staticmethod
    def _collector(calls: list[Call]) -> Callable[[FrameType, str, Any], None]:
        depth = 0

        def collect(frame: FrameType, event: str, _argument: Any) -> None:
            nonlocal depth
            if event not in ("call", "return"):
                return
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] not in HOUSES or frame.f_code.co_name in _INLINED:
                return
            if event == "call":
                calls.append(Call(depth, module, frame.f_code.co_qualname))
            depth += 1 if event == "call" else -1

        return collect


ARRIVAL: Final = "arrival → hand-over of the transaction"
ENTRY: Final = "entry → hand-over of the transaction"
SAID: Final = "committed → said"
GIVEN: Final = "committed → given"
SETTLED: Final = "acknowledged → hand-over of the transaction"


def trace() -> list[Phase]:
    """One message from hq to york."""
    forest, reader = _tree()
    tracer = Tracer()
    hq, north, york = forest["hq"], forest["north"], forest["york"]
    sender = forest.producer("hq")
    for number in range(WARMED_BY):
        sender.send("queue:york/prices", b"before %d" % number)
        forest.settle(1.0)
    with tracer.phase("hq", ENTRY):
        sender.send("queue:york/prices", b"the message")
    _commit(tracer, hq, ENTRY, SAID)
    for site, other, final in ((hq, north, SAID), (north, york, GIVEN)):
        wire = forest.wire_of(other.name)
        assert wire is not None
        _arrive(tracer, wire, site, other)
        _commit(tracer, other, ARRIVAL, final)
    assert reader.payloads[-1] == b"the message"
    with tracer.phase("york", SETTLED):
        reader.acknowledge(1)
    _commit(tracer, york, SETTLED, "committed → acknowledged upward")
    assert not reader.open
    forest.settle(1.0)
    assert not any(site.waiting() for site in forest.sites.values())
    return tracer.phases


def _tree() -> tuple[Forest, SimulatedConsumer]:
    forest = Forest()
    forest.add("hq")
    forest.add("north", "hq", "branch")
    forest.add("york", "north")
    forest.dial_all()
    forest.settle(1.0)
    reader = forest.consumer("york", "queue:york/prices")
    forest.settle(1.0)
    return forest, reader


def _commit(tracer: Tracer, site: Site, before: str, after: str) -> None:
    """Hand the transaction over, write it, report it: the store's part is nobody's phase."""
    with tracer.phase(site.name, before):
        taken = site.take()
    assert taken, f"{site.name} has nothing to commit"
    site.write()
    with tracer.phase(site.name, after):
        site.report()


def _arrive(tracer: Tracer, wire: Wire, source: Site, target: Site) -> None:
    """Take the packet from one node to the next."""
    way = next(way for site, _, way in wire.sides() if site is source)
    with tracer.phase(source.name, SAID):
        way.packets.extend(way.source.data_to_send(1 << 18))
    assert way.packets, f"{source.name} says nothing"
    with tracer.phase(target.name, ARRIVAL):
        wire.deliver(way, target)


def table(phases: list[Phase]) -> str:
    """As Markdown."""
    rows = (
        (phase.node, phase.name, len(phase.modules), phase.functions, len(phase.calls)) for phase in phases
    )
    return pages.table("at | from … to | modules | functions | calls", rows, texts=5)


def by_module(phase: Phase) -> str:
    """How many calls of a phase stand in which module, as a line."""
    counts = dict.fromkeys(phase.modules, 0)
    for call in phase.calls:
        counts[call.module] += 1
    return ", ".join(
        f"{module} {count}" for module, count in sorted(counts.items(), key=lambda each: -each[1])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Trace one message through three nodes in memory.")
    parser.add_argument("--calls", action="store_true", help="print each call")
    parser.add_argument("--write", action="store_true", help=f"write the table into {DOCUMENT.name}")
    options = parser.parse_args()
    phases = trace()
    print(table(phases))
    for phase in phases:
        print(f"\n{phase.node}, {phase.name}: {by_module(phase)}")
        for call in phase.calls if options.calls else ():
            print(f"{'  ' * (call.depth + 1)}{call.module}  {call.function}")
    if options.write:
        pages.put(DOCUMENT, NAME, table(phases))


if __name__ == "__main__":
    main()
