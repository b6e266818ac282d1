"""The shape of `/api/status`, for the API's description. The answer itself is made by `broker.status`.

It grows: a reader bears fields that it does not know.
"""

from typing import Any, Literal

import msgspec

from broker.administration.answers import Queue


class Link(msgspec.Struct, kw_only=True):
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
    addresses: list[str] = []
    gaps: int = 0
    gap_bundles: int = 0
    held_by_peer: list[str] = []
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
    refusals: list[dict[str, Any]] = []
    refusals_of_ours: list[dict[str, Any]] = []
    dialling: dict[str, Any] = {}


class Rates(msgspec.Struct, kw_only=True):
    """Messages each second, smoothed over some seconds: over links, and of this node's own clients."""

    in_per_s: float
    out_per_s: float
    entered_per_s: float
    delivered_per_s: float
    acknowledged_per_s: float


class StatusSubscription(msgspec.Struct, kw_only=True):
    """`id`: masked, as the consumers have it."""

    id: str
    session: str
    name: str
    pattern: str
    messages: int
    attached: bool


class LinkBroker(msgspec.Struct, kw_only=True):
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


class DeadSummary(msgspec.Struct, kw_only=True):
    messages: int
    bytes: int
    reasons: dict[str, int]


class Store(msgspec.Struct, kw_only=True):
    """`commit_s`: what a commit takes, smoothed."""

    commits: int
    commit_s: float
    used_bytes: int
    disk_free: int


class Status(msgspec.Struct, kw_only=True):
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
    uptime_s: float
    running_s: float
    ready: bool
    refusing: str
    parent: Link | None
    parents: list[Link]
    mesh: list[Link]
    registration: dict[str, Any] | None = None
    certificate: dict[str, Any] | None = None
    children: list[Link]
    link_brokers: list[LinkBroker]
    children_more: int
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
    dead: DeadSummary
    spool: dict[str, int]
    store: Store
