"""Replies: whoever answers writes where the question says, past every permit of who asked.

Law: a child asks for answers only where it may send, and for those in a fresh queue only on a node of its
own, open or not. That is asked where a bundle enters from a child, and again of all that waited here while
the child's permits changed, before it goes to a consumer or another node. So it holds for every consumer,
whatever it speaks. A node asks the same of what its applications send to the nodes above alone: these would
refuse it.

What a child gives back, or sends after a node that has left it, is another's: it was asked where it entered.
"""

from operator import attrgetter
from typing import Final

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import QueueEntry
from broker.core.policy import Policy, first_reason
from broker.core.routing.admission import MessageAdmission
from sapwood.protocol.bundles import Header, Opening
from sapwood.protocol.destinations import Destination, domain, parse, queue
from sapwood.protocol.errors import FrameError, InvalidName, PatternError
from sapwood.protocol.names import is_incarnation
from treeconnector.relations import Relation

_FRESH: Final = ("transient-", "System.")
_reply_to_of = attrgetter("reply_to")


class Replies(Policy):
    """Of one node."""

    __slots__ = ("_admission", "_context", "_looked_at")

    def __init__(self, context: Context, admission: MessageAdmission) -> None:
        self._context = context
        self._admission = admission
        self._looked_at: tuple[bytes, float] = b"", 0.0

    def __repr__(self) -> str:
        return f"<Replies of {self._context.name}>"

    def why_not(self, neighbour: Neighbour, header: Header, opening: Opening) -> str:
        """Why a neighbour's messages may not be answered where they say; '' if they may.

        Also if nobody can read them: that is said by whoever finds it.
        """
        if neighbour.relation is not Relation.CHILD:
            return ""
        try:
            found = set(map(_reply_to_of, opening.properties())) - {""}
        except FrameError:
            return ""
        if not found or not self._admission.is_from_below(neighbour, header.origin):
            return ""
        return next((why for where in found if (why := self._why_not_there(neighbour, where))), "")

    def why_not_answer(self, reply_to: str) -> str:
        """As the parent will ask of this node. A name that cannot be read it says something of itself."""
        where = _place(reply_to)
        if where is None or (where.node and self._is_below_here(self._node_of(where))):
            return ""
        why = first_reason(policy.why_not_above(where) for policy in self._context.policies.why_not_above)
        if not why and self._is_fresh_elsewhere(where):
            own = self._context.name
            why = f"PERMIT: {own} may have answers sent to its own nodes, not to {where.node[:64]}"
        return f"{why} (reply_to)" if why else ""

    def _is_below_here(self, node: str) -> bool:
        context = self._context
        if node == context.name or context.table.gateways(domain(node)).keys() - context.parents.keys():
            return True
        return any(node in child.former for child in context.children())

    def why_not_go_on(self, entry: QueueEntry) -> str:
        """The same of what is about to go on; it is looked at again only if permits have changed since."""
        came = self._context.neighbours.get(entry.came)
        if came is None or entry.since > came.permitted_at or came.relation is not Relation.CHILD:
            return ""
        header = entry.stored.header
        looked_at = header.id, came.permitted_at
        if looked_at == self._looked_at:
            return ""  # a part of it went just now
        why = self.why_not(came, header, Opening(header, self._context.custody.body(entry)))
        if why:
            self._context.policies.tell(Policy.refused, came, header.destination, why)
        else:
            self._looked_at = looked_at
        return why

    def _why_not_there(self, neighbour: Neighbour, reply_to: str) -> str:
        where = _place(reply_to)
        if where is None:
            what = f"the reply_to {reply_to[:64]!r} is no destination"
            return f"PERMIT: {what}" if neighbour.permit else ""
        if where.node and self._admission.is_from_below(neighbour, self._node_of(where)):
            return ""
        why = neighbour.permit.why_not_send(where)
        if not why and self._is_fresh_elsewhere(where):
            why = f"PERMIT: {neighbour.name} may have answers sent to its own nodes, not to {where.node[:64]}"
        return f"{why} (reply_to)" if why else ""

    def _node_of(self, where: Destination) -> str:
        return name_of(self._context, where.node) if is_incarnation(where.node) else where.node

    def _is_fresh_elsewhere(self, where: Destination) -> bool:
        return bool(self._node_of(where)) and where.name.startswith(_FRESH)


def _place(reply_to: str) -> Destination | None:
    """The destination that is named; None if it is none."""
    try:
        return parse(reply_to if reply_to.startswith(("queue:", "topic:")) else f"queue:{reply_to}")
    except (InvalidName, PatternError):
        return None


def name_of(context: Context, incarnation: str) -> str:
    """The node's name, '' if it is not known here."""
    if incarnation in context.custody.mine:
        return context.name
    asked = queue("", incarnation)
    found = (name for policy in context.policies.named if (name := policy.named(asked)) is not None)
    return next((each.node for each in found), "")
