"""The figures of which a node keeps how they went, each declared once. Charts and alarms read these."""

import asyncio
import math
import resource
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from broker import memory
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue_names import DEAD, is_internal
from broker.core.node import NodeCore
from broker.report import NodeReport

_STEP: Final = 2000
_COUNTED: Final = ("entered", "delivered", "acknowledged", "in", "out")
Fold = Literal["mean", "most", "least"]


@dataclass(frozen=True, slots=True)
class Figures:
    """One look at a node. `totals`: counters that only grow while it runs; `now`: all else, by series."""

    at: float
    totals: Mapping[str, float]
    now: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Series:
    """`fold`: of many samples that become one: their mean, or the worst of them, which a mean would hide.

    `per`: '' = it is what it was at that moment; `second`: of a counter, how many each second; otherwise
    the counter by which its own is divided: a mean of what happened between two samples.
    """

    name: str
    title: str
    unit: Literal["", "/s", "s", "bytes"]
    fold: Fold
    per: str = ""


SERIES: Final = (
    Series("entered", "Sent by applications here", "/s", "mean", "second"),
    Series("delivered", "Given to readers here", "/s", "mean", "second"),
    Series("acknowledged", "Dealt with by readers here", "/s", "mean", "second"),
    Series("in", "In, over links", "/s", "mean", "second"),
    Series("out", "Out, over links", "/s", "mean", "second"),
    Series("refused", "Refused to applications", "/s", "mean", "second"),
    Series("died", "Became dead letters", "/s", "mean", "second"),
    Series("latency", "From arrival to acknowledgement", "s", "most", "latency_count"),
    Series("waiting", "Messages that wait", "", "most"),
    Series("oldest", "Age of the oldest that waits", "s", "most"),
    Series("dead", "Dead letters that are kept", "", "most"),
    Series("sessions", "Sessions of applications", "", "most"),
    Series("links_down", "Links of this node that are down", "", "most"),
    Series("nodes_down", "Nodes below that are down", "", "most"),
    Series("parent_down", "The link to the parent is down", "", "most"),
    Series("site_broker_down", "The site's broker is not joined", "", "most"),
    Series("refusing", "The node takes no messages", "", "most"),
    Series("store", "Bytes in use in the store", "bytes", "most"),
    Series("disk_free", "Free space where the store is", "bytes", "least"),
    Series("commit", "Time of a commit, with its fsync", "s", "most", "commit_count"),
    Series("memory", "Memory of the process", "bytes", "most"),
    Series("cpu", "Processors in use", "", "mean", "second"),
)
NAMES: Final = tuple(each.name for each in SERIES)


async def figures(report: NodeReport, at: float) -> Figures:
    """Look at a node, some queues at a time. `at`: of any clock that only goes on."""
    core, driver = report.core, report.driver
    core.advance(driver.now())
    waiting, oldest = await _waiting(core)
    parents = core.neighbourhood.parents()
    main, links = report.diallers.main, list(core.neighbours.values())
    durations, latency = driver.committer.durations, core.statistics.latency
    totals = {
        **{name: float(core.counters[name]) for name in _COUNTED},
        "refused": float(sum(core.message_admission.refused.values())),
        "died": float(sum(core.custody.buried.values())),
        "latency": latency.total,
        "latency_count": float(sum(latency.counts)),
        "commit": durations.total,
        "commit_count": float(sum(durations.counts)),
        "cpu": _cpu(),
    }
    now = {
        "waiting": waiting,
        "oldest": oldest,
        "dead": core.custody.dead.messages,
        "sessions": len(core.switch.sessions),
        "links_down": sum(not link.up for link in links),
        "nodes_down": len(core.below.away),
        "parent_down": math.nan if main is None else float(not any(parent.up for parent in parents)),
        "site_broker_down": math.nan if report.desk is None else float(report.desk.state != "running"),
        "refusing": float(not driver.ready),
        "store": driver.store.used_bytes(),
        "disk_free": driver.store.disk_free(),
        "memory": memory.resident() or math.nan,
    }
    return Figures(at, totals, now)


async def _waiting(core: NodeCore) -> tuple[float, float]:
    """How many messages wait, and since how many seconds the first of them."""
    waiting, since = 0, math.inf
    for number, queue in enumerate(list(core.custody.queues.values())):
        if number % _STEP == _STEP - 1:
            await asyncio.sleep(0)
        if queue.name == DEAD or (queue.destination is not None and is_internal(queue.destination)):
            continue
        waiting += queue.messages
        since = min(since, queue.waiting.since if queue.waiting.since is not None else math.inf)
    for link in list(core.neighbours.values()):
        if link.outbox:
            waiting += _open(link)
            since = min(since, link.outbox[0].since)
    return waiting, 0.0 if since == math.inf else max(core.clock.now - since, 0.0)


def _open(link: Neighbour) -> int:
    return sum(entry.open for entry in link.outbox)


def beginning(at: float) -> Figures:
    """As the node began, with nothing counted: what happens before the first look is told by it."""
    return Figures(at, defaultdict(float, cpu=_cpu()), {})


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def between(before: Figures, after: Figures) -> tuple[float, ...]:
    """A number for each series; NaN where there is none, as of counters between which no time has passed."""
    return tuple(_value(each, before, after) for each in SERIES)


def _value(series: Series, before: Figures, after: Figures) -> float:
    if not series.per:
        return float(after.now[series.name])
    if after.at <= before.at:
        return math.nan
    grown = after.totals[series.name] - before.totals[series.name]
    if series.per == "second":
        return max(grown, 0.0) / (after.at - before.at)
    times = after.totals[series.per] - before.totals[series.per]
    return grown / times if times > 0 else math.nan


_FOLDS: Final[Mapping[Fold, Callable[[list[float]], float]]] = {
    "mean": lambda values: sum(values) / len(values),
    "most": max,
    "least": min,
}


def folded(rows: list[tuple[float, ...]]) -> tuple[float, ...]:
    """Many samples as one. A figure that some of them do not know is that of the others."""
    found = []
    for place, series in enumerate(SERIES):
        values = [row[place] for row in rows if not math.isnan(row[place])]
        found.append(_FOLDS[series.fold](values) if values else math.nan)
    return tuple(found)
