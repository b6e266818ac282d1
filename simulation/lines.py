"""Lines between sites on a virtual clock: what is said takes its time, and may be stuck behind a cut.

A line is a byte stream, as TCP is: nothing is lost while it lasts, and nothing overtakes. What is lost below
comes later (`loss`); what a cut line holds comes when it is whole again, unless one end has given up before.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, Generic, TypeVar

from simulation.site import Site
from treeconnector.link import Link
from treeconnector.relations import Relation

_REPEAT_AFTER: Final = 0.2
_BACKLOG: Final = 0.25
_AT_ONCE: Final = 1 << 18
_LEAST: Final = 1 << 12

AnyMachine = TypeVar("AnyMachine", bound=Site)


@dataclass(frozen=True, slots=True)
class LineSettings:
    """`latency`: seconds one way. `bandwidth`: bytes a second each way, 0 = no limit. `loss`: share of
    packets that have to be sent again.
    """

    latency: float = 0.02
    bandwidth: int = 0
    loss: float = 0.0


class End(Generic[AnyMachine]):
    """One end of a connection, and the machine that has it. `free_at`: when the line has taken what this end
    has said so far.

    `number`: of the connection, so that ends have an order that does not depend on where they lie in memory.
    `goes_up`: does it join a child with a parent, and not two nodes of a mesh?
    """

    __slots__ = (
        "arrives_at",
        "bytes",
        "free_at",
        "goes_up",
        "line",
        "link",
        "machine",
        "number",
        "peer",
        "pulls",
    )

    def __init__(
        self, machine: AnyMachine, link: Link, line: LineSettings, number: int, relation: Relation
    ) -> None:
        self.machine = machine
        self.link = link
        self.number = number
        self.goes_up = relation is Relation.PARENT
        self.line = line
        self.peer: End[AnyMachine]
        self.free_at = 0.0
        self.arrives_at = 0.0
        self.bytes = 0
        self.pulls = False

    def __repr__(self) -> str:
        return f"<End at {self.machine.name} of {self.link!r}>"

    @property
    def dialler(self) -> AnyMachine:
        """The machine that has made the connection."""
        return self.machine if self.link.dials else self.peer.machine

    def room(self, now: float) -> int:
        """How many bytes the line takes now."""
        if not self.line.bandwidth:
            return _AT_ONCE
        if self.free_at > now:
            return 0
        return max(_LEAST, int(self.line.bandwidth * _BACKLOG))

    def sent(self, packets: list[bytes], now: float, random: Random) -> float:
        """The line takes these packets; returns when the last of them arrives."""
        size = sum(map(len, packets))
        self.bytes += size
        line = self.line
        if line.bandwidth:
            self.free_at = max(now, self.free_at) + size / line.bandwidth
        at = max(now, self.free_at) + line.latency
        if line.loss and random.random() < 1 - (1 - line.loss) ** len(packets):
            at += _REPEAT_AFTER + 2 * line.latency
        self.arrives_at = max(at, self.arrives_at)
        return self.arrives_at
