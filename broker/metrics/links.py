"""Links: the state of each, how long it has lasted, what went over it, what waits for it."""

from collections import Counter
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from broker.core.links.neighbour import Neighbour
from broker.metrics import label_limit
from broker.metrics.exposition import Family, counter, gauge
from broker.metrics.label_limit import Counters, LabelLimit, summed
from treeconnector.relations import Relation

if TYPE_CHECKING:
    from broker.core.node import NodeCore

STATES: Final = ("running", "blocked", "connecting", "down")
_COUNTED: Final[tuple[tuple[str, str, Callable[[Neighbour], float]], ...]] = (
    ("messages_received", "Messages that came over the link.", lambda link: link.counters["in"]),
    ("messages_sent", "Messages that went over the link.", lambda link: link.counters["out"]),
    ("bundles_received", "Bundles that came over the link.", lambda link: link.counters["in_bundles"]),
    ("bundles_sent", "Bundles that went over the link.", lambda link: link.counters["out_bundles"]),
    ("received_bytes", "Bytes that came over the link, frames and all.", lambda link: link.bytes_in),
    ("sent_bytes", "Bytes that went over the link, frames and all.", lambda link: link.bytes_out),
    (
        "volatile_dropped",
        "Messages that are not persistent and were dropped as the link had no room.",
        lambda link: link.counters["volatile_dropped"],
    ),
    (
        "refused",
        "Routes and bundles of the neighbour that were refused here.",
        lambda link: link.refusals.total,
    ),
    (
        "refused_by_peer",
        "Routes and bundles of this node that the neighbour has refused.",
        lambda link: link.refused_us.total,
    ),
    (
        "gaps",
        "How often a lost state was noticed when the link came up: a replaced or restored neighbour.",
        lambda link: link.detail.gaps,
    ),
    (
        "gap_messages",
        "Bundles that were known to be missing after such a loss.",
        lambda link: link.detail.gap_messages,
    ),
)
_MEASURED: Final[tuple[tuple[str, str, Callable[[Neighbour, float], float]], ...]] = (
    (
        "outbox_bundles",
        "Bundles that are sent, or numbered to be, and not yet confirmed by the neighbour.",
        lambda link, _now: len(link.outbox),
    ),
    ("outbox_bytes", "Bytes of those bundles.", lambda link, _now: link.outbox_bytes),
    (
        "waiting_messages",
        "Messages that are this neighbour's and that it has not confirmed.",
        lambda link, _now: link.queue.messages,
    ),
    ("waiting_bytes", "Bytes of their bundles.", lambda link, _now: link.queue.size),
    ("routes", "Routes learned over the link.", lambda link, _now: link.held.count),
    (
        "held_destinations",
        "Destinations that the neighbour has asked to hold, since it has no room.",
        lambda link, _now: len(link.peer_holds),
    ),
    ("dormant", "1: away for so long that its queues are served elsewhere.", lambda link, _now: link.dormant),
)
_AGES: Final[tuple[tuple[str, str, Callable[[Neighbour, float], float]], ...]] = (
    ("state_seconds", "How long the link has been up, or down.", lambda link, now: now - link.since),
    (
        "silence_seconds",
        "Time since the neighbour was heard of; while the link is down, since it went down.",
        lambda link, now: now - (link.since if link.heard_at is None else link.heard_at),
    ),
    (
        "oldest_age_seconds",
        "How long the oldest bundle has been here that the neighbour has not confirmed; 0: there is none.",
        lambda link, now: 0.0 if (oldest := link.oldest()) is None else now - oldest,
    ),
)


class LinkFigures:
    """Families of all links. Keep one for each node."""

    def __init__(self, limit: int) -> None:
        self._seats = LabelLimit(limit, len(_COUNTED))

    def __repr__(self) -> str:
        return f"<LinkFigures {self._seats!r}>"

    def families(self, core: "NodeCore") -> Generator[None, None, list[Family]]:
        """Some links a step."""
        now, links = core.clock.now, list(core.neighbours.values())
        numbers = {(relation, state): 0 for relation in Relation for state in STATES}
        for count, link in enumerate(links):
            numbers[link.relation, link.state] += 1
            if count % label_limit.STEP == 0:
                yield
        sums = yield from summed(
            self._seats,
            lambda: ((link.name, link) for link in links),
            lambda link: float("inf") if link.relation is Relation.PARENT else float(link.queue.messages),
            lambda link: tuple(read(link) for _, _, read in _COUNTED),
            lambda: LinkSums(now),
        )
        totals = {name: self._seats.counters(name) for name in sums}
        return [_numbers(numbers), _states(sums), *_gauges(sums), *_totals(sums, totals)]


class LinkSums:
    """Of some links. `measured` as `_MEASURED` says, `ages` as `_AGES`; `relation`: of the first."""

    def __init__(self, now: float) -> None:
        self.states: Counter[str] = Counter()
        self.relation: str = ""
        self.measured = [0] * len(_MEASURED)
        self.ages = [0.0] * len(_AGES)
        self._now = now

    def add(self, link: Neighbour) -> None:
        self.states[link.state] += 1
        self.relation = self.relation or link.relation
        for index, (_, _, read) in enumerate(_MEASURED):
            self.measured[index] += int(read(link, self._now))
        for index, (_, _, read) in enumerate(_AGES):
            self.ages[index] = max(self.ages[index], read(link, self._now))


def _numbers(counts: dict[tuple[Relation, str], int]) -> Family:
    """All links, whether they have a label or not."""
    family = gauge("sapwood_links", "Neighbours of this node by relation and state of the link.")
    for (relation, state), count in counts.items():
        family.add(count, relation=relation, state=state)
    return family


def _states(sums: dict[str, LinkSums]) -> Family:
    family = gauge(
        "sapwood_link_state",
        "1 for the state that the link is in, else 0; of 'other': how many of them are in that state.",
    )
    for name, each in sums.items():
        for state in STATES:
            family.add(each.states[state], link=name, relation=_relation(each), state=state)
    return family


def _gauges(sums: dict[str, LinkSums]) -> list[Family]:
    families = []
    for index, (suffix, text, _) in enumerate(_MEASURED):
        families.append(family := gauge(f"sapwood_link_{suffix}", text))
        for name, each in sums.items():
            family.add(each.measured[index], link=name, relation=_relation(each))
    for index, (suffix, text, _) in enumerate(_AGES):
        families.append(family := gauge(f"sapwood_link_{suffix}", text))
        for name, each in sums.items():
            family.add(round(each.ages[index], 3), link=name, relation=_relation(each))
    return families


def _totals(sums: dict[str, LinkSums], totals: dict[str, Counters]) -> list[Family]:
    families = []
    for index, (suffix, text, _) in enumerate(_COUNTED):
        families.append(family := counter(f"sapwood_link_{suffix}", text))
        for name, each in sums.items():
            family.add(totals[name][index], link=name, relation=_relation(each))
    return families


def _relation(sums: LinkSums) -> str:
    return sums.relation or "child"
