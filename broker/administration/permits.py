"""What the children of this node, and of any other, may do: shown, set, and read again from the site's file.

What an operator sets is kept on disk and stands above the site's file until it is unset. Another node is
asked through its `System` cell, which answers its ancestors only.
"""

from typing import TYPE_CHECKING, Final

from broker.administration import permit_answers as told
from broker.administration.asking import asked
from broker.administration.pages import Cut, cut_of, page_at_once
from broker.administration.permit_answers import PermitChange
from broker.cells.cells import Arguments, Command
from broker.core.errors import BadRequest
from broker.core.links.neighbour import Neighbour
from treeconnector.errors import InvalidName
from treeconnector.names import node_name
from treeconnector.permits import OWN, Grant

if TYPE_CHECKING:
    from broker.node import Node

_LISTED: Final = 20
_MOST_RULES: Final = 10_000


class Permits:
    """Asks and answers for one node. Calls raise `SwitchError`s."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._me = node.site.name
        commands = node.cells.commands
        commands["permits"] = Command(
            lambda asker, arguments: self._here(_child(arguments), cut_of(arguments))
        )
        commands["permit set"] = Command(lambda asker, arguments: self._set(arguments), changes=True)
        commands["permit unset"] = Command(lambda asker, arguments: self._unset(arguments), changes=True)
        commands["permits reload"] = Command(lambda asker, arguments: self._reload(), changes=True)

    def __repr__(self) -> str:
        return f"<Permits of {self._me}>"

    # --- what this node answers

    def _here(self, name: str, cut: Cut) -> told.Permits:
        core = self._node.core
        children = {child.name: child for child in core.children()}
        names = {name} if name else children.keys() | core.permitting.set_for
        page = page_at_once(names, lambda each: (each,), cut)
        return told.Permits(
            node=self._me,
            enforced=not self._node.grants.open,
            granted=[_grant(grant) for grant in core.permitting.granted_here()],
            children=[self._child(each, children.get(each)) for each in page.items],
            more=page.more,
            next=page.next,
        )

    def _child(self, name: str, child: Neighbour | None) -> told.ChildPermit:
        permitting = self._node.core.permitting
        permit = child.permit if child is not None else permitting.permit_of(name)
        return told.ChildPermit(
            name=name,
            state=child.state if child is not None else "unknown",
            set=name in permitting.set_for,
            grants=[_grant(grant) for grant in permit.grants],
            refused=child.refusals.total if child is not None else 0,
            refusals=[
                told.Refusal(rule=each.rule, what=each.what, times=each.times)
                for each in (child.refusals.latest()[:_LISTED] if child is not None else ())
            ],
        )

    def _set(self, arguments: Arguments) -> told.ChildPermit:
        name = _child(arguments)
        if not name:
            raise BadRequest("no child is named")
        before = self._node.core.permitting.permit_of(name)
        own = before.grants[0] if before.grants and before.grants[0].by == self._me else Grant(self._me, name)
        grant = Grant(
            by=self._me,
            child=name,
            consume=_rules(arguments, "consume", own.consume),
            send=_rules(arguments, "send", own.send),
            nodes=_rules(arguments, "nodes", own.nodes),
        )
        self._node.core.permitting.set(grant)
        return self._changed(name)

    def _unset(self, arguments: Arguments) -> told.ChildPermit:
        self._node.core.permitting.unset(_child(arguments))
        return self._changed(_child(arguments))

    def _changed(self, name: str) -> told.ChildPermit:
        self._node.wake()
        return self._child(name, self._node.core.neighbours.get(name))

    def _reload(self) -> told.Reloaded:
        """Read the site's file again. Raises `SwitchError` with what is wrong with it."""
        turned_away = self._node.read_again()
        return told.Reloaded(node=self._me, enforced=not self._node.grants.open, turned_away=turned_away)

    # --- what an operator asks

    async def show(self, node: str, child: str, cut: Cut) -> told.Permits:
        """What the children of a node may do, '' = of this one; or one child."""
        arguments = {"child": child, **cut._asdict()}
        return await asked(self._node, node or self._me, "permits", arguments, told.Permits)

    async def set(self, change: PermitChange) -> told.ChildPermit:
        """Say what a child may do; it has its effect, and is on disk, when this returns."""
        return await self._change("permit set", change)

    async def unset(self, change: PermitChange) -> told.ChildPermit:
        """Let the site's file say again what a child may do."""
        return await self._change("permit unset", change)

    async def _change(self, command: str, change: PermitChange) -> told.ChildPermit:
        node = change.node or self._me
        given = {"consume": change.consume, "send": change.send, "nodes": change.nodes}
        rules = {name: each for name, each in given.items() if each is not None}
        arguments = {"child": change.child, **rules}
        done = await asked(self._node, node, command, arguments, told.ChildPermit)
        if node == self._me:
            await self._node.administration.committed()
        return done

    async def reload(self, node: str) -> told.Reloaded:
        """Let a node read its file again: who may be its child, and what children may do."""
        return await asked(self._node, node or self._me, "permits reload", {}, told.Reloaded)


def _grant(grant: Grant) -> told.Grant:
    consume, send, nodes = (list(rules) for rules in (grant.consume, grant.send, grant.nodes))
    return told.Grant(by=grant.by, child=grant.child, consume=consume, send=send, nodes=nodes)


def _child(arguments: Arguments) -> str:
    name = arguments.get("child", "")
    try:
        return node_name(str(name)) if name else ""
    except InvalidName as error:
        raise BadRequest(str(error)) from None


def _rules(arguments: Arguments, name: str, before: tuple[str, ...]) -> tuple[str, ...]:
    """What is given; an empty list gives back what holds where nothing is written."""
    given = arguments.get(name)
    if given is None:
        return before
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise BadRequest(f"{name} is no list of texts")
    if len(given) > _MOST_RULES:
        raise BadRequest(f"{name}: {_MOST_RULES} patterns at most")
    return tuple(given) or (() if name == "nodes" else OWN)
