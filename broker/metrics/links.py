"""Links: the state of each, how long it has lasted, what went over it, what waits for it."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.core.links.neighbour import Neighbour
from broker.metrics.exposition import Family, counter, gauge
from broker.metrics.label_limit import OTHER, Counters, LabelLimit
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

    def families(self, core: "NodeCore") -> list[Family]:
        links = core.neighbours
        weights = {
            name: float("inf") if link.relation is Relation.PARENT else float(link.queue.messages)
            for name, link in links.items()
        }
        counters = {name: tuple(read(link) for _, _, read in _COUNTED) for name, link in links.items()}
        named = sorted(self._seats.look(weights, counters))
        groups: dict[str, list[Neighbour]] = {name: [links[name]] for name in named}
        rest = [link for name, link in links.items() if name not in groups]
        if rest or any(self._seats.rest):
            groups[OTHER] = rest
        totals = {**counters, OTHER: self._seats.rest}
        return [_numbers(core), _states(groups), *_gauges(groups, core.clock.now), *_totals(groups, totals)]


def _numbers(core: "NodeCore") -> Family:
    """All links, whether they have a label or not."""
    family = gauge("sapwood_links", "Neighbours of this node by relation and state of the link.")
    counts = {(relation, state): 0 for relation in Relation for state in STATES}
    for link in core.neighbours.values():
        counts[link.relation, link.state] += 1
    for (relation, state), count in counts.items():
        family.add(count, relation=relation, state=state)
    return family


def _states(groups: dict[str, list[Neighbour]]) -> Family:
    family = gauge(
        "sapwood_link_state",
        "1 for the state that the link is in, else 0; of 'other': how many of them are in that state.",
    )
    for name, links in groups.items():
        counts = Counter(link.state for link in links)
        for state in STATES:
            family.add(counts[state], link=name, relation=_relation(links), state=state)
    return family


def _gauges(groups: dict[str, list[Neighbour]], now: float) -> list[Family]:
    families = []
    for suffix, text, read in _MEASURED:
        families.append(family := gauge(f"sapwood_link_{suffix}", text))
        for name, links in groups.items():
            family.add(sum(int(read(link, now)) for link in links), link=name, relation=_relation(links))
    for suffix, text, read in _AGES:
        families.append(family := gauge(f"sapwood_link_{suffix}", text))
        for name, links in groups.items():
            value = max((read(link, now) for link in links), default=0.0)
            family.add(max(round(value, 3), 0.0), link=name, relation=_relation(links))
    return families


def _totals(groups: dict[str, list[Neighbour]], totals: dict[str, Counters]) -> list[Family]:
    families = []
    for index, (suffix, text, _) in enumerate(_COUNTED):
        families.append(family := counter(f"sapwood_link_{suffix}", text))
        for name, links in groups.items():
            family.add(totals[name][index], link=name, relation=_relation(links))
    return families


def _relation(links: list[Neighbour]) -> str:
    return links[0].relation if links else "child"
