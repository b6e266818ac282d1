"""Custody on a link: bundles are acknowledged in their order; either end holds what is too much."""

from functools import partial
from typing import Final

from broker.core.commit import LinkAccount
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.links.peer_holds import MOST as MOST_HOLDS
from broker.core.links.peer_holds import MOST_BYTES as MOST_HELD_BYTES
from broker.core.messages.queue import QueueEntry
from broker.core.messages.queue_names import queue_name_at
from broker.core.neighbours.following import Following
from broker.core.policies.loans import Loans
from broker.core.routing.arrivals import Arrivals
from broker.core.routing.forwarding import Forwarder
from sapwood.protocol.bundles import Flag
from sapwood.protocol.errors import FrameError
from treeconnector import link_events as events
from treeconnector.relations import Relation

_SAY_WITHIN: Final = 0.04


class LinkCustody:
    """Of all links of one node."""

    __slots__ = ("_arrivals", "_context", "_following", "_forwarder", "_loans")

    def __init__(
        self,
        context: Context,
        forwarder: Forwarder,
        arrivals: Arrivals,
        loans: Loans,
        following: Following,
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._arrivals = arrivals
        self._loans = loans
        self._following = following

    def __repr__(self) -> str:
        return f"<LinkCustody of {self._context.name}>"

    def said(self, neighbour: Neighbour, event: events.Event) -> bool:
        """A neighbour has said something. False: it is nothing about bundles. Raises `FrameError`."""
        match event:
            case events.VolatileArrived():
                self._arrivals.from_neighbour(neighbour, event.header, event.body)
            case events.Acked(received):
                self._acked(neighbour, received)
            case events.PeerHolds(destination):
                self._holds(neighbour, destination)
            case events.PeerReleases(destination):
                self._released(neighbour, destination)
            case _:
                return False
        return True

    def committed(self, account: LinkAccount) -> None:
        """Send what has its number on disk, acknowledge what is."""
        neighbour, link, epoch, assigned, received = account
        if link is None or neighbour.link is not link:
            return
        if neighbour.epoch == epoch:
            neighbour.committed = max(neighbour.committed, assigned)
        neighbour.acknowledged = received
        if neighbour.unsent:
            self._forwarder.send_committed(neighbour)
        if link.owes_much:
            self._say_received(neighbour)
        elif not neighbour.will_say and received:
            neighbour.will_say = True
            self._context.clock.after(_SAY_WITHIN, partial(self._say_received, neighbour))

    @staticmethod
    def _say_received(neighbour: Neighbour) -> None:
        """Tell the peer what is on disk here: soon, not at once, for it only removes something then."""
        neighbour.will_say = False
        if neighbour.link is not None and neighbour.acknowledged:
            neighbour.link.acknowledge(neighbour.acknowledged)

    def _acked(self, neighbour: Neighbour, received: int) -> None:
        self._confirmed(neighbour, received)
        for destination in neighbour.held_before.answered(received):
            self._let_go(neighbour, destination)
        neighbour.progress_at = self._context.clock.now
        self._context.touch(neighbour)
        self._forwarder.pump(neighbour)
        if neighbour.held_before.tried is not None and not (neighbour.outbox or neighbour.wants):
            neighbour.held_before.line_is_at_rest()

    def _confirmed(self, neighbour: Neighbour, received: int) -> None:
        custody, entries = self._context.custody, neighbour.confirmed(received)
        custody.trace.acknowledged(entries, neighbour.name)
        if neighbour.relation is Relation.CHILD:
            self._loans.arrived(neighbour, entries)
        for entry in entries:
            if entry.row >= entry.queue.unfollowed or not self._following.waits_again(entry):
                custody.discard(entry)

    @staticmethod
    def _holds(neighbour: Neighbour, destination: str) -> None:
        neighbour.held_before.said(destination)
        neighbour.peer_holds.add(destination)
        if neighbour.peer_holds.too_many:
            most = f"{MOST_HOLDS} destinations, or {MOST_HELD_BYTES} bytes of them"
            raise FrameError(f"{neighbour.name} holds more than {most}")

    def _released(self, neighbour: Neighbour, destination: str) -> None:
        neighbour.held_before.said(destination)
        self._let_go(neighbour, destination)

    def _let_go(self, neighbour: Neighbour, destination: str) -> None:
        neighbour.peer_holds.discard(destination)
        if destination.startswith("topic:"):
            neighbour.queue.end_rest()
            neighbour.want(neighbour.queue)
        queue = self._context.custody.queues.get(queue_name_at(destination))
        if queue is not None:
            self._forwarder.dispatch(queue)
        self._forwarder.pump(neighbour)

    # --- a link comes up

    def resume(self, neighbour: Neighbour, up: events.LinkUp) -> None:
        """Go on where both stand, or number everything in the outbox again where state was lost."""
        custody, hello, resumption = self._context.custody, up.hello, up.resumption
        neighbour.starts_anew = resumption.new_epoch
        if not resumption.new_epoch:
            if resumption.peer_knew_nothing:  # it may have given what it had of us before
                for entry in neighbour.outbox:
                    self._may_have_arrived(entry)
            neighbour.stand(hello.store_id, resumption.position)
            neighbour.doubt(resumption.peer_assigned)
            self._confirmed(neighbour, resumption.peer_received)
            neighbour.sent = resumption.peer_received
            for entry in neighbour.number_after(resumption.peer_received):
                custody.changed(entry)
            neighbour.unsent = list(neighbour.outbox)
            return
        again = neighbour.empty_outbox()
        if neighbour.store_id:
            neighbour.detail.gaps += 1
            neighbour.detail.gap_messages += resumption.gap
            custody.doubt_old()
        neighbour.stand(hello.store_id, resumption.position)
        self.number_again(neighbour, again)

    def number_again(self, neighbour: Neighbour, entries: list[QueueEntry]) -> None:
        """The epoch is another one: these may have arrived in the one before."""
        neighbour.committed = neighbour.sent = 0
        for entry in entries:
            self._may_have_arrived(entry)
            neighbour.number(entry)

    def _may_have_arrived(self, entry: QueueEntry) -> None:
        self._context.custody.flag(entry.stored, Flag.MAYBE_DUPLICATE)
        self._context.custody.changed(entry)
