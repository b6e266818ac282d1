"""The receivers of a topic's message that is published at a node, and why others would get nothing."""

from typing import Final

from broker.api.context import RunningNode
from broker.api.operation import Answer, Parameter, PlainCommand, operation
from broker.cells.deliveries import SCOPES, NodeReach, topic_of

_WORDS: Final = {number: word for word, number in SCOPES.items() if word}
_TOPIC: Final = Parameter("topic", "The topic's name, such as `prices/milk`.", argument="TOPIC")
_SCOPE: Final = Parameter(
    "scope", "As if published with this scope; absent: as the file says.", choices=tuple(SCOPES)
)


class DeliveryNode(Answer):
    """A node that the message would come to. `readers`: subscriptions there; null, with `error`, where it did
    not answer. `lines`: to children that are not named; `passed_by`: to children that ask for it in vain.
    """

    node: str
    readers: int | None
    lines: int
    passed_by: int
    error: str


class DeliveryCheck(Answer):
    """`readers`: how many subscriptions would get it, at the nodes that answered. `why`: why no others."""

    topic: str
    scope: str
    readers: int
    nodes: list[DeliveryNode]
    why: list[str]


@operation(
    "GET",
    "/api/check-delivery",
    "Who would get a topic's message that is published here now, and why others would not.",
    "tree",
    (_TOPIC, _SCOPE),
    commands=(
        PlainCommand(
            "check-delivery",
            "Say who would get a topic's message that is published at this node. And why others would not;"
            " nothing is sent.",
            texts={"topic": "Such as prices/milk."},
        ),
    ),
)
async def check(node: RunningNode, topic: str, scope: str) -> DeliveryCheck:
    """The receivers of a topic's message that is published here now."""
    found = await node.deliveries.check(topic, SCOPES[scope])
    said = [each.said for each in found if each.said is not None]
    word = _WORDS[said[0].scope]
    return DeliveryCheck(
        topic=str(topic_of(topic)),
        scope=word,
        readers=sum(each.readers for each in said),
        nodes=[_node(each) for each in found],
        why=[why for each in found for why in _why(each, word)],
    )


def _node(reach: NodeReach) -> DeliveryNode:
    said = reach.said
    return DeliveryNode(
        node=reach.node,
        readers=None if said is None else said.readers,
        lines=0 if said is None else said.lines,
        passed_by=0 if said is None else said.passed_by,
        error=reach.error,
    )


def _why(reach: NodeReach, scope: str) -> list[str]:
    """Why nobody else gets it from this node."""
    node, said = reach.node, reach.said
    if said is None:
        return [f"{node} and all behind it are not known: {reach.error}"]
    why: list[str] = []
    if said.unasked and scope == "tree":
        why.append(f"it does not leave {node} upward: {said.unasked} says that nobody beyond wants it")
    elif said.unasked:
        why.append(
            f"it does not leave {node} upward: {said.unasked} does not ask for it, and the scope is {scope};"
            " with `tree` it would go wherever somebody wants it"
        )
    if said.passed_by:
        why.append(
            f"children of {node} that ask for it and get nothing: {said.passed_by}; with the scope {scope} it"
            " goes to nodes above and below, not across; `tree` would reach them"
        )
    if said.lines:
        why.append(f"children of {node} that get it, named to nodes above only: {said.lines}")
    return why
