"""How a node is: all that it says of itself in one answer, for people, tests and the dashboard.

Times in seconds, sizes in bytes. Lists are bounded: what is cut is counted in `…_more`.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from broker.api.alarms import AlarmAnswer, raised
from broker.api.below import BelowCount, below_count
from broker.api.context import RunningNode
from broker.api.operation import Answer, Operation, operation
from broker.api.pages import Cut, chunks, page_of
from broker.api.queues import QueueAnswer, is_shown, queue_fields
from broker.api.routes import most_routes
from broker.api.tree import link_fields
from broker.core.links.neighbour import Neighbour
from broker.core.node import NodeCore
from broker.core.routing.subscriptions import Subscription
from broker.core.sessions.masking import masked
from broker.report import NodeReport
from broker.supervisor import Supervisor
from config.uris import EMBEDDED
from sapwood.protocol.names import incarnation_text

RoleName = Literal["leaf", "branch", "root"]
_LISTED: Final = 500
_RULES: Final = 200
_RULES_EACH: Final = 10
_CALM: Final = {"running": 2, "connecting": 1}


class StatusLink(Answer):
    """A link. `in`, `out`: messages. `heard_s` null: there is no link now. Bytes: on the line.

    One that was never reached has name, state and `dialling` only. `spool_oldest_s`: age of the oldest
    bundle that the neighbour has not acknowledged. `limited`: a child that may not do everything. `refused`:
    routes and bundles of it that were refused here, `refused_us`: of ours by it; `refusals`,
    `refusals_of_ours`: the latest rules that refused any, with the last example and how many times.
    `held_by_peer`: the first ten destinations that it asked this node to keep, of `held_by_peer_total`.
    """

    name: str
    state: Literal["connecting", "running", "blocked", "down"]
    relation: str | UnsetType = UNSET
    since_s: float | UnsetType | None = UNSET
    error: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    received: int | UnsetType = UNSET
    assigned: int | UnsetType = UNSET
    deleted: int | UnsetType = UNSET
    outbox: int | UnsetType = UNSET
    waiting: int | UnsetType = UNSET
    routes: int | UnsetType = UNSET
    role: str | UnsetType = UNSET
    addresses: list[str] | UnsetType = UNSET
    gaps: int | UnsetType = UNSET
    gap_bundles: int | UnsetType = UNSET
    held_by_peer: list[str] | UnsetType = UNSET
    held_by_peer_total: int | UnsetType = UNSET
    dormant: bool | UnsetType = UNSET
    bytes_in: int | UnsetType = UNSET
    bytes_out: int | UnsetType = UNSET
    heard_s: float | UnsetType | None = UNSET
    spool_oldest_s: float | UnsetType = UNSET
    in_per_s: float | UnsetType = UNSET
    out_per_s: float | UnsetType = UNSET
    messages_in: int | UnsetType = msgspec.field(name="in", default=UNSET)
    messages_out: int | UnsetType = msgspec.field(name="out", default=UNSET)
    in_bundles: int | UnsetType = UNSET
    out_bundles: int | UnsetType = UNSET
    volatile_dropped: int | UnsetType = UNSET
    limited: bool | UnsetType = UNSET
    refused: int | UnsetType = UNSET
    refused_us: int | UnsetType = UNSET
    refusals: list[dict[str, Any]] | UnsetType = UNSET
    refusals_of_ours: list[dict[str, Any]] | UnsetType = UNSET
    dialling: dict[str, Any] | UnsetType = UNSET


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
    `routes`: counts by 'kind/gateway'. `disconnected`: it is a satellite that is linked with no core.
    `alarms`: those that are raised, the worst first.
    """

    name: str
    tree: str
    role: RoleName
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
    disconnected: bool
    parent: StatusLink | None
    parents: list[StatusLink]
    mesh: list[StatusLink]
    registration: dict[str, Any] | None
    certificate: dict[str, Any] | None
    children: list[StatusLink]
    link_brokers: list[LinkBroker]
    children_more: int
    site_broker: dict[str, Any]
    queues: list[QueueAnswer]
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
    alarms: list[AlarmAnswer]
    below: BelowCount
    spool: dict[str, int]
    store: StoreSummary


@operation("GET", "/api/status", "How the node is.", "node", remote="status", answer=Status)
async def shown(node: RunningNode) -> dict[str, Any]:
    """Everything the node says of itself, as JSON can."""
    return await node.status()


DESCRIPTION: Final = Operation("GET", "/api/openapi.json", "This description.", "node", dict[str, Any])


async def status(node: NodeReport) -> Status:
    """Everything that a node says of itself. Others have their turns while it is gathered."""
    core, driver = node.core, node.driver
    children = await page_of(core.context.children(), _trouble, Cut(_LISTED))
    queues = await page_of(
        core.custody.queues.values(), lambda queue: (-queue.messages, queue.name), Cut(_LISTED), is_shown
    )
    connections = await _connections(core)
    subscriptions, now, identity = core.topics.subscriptions, core.clock.now, core.identity
    return Status(
        name=identity.name,
        tree=identity.tree,
        role=cast("RoleName", identity.role),
        chain=core.ancestry.chain,
        depth=len(core.ancestry.chain) - 1,
        store_id=identity.store_id.hex(),
        start=identity.start,
        incarnation=incarnation_text(identity.incarnation),
        pid=os.getpid(),
        port=node.port,
        mqtt={"port": node.door.port, "clients": len(node.door)} if node.door is not None else None,
        uptime_s=node.uptime,
        running_s=round(now, 3),
        ready=driver.ready,
        refusing=driver.refusing,
        disconnected=node.diallers.disconnected,
        parent=_parent(node),
        parents=_parents(node),
        mesh=_mesh(node),
        children=list(_children(children.items, now)),
        link_brokers=[LinkBroker(**listening.status()) for listening in node.link_brokers],
        registration=node.registrar.status() if node.registrar is not None else None,
        certificate=node.renewal.status() if node.renewal is not None else None,
        children_more=children.more,
        site_broker=node.desk.status() if node.desk is not None else {"uri": EMBEDDED, "state": "running"},
        queues=[QueueAnswer(**queue_fields(queue, now)) for queue in queues.items],
        queues_more=queues.more,
        subscriptions=[_subscription(each) for each in islice(subscriptions.values(), _LISTED)],
        subscriptions_more=max(0, len(subscriptions) - _LISTED),
        sessions=len(core.switch.sessions),
        intake=node.room.intake.status(),
        connections=connections,
        rates=Rates(**{name: round(rate, 3) for name, rate in core.statistics.rates._asdict().items()}),
        routes=most_routes(core.table.counts().items()),
        offered={"up": core.offers.up.count, "down": down.count if (down := core.offers.down) else 0},
        retained=len(core.topics.retained),
        counters=dict(core.counters),
        warnings=node.warnings,
        applications=node.access.entrance.status(),
        dead=DeadSummary(
            messages=core.custody.dead.messages, bytes=core.custody.dead.size, reasons=_reasons(core)
        ),
        alarms=raised(node.alarms),
        below=below_count(core),
        spool={str(spool): size for spool, size in core.custody.spools.items()},
        store=StoreSummary(
            commits=driver.committer.commits,
            commit_s=round(driver.committer.seconds, 6),
            used_bytes=driver.store.used_bytes(),
            disk_free=driver.store.disk_free(),
        ),
    )


def troubled_first(links: Iterable[Neighbour]) -> list[Neighbour]:
    """Links in trouble, then those being made, then those that run; each by name."""
    return sorted(links, key=_trouble)


def _trouble(link: Neighbour) -> tuple[int, str]:
    return _CALM.get(link.state, 0), link.name


async def _connections(core: NodeCore) -> int:
    count = 0
    async for sessions in chunks(list(core.switch.sessions.values())):
        count += sum(len(session.connections) for session in sessions)
    return count


def _children(children: Iterable[Neighbour], now: float) -> Iterator[StatusLink]:
    """Rules that refused something have room for so many; `sapwood permits show` has them all."""
    room = _RULES
    for child in children:
        found = child.status(now, min(room, _RULES_EACH))
        room -= len(found["refusals"]) + len(found["refusals_of_ours"])
        yield StatusLink(**link_fields(found))


def _parent(node: NodeReport) -> StatusLink | None:
    """A parent that was never reached has no name yet."""
    main, parent = node.diallers.main, node.core.parent
    if parent is not None:
        return _link(node, parent, main)
    return _unmet("", main) if main is not None else None


def _parents(node: NodeReport) -> list[StatusLink]:
    """All parents, where these are a mesh; each with how it is dialled."""
    if not node.core.lookup.meshed:
        return []
    supervisors = node.diallers.supervisors
    parents = troubled_first(node.core.neighbourhood.parents())
    return [_link(node, parent, supervisors.get(parent.name)) for parent in parents]


def _mesh(node: NodeReport) -> list[StatusLink]:
    """The other nodes of this node's mesh; of one that was never met the name only."""
    core, supervisors = node.core, node.diallers.supervisors
    met = troubled_first(core.context.peers())
    names = sorted(core.mesh.members.keys() - core.neighbours.keys())
    return [
        *(_link(node, peer, supervisors.get(peer.name)) for peer in met),
        *(_unmet(name, supervisors.get(name)) for name in names),
    ]


def _link(node: NodeReport, neighbour: Neighbour, dialled: Supervisor | None) -> StatusLink:
    link = StatusLink(**link_fields(neighbour.status(node.core.clock.now)))
    if dialled is not None:
        link.dialling = dialled.status()
    return link


def _unmet(name: str, dialled: Supervisor | None) -> StatusLink:
    dialling = dialled.status() if dialled is not None else UNSET
    return StatusLink(name=name, state="connecting", dialling=dialling)


def _subscription(found: Subscription) -> StatusSubscription:
    return StatusSubscription(
        id=masked(found.id),
        session=masked(found.session),
        name=found.name,
        pattern=found.pattern,
        messages=found.queue.messages,
        attached=found.attached,
    )


def _reasons(core: NodeCore) -> dict[str, int]:
    """How many dead letters for each reason, of the latest."""
    found: dict[str, int] = {}
    for copy in islice(reversed(core.custody.dead.waiting), _LISTED):
        found[copy.note] = found.get(copy.note, 0) + copy.open
    return found
