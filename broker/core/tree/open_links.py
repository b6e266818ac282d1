"""Open links: those that are not over, whether their handshake is done or not, and whose they are."""

from typing import Final

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.policy import Policy
from sapwood.protocol.errors import Refusal
from treeconnector.identity import Shown
from treeconnector.link import Link
from treeconnector.link_events import LinkEnded
from treeconnector.relations import Relation

_NOTHING: Final = Shown()


class Peer:
    """The other end of a link. `expected`: whom it was dialled for, '' = whoever is there.

    `relation`: what it is to this node; known of a link that this node dials. `shown`: on its carrier.
    `secret`: what it has to prove itself with, None = nothing. `name`: once the link is up. `talking`: where
    the link stands while it has something to send.
    """

    __slots__ = ("_link", "_talking", "expected", "name", "relation", "secret", "shown")

    def __init__(
        self, link: Link, talking: dict[Link, None], expected: str, relation: Relation, shown: Shown
    ) -> None:
        self._link, self._talking = link, talking
        self.expected = expected
        self.relation = relation
        self.shown = shown
        self.secret: bytes | None = None
        self.name = ""

    def __repr__(self) -> str:
        return f"<Peer {self.name or self.expected or 'unknown'} {self.relation}>"

    def talk(self) -> None:
        """There is something to send to it."""
        self._talking[self._link] = None


class OpenLinks:
    """Of one node. `peers`: of each open link. `talking`: those with something to send. `closing`: those that
    are over, and whose carriers are to be closed.
    """

    __slots__ = ("_context", "closing", "peers", "talking")

    def __init__(self, context: Context) -> None:
        self._context = context
        self.peers: dict[Link, Peer] = {}
        self.talking: dict[Link, None] = {}
        self.closing: list[Link] = []

    def __repr__(self) -> str:
        return f"<OpenLinks of {self._context.name} open={len(self.peers)}>"

    def __contains__(self, link: Link) -> bool:
        return link in self.peers

    def dial(self, link: Link, expected: str, relation: Relation, shown: Shown) -> None:
        """A new link that this node dials."""
        self._add(link, expected, relation, shown)

    def accept(self, link: Link, shown: Shown) -> None:
        """A new link that another node dials."""
        self._add(link, "", Relation.CHILD, shown)

    def _add(self, link: Link, expected: str, relation: Relation, shown: Shown) -> None:
        peer = self.peers[link] = Peer(link, self.talking, expected, relation, shown)
        link.when_there_is_output(peer.talk)

    def is_dialling(self, name: str, relation: Relation) -> bool:
        """Is there a link that this node dials for somebody?"""
        return any(
            link.dials and peer.expected == name and peer.relation is relation
            for link, peer in self.peers.items()
        )

    def of(self, link: Link) -> Neighbour | None:
        """The neighbour that this link is the current one of."""
        peer = self.peers.get(link)
        neighbour = self._context.neighbours.get(peer.name) if peer is not None else None
        return neighbour if neighbour is not None and neighbour.link is link else None

    def shown_on(self, link: Link) -> Shown:
        """What the peer has shown on its carrier."""
        peer = self.peers.get(link)
        return _NOTHING if peer is None else peer.shown

    # --- the end

    def refuse(self, link: Link, reason: Refusal, text: str) -> None:
        """End a link from our side, and say why."""
        for event in link.refuse(reason, text):
            if type(event) is LinkEnded:
                self.ended(link, event)

    def drop(self, neighbour: Neighbour, text: str) -> None:
        """End a neighbour's link from our side, without a word: its place is needed."""
        link = neighbour.link
        if link is not None:
            self._forget(link, text)
            link.transport_closed(text)

    def ended(self, link: Link, event: LinkEnded) -> None:
        self._forget(link, event.text if event.error is None else str(event.error))

    def _forget(self, link: Link, text: str) -> None:
        """A link is over: its carrier is closed as well, for the peer may not do it."""
        context, neighbour = self._context, self.of(link)
        self.closing.append(link)
        self.peers.pop(link, None)
        if neighbour is None:
            return
        neighbour.held.abandon_snapshot()
        neighbour.disconnected(context.clock.now, text)
        context.touch(neighbour)
        context.policies.tell(Policy.link_down, neighbour)
