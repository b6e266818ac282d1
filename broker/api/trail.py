"""The trail of changes: who changed what at a node by its operations, when, and what came of it."""

from itertools import islice
from typing import Any

from broker.advisory_log import iso_time
from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, PAGE, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, cursor, number_in


class ChangeAnswer(Answer):
    """`who`: the operator; `NAME at NODE` where another node asked for it. `said`: parameters and body, by
    name. `result`: done, or why it was not.
    """

    seq: int
    at: str
    who: str
    role: str
    address: str
    operation: str
    said: dict[str, Any]
    result: str


class Changes(Answer):
    """The latest first. `more`: whether there are any that follow."""

    node: str
    changes: list[ChangeAnswer]
    more: bool
    next: str | None


@operation(
    "GET",
    "/api/trail",
    "The trail of changes: who changed what by these operations, the latest first.",
    "node",
    (
        AT,
        Parameter("channels", "Who opened channels and copied files instead.", "boolean", default=False),
        *PAGE,
    ),
    remote="trail",
    errors=AWAY,
    commands=(PlainCommand("trail", "Show who changed what at a node.", ("changes",)),),
)
def changes(node: RunningNode, channels: bool, cut: Cut) -> Changes:
    trail = node.access.forwards.trail if channels else node.trail
    found = list(islice(trail.latest(number_in(cut.after)), cut.limit + 1))
    page, more = found[: cut.limit], len(found) > cut.limit
    return Changes(
        node=node.name,
        changes=[
            ChangeAnswer(
                seq=each.seq,
                at=iso_time(each.at),
                who=each.who,
                role=each.role,
                address=each.address,
                operation=each.operation,
                said=each.said,
                result=each.result,
            )
            for each in page
        ],
        more=more,
        next=cursor((page[-1].seq,)) if more else None,
    )
