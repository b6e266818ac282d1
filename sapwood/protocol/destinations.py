"""Where a message goes: a queue (one consumer gets it), a topic (every subscriber does).

Law: a destination's `name` is canonical. A queue's is its plain name; a topic's is the MQTT
spelling with escapes (see `patterns`). `node` is set for directed messages only: `queue:till@store-1`
is the cell `till` of that node and is routed by domain routes, not by queue routes.
"""

from enum import StrEnum
from typing import NamedTuple

from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import LOCAL, is_incarnation, node_name, queue_name


class Kind(StrEnum):
    """What a route or a destination is about."""

    QUEUE = "queue"
    TOPIC = "topic"
    DOMAIN = "domain"


class Destination(NamedTuple):
    """`kind` is queue or topic for messages; domain stands in routes only (`name` is then a node)."""

    kind: Kind
    name: str
    node: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}@{self.node}" if self.node else f"{self.kind}:{self.name}"

    @property
    def route_key(self) -> "Destination":
        """The key under which routes to this destination are kept."""
        return Destination(Kind.DOMAIN, self.node) if self.node else self


def queue(name: str, node: str = "") -> Destination:
    return Destination(Kind.QUEUE, name, node)


def topic(pattern: str) -> Destination:
    return Destination(Kind.TOPIC, pattern)


def domain(node: str) -> Destination:
    return Destination(Kind.DOMAIN, node)


def cell(text: str) -> Destination:
    """Read `NAME`, `NAME@NODE`, `NAME@UUID` (an incarnation) or `NAME@local`; else raise `InvalidName`.

    `NAME` and `NAME@local` are one: this node first, and whoever reads that queue where nobody does here.
    """
    name, at, node = text.partition("@")
    if is_incarnation(node.lower()):
        return queue(queue_name(name), node.lower())
    return queue(queue_name(name), node_name(node) if at and node != LOCAL else "")


def parse(text: str) -> Destination:
    """Read `queue:NAME`, `queue:NAME@NODE` or `topic:PATTERN` (canonical); else raise `InvalidName`."""
    kind, colon, name = text.partition(":")
    if colon and kind == Kind.QUEUE:
        return cell(name)
    if colon and kind == Kind.TOPIC and name:
        return topic(name)
    raise InvalidName(
        f"{text[:80]!r} is no destination: expected 'queue:NAME', 'queue:NAME@NODE' or 'topic:PATTERN'"
    )
