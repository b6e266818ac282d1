"""What a node says of itself: one JSON-able dictionary, for people, tests and the dashboard.

Times in seconds, sizes in bytes. Lists are bounded: what is cut is counted in `…_more`.
"""

import os
import time
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from broker.administration.queues import is_shown, queue_fields
from broker.core.clients.masking import masked
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


def status(node: "Node") -> dict[str, Any]:
    core = node.core
    now = core.clock.now
    identity = core.identity
    parent = core.parent
    children = troubled_first(core.children())
    return {
        "name": identity.name,
        "tree": identity.tree,
        "role": identity.role,
        "chain": core.chain,
        "depth": len(core.chain) - 1,
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
        "offered": {"up": core.up.count, "down": core.down.count},
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
    met = [_link(node, peer) for peer in troubled_first(core.mesh.peers())]
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
