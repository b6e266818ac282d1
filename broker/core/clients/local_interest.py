"""Interest of this node's own consumers: the routing table learns of each that comes or goes, and the log."""

from broker.core.context import Context
from broker.core.policy import Policy
from broker.core.routing.subscriptions import Subscription
from broker.core.routing.topics import Topics
from broker.core.sessions.sessions import PushConsumer
from sapwood.protocol import destinations
from sapwood.protocol.destinations import Destination, topic
from treeconnector.interests import Interests


class LocalInterest:
    """Of one node: who reads here, its own site broker's consumers included."""

    __slots__ = ("_context", "_events", "_interests", "_topics")

    def __init__(self, context: Context, topics: Topics, interests: Interests) -> None:
        self._context = context
        self._topics = topics
        self._interests = interests
        self._events = 0

    def __repr__(self) -> str:
        return f"<LocalInterest of {self._context.name} events={self._events}>"

    def changed(self, op: str, key: Destination, consumer: str) -> None:
        """A local consumer comes or goes. `op`: 'add' or 'remove'."""
        context, policies = self._context, self._context.policies
        self._events += 1
        cause = f"{context.name}:{context.identity.start}:{self._events}"
        policies.tell(Policy.consumer_changed, op, key, cause)
        change = self._interests.add if op == "add" else self._interests.remove
        if change(key, consumer, cause, context.clock.now):
            policies.tell(Policy.local_route_changed, key)
        policies.tell(Policy.interest_changed, key)

    def came(self, consumer: PushConsumer) -> None:
        """It reads a queue; one of a session's own is nobody else's business."""
        queue = consumer.queues[0]
        if not queue.owner and queue.destination is not None:
            self.changed("add", destinations.queue(queue.destination.name), _id(consumer))

    def subscribed(self, subscription: Subscription) -> None:
        """A consumer reads it."""
        self.changed("add", topic(subscription.pattern), subscription.id)

    def went(self, consumer: PushConsumer) -> None:
        """It reads no more. A subscription that does not last ends with its last consumer."""
        queue = consumer.queues[0]
        subscription = self._topics.subscriptions.get(queue.name.removeprefix("subscription:"))
        if subscription is not None and queue is subscription.queue:
            subscription.attached = bool(queue.consumers)
            if not (subscription.lasts or subscription.attached):
                self.end(subscription)
        elif not queue.owner and queue.destination is not None:
            self.changed("remove", destinations.queue(queue.destination.name), _id(consumer))

    def end(self, subscription: Subscription) -> None:
        self.changed("remove", topic(subscription.pattern), subscription.id)
        self._topics.end(subscription)


def _id(consumer: PushConsumer) -> str:
    return f"{consumer.session.token}#{id(consumer)}"
