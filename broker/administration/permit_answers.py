"""What the API answers about permits, beside `answers`."""

import msgspec

from broker.administration.answers import Answer


class PermitChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a child may do from now on. `node`: whose child it is, '' = the node that is asked.

    Null: as it is. An empty list: as where nothing is written; `["nothing"]`: nothing.
    """

    child: str
    consume: list[str] | None = None
    send: list[str] | None = None
    nodes: list[str] | None = None
    node: str = ""


class Grant(Answer):
    """What node `by` lets `child` do. `nodes`: that may be below it, beside itself."""

    by: str
    child: str
    consume: list[str]
    send: list[str]
    nodes: list[str]


class Refusal(Answer):
    """`rule`: what refused it; `what`: the last that it refused."""

    rule: str
    what: str
    times: int


class ChildPermit(Answer):
    """`grants`: all must allow what it does; none: it may do everything. `set`: by an operator, at this node.

    `state`: of its link; unknown: no child of that name has come yet.
    `refused`: routes and bundles since the start; `refusals`: the latest rules that refused any.
    """

    name: str
    state: str
    set: bool
    grants: list[Grant]
    refused: int
    refusals: list[Refusal]


class Permits(Answer):
    """`granted`: what the nodes above let this one do. `enforced`: its file is not open."""

    node: str
    enforced: bool
    granted: list[Grant]
    children: list[ChildPermit]
    more: int
    next: str | None = None


class Reloaded(Answer):
    """`turned_away`: children that the file names no more; their links have ended."""

    node: str
    enforced: bool
    turned_away: list[str]
