"""Names of the queues in which entries wait, as they stand on disk, and back again; and spools."""

from enum import StrEnum
from typing import Final

from sapwood.protocol.destinations import Destination, Kind, parse

DEAD: Final = "dead"
UPWARD: Final = "upward"
"""Of topics' messages on their way up, from before there was a parent."""
UNDECIDED: Final = "upward:"
"""And with a topic's name: its messages, while it is not known whether anybody above wants them."""
SUBSCRIPTION: Final = "subscription:"
FAN_OUT: Final = "subscriptions:"
"""Of topics' messages of which not all subscriptions here have their copies yet."""
SITE: Final = "\x01site broker"
"""The site broker's session, subscription and queue: no client's token has a control character."""
TRANSIENT: Final = "transient-"
"""How the fresh names of transient queues begin: what is left of them at a start is known by that."""

SYSTEM: Final = "System"
"""The queue of a node's own cell; `System.…` are where its answers go. Applications have neither."""

ROUTING_MANAGER: Final = "RoutingMgr"
LOCATION_MANAGER: Final = "lm"
"""Two more cells that every node has."""

_CELLS: Final = frozenset((SYSTEM, ROUTING_MANAGER, LOCATION_MANAGER))


class Spool(StrEnum):
    """Limits are apart for what goes up, what goes down, and what was sent back."""

    UP = "up"
    DOWN = "down"
    REROUTED = "rerouted"


def queue_name_of(destination: Destination) -> str:
    """`queue:NAME`, `queue:NAME@NODE`, or `moved:NODE:TOPIC` for a topic's entries that follow a node."""
    if destination.kind == Kind.TOPIC:
        return f"moved:{destination.node}:{destination.name}"
    return f"queue:{destination.name}@{destination.node}" if destination.node else f"queue:{destination.name}"


def queue_name_at(text: str) -> str:
    """The queue of a destination that is written as text; '' if its entries have none of their own."""
    if text.startswith("queue:"):
        return text
    topic, at, node = text.removeprefix("topic:").rpartition("@")
    return f"moved:{node}:{topic}" if at else ""


def is_of_a_session(name: str, node: str) -> bool:
    """Is this the queue of a transient queue of `node`? Its session does not outlive a start."""
    return name.startswith(f"queue:{TRANSIENT}") and name.endswith(f"@{node}")


def destination_of(name: str) -> Destination | None:
    """The inverse of `place_name`; None for queues that are no destination."""
    if name.startswith("queue:"):
        return parse(name)
    if name.startswith("moved:"):
        _, node, topic = name.split(":", 2)
        return Destination(Kind.TOPIC, topic, node)
    return None


def is_internal(destination: Destination) -> bool:
    """Is it nodes that talk with each other?"""
    name = destination[1]
    return (name in _CELLS or name[:7] == "System.") and destination[0] == Kind.QUEUE
