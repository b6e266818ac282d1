"""The use of routes, as real nodes write it beside their logs: here of all nodes in one file.

What a node's core has counted outlives its crashes, as it nearly does on a real disk.
"""

from pathlib import Path

import msgspec

from broker.core.usage import RouteUsage, UsageRow
from simulation.machine import Machine


class Usage:
    """Counts for every machine that it is told to follow."""

    def __init__(self) -> None:
        self._following: dict[str, RouteUsage] = {}
        self._counts: dict[tuple[str, str, str], int] = {}

    def __repr__(self) -> str:
        return f"<Usage of {len(self._following)} nodes>"

    def follow(self, machine: Machine) -> None:
        """A machine has started, with a new core."""
        self._take(machine.name)
        self._following[machine.name] = usage = RouteUsage(machine.core.table)
        machine.core.arrivals.taps.append(usage.saw)

    def _take(self, name: str) -> None:
        usage = self._following.get(name)
        for key, count in usage.take().items() if usage is not None else ():
            row = name, str(key.kind), key.name
            self._counts[row] = self._counts.get(row, 0) + count

    def write(self, file: Path) -> None:
        """Each node in a line that says that it counted, and each route that was used, with its messages."""
        for name in self._following:
            self._take(name)
        heads = [UsageRow(node=name) for name in sorted(self._following)]
        rows = [
            UsageRow(node=node, kind=kind, destination=destination, messages=count)
            for (node, kind, destination), count in sorted(self._counts.items())
        ]
        file.write_bytes(msgspec.json.Encoder().encode_lines([*heads, *rows]))
