"""Client sessions and what they want: sessions with their connections, consumers, subscriptions."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from broker.administration import answers
from broker.administration.pages import Cut, chunks, page_of
from broker.core.clients.masking import masked
from broker.core.clients.sessions import Connection, Session
from broker.core.delivery.consumers import PushConsumer
from broker.core.errors import NotFound
from broker.core.messages.queue_names import SUBSCRIPTION
from broker.core.routing.topics import Subscription
from treeconnector.destinations import Destination, Kind
from treeconnector.names import LOCAL

if TYPE_CHECKING:
    from broker.node import Node

_MOST_LISTED: Final = 100


class Sessions:
    """Reads sessions; ends subscriptions. No token is in any answer."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    async def page(self, cut: Cut) -> answers.Sessions:
        """Sessions in the order of their masked tokens."""
        sessions = list(self._node.core.switch.sessions.values())
        page = await page_of(sessions, lambda session: (masked(session.token),), cut)
        return answers.Sessions(
            sessions=[self._session(session) for session in page.items], more=page.more, next=page.next
        )

    def _session(self, session: Session) -> answers.Session:
        messages_in, messages_out, bytes_in, bytes_out = session.totals
        connections = sorted(session.connections, key=lambda connection: connection.address)
        return answers.Session(
            session=masked(session.token),
            connections=[self._connection(connection) for connection in connections[:_MOST_LISTED]],
            subscriptions=[self._wanted(reader) for reader in islice(session.consumers, _MOST_LISTED)],
            subscriptions_total=len(session.consumers),
            unacknowledged=sum(reader.outstanding for reader in session.consumers),
            transient=len(session.transient),
            messages_in=messages_in,
            messages_out=messages_out,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
        )

    def _wanted(self, reader: PushConsumer) -> str:
        """What a reader reads, as a destination."""
        place = reader.queues[0]
        if place.destination is not None:
            return str(place.destination)
        subscription = self._node.core.topics.subscriptions.get(place.name.removeprefix(SUBSCRIPTION))
        return str(Destination(Kind.TOPIC, subscription.pattern)) if subscription is not None else ""

    def _connection(self, connection: Connection) -> answers.SessionConnection:
        kind: Literal["http", "stream"] = "http" if connection.kind == "http" else "stream"
        return answers.SessionConnection(
            address=connection.address,
            kind=kind,
            heard_s=round(max(self._node.core.clock.now - connection.heard, 0.0), 3),
            messages_in=connection.messages_in,
            messages_out=connection.messages_out,
            bytes_in=connection.bytes_in,
            bytes_out=connection.bytes_out,
        )

    # --- consumers

    async def consumers(self, search: str, cut: Cut) -> answers.Consumers:
        """Everybody here who wants something: readers, durable subscriptions, and who may come back."""
        wanted = search.lower()
        page = await page_of(
            list(enumerate(self._all())),
            lambda found: (found[1].destination, found[1].session or "", found[0]),
            cut,
            lambda found: wanted in found[1].destination.lower(),
        )
        return answers.Consumers(consumers=[each for _, each in page.items], more=page.more, next=page.next)

    def _all(self) -> Iterator[answers.Consumer]:
        core = self._node.core
        for session in core.switch.sessions.values():
            for reader in session.consumers:
                if reader.queues[0].destination is not None:
                    yield _reader(reader)
        for subscription in core.topics.subscriptions.values():
            yield _subscription(subscription)
        for key in core.table.routes_of(LOCAL):
            if key.kind != Kind.DOMAIN and core.interests.is_recovering(key):
                yield _nobody_yet(key)

    # --- subscriptions

    async def end_subscription(self, handle: str) -> answers.SubscriptionEnded:
        """End a subscription to a topic for good, by its `id` among the consumers."""
        node = self._node
        async for part in chunks(list(node.core.topics.subscriptions.values())):
            for subscription in part:
                if masked(subscription.id) == handle:
                    count = node.core.removal.end_subscription(subscription)
                    await node.administration.committed()
                    return answers.SubscriptionEnded(ended=subscription.pattern, messages=count)
        raise NotFound(f"node {node.site.name} has no subscription {handle[:80]!r}")


def _reader(reader: PushConsumer) -> answers.Consumer:
    return answers.Consumer(
        id=None,
        destination=str(reader.queues[0].destination),
        session=masked(reader.session.token),
        durable="",
        attached=True,
        recovering=False,
        credit=reader.credit,
        outstanding=reader.outstanding,
        messages=sum(place.messages for place in reader.queues),
    )


def _subscription(subscription: Subscription) -> answers.Consumer:
    readers = subscription.queue.consumers
    return answers.Consumer(
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


def _nobody_yet(key: Destination) -> answers.Consumer:
    return answers.Consumer(
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
