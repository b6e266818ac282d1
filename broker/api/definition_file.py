"""A file of definitions: its form. See `definitions` for what is told and `importing` for what is taken."""

from typing import Final

import msgspec

from broker.api.context import RunningNode
from broker.api.operation import Answer
from treeconnector.permits import Grant

FORMAT: Final = 1
MOST: Final = 50_000
"""Definitions of one file."""
MOST_RULES: Final = 10_000
"""Rules of one child."""


class QueueDefinition(Answer):
    """A queue that was made. `max_messages`, `max_bytes`, `overflow`: as the site's file says it for its
    name; they are compared, for that file alone changes them. Null: not compared.
    """

    name: str
    home: bool = False
    max_messages: int | None = None
    max_bytes: int | None = None
    overflow: str | None = None


class SubscriptionDefinition(Answer):
    """A durable subscription of an account's session, by their names."""

    account: str
    session: str
    name: str
    topic: str


class RouteDefinition(Answer):
    """A static route. `gateway`: a neighbour; an alias's address; the dumpster's queue."""

    kind: str
    gateway: str
    destination: str = ""


class PermitDefinition(Answer):
    """Rules for a child. `set`: by an operator; else the site's file says it, and it is compared."""

    child: str
    set: bool = True
    consume: list[str] = msgspec.field(default_factory=list)
    send: list[str] = msgspec.field(default_factory=list)
    nodes: list[str] = msgspec.field(default_factory=list)
    opens: list[str] = msgspec.field(default_factory=list)
    serves: list[str] = msgspec.field(default_factory=list)


class Definitions(Answer):
    """`format`: of this file. `left_out`: durable subscriptions of sessions that have no account, or whose
    protocol keeps more with them, as MQTT does: their clients make them again.
    """

    format: int
    node: str
    queues: list[QueueDefinition]
    subscriptions: list[SubscriptionDefinition]
    routes: list[RouteDefinition]
    permits: list[PermitDefinition]
    left_out: int


class DefinitionsFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An answer of `GET /api/definitions`, whole or in part. Items are read one by one, so that all that is
    wrong is said at once, and a file of 16 MiB is not read in one step.
    """

    format: int
    node: str = ""
    queues: list[msgspec.Raw] = msgspec.field(default_factory=list)
    subscriptions: list[msgspec.Raw] = msgspec.field(default_factory=list)
    routes: list[msgspec.Raw] = msgspec.field(default_factory=list)
    permits: list[msgspec.Raw] = msgspec.field(default_factory=list)
    left_out: int = 0


class DefinitionsTaken(Answer):
    """`made`: so many are new, or set anew; `same`: so many were so already; both by their lists.

    `differences`: what the file has otherwise and an import does not change. `checked`: nothing was changed,
    it was asked what would be.
    """

    node: str
    checked: bool
    made: dict[str, int]
    same: dict[str, int]
    differences: list[str]


def own_grant(node: RunningNode, child: str) -> Grant | None:
    """The grant of this node itself, without those of nodes above; None: the child may do everything."""
    first = node.core.permits.permit_of(child).grants[:1]
    return first[0] if first and first[0].by == node.name else None
