"""The trail of changes: who changed what at a node by its operations, when, and what came of it."""

import asyncio
from typing import Any

from broker.advisory_log import iso_time
from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, PAGE, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, cursor, number_in
from broker.trail import ChangeRecord


class ChangeAnswer(Answer):
    """`who`: the operator; `NAME at NODE` where another node asked for it; `role`: as that node told it.
    `said`: parameters and body, by name. `result`: done, or why it was not.
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
async def changes(node: RunningNode, channels: bool, cut: Cut) -> Changes:
    """A page of it; others have their turn while the files are read."""
    trail = node.access.forwards.trail if channels else node.trail
    found: list[ChangeRecord] = []
    for change in trail.read(number_in(cut.after)):
        if change is None:
            await asyncio.sleep(0)
        else:
            found.append(change)
            if len(found) > cut.limit:
                break
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
