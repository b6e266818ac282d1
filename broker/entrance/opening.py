"""The entrance of a node, and whose a client certificate is there: the child's that it names, as on a link.

Law: a certificate opens sessions to whoever could link with it, and to nobody else: one that was revoked,
whose key was replaced, or whose name the site's file does not permit, opens nothing.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.errors import NotLoggedIn
from broker.entrance.entrance import Entrance
from broker.entrance.policy import EntrancePolicy
from treeconnector.errors import InvalidName, LinkRefused
from treeconnector.identity import Shown
from treeconnector.names import own_name

if TYPE_CHECKING:
    from broker.node import Node

_SHOWN: Final = 5


def entrance_of(node: "Node", policy: EntrancePolicy) -> Entrance:
    """Made at the start of a node."""
    core = node.core
    made = Entrance(
        node.site.name,
        policy,
        partial(holder, node),
        core.permitting.permit_of,
        core.switch.sessions.values,
    )
    core.policies.add((made,))
    return made


def holder(node: "Node", shown: Shown) -> str:
    """The child's name. Raises `NotLoggedIn`."""
    names = _names(shown)
    office = node.enrolment
    if office is None:
        return _one_of([name for name in names if node.permits.names(name)], shown, node.site.name)
    refused = ""
    for name in names:
        try:
            office.admit_link(name, shown)
        except LinkRefused as error:
            refused = refused or str(error)
        else:
            return name
    raise NotLoggedIn(refused or f"your certificate is of no child of {node.site.name!r}")


def _names(shown: Shown) -> list[str]:
    """Its names, and of hosts the first word too, as far as a node could have them."""
    found: dict[str, None] = {}
    for each in sorted(shown.certified):
        for name in (each.partition(".")[0], each):
            try:
                found[own_name(name)] = None
            except InvalidName:
                continue
    return list(found)


def _one_of(names: list[str], shown: Shown, parent: str) -> str:
    words = {name.partition(".")[0] for name in names}
    if len(names) == 1:
        return names[0]
    if len(words) == 1 and (word := words.pop()) in names:
        return word
    listed = ", ".join(sorted(shown.certified)[:_SHOWN])[:200] or "no name at all"
    if names:
        raise NotLoggedIn(f"your certificate is for {listed}: {parent!r} cannot tell which child that is")
    raise NotLoggedIn(f"your certificate is for {listed}: {parent!r} permits no such child")
