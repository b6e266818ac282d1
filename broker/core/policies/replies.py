"""Replies: whoever answers writes where the question says, past every permit of who asked.

Law: a child asks for answers only where it may send, and for those in a fresh queue only on a node of its
own, open or not. That is asked where a bundle enters from a child, and again of all that waited here while
the child's permits changed, before it goes to a consumer or another node. So it holds for every consumer,
whatever it speaks.

What a child gives back, or sends after a node that has left it, is another's: it was asked where it entered.
"""

from typing import Final

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import QueueEntry
from broker.core.policy import Policy
from broker.core.routing.admission import MessageAdmission
from sapwood.protocol.bundles import Header, Opening
from sapwood.protocol.destinations import parse, queue
from sapwood.protocol.errors import FrameError, InvalidName, PatternError
from sapwood.protocol.names import is_incarnation
from treeconnector.relations import Relation

_FRESH: Final = ("transient-", "System.")


class Replies(Policy):
    """Of one node."""

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
        child = neighbour.relation is Relation.CHILD
        if not child or not self._admission.is_from_below(neighbour, header.origin):
            return ""
        try:
            found = opening.properties()
        except FrameError:
            return ""
        for where in {each.reply_to for each in found}:
            why = self._why_not_there(neighbour, where) if where else ""
            if why:
                return why
        return ""

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
            for refused in self._context.policies.refused:
                refused(came, header.destination, why)
        else:
            self._looked_at = looked_at
        return why

    def _why_not_there(self, neighbour: Neighbour, reply_to: str) -> str:
        text = reply_to if reply_to.startswith(("queue:", "topic:")) else f"queue:{reply_to}"
        try:
            where = parse(text)
        except (InvalidName, PatternError):
            what = f"the reply_to {reply_to[:64]!r} is no destination"
            return f"PERMIT: {what}" if neighbour.permit else ""
        node = name_of(self._context, where.node) if is_incarnation(where.node) else where.node
        if where.node and self._admission.is_from_below(neighbour, node):
            return ""
        why = neighbour.permit.why_not_send(where)
        if not why and node and where.name.startswith(_FRESH):
            why = f"PERMIT: {neighbour.name} may have answers sent to its own nodes, not to {where.node[:64]}"
        return f"{why} (reply_to)" if why else ""


def name_of(context: Context, incarnation: str) -> str:
    """The node's name, '' if it is not known here."""
    if incarnation in context.custody.mine:
        return context.name
    asked = queue("", incarnation)
    found = (name for named in context.policies.named if (name := named(asked)) is not None)
    return next((each.node for each in found), "")
