"""Client sessions and what they want: sessions with their connections, consumers, subscriptions."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from sys import maxsize
from typing import Final, Literal

import msgspec

from broker.api.context import RunningNode
from broker.api.operation import GONE, PAGE, SEARCH, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, chunks, page_of
from broker.core.errors import NotFound
from broker.core.messages.queue_names import SUBSCRIPTION
from broker.core.routing.subscriptions import Subscription
from broker.core.sessions.masking import hidden, masked
from broker.core.sessions.sessions import Connection as ClientConnection
from broker.core.sessions.sessions import PushConsumer
from broker.core.sessions.sessions import Session as ClientSession
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.names import LOCAL

_MOST_LISTED: Final = 100


class SessionConnection(Answer):
    """`heard_s`: since its last request. `in`, `out`: messages that the client sent, was given; bytes too."""

    address: str
    kind: Literal["http", "stream"]
    heard_s: float
    messages_in: int = msgspec.field(name="in")
    messages_out: int = msgspec.field(name="out")
    bytes_in: int
    bytes_out: int


class SessionAnswer(Answer):
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
    sessions: list[SessionAnswer]
    more: int
    next: str | None


class SessionClosed(Answer):
    """So many connections of it were closed."""

    closed: str
    connections: int


class Consumer(Answer):
    """Somebody here who wants something. `recovering`: wanted before the restart, nobody has come yet.

    `credit`: most messages that are not acknowledged, 0 = any. `id`: of a subscription to a topic, null for
    others. `durable`: its name, '' = ends with its session.
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


class SubscriptionEnded(Answer):
    ended: str
    messages: int


@operation(
    "GET",
    "/api/sessions",
    "Client sessions.",
    "clients",
    PAGE,
    commands=(PlainCommand("sessions", "List client sessions with their connections.", ("sessions",)),),
)
async def listed(node: RunningNode, cut: Cut) -> Sessions:
    """Sessions in the order of their masked tokens."""
    sessions = list(node.core.switch.sessions.values())
    page = await page_of(sessions, lambda session: (masked(session.token),), cut)
    return Sessions(
        sessions=[_session(node, session) for session in page.items], more=page.more, next=page.next
    )


@operation(
    "DELETE",
    "/api/sessions/{session}",
    "Close all connections of a session, which ends with the last of them; its application may come back.",
    "clients",
    (Parameter("session", "As the list of sessions has it.", in_path=True, argument="SESSION", secret=True),),
    errors=GONE,
    commands=(
        PlainCommand(
            "session close",
            "Close a session's connections. What it has not acknowledged goes to others; it may come back.",
            texts={"session": "As `sapwood sessions` shows it."},
            sure="Close the session {session} at {url}?",
        ),
    ),
)
async def close(node: RunningNode, session: str) -> SessionClosed:
    async for part in chunks(list(node.core.switch.sessions.values())):
        for found in part:
            if masked(found.token) == session:
                connections = list(found.connections)
                for connection in connections:
                    connection.end("an operator closed this session")
                return SessionClosed(closed=session, connections=len(connections))
    raise NotFound(f"node {node.name} has no session {hidden(session)!r}")


def _session(node: RunningNode, session: ClientSession) -> SessionAnswer:
    messages_in, messages_out, bytes_in, bytes_out = session.totals
    connections = sorted(session.connections, key=lambda connection: connection.address)
    return SessionAnswer(
        session=masked(session.token),
        connections=[_connection(node, connection) for connection in connections[:_MOST_LISTED]],
        subscriptions=[_wanted(node, reader) for reader in islice(session.consumers, _MOST_LISTED)],
        subscriptions_total=len(session.consumers),
        unacknowledged=sum(reader.outstanding for reader in session.consumers),
        transient=len(session.transient),
        messages_in=messages_in,
        messages_out=messages_out,
        bytes_in=bytes_in,
        bytes_out=bytes_out,
    )


def _wanted(node: RunningNode, reader: PushConsumer) -> str:
    """What a reader reads, as a destination."""
    place = reader.queues[0]
    if place.destination is not None:
        return str(place.destination)
    subscription = node.core.topics.subscriptions.get(place.name.removeprefix(SUBSCRIPTION))
    return str(Destination(Kind.TOPIC, subscription.pattern)) if subscription is not None else ""


def _connection(node: RunningNode, connection: ClientConnection) -> SessionConnection:
    kind: Literal["http", "stream"] = "http" if connection.kind == "http" else "stream"
    return SessionConnection(
        address=connection.address,
        kind=kind,
        heard_s=round(max(node.core.clock.now - connection.heard, 0.0), 3),
        messages_in=connection.messages_in,
        messages_out=connection.messages_out,
        bytes_in=connection.bytes_in,
        bytes_out=connection.bytes_out,
    )


@operation(
    "GET",
    "/api/consumers",
    "Who wants something here.",
    "clients",
    (SEARCH, *PAGE),
    commands=(PlainCommand("consumers", "List who wants something at this node.", ("consumers",)),),
)
async def consumers(node: RunningNode, search: str, cut: Cut) -> Consumers:
    """Everybody here who wants something: readers, durable subscriptions, and who may come back."""
    wanted = search.lower()
    page = await page_of(
        list(enumerate(_all(node))),
        lambda found: ((shown := found[1]()).destination, shown.session or "", found[0]),
        cut,
        lambda found: wanted in found[1]().destination.lower(),
    )
    return Consumers(consumers=[each() for _, each in page.items], more=page.more, next=page.next)


def _all(node: RunningNode) -> Iterator[Callable[[], Consumer]]:
    """Each is made when its turn comes: there may be very many."""
    core = node.core
    for session in core.switch.sessions.values():
        for reader in session.consumers:
            if reader.queues[0].destination is not None:
                yield partial(_reader, reader)
    for subscription in core.topics.subscriptions.values():
        yield partial(_subscription, subscription)
    for key in core.table.routes_of(LOCAL):
        if key.kind != Kind.DOMAIN and core.interests.is_recovering(key):
            yield partial(_nobody_yet, key)


@operation(
    "DELETE",
    "/api/subscriptions/{id}",
    "End a subscription to a topic for good, with what waits for it.",
    "clients",
    (Parameter("id", "As the consumers have it.", in_path=True),),
    errors=GONE,
    changes=True,
)
async def end_subscription(node: RunningNode, id: str) -> SubscriptionEnded:
    """End a subscription to a topic for good, by its `id` among the consumers."""
    async for part in chunks(list(node.core.topics.subscriptions.values())):
        for subscription in part:
            if masked(subscription.id) == id:
                count = node.core.removal.end_subscription(subscription)
                return SubscriptionEnded(ended=subscription.pattern, messages=count)
    raise NotFound(f"node {node.name} has no subscription {id[:80]!r}")


def credit_of(reader: PushConsumer) -> int:
    """Whoever fetches by transfer has none: a number that no JavaScript can hold would say so."""
    return reader.credit if reader.credit < maxsize else 0


def _reader(reader: PushConsumer) -> Consumer:
    return Consumer(
        id=None,
        destination=str(reader.queues[0].destination),
        session=masked(reader.session.token),
        durable="",
        attached=True,
        recovering=False,
        credit=credit_of(reader),
        outstanding=reader.outstanding,
        messages=sum(place.messages for place in reader.queues),
    )


def _subscription(subscription: Subscription) -> Consumer:
    readers = subscription.queue.consumers
    return Consumer(
        id=masked(subscription.id),
        destination=str(Destination(Kind.TOPIC, subscription.pattern)),
        session=masked(subscription.session),
        durable=subscription.name,
        attached=subscription.attached,
        recovering=False,
        credit=sum(reader.credit for reader in readers),
        outstanding=sum(reader.outstanding for reader in readers),
        messages=subscription.queue.messages,
    )


def _nobody_yet(key: Destination) -> Consumer:
    return Consumer(
        id=None,
        destination=str(key),
        session=None,
        durable="",
        attached=False,
        recovering=True,
        credit=0,
        outstanding=0,
        messages=0,
    )
