"""What the children of a node may do: shown, set, and read again from the site's file.

What an operator sets is kept on disk and stands above the site's file until it is unset. Another node is
asked through its `System` cell, which answers its ancestors only.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from broker.api.context import RunningNode
from broker.api.definition_file import MOST_RULES, own_grant
from broker.api.operation import AT, AWAY, PAGE, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, page_of
from broker.core.errors import BadRequest
from broker.core.links.neighbour import Neighbour
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name
from treeconnector.permits import LISTS
from treeconnector.permits import Grant as Granted

_LISTED: Final = 20
_CHILD: Final = Parameter("child", "Only this child.", argument="[CHILD]")
_WHOSE: Final = {"node": "The node whose child it is; the one that is asked if absent."}
_ERRORS: Final = {
    **AWAY,
    409: "REFUSED: the site's file cannot be read, or that node answers its ancestors only.",
}


class PermitChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a child may do from now on. `node`: whose child it is, '' = the node that is asked.

    Null: as it is. An empty list: as where nothing is written; `["nothing"]`: nothing.
    """

    child: str
    consume: list[str] | None = None
    send: list[str] | None = None
    nodes: list[str] | None = None
    opens: list[str] | None = None
    serves: list[str] | None = None
    node: str = ""


class Grant(Answer):
    """What node `by` lets `child` do. `nodes`: that may be below it, beside itself. `opens`: forwards of
    others that it may open channels to, `serves`: its own and those below it that others may.
    """

    by: str
    child: str
    consume: list[str]
    send: list[str]
    nodes: list[str]
    opens: list[str] = msgspec.field(default_factory=list)
    serves: list[str] = msgspec.field(default_factory=list)


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
    """`turned_away`: children that the file names no more; their links have ended. `needs_restart`: settings
    that the file has changed and that count from the next start only.
    """

    node: str
    enforced: bool
    turned_away: list[str]
    needs_restart: list[str]


@operation(
    "GET",
    "/api/permits",
    "What the children of a node may do, and what it may do itself.",
    "tree",
    (AT, _CHILD, *PAGE),
    remote="permits",
    errors=_ERRORS,
    commands=(
        PlainCommand(
            "permits show",
            "Show what children may do. What they were refused by which rule; what the node itself may do.",
            ("children",),
            texts=_WHOSE,
        ),
    ),
)
async def show(node: RunningNode, child: str, cut: Cut) -> Permits:
    core, name = node.core, _named(child)
    children = {each.name: each for each in core.context.children()}
    names = {name} if name else children.keys() | core.permits.set_for
    page = await page_of(list(names), lambda each: (each,), cut)
    return Permits(
        node=node.name,
        enforced=not node.access.grants.open,
        granted=_grants(core.permits.granted_here()),
        children=[_child(node, each, children.get(each)) for each in page.items],
        more=page.more,
        next=page.next,
    )


def _child(node: RunningNode, name: str, child: Neighbour | None) -> ChildPermit:
    permits = node.core.permits
    permit = child.permit if child is not None else permits.permit_of(name)
    return ChildPermit(
        name=name,
        state=child.state if child is not None else "unknown",
        set=name in permits.set_for,
        grants=_grants(permit.grants),
        refused=child.refusals.total if child is not None else 0,
        refusals=[
            Refusal(**each._asdict())
            for each in (child.refusals.latest()[:_LISTED] if child is not None else ())
        ],
    )


@operation(
    "POST",
    "/api/permits",
    "Say what a child may do, whatever the site's file says; it stays until it is unset.",
    "tree",
    body=PermitChange,
    remote="permit set",
    changes=True,
    errors=_ERRORS,
    role="administrator",
    commands=(
        PlainCommand(
            "permits set",
            "Say what a child may do, whatever the file says. At once, with no link dropped; until unset.",
            texts={
                **_WHOSE,
                "child": "The child's name.",
                "consume": "A topic or queue, as prices/# or queue:orders; may be given several times.",
                "send": "The same, or a cell, as till@hq; 'nothing' alone: nothing at all.",
                "nodes": "A node that it may have below it; '*' is any text.",
                "opens": "NAME@NODE: a forward that it may open channels to; '*' is any text.",
                "serves": "NAME@NODE: a forward of its own, or below it, that others may reach.",
            },
            places={"child": "CHILD"},
        ),
    ),
)
def change(node: RunningNode, body: PermitChange) -> ChildPermit:
    """Say what a child may do; it has its effect at once, and is on disk when this is answered."""
    name = _named(body.child)
    if not name:
        raise BadRequest("no child is named")
    own = own_grant(node, name) or Granted(node.name, name)
    rules = {each: _rules(each, getattr(body, each), getattr(own, each)) for each in LISTS}
    node.core.permits.set(Granted(node.name, name, **rules))
    return _changed(node, name)


@operation(
    "DELETE",
    "/api/permits",
    "Let the site's file say again what a child may do.",
    "tree",
    body=PermitChange,
    remote="permit unset",
    changes=True,
    errors=_ERRORS,
    role="administrator",
    commands=(
        PlainCommand(
            "permits unset",
            "Let the site's file say again what a child may do.",
            texts={**_WHOSE, "child": "The child's name."},
            without=tuple(LISTS),
            places={"child": "CHILD"},
        ),
    ),
)
def unset(node: RunningNode, body: PermitChange) -> ChildPermit:
    """Let the site's file say again what a child may do."""
    node.core.permits.unset(_named(body.child))
    return _changed(node, _named(body.child))


def _changed(node: RunningNode, name: str) -> ChildPermit:
    node.wake()
    return _child(node, name, node.core.neighbours.get(name))


@operation(
    "POST",
    "/api/permits/reload",
    "Read the site's file again: who may be a child, what children may do, and the alarms. Only children "
    "that it names no more lose their links.",
    "tree",
    (AT,),
    remote="permits reload",
    changes=True,
    errors=_ERRORS,
    role="administrator",
    commands=(
        PlainCommand(
            "permits reload",
            "Read the site's file again, as SIGHUP does: who may do what, and the alarms.",
            texts=_WHOSE,
        ),
    ),
)
def reload(node: RunningNode) -> Reloaded:
    """Read the site's file again. Raises `SwitchError` with what is wrong with it."""
    away, waiting = node.access.read_again()
    enforced = not node.access.grants.open
    return Reloaded(node=node.name, enforced=enforced, turned_away=away, needs_restart=waiting)


def _grants(grants: Sequence[Granted]) -> list[Grant]:
    return msgspec.convert(grants, list[Grant], from_attributes=True)


def _named(name: str) -> str:
    try:
        return node_name(name) if name else ""
    except InvalidName as error:
        raise BadRequest(str(error)) from None


def _rules(name: str, given: list[str] | None, before: tuple[str, ...]) -> tuple[str, ...]:
    """An empty list gives back what holds where nothing is written."""
    if given is None:
        return before
    if len(given) > MOST_RULES:
        raise BadRequest(f"{name}: {MOST_RULES} patterns at most")
    return tuple(given) or LISTS[name]
