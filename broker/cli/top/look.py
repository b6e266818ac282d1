"""One look at a node: what it says of itself, with what moved since the look before.

Law: what a node does not say is left out, so that a newer program can look at an older node. A rate is the
node's own where it tells one, else the difference of two looks; None = not known yet.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

Fields = dict[str, Any]
Ask = Callable[[str], Any]

SORTS: Final = ("messages", "oldest", "rate", "name")
_WORST_FIRST: Final = ("blocked", "down", "connecting")
_QUEUES: Final = "/api/queues?limit=200&sort="
_DOWN: Final = "/api/below?down=1&limit=200"
_ORDERS: Final = {"messages": "messages", "oldest": "oldest_s", "rate": "in_per_s", "name": "name"}


@dataclass(frozen=True, slots=True)
class LinkLine:
    """A link. Seconds, messages."""

    name: str
    relation: str
    state: str
    since_s: float | None
    in_per_s: float | None
    out_per_s: float | None
    messages_in: int
    messages_out: int
    waiting: int
    oldest_s: float
    heard_s: float | None
    why: str


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue. Seconds, messages."""

    name: str
    messages: int
    size: int
    oldest_s: float
    readers: int
    in_per_s: float | None
    out_per_s: float | None


@dataclass(frozen=True, slots=True)
class Look:
    """All that `sapwood top` shows. `at`: seconds, monotonic; `queues_more`: how many it does not name;
    `problem`: why there is nothing newer; `below`: with `--tree`, the nodes below that are down."""

    at: float
    found: Fields
    rates: dict[str, float | None]
    links: list[LinkLine]
    queues: list[QueueLine]
    queues_more: int = 0
    problem: str = ""
    below: Fields = field(default_factory=dict)
    counted: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    def as_json(self) -> Fields:
        """The same for programs: one object."""
        node = self.found
        picked: Fields = {key: node.get(key) for key in _SHOWN if key in node}
        return {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **picked,
            "rates": self.rates,
            "links": [_plain(line) for line in self.links],
            "queues": [_plain(line) for line in self.queues],
            "queues_more": self.queues_more,
            **({"below": self.below} if self.below else {}),
            **({"problem": self.problem} if self.problem else {}),
        }


_SHOWN: Final = (
    *("name", "tree", "role", "chain", "ready", "refusing", "disconnected"),
    *("uptime_s", "sessions", "children_more"),
    *("counters", "dead", "spool", "store"),
)


def look(
    ask: Ask,
    before: Look | None = None,
    *,
    sort: str = "messages",
    tree: bool = False,
    now: float | None = None,
) -> Look:
    """Ask a node, with `tree` for the nodes below it as well. Raises what `ask` raises; an API that the node
    does not have is done without."""
    status: Fields = ask("/api/status")
    at = time.monotonic() if now is None else now
    listed, more = _listed(ask, status, sort)
    queues = [line for line in map(_queue, listed) if line.messages or not _is_own(line.name)]
    elapsed = at - before.at if before is not None else 0.0
    counted = {_key(found): (_whole(found, "in"), _whole(found, "out")) for found in _neighbours(status)}
    counted[""] = _node_counts(status)
    links = [_link(found, counted, before, elapsed) for found in _neighbours(status)]
    return Look(
        at,
        status,
        _rates(status, counted, before, elapsed),
        sorted(links, key=_urgency),
        sorted_queues(queues, sort),
        more,
        below=_below(ask) if tree else {},
        counted=counted,
    )


def sorted_queues(queues: list[QueueLine], sort: str) -> list[QueueLine]:
    """The busiest first, in the sense of `sort`, one of `SORTS`."""
    ways: dict[str, Callable[[QueueLine], Any]] = {
        "messages": lambda line: (-line.messages, line.name),
        "oldest": lambda line: (-line.oldest_s, -line.messages, line.name),
        "rate": lambda line: (-(line.in_per_s or 0) - (line.out_per_s or 0), -line.messages, line.name),
        "name": lambda line: line.name,
    }
    return sorted(queues, key=ways[sort])


def _urgency(line: LinkLine) -> tuple[bool, int, float, str]:
    """Parents and the others of the mesh, then whatever does not run, then the busiest."""
    worst = _WORST_FIRST.index(line.state) if line.state in _WORST_FIRST else len(_WORST_FIRST)
    return line.relation == "child", worst, -(line.in_per_s or 0) - (line.out_per_s or 0), line.name


def _listed(ask: Ask, status: Fields, sort: str) -> tuple[list[Fields], int]:
    """The first queues as administration lists them, else as the status does; and how many more there are."""
    from broker.cli.errors import CommandError

    try:
        found = ask(_QUEUES + _ORDERS[sort])
    except CommandError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("queues"), list):
        return found["queues"], _whole(found, "more")
    return list(status.get("queues", [])), _whole(status, "queues_more")


def _below(ask: Ask) -> Fields:
    """The nodes below that are down, as far as one page has them; of an older node nothing is known."""
    from broker.cli.errors import CommandError

    try:
        found = ask(_DOWN)
    except CommandError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("below"), list) else {}


def _neighbours(status: Fields) -> list[Fields]:
    """All nodes above, the others of this node's mesh, the children."""
    parent = status.get("parent")
    above = status.get("parents") or ([parent] if parent else [])
    told = (("parent", above), ("mesh", status.get("mesh", [])), ("child", status.get("children", [])))
    return [{**each, "relation": relation} for relation, links in told for each in links]


def _key(found: Fields) -> str:
    return f"{found.get('relation', 'child')} {found.get('name', '')}"


def _is_own(name: str) -> bool:
    """A queue with which nodes ask each other: of no interest while it is empty."""
    plain = name.removeprefix("queue:").partition("@")[0]
    return plain == "System" or plain.startswith("System.")


def _whole(found: Fields, key: str) -> int:
    return int(found.get(key) or 0)


def _node_counts(status: Fields) -> tuple[int, int]:
    counters = status.get("counters", {})
    return _whole(counters, "entered"), _whole(counters, "delivered")


def _per_second(now: int, before: int | None, elapsed: float) -> float | None:
    """None on the first look; a counter that fell began again."""
    if before is None or elapsed <= 0:
        return None
    return round((now - before if now >= before else now) / elapsed, 1)


def _link(
    found: Fields, counted: dict[str, tuple[int, int]], before: Look | None, elapsed: float
) -> LinkLine:
    key = _key(found)
    was = before.counted.get(key) if before is not None else None
    now = counted[key]
    dialling = found.get("dialling", {}) if found.get("state") != "running" else {}
    return LinkLine(
        name=printable(str(found.get("name") or "")),
        relation=str(found.get("relation", "child")),
        state=str(found.get("state", "")),
        since_s=found.get("since_s"),
        in_per_s=_per_second(now[0], was and was[0], elapsed),
        out_per_s=_per_second(now[1], was and was[1], elapsed),
        messages_in=now[0],
        messages_out=now[1],
        waiting=_whole(found, "waiting"),
        oldest_s=float(found.get("spool_oldest_s") or 0.0),
        heard_s=found.get("heard_s"),
        why=printable(str(found.get("error") or dialling.get("error") or "")),
    )


def _queue(found: Fields) -> QueueLine:
    return QueueLine(
        name=printable(str(found.get("name", ""))),
        messages=_whole(found, "messages"),
        size=_whole(found, "bytes"),
        oldest_s=float(found.get("oldest_s") or 0.0),
        readers=_whole(found, "readers"),
        in_per_s=found.get("in_per_s"),
        out_per_s=found.get("out_per_s"),
    )


def _rates(
    status: Fields, counted: dict[str, tuple[int, int]], before: Look | None, elapsed: float
) -> dict[str, float | None]:
    """The node's own, smoothed; of an older node what the two looks show."""
    told = status.get("rates")
    if isinstance(told, dict):
        return {str(key): float(rate) for key, rate in told.items() if isinstance(rate, int | float)}
    was = before.counted.get("") if before is not None else None
    return {
        "entered_per_s": _per_second(counted[""][0], was and was[0], elapsed),
        "delivered_per_s": _per_second(counted[""][1], was and was[1], elapsed),
    }


def printable(text: str) -> str:
    """What a terminal may be given: no control characters in names that others chose."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _plain(line: LinkLine | QueueLine) -> Fields:
    return {name: getattr(line, name) for name in line.__slots__}
