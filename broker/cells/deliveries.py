"""The way of a topic's message, and why it reaches nobody else: each node on it speaks for itself.

Nothing is published. The node that is asked asks those to which the message would go on, and so on.

Law: a node tells the names below it to the nodes above it only. Whoever else asks learns how many lines the
message takes, and no more.
"""

import asyncio
from typing import Any, Final

import msgspec

from broker.cells.cells import CellCommand, NodeCells
from broker.core.errors import BadRequest
from broker.host import Host
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Destination, Kind, parse
from sapwood.protocol.errors import SapwoodError
from treeconnector.patterns import check_topic
from treeconnector.relations import Relation

MOST_NODES: Final = 200
SCOPES: Final = {"": -1, "vertical": int(Scope.VERTICAL), "tree": int(Scope.TREE)}
_ANSWER_WITHIN: Final = 5.0


class ReachSaid(msgspec.Struct):
    """One node says where the message goes from there. `up`: to nodes above or beside it; `down`: children,
    or just how many `lines` for who may not know their names; `passed_by`: children that get nothing.
    `unasked`: the node above, that does not ask for it.
    """

    scope: int
    readers: int
    up: list[str] = []
    down: list[str] = []
    lines: int = 0
    passed_by: int = 0
    unasked: str = ""


class NodeReach(msgspec.Struct):
    """A node that the message would come to. `error`: why it could not be asked."""

    node: str
    said: ReachSaid | None = None
    error: str = ""


class Deliveries:
    """Asks and answers for one node. Calls raise `BadRequest`."""

    def __init__(self, host: Host, cells: NodeCells) -> None:
        self._host = host
        self._cells = cells
        self._me = host.core.identity.name
        cells.commands["reach"] = CellCommand(self._reach, open=True)

    def __repr__(self) -> str:
        return f"<Deliveries of {self._me}>"

    def _reach(self, asker: str, arguments: dict[str, Any]) -> ReachSaid:
        destination = topic_of(str(arguments.get("topic", "")))
        came, scope = str(arguments.get("came", "")), arguments.get("scope", -1)
        core = self._host.core
        found = core.topics.reach(destination, scope if isinstance(scope, int) else -1, came)
        down = [name for name in found.onward if core.neighbours[name].relation is Relation.CHILD]
        up = [name for name in found.onward if name not in down]
        trusted = asker == self._me or core.ancestry.may_administer(asker)
        parent = core.lookup.parent_for(destination)
        goes_up = came in core.context.parents or any(name in core.context.parents for name in up)
        return ReachSaid(
            scope=found.scope,
            readers=found.readers,
            up=up,
            down=down if trusted else [],
            lines=0 if trusted else len(down),
            passed_by=found.passed_by,
            unasked="" if parent is None or goes_up else parent.name,
        )

    async def check(self, topic: str, scope: int) -> list[NodeReach]:
        """The nodes that a message published here would come to, this one first; so many at most."""
        topic = str(topic_of(topic))
        found = [await self._ask("", self._me, topic, scope)]
        met, asked = {self._me}, 0
        while asked < len(found) <= MOST_NODES:
            due: list[tuple[str, str]] = []
            for each in found[asked:]:
                if each.said is not None:
                    scope = each.said.scope
                    onward = [name for name in (*each.said.up, *each.said.down) if name not in met]
                    met.update(onward)
                    due += [(each.node, name) for name in onward]
            asked = len(found)
            room = MOST_NODES - len(found)
            found += await asyncio.gather(*(self._ask(came, to, topic, scope) for came, to in due[:room]))
        return found

    async def _ask(self, came: str, node: str, topic: str, scope: int) -> NodeReach:
        question = {"topic": topic, "scope": scope, "came": came}
        if node == self._me:
            return NodeReach(node, self._reach(self._me, question))
        try:
            told = await self._cells.ask(node, "reach", question, _ANSWER_WITHIN)
            return NodeReach(node, msgspec.convert(told, ReachSaid))
        except (SapwoodError, msgspec.ValidationError) as error:
            return NodeReach(node, error=str(error))


def topic_of(text: str) -> Destination:
    """A topic's name, with or without `topic:`. Raises `BadRequest`."""
    try:
        found = parse(text if text.startswith(("topic:", "queue:")) else f"topic:{text}")
        check_topic(found.name)
    except SapwoodError as error:
        raise BadRequest(str(error)) from None
    if found.kind is not Kind.TOPIC or found.node:
        raise BadRequest(f"{text[:80]!r}: expected a topic, such as prices/milk")
    return found
