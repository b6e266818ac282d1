"""What a link tells its node. `match` on the type; every event is an immutable value.

Law: `LinkEnded` comes exactly once and last. Texts come from the peer, cleaned of control characters and
cut, unless the docstring says otherwise.
"""

from typing import Final

import msgspec

from sapwood.protocol.bundles import Header
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import LinkRefused, RemoteError
from sapwood.protocol.packets import Bytes
from treeconnector.frames import Advice, Hello, Member, Whereabouts
from treeconnector.permits import Rules
from treeconnector.positions import Resumption

_AT_ONCE: Final = 10


class Event(msgspec.Struct, frozen=True):
    """Base of all events."""


class PeerHello(Event, frozen=True):
    """The peer says who it is, unproven. The node must `accept` or `refuse`."""

    hello: Hello


class Proven(Event, frozen=True):
    """At the parent only: the child is who it says. The node must `admit` or `refuse`."""

    hello: Hello


class LinkUp(Event, frozen=True):
    """The link works. `held_*`: what the peer holds of what we offered, to be compared with our digest.

    `hello`: the peer's; `ours`: as the peer has it.
    """

    hello: Hello
    resumption: Resumption
    held_count: int
    held_digest: bytes
    ours: Hello


class Advised(Event, frozen=True):
    """At most 500 advices; between `SnapshotStarted` and `SnapshotEnded` they are the snapshot's."""

    advices: list[Advice]


class SnapshotStarted(Event, frozen=True):
    count: int


class SnapshotEnded(Event, frozen=True):
    """All of the snapshot has come: sweep what was not in it. `digest`: of the peer's whole offer."""

    digest: bytes


class BundleArrived(Event, frozen=True):
    """The next bundle. The node commits it and then acknowledges its `number`."""

    number: int
    header: Header
    header_bytes: bytes
    body: bytes


class VolatileArrived(Event, frozen=True):
    header: Header
    header_bytes: bytes
    body: bytes


class Acked(Event, frozen=True):
    """The peer has committed everything up to `received`."""

    received: int


class PeerHolds(Event, frozen=True):
    """Keep what is for `destination` (text, '' = everything) until `PeerReleases`."""

    destination: str


class PeerReleases(Event, frozen=True):
    destination: str


class ChainChanged(Event, frozen=True):
    """At the child only: names from the parent up to the root, the parent first; `above`: further ones."""

    chain: list[str]
    above: list[str] = []


class PeerAuthorities(Event, frozen=True):
    """At the child only: whom the nodes of the parent's mesh show certificates of, in PEM; not checked."""

    certificates: bytes


class PeerGave(Event, frozen=True):
    """Between nodes of a mesh: ids of bundles and digests, with 4 bytes more where a bundle has come back, or
    '' from an older node; a bit for each message that was given, '' for all; and the reroutes that it had by
    then. `known`: it is no news.
    """

    bundles: list[tuple[bytes, bytes, bytes, int]]
    known: bool = False


class PeerMoved(Event, frozen=True):
    """At the child only: `name` is live elsewhere."""

    name: str


class PeerDeclined(Event, frozen=True):
    """The peer takes no more of these advices, and says why."""

    keys: list[Destination]
    text: str


class PeerConflict(Event, frozen=True):
    """At the child only: `name` is live from two children above; the later link to it is to be refused."""

    name: str
    text: str


class PeerAsks(Event, frozen=True):
    """Who has these names and incarnations? At most 500, each a legal name."""

    keys: list[str]


class PeerHas(Event, frozen=True):
    """These nodes are there, says the peer; names and sizes are checked, nothing else."""

    found: list[Whereabouts]


class PeerInvalidates(Event, frozen=True):
    """What the peer said of these incarnations holds no more."""

    incarnations: list[bytes]


class PeerKnowsNobody(Event, frozen=True):
    """The peer's answer: nobody has these."""

    keys: list[str]
    text: str


class PeerAsksInterest(Event, frozen=True):
    """At the parent only: does anybody off the child's way want these topics? It asks no more for `ended`.

    Each is a topic; at most 500 together.
    """

    topics: list[str]
    ended: list[str] = []


class PeerTellsInterest(Event, frozen=True):
    """At the child only: the answer, see `frames.TellInterest`; at most 500 topics together."""

    wanted: list[str]
    unwanted: list[str]
    unsure: list[str]


class MeshChanged(Event, frozen=True):
    """The other nodes of the peer's mesh, and who has `left` it. Names and addresses are checked."""

    members: list[Member]
    left: list[str] = []


class PeerGrants(Event, frozen=True):
    """At the child only: what it may do, as the nodes above have it. None given: everything."""

    rules: list[Rules]


class PeerPaused(Event, frozen=True):
    """The peer stops for a while; `LinkEnded` follows."""

    text: str


class PeerLeft(Event, frozen=True):
    """The peer leaves the tree for good, or tells us to; `LinkEnded` follows."""

    text: str


class OfStream(Event, frozen=True):
    """Base of those that are about a stream. Nothing that they say is kept on disk."""


class StreamAsked(OfStream, frozen=True):
    """The peer wants a stream to what node `to` offers as `name`. Names and sizes are checked, nothing else:
    `origin` is who the peer says that it is for, `channel` 16 bytes. The node accepts or resets it.
    """

    stream: int
    to: str
    name: str
    origin: str
    channel: bytes
    hops: int


class StreamAccepted(OfStream, frozen=True):
    """A stream that this end opened is open."""

    stream: int


class StreamArrived(OfStream, frozen=True):
    """The next bytes of a stream; `Link.stream_passed` when they have been passed on."""

    stream: int
    data: Bytes


class StreamFinished(OfStream, frozen=True):
    """The peer sends no more on a stream; it goes on reading."""

    stream: int


class StreamBroken(OfStream, frozen=True):
    """A stream is over, says the peer, or never was."""

    stream: int
    reason: str
    text: str


class Throttled(Event, frozen=True):
    """The peer sends more control frames than allowed: read nothing from it before `until` (seconds)."""

    until: float


class LinkEnded(Event, frozen=True):
    """The link is over. Send what `data_to_send` still gives, then close the transport.

    `error`: None after a pause, a goodbye or a closed transport; `RemoteError` if the peer broke the protocol
    or fell silent; `LinkRefused` if either side said no. `by_peer`: they ended it. `text`: for people, ours.
    """

    error: RemoteError | LinkRefused | None
    text: str
    by_peer: bool = False


def parts(event: Event) -> list[Event]:
    """An event as several that mean the same, each dealt with in a moment: an advice may take a while."""
    if not isinstance(event, Advised) or len(event.advices) <= _AT_ONCE:
        return [event]
    advices = event.advices
    return [Advised(advices[start : start + _AT_ONCE]) for start in range(0, len(advices), _AT_ONCE)]
