"""All figures of one node, as they are now. Costs as much as there are queues, links and sessions."""

from collections.abc import Callable, Iterator

from broker.metrics import location, process, site
from broker.metrics import node as whole
from broker.metrics.exposition import Family
from broker.metrics.label_limit import Labels
from broker.metrics.links import LinkFigures
from broker.metrics.queues import QueueFigures, topics
from broker.metrics.sessions import SessionFigures
from broker.report import NodeReport


class Collector:
    """Keep one for each node, as long as it lives: counters of what has no label go on in it."""

    def __init__(self, report: NodeReport, labels: Labels, masked: Callable[[str], str]) -> None:
        self._report = report
        self._queues = QueueFigures(labels.queues)
        self._links = LinkFigures(labels.links)
        self._sessions = SessionFigures(labels.sessions, masked)

    def __repr__(self) -> str:
        return f"<Collector of {self._report.core!r}>"

    def parts(self) -> Iterator[list[Family] | None]:
        """Everything, whole families one after the other; None at each step between which the node may do
        other work. One at a time; call on the event loop.
        """
        report, core = self._report, self._report.core
        core.advance(report.driver.now())
        yield [
            *whole.families(report),
            *site.families(core.site, report.desk),
            *location.families(report.diallers, report.registrar),
        ]
        yield (yield from self._links.families(core))
        yield (yield from self._queues.families(core))
        yield (yield from topics(core))
        yield (yield from self._sessions.families(core))
        yield process.families(report.started_at)

    def families(self) -> list[Family]:
        """Everything at once."""
        return [family for part in self.parts() if part is not None for family in part]
