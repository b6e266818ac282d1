"""Policies: the rules about messages, and the observers of them, in one order that is visible in one place.

A policy overrides the methods for what it decides or wants to know. `node.py` lists the policies of a node;
whoever moves messages asks or tells them at the moments that the methods name, in that order.

Law: a question is answered by the first that has something to say. An observer changes nothing of the message
that it is told of.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Concatenate, Final, ParamSpec, TypeVar

from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import Backlog, Queue, QueueEntry, StoredBundle
from sapwood.protocol.bundles import Header, Opening
from sapwood.protocol.destinations import Destination, Kind
from treeconnector.edge import BrokerDelivery
from treeconnector.frames import Advice
from treeconnector.link_events import Event, LinkUp, OfStream

P = ParamSpec("P")
T = TypeVar("T")


class Policy:
    """Decides nothing, and wants to know nothing: a subclass overrides what it is for.

    Each `why_not_…` gives the reason of a refusal, '' if there is none.
    """

    __slots__ = ()

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """At a start, before anything else: values on disk, by their names."""

    # --- may it?

    def why_not_enter(self, destination: Destination) -> str:
        """May a message of an application enter here?"""
        return ""

    def why_not_above(self, destination: Destination) -> str:
        """Would the nodes above refuse what this node sends there?"""
        return ""

    def why_not_answer(self, reply_to: str) -> str:
        """Would the nodes above refuse what this node sends them, for where its answers are to go?"""
        return ""

    def why_not_take(self, neighbour: Neighbour, header: Header, body: bytes, opening: Opening) -> str:
        """May a bundle of a child be taken on?"""
        return ""

    def is_twin(self, neighbour: Neighbour, header: Header, body: bytes) -> bool:
        """Was a bundle that is refused taken on before, so that nothing is lost with it?"""
        return False

    def lacks_room_for_refused(self, neighbour: Neighbour, size: int) -> bool:
        """Are there too many dead letters for a refused bundle of `size` bytes?"""
        return False

    def why_not_go_on(self, entry: QueueEntry) -> str:
        """May a bundle that was taken on still go to a consumer or a neighbour?"""
        return ""

    def must_stay(self, entry: "QueueEntry") -> bool:
        """Is a bundle to wait, and be asked about again, before it leaves its queue?"""
        return False

    def may_retain(self, header: Header, sender: str) -> bool:
        """May the retained message of a topic be kept here?"""
        return True

    def why_not_tell(self, neighbour: Neighbour, key: str) -> str:
        """May a neighbour learn of a name or an incarnation?"""
        return ""

    # --- is it so?

    def owner_of(self, token: str) -> str:
        """Whose would a session of that name be? '' = of nobody in particular."""
        return ""

    def takes_from_site(self, topic: str) -> bool:
        """Would a message that is published to this topic at the site's broker be taken?"""
        return False

    def is_answered(self, stored: StoredBundle) -> bool:
        """Have the senders of this bundle their answer at once, so that it need not be kept?"""
        return False

    def is_nobodys(self, destination: Destination) -> bool:
        """Is it certain here that nobody serves this queue?"""
        return False

    def is_offered_up(self, key: Destination) -> bool:
        """Does this node's own offer of a destination stand at its parents?"""
        return False

    def may_go_back_up(self, key: Destination) -> bool:
        """Will the parents send what goes back to them elsewhere, since nobody reads it here any more?"""
        return False

    def named(self, destination: Destination) -> Destination | None:
        """The address by its node's name, where it has an incarnation that is known here."""
        return None

    def is_wanted(self, destination: Destination) -> bool | None:
        """Does anybody above want what waits in a queue that was made here? None: that is not known."""
        return None

    def is_settling(self, kind: Kind) -> bool:
        """Are neighbours still to tell who reads which queues, or topics?"""
        return False

    def has_just_gone(self, destination: Destination) -> bool:
        """May whoever read a queue last be back in a moment?"""
        return False

    # --- it has happened

    def bundle_arrived(self, neighbour: Neighbour, destination: Destination, stored: StoredBundle) -> None:
        """A bundle of a neighbour was taken on."""

    def refused(self, neighbour: Neighbour, destination: Destination, why: str) -> None:
        """A bundle of a neighbour was not taken on, or may not go on."""

    def kept_refused(self, neighbour: Neighbour, entry: QueueEntry) -> None:
        """A refused bundle is a dead letter here."""

    def follows_node(self, entry: QueueEntry) -> None:
        """A topic's message that follows a node waits here."""

    def is_unknown(self, queue: Queue) -> None:
        """The incarnation that a queue's messages are for is not known here."""

    def is_kept(self, queue: Queue) -> None:
        """The messages in a queue that was made here stay, since nobody elsewhere is known to read it."""

    def doomed(self, queue: Queue) -> None:
        """Nobody will ever take what waits in a queue: it is about to be dead."""

    def static_routes_changed(self) -> None:
        """The routes that an operator has set are others, or lead over other lines."""

    def routed(self, destination: Destination, gateway: str, messages: int, pattern: str = "") -> None:
        """So many messages were chosen to go through a gateway, or were given to a consumer here; `pattern`:
        that it subscribes to, '' = it reads a queue, or has several.
        """

    def sent(self, neighbour: Neighbour, header: Header, body: bytes) -> None:
        """A bundle was put on the link with a child."""

    def acknowledged(self, entry: QueueEntry, messages: int) -> None:
        """A consumer has acknowledged so many messages of an entry."""

    def waits_for_lost(self, neighbour: Neighbour) -> None:
        """A topic's message waits for a neighbour whose link is down."""

    def forgotten(self, topic: str) -> None:
        """A topic has no retained message here any more."""

    def retained_anew(self, topic: str) -> None:
        """Another message is retained for a topic than before."""

    def replaced(self, stored: StoredBundle, came: str) -> None:
        """Another node's message takes the place of this node's own, which was retained for its topic."""

    def consumer_changed(self, op: str, key: Destination, cause: str) -> None:
        """A consumer of this node's clients came or went."""

    def local_route_changed(self, key: Destination) -> None:
        """This node's own route for a destination came or went."""

    def interest_changed(self, key: Destination) -> None:
        """Consumers of a destination came or went here, whether its route has changed or not."""

    def transient_ended(self, queue: str) -> None:
        """The session of a transient queue is over."""

    def queue_destroyed(self, queue: str) -> None:
        """An application makes an end of a queue."""

    def subscription_ended(self, subscription: str) -> None:
        """A durable subscription of that id is over."""

    def abandoned(self, backlog: Backlog) -> None:
        """A subscription is over: this was left of what waited for it."""

    def second_passed(self) -> None:
        """A second has passed, and all is about to be looked after."""

    # --- neighbours

    def link_up(self, neighbour: Neighbour, up: LinkUp) -> None:
        """A link is up; nothing has been said over it but what its handshake said."""

    def link_down(self, neighbour: Neighbour) -> None:
        """A link has gone."""

    def said(self, neighbour: Neighbour, event: Event) -> None:
        """A neighbour has said something that is not about bundles. Raises `FrameError` for nonsense."""

    def streamed(self, neighbour: Neighbour, event: OfStream) -> None:
        """A neighbour has said something of a stream."""

    def neighbour_gone(self, neighbour: Neighbour, cause: str) -> None:
        """One is a neighbour no more; its link has ended. `cause`: for the advisory log."""

    def names_changed(self, names: tuple[str, ...]) -> None:
        """These have come to be above or beside this node, or are not any more."""

    def permit_changed(self, child: Neighbour, *, anew: bool) -> None:
        """Look again at the offers of a child; `anew`: it may know of other things, too."""

    def withdrawn(self, advices: list[Advice]) -> None:
        """Neighbours are told these: among them are interests that have ended."""

    # --- for the driver

    def permits_changed(self) -> None:
        """The permits of some child may not be what they were."""

    def mesh_changed(self) -> None:
        """There may be another node to dial, or one less."""

    def authorities_told(self, authorities: bytes) -> None:
        """A parent says whose certificates the nodes of its mesh show."""

    def wanted_changed(self) -> None:
        """The destinations that are wanted from the site's broker may not be those that they were."""

    def for_site(self, deliveries: list[BrokerDelivery]) -> None:
        """These are for the site's broker."""


_NOBODY: Final = Policy()


@dataclass(slots=True, eq=False, repr=False)
class Policies:
    """The policies of a node, in order. Made before what asks it, and filled once everything is there.

    A method of `Policy` that is asked or told for each message has those here that override it, and whoever
    moves messages goes through these: nobody else costs anything then. For all other methods: `tell`, `ask`.
    """

    order: tuple[Policy, ...] = ()
    why_not_enter: tuple[Policy, ...] = ()
    why_not_above: tuple[Policy, ...] = ()
    why_not_take: tuple[Policy, ...] = ()
    why_not_go_on: tuple[Policy, ...] = ()
    must_stay: tuple[Policy, ...] = ()
    may_retain: tuple[Policy, ...] = ()
    is_answered: tuple[Policy, ...] = ()
    is_nobodys: tuple[Policy, ...] = ()
    named: tuple[Policy, ...] = ()
    is_wanted: tuple[Policy, ...] = ()
    is_unknown: tuple[Policy, ...] = ()
    is_kept: tuple[Policy, ...] = ()
    bundle_arrived: tuple[Policy, ...] = ()
    follows_node: tuple[Policy, ...] = ()
    routed: tuple[Policy, ...] = ()
    sent: tuple[Policy, ...] = ()
    acknowledged: tuple[Policy, ...] = ()
    streamed: tuple[Policy, ...] = ()
    _places: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Policies {', '.join(type(policy).__name__ for policy in self.order)}>"

    def add(self, policies: Iterable[Policy]) -> None:
        """These come after those that are there."""
        self.order = (*self.order, *policies)
        self._places = _overridden(tuple(map(type, self.order)))
        for name, places in self._places.items():
            if name in _EACH_MESSAGE:
                setattr(self, name, tuple(self.order[place] for place in places))

    def tell(self, moment: Callable[Concatenate[Policy, P], None], *said: P.args, **more: P.kwargs) -> None:
        """Tell all that want to know of a moment, such as `Policy.link_down`."""
        for place in self._places.get(moment.__name__, ()):
            getattr(self.order[place], moment.__name__)(*said, **more)

    def ask(self, question: Callable[Concatenate[Policy, P], T], *said: P.args, **more: P.kwargs) -> T:
        """The answer of the first that has something to say to a question, such as `Policy.owner_of`."""
        for place in self._places.get(question.__name__, ()):
            answer: T = getattr(self.order[place], question.__name__)(*said, **more)
            if answer:
                return answer
        return question(_NOBODY, *said, **more)


_EACH_MESSAGE: Final = frozenset(each.name for each in fields(Policies))


@cache
def _overridden(kinds: tuple[type[Policy], ...]) -> Mapping[str, tuple[int, ...]]:
    """For each method the places of those that override it. Nodes are alike in it."""
    return {
        name: tuple(place for place, kind in enumerate(kinds) if getattr(kind, name) is not plain)
        for name, plain in vars(Policy).items()
        if not name.startswith("_")
    }


def first_reason(reasons: Iterable[str]) -> str:
    """The first answer that is not empty."""
    return next(filter(None, reasons), "")
