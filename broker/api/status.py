"""How a node is: all that it says of itself in one answer, for people, tests and the dashboard.

Times in seconds, sizes in bytes. Lists are bounded: what is cut is counted in `…_more`.
"""

import os
import time
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from broker.api.operation import Answer, Operation, operation
from broker.api.queues import Queue, is_shown, queue_fields
from broker.core.sessions.masking import masked
from config.uris import EMBEDDED
from treeconnector.names import incarnation_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.core.links.neighbour import Neighbour
    from broker.node import Node

_LISTED: Final = 500
_RULES: Final = 200
_RULES_EACH: Final = 10
_CALM: Final = {"running": 2, "connecting": 1}


class StatusLink(Answer):
    """A link. `in`, `out`: messages. `heard_s` null: there is no link now. Bytes: on the line.

    A parent that was never reached has a state and `dialling` only. `spool_oldest_s`: age of the oldest
    bundle that the neighbour has not acknowledged. `limited`: a child that may not do everything. `refused`:
    routes and bundles of it that were refused here, `refused_us`: of ours by it; `refusals`,
    `refusals_of_ours`: the latest rules that refused any, with the last example and how many times.
    `held_by_peer`: the first ten destinations that it asked this node to keep, of `held_by_peer_total`.
    """

    name: str
    state: Literal["connecting", "running", "blocked", "down"]
    relation: str = ""
    since_s: float | None = None
    error: str = ""
    attempts: int = 0
    epoch: int = 0
    received: int = 0
    assigned: int = 0
    deleted: int = 0
    outbox: int = 0
    waiting: int = 0
    routes: int = 0
    role: str = ""
    addresses: list[str] = msgspec.field(default_factory=list)
    gaps: int = 0
    gap_bundles: int = 0
    held_by_peer: list[str] = msgspec.field(default_factory=list)
    held_by_peer_total: int = 0
    dormant: bool = False
    bytes_in: int = 0
    bytes_out: int = 0
    heard_s: float | None = None
    spool_oldest_s: float = 0.0
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    messages_in: int = msgspec.field(name="in", default=0)
    messages_out: int = msgspec.field(name="out", default=0)
    in_bundles: int = 0
    out_bundles: int = 0
    volatile_dropped: int = 0
    limited: bool = False
    refused: int = 0
    refused_us: int = 0
    refusals: list[dict[str, Any]] = msgspec.field(default_factory=list)
    refusals_of_ours: list[dict[str, Any]] = msgspec.field(default_factory=list)
    dialling: dict[str, Any] = msgspec.field(default_factory=dict)


class Rates(Answer):
    """Messages each second, smoothed over some seconds: over links, and of this node's own clients."""

    in_per_s: float
    out_per_s: float
    entered_per_s: float
    delivered_per_s: float
    acknowledged_per_s: float


class StatusSubscription(Answer):
    """`id`: masked, as the consumers have it."""

    id: str
    session: str
    name: str
    pattern: str
    messages: int
    attached: bool


class LinkBroker(Answer):
    """A broker at which children may dial. `failures`: attempts to listen since the last success.

    `ignored`: messages that were no child's knock; `refused`: knocks that came while there were too many;
    `strangers`: what links that have ended ignored, being of an earlier one.
    """

    uri: str
    state: Literal["connecting", "listening", "waiting"]
    links: int
    failures: int
    error: str
    ignored: int
    refused: int
    strangers: int


class DeadSummary(Answer):
    messages: int
    bytes: int
    reasons: dict[str, int]


class StoreSummary(Answer):
    """`commit_s`: what a commit takes, smoothed."""

    commits: int
    commit_s: float
    used_bytes: int
    disk_free: int


class Status(Answer):
    """Everything the node says of itself. `running_s`: over all its starts. Lists are cut at 500; what is
    cut is counted in `…_more`. Children whose links are in trouble come first. `sessions`: how many.
    `routes`: counts by 'kind/gateway'.
    """

    name: str
    tree: str
    role: Literal["leaf", "branch", "root"]
    chain: list[str]
    depth: int
    store_id: str
    start: int
    incarnation: str
    pid: int
    port: int
    mqtt: dict[str, int] | None
    uptime_s: float
    running_s: float
    ready: bool
    refusing: str
    parent: StatusLink | None
    parents: list[StatusLink]
    mesh: list[StatusLink]
    registration: dict[str, Any] | None
    certificate: dict[str, Any] | None
    children: list[StatusLink]
    link_brokers: list[LinkBroker]
    children_more: int
    site_broker: dict[str, Any]
    queues: list[Queue]
    queues_more: int
    subscriptions: list[StatusSubscription]
    subscriptions_more: int
    sessions: int
    connections: int
    rates: Rates
    routes: dict[str, int]
    offered: dict[str, int]
    retained: int
    counters: dict[str, int]
    warnings: list[str]
    applications: Any
    intake: Any
    dead: DeadSummary
    spool: dict[str, int]
    store: StoreSummary


@operation("GET", "/api/status", "How the node is.", "node", answer=Status)
def shown(node: "Node") -> dict[str, Any]:
    """Everything the node says of itself, as JSON can."""
    return node.status()


DESCRIPTION: Final = Operation("GET", "/api/openapi.json", "This description.", "node", dict[str, Any])


def status(node: "Node") -> dict[str, Any]:
    core = node.core
    now = core.clock.now
    identity = core.identity
    parent = core.parent
    children = troubled_first(core.context.children())
    return {
        "name": identity.name,
        "tree": identity.tree,
        "role": identity.role,
        "chain": core.ancestry.chain,
        "depth": len(core.ancestry.chain) - 1,
        "store_id": identity.store_id.hex(),
        "start": identity.start,
        "incarnation": incarnation_text(identity.incarnation),
        "pid": os.getpid(),
        "port": node.port,
        "mqtt": {"port": node.door.port, "clients": len(node.door)} if node.door is not None else None,
        "uptime_s": round(time.time() - node.started_at, 3),
        "running_s": round(now, 3),
        "ready": node.ready,
        "refusing": core.switch.sending.refusing or core.pressure.refusing,
        "parent": _parent(node) if parent is None else {**parent.status(now), **_dialling(node)},
        "parents": _parents(node),
        "mesh": _mesh(node),
        "children": list(_children(children[:_LISTED], now)),
        "link_brokers": [listening.status() for listening in node.link_brokers],
        "registration": node.registrar.status() if node.registrar is not None else None,
        "certificate": node.renewal.status() if node.renewal is not None else None,
        "children_more": max(0, len(children) - _LISTED),
        "site_broker": node.desk.status() if node.desk is not None else {"uri": EMBEDDED, "state": "running"},
        **_queues(node),
        "subscriptions": [
            {
                "id": masked(item.id),
                "session": masked(item.session),
                "name": item.name,
                "pattern": item.pattern,
                "messages": item.queue.messages,
                "attached": item.attached,
            }
            for item in islice(core.topics.subscriptions.values(), _LISTED)
        ],
        "subscriptions_more": max(0, len(core.topics.subscriptions) - _LISTED),
        "sessions": len(core.switch.sessions),
        "intake": node.intake.status(),
        "connections": sum(len(session.connections) for session in core.switch.sessions.values()),
        "rates": {name: round(rate, 3) for name, rate in core.statistics.rates._asdict().items()},
        "routes": {f"{kind}/{gateway}": count for (kind, gateway), count in _route_counts(node)},
        "offered": {"up": core.offers.up.count, "down": core.offers.down.count},
        "retained": len(core.topics.retained),
        "counters": dict(core.counters),
        "warnings": [
            *node.entrance.warnings,
            *node.grants.warnings,
            *core.switch.warnings,
            *node.chronicle.warnings,
        ],
        "applications": node.entrance.status(),
        "dead": {
            "messages": core.custody.dead.messages,
            "bytes": core.custody.dead.size,
            "reasons": _reasons(node),
        },
        "spool": {str(spool): size for spool, size in core.custody.spools.items()},
        "store": {
            "commits": node.committer.commits,
            "commit_s": round(node.committer.seconds, 6),
            "used_bytes": node.store.used_bytes(),
            "disk_free": node.store.disk_free(),
        },
    }


def troubled_first(links: "Iterable[Neighbour]") -> "list[Neighbour]":
    """Links in trouble, then those being made, then those that run; each by name."""
    return sorted(links, key=lambda link: (_CALM.get(link.state, 0), link.name))


def _children(children: "Iterable[Neighbour]", now: float) -> "Iterator[dict[str, Any]]":
    """Rules that refused something have room for so many; `sapwood permits show` has them all."""
    room = _RULES
    for child in children:
        found = child.status(now, min(room, _RULES_EACH))
        room -= len(found["refusals"]) + len(found["refusals_of_ours"])
        yield found


def _parent(node: "Node") -> dict[str, Any] | None:
    """A parent that was never reached has no name yet."""
    if node.supervisor is None:
        return None
    return {"name": "", "state": "connecting", **_dialling(node)}


def _dialling(node: "Node") -> dict[str, Any]:
    return {"dialling": node.supervisor.status()} if node.supervisor is not None else {}


def _parents(node: "Node") -> list[dict[str, Any]]:
    """All parents, where these are a mesh; each with how it is dialled."""
    core, parents = node.core, node.core.neighbourhood.parents()
    return [_link(node, parent) for parent in troubled_first(parents)] if core.forwarder.meshed else []


def _mesh(node: "Node") -> list[dict[str, Any]]:
    """The other nodes of this node's mesh; of one that was never met the name only."""
    core = node.core
    met = [_link(node, peer) for peer in troubled_first(core.context.peers())]
    names = sorted(core.mesh.members.keys() - core.neighbours.keys())
    return met + [{"name": name, "state": "connecting", **_dialled(node, name)} for name in names]


def _link(node: "Node", neighbour: "Neighbour") -> dict[str, Any]:
    return {**neighbour.status(node.core.clock.now), **_dialled(node, neighbour.name)}


def _dialled(node: "Node", name: str) -> dict[str, Any]:
    supervisor = node.diallers.supervisors.get(name)
    return {"dialling": supervisor.status()} if supervisor is not None else {}


def _route_counts(node: "Node") -> list[tuple[tuple[str, str], int]]:
    counts = sorted(node.core.table.counts().items(), key=lambda item: -item[1])
    return [((str(kind), gateway), count) for (kind, gateway), count in counts[:_LISTED]]


def _queues(node: "Node") -> dict[str, Any]:
    """The queues with most messages."""
    places = [place for place in node.core.custody.queues.values() if is_shown(place)]
    largest = nsmallest(_LISTED, places, key=lambda place: (-place.messages, place.name))
    now = node.core.clock.now
    return {
        "queues": [queue_fields(place, now) for place in largest],
        "queues_more": len(places) - len(largest),
    }


def _reasons(node: "Node") -> dict[str, int]:
    """How many dead letters for each reason, of the latest."""
    found: dict[str, int] = {}
    for copy in islice(reversed(node.core.custody.dead.waiting), _LISTED):
        found[copy.note] = found.get(copy.note, 0) + copy.open
    return found
