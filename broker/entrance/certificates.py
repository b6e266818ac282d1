"""Whose a client certificate is at the entrance: the child's that it names, as on a link.

Law: a certificate opens sessions to whoever could link with it, and to nobody else: one that was revoked,
whose key was replaced, or whose name the site's file does not permit, opens nothing.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.core.errors import NotLoggedIn
from sapwood.protocol.errors import InvalidName, LinkRefused
from sapwood.protocol.names import own_name
from treeconnector.identity import Shown

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry

_SHOWN: Final = 5


def holder(me: str, names: Callable[[str], bool], registry: "Registry | None", shown: Shown) -> str:
    """The child's name. `me`: this node's; `names`: may a node of that name be a child?

    Raises `NotLoggedIn`.
    """
    shown_names = _names(shown)
    if registry is None:
        return _one_of([name for name in shown_names if names(name)], shown, me)
    refused = ""
    for name in shown_names:
        try:
            registry.admit_link(name, shown)
        except LinkRefused as error:
            refused = refused or str(error)
        else:
            return name
    raise NotLoggedIn(refused or f"your certificate is of no child of {me!r}")


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
