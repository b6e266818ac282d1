"""All figures of one node, as they are now. Costs as much as there are queues, links and sessions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.metrics import location, process, site
from broker.metrics import node as whole
from broker.metrics.exposition import Family
from broker.metrics.links import LinkFigures
from broker.metrics.queues import QueueFigures, topics
from broker.metrics.sessions import SessionFigures

if TYPE_CHECKING:
    from broker.node import Node


@dataclass(frozen=True, slots=True)
class Labels:
    """How many queues, links and sessions have labels of their own; the others are `other`."""

    queues: int = 100
    links: int = 200
    sessions: int = 50


class Collector:
    """Keep one for each node, as long as it lives: counters of what has no label go on in it."""

    def __init__(self, node: "Node", labels: Labels, masked: Callable[[str], str]) -> None:
        self._node = node
        self._queues = QueueFigures(labels.queues)
        self._links = LinkFigures(labels.links)
        self._sessions = SessionFigures(labels.sessions, masked)

    def __repr__(self) -> str:
        return f"<Collector of {self._node!r}>"

    def parts(self) -> Iterator[list[Family]]:
        """Everything, whole families one after the other, in parts between which the node may do other work.

        Call on the event loop.
        """
        node, core = self._node, self._node.core
        core.advance(node.now())
        yield [*whole.families(node), *site.families(node), *location.families(node)]
        yield self._links.families(core)
        yield self._queues.families(core)
        yield [*topics(core), *self._sessions.families(core), *process.families(node.started_at)]

    def families(self) -> list[Family]:
        """Everything at once."""
        return [family for part in self.parts() for family in part]
