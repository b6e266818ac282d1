"""What the API answers, as types: the answers are made of them, and the API's description is made from them.

Times in seconds, sizes in bytes; `at` is ISO 8601 in UTC. `next` of a page goes into `after` for the page
that follows; null = there is none. `more`: how many follow this page.
"""

from typing import Any, Literal

import msgspec


class Answer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all answers."""


class Error(Answer):
    """What was wrong: `code` for programs, `text` for people."""

    code: str
    text: str


class Count(Answer):
    """How many messages that was."""

    messages: int


# --- queues


class Queue(Answer):
    """A queue, or what waits here on its way to another node.

    `oldest_s`: age of the oldest that waits. `latency_s`: from arrival here to acknowledgement, mean of the
    last seconds in which messages were acknowledged; null where none was yet. Totals since this start.
    `targets`: neighbours it goes to.
    `held_back`: neighbours that were asked to wait.
    """

    name: str
    messages: int
    bytes: int
    oldest_s: float
    readers: int
    created: bool
    home: bool
    transient: bool
    targets: list[str]
    held_back: list[str]
    in_total: int
    out_total: int
    in_per_s: float
    out_per_s: float
    latency_s: float | None


class Queues(Answer):
    queues: list[Queue]
    more: int
    next: str | None


class QueueReader(Answer):
    """`address`: of its connection, '' = fetched by transfer. `outstanding`: given, not acknowledged."""

    session: str
    address: str
    credit: int
    outstanding: int


class Latency(Answer):
    """How long messages took from arrival here to acknowledgement, since this start. `bounds`: upper,
    inclusive, in seconds; `counts`: one more than bounds. `p50_s`, `p99_s`: bounds below which so many lie,
    null = above all.
    """

    count: int
    mean_s: float
    p50_s: float | None
    p99_s: float | None
    bounds: list[float]
    counts: list[int]


class QueueDetail(Queue):
    """`given`: messages that readers have now."""

    given: int
    reading: list[QueueReader]
    latency: Latency | None


class Message(Answer):
    """A message in a queue. `given`: a reader has it, `session` says which. `size`: of the payload.

    `preview`: the payload's beginning, as text or, where `encoding` says so, as base64. `unreadable`: why
    the message cannot be read, '' = it can.
    """

    id: str
    age_s: float
    size: int
    correlation_id: int | None
    reply_to: str
    task_id: str
    origin: str
    given: bool
    session: str | None
    deliveries: int
    preview: str
    truncated: bool
    encoding: Literal["utf-8", "base64"]
    unreadable: str


class Messages(Answer):
    """Oldest first. `more`: whether there are any that follow."""

    messages: list[Message]
    more: bool
    next: str | None


class QueueDeleted(Answer):
    """`messages` were thrown away, `readers` were ended."""

    deleted: str
    messages: int
    readers: int


class MessageDeleted(Answer):
    deleted: str


# --- sessions


class SessionConnection(Answer):
    """`heard_s`: since its last request. `in`, `out`: messages that the client sent, was given; bytes too."""

    address: str
    kind: Literal["http", "stream"]
    heard_s: float
    messages_in: int = msgspec.field(name="in")
    messages_out: int = msgspec.field(name="out")
    bytes_in: int
    bytes_out: int


class Session(Answer):
    """`session`: the masked token. `subscriptions`: the first hundred. Totals are of all its connections,
    those that have gone included.
    """

    session: str
    connections: list[SessionConnection]
    subscriptions: list[str]
    subscriptions_total: int
    unacknowledged: int
    transient: int
    messages_in: int = msgspec.field(name="in")
    messages_out: int = msgspec.field(name="out")
    bytes_in: int
    bytes_out: int


class Sessions(Answer):
    sessions: list[Session]
    more: int
    next: str | None


# --- dead letters


class DeadLetter(Answer):
    """`id` is the letter's, `message` the message's. `reason`: its head is a code."""

    id: str
    message: str
    destination: str
    reason: str
    age_s: float
    size: int
    correlation_id: int | None
    reply_to: str
    task_id: str
    origin: str
    deliveries: int
    preview: str
    truncated: bool
    encoding: Literal["utf-8", "base64"]
    unreadable: str


class DeadLetters(Answer):
    """Newest first. `messages`: of all dead letters here; `reasons`: heads of all buried since the start."""

    letters: list[DeadLetter]
    more: int
    next: str | None
    messages: int
    bytes: int
    reasons: dict[str, int]


class Returned(Answer):
    """`returned` messages were routed again; `kept` could not be and stay dead letters."""

    returned: int
    kept: int


# --- routes and consumers


class Route(Answer):
    """`gateway`: 'local' or a neighbour's name; `via`: what that is. `origin`: node of the consumer.

    Of an alias `gateway` is the address that it stands for, of a dumpster the queue. `up`: the link is up.
    """

    kind: Literal["queue", "topic", "domain", "exact", "alias", "default", "dumpster"]
    destination: str
    gateway: str
    live: bool
    up: bool
    via: Literal["local", "parent", "child", "mesh"]
    origin: str


class Routes(Answer):
    """`counts`: of all routes here, as 'kind/gateway'."""

    routes: list[Route]
    counts: dict[str, int]
    more: int
    next: str | None


class Consumer(Answer):
    """Somebody here who wants something. `recovering`: wanted before the restart, nobody has come yet.

    `id`: of a subscription to a topic, null for others. `durable`: its name, '' = ends with its session.
    """

    id: str | None
    destination: str
    session: str | None
    durable: str
    attached: bool
    recovering: bool
    credit: int
    outstanding: int
    messages: int


class Consumers(Answer):
    consumers: list[Consumer]
    more: int
    next: str | None


class Advisory(Answer):
    """`event`: 'advisory' (came from `peer`), 'consumer' (came or went here) or 'link'."""

    at: str
    event: Literal["advisory", "consumer", "link"]
    op: str
    kind: str | None
    destination: str | None
    peer: str | None
    direction: str | None
    cause: str | None
    origin: str | None


class Advisories(Answer):
    """Newest first."""

    advisories: list[Advisory]


# --- the tree


class TreeNode(Answer):
    name: str
    role: str
    tree: str
    depth: int
    ready: bool


class Holds(Answer):
    """Destinations that a neighbour has asked this node to keep, by name; '' = everything."""

    holds: list[str]
    more: int
    next: str | None


class TreeLink(Answer):
    """A link, with figures as `/api/status` has them. `waiting`: messages for it; `outbox`: bundles on their
    way; `in`, `out`: messages. `heard_s` null: there is no link now. `refused`: routes and bundles of it that
    were refused here, `refused_us`: of ours by it."""

    name: str
    state: str
    since_s: float | None
    error: str
    waiting: int
    outbox: int = 0
    routes: int = 0
    spool_oldest_s: float = 0.0
    heard_s: float | None = None
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    messages_in: int = msgspec.field(name="in", default=0)
    messages_out: int = msgspec.field(name="out", default=0)
    bytes_in: int = 0
    bytes_out: int = 0
    refused: int = 0
    refused_us: int = 0


class Below(Answer):
    """A node that is known below a child."""

    name: str
    live: bool


class TreeChild(TreeLink, kw_only=True):
    """`below`: the nodes known below it, itself left out; `below_more`: how many of them are not
    listed; its routes of the kind domain list all, a page at a time."""

    role: str
    dormant: bool
    below: list[Below]
    below_more: int


class Tree(Answer):
    """One node's place: `chain` from itself up to the root, the link to its parent, a page of its children.

    `parents`: all nodes above that it is linked with, several where they are a mesh; `parent` is one of them.
    `mesh`: the other nodes of its own.
    """

    node: TreeNode
    chain: list[str]
    parent: TreeLink | None
    children: list[TreeChild]
    children_more: int
    next: str | None = None
    parents: list[TreeLink] = []
    mesh: list[TreeLink] = []


# --- what is done


class Left(Answer):
    """`site_broker`: the commands with which people have the site's broker forget the node, if it has not."""

    left: str
    messages_kept_here: int
    site_broker: list[str]


class Forgotten(Answer):
    forgotten: str
    messages_routed_again: int


class Located(Answer):
    """Each domain as `parent.dialling.location` of the status has it."""

    location: list[dict[str, Any]]


class SubscriptionEnded(Answer):
    ended: str
    messages: int


class Event(Answer):
    """Something that happened to a message here. `peer`: the neighbour, `session`: whose message, or reader.

    `payload`, `encoding` and `size` only where the payload was asked for and is known; the payload is cut at
    64 KiB.
    """

    at: str
    event: str
    node: str
    destination: str
    id: str | None
    session: str | None
    peer: str | None
    reason: str
    correlation_id: int | None
    task_id: str
    reply_to: str
    payload: str | None = None
    encoding: str | None = None
    size: int | None = None
