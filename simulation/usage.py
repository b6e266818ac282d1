"""The use of routes, as real nodes write it beside their logs: here of all nodes in one file.

What a node's core has counted outlives its crashes, as it nearly does on a real disk.
"""

from pathlib import Path

import msgspec

from broker.core.policies.usage import RouteUsage
from broker.usage import UsageRow
from simulation.machine import Machine


class Usage:
    """Counts for every machine that it is told to follow."""

    def __init__(self) -> None:
        self._following: dict[str, RouteUsage] = {}

    def __repr__(self) -> str:
        return f"<Usage of {len(self._following)} nodes>"

    def follow(self, machine: Machine) -> None:
        """A machine has started, with a new core."""
        usage = RouteUsage(machine.core.table)
        before = self._following.get(machine.name)
        if before is not None:
            usage.used, usage.whole = before.used, before.whole
        self._following[machine.name] = usage
        machine.core.policies.add([usage])

    def write(self, file: Path) -> None:
        """Each node in a line that says that it counted, and each route that was used, with its messages."""
        nodes = sorted(self._following.items())
        rows = [
            UsageRow(node=node, kind=key.kind, destination=key.name, messages=count)
            for node, usage in nodes
            for key, count in sorted(usage.used.items())
        ]
        heads = [UsageRow(node=node, whole=usage.whole) for node, usage in nodes]
        file.write_bytes(msgspec.json.Encoder().encode_lines([*heads, *rows]))
