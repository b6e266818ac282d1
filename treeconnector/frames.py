"""What two neighbours say to each other, as values and as bytes.

A *packet* is what a carrier transports whole: a MessagePack array of frames, so that one packet carries
many. A frame is an array that begins with its tag. Law: neighbours may be one version apart. Tags from
`FIRST_OPTIONAL` on are ignored where they are not known; fields are only ever added at the end of a frame
or of `Position`, with a default. `Advice` and `Destination` never grow: what a later version adds to an
advice goes into a list of its own at the end of `Advise`. Everything else that does not fit is a
`FrameError`, and the link ends.

Surprise: msgspec lets `UnicodeDecodeError` and `RecursionError` through, so `UNREADABLE` names them.
"""

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.packets import Bytes

if TYPE_CHECKING:
    _Data = Bytes
else:
    _Data = memoryview  # is decoded as a view of the packet

VERSION: Final = 1
OLDEST_VERSION: Final = 1
FIRST_OPTIONAL: Final = 64
DEFAULT_MAX_FRAME: Final = 64 * 1024
MAX_ADVICES_IN_FRAME: Final = 500
MAX_GIVEN_IN_FRAME: Final = 500
MAX_TOPICS_IN_FRAME: Final = 500
INTEREST: Final = "interest"
"""In `Hello.knows`: `AskInterest` and `TellInterest` are understood."""
QUEUE_INTEREST: Final = "queue-interest"
"""The same, and about queues too (`interest_keys`)."""
KNOWN: Final = (INTEREST, QUEUE_INTEREST)


class Advice(NamedTuple):
    """One consumer advisory. `op`: 'add', 'remove', 'dormant' or 'live'.

    `origin`: node of the consumer; `cause`: id of the consumer event that set it off, 'resync' in a
    snapshot. `reads`: for domain routes, the highest bundle version that the whole subtree reads.
    """

    op: str
    kind: Kind
    name: str
    origin: str = ""
    cause: str = ""
    reads: int = 0

    @property
    def key(self) -> Destination:
        return Destination(self.kind, self.name)


class Whereabouts(msgspec.Struct, array_like=True, frozen=True):
    """Where a node is: its name, the incarnation (a UUID's 16 bytes) that has it, where it can be dialled."""

    name: str
    incarnation: bytes
    addresses: list[str] = []


class Member(NamedTuple):
    """A node of a mesh, and where it can be dialled, as far as its neighbours know."""

    name: str
    addresses: list[str]


class Position(msgspec.Struct, array_like=True, frozen=True):
    """One end's account of a link. All numbers belong to `epoch` and to the pair of store ids.

    `received`: highest number committed here. `assigned`: highest number given to a bundle for the peer.
    `deleted`: highest number that the peer confirmed and that was deleted here. `session`: the handshake
    under which these numbers last changed, `met`: a digest of what the peer showed in it (see `positions`,
    which makes both; they are stored with the numbers).
    """

    epoch: int = 0
    received: int = 0
    assigned: int = 0
    deleted: int = 0
    session: int = 0
    met: int = 0


class Frame(msgspec.Struct, array_like=True, frozen=True, tag_field="t"):
    """Base of all frames."""


class Hello(Frame, frozen=True, tag=1, kw_only=True):
    """First frame of both sides; the dialler speaks first. Proofs cover both hellos, byte for byte.

    `chain`: names from this node up to the root, this one first; from a child that has no parent yet, or
    has a parent as its dialled peer, just itself. `window_*`: how much the *receiver* of this frame may
    send unacknowledged. `addresses`: where this node can be dialled. `mesh`: the other nodes of its mesh; a
    dialler that lists its peer there means to be beside it, not below. `above`: nodes above this one that
    `chain` does not name, since their mesh has one name there; from a dialler none. `streams`: how many the
    receiver of this frame may have open on the link, of those that it opened; 0 = the sender knows none.
    `knows`: words for optional frames that are sent only to who understands them.
    """

    version: int
    oldest: int
    tree: str
    name: str
    role: str
    store_id: bytes
    start: int
    incarnation: bytes
    nonce: bytes
    max_frame: int
    max_message: int
    window_bundles: int
    window_bytes: int
    chain: list[str] = []
    addresses: list[str] = []
    zone: str = ""
    reads: int = 1
    mesh: list[Member] = []
    above: list[str] = []
    streams: int = 0
    knows: list[str] = []


class Prove(Frame, frozen=True, tag=2, kw_only=True):
    """HMAC-SHA256 over both hellos with the link's secret, and where this end stands.

    `held_count`, `held_digest`: what this end holds of the other's offers (see `advisories.digest_of`).
    """

    proof: bytes
    position: Position
    held_count: int = 0
    held_digest: bytes = b""


class Refuse(Frame, frozen=True, tag=3):
    """No. `reason` is an `errors.Refusal`; the sender closes after it."""

    reason: str
    text: str


class Pause(Frame, frozen=True, tag=4):
    """This node stops for a while: routes and custody stay (SIGTERM)."""

    text: str = ""


class Goodbye(Frame, frozen=True, tag=5):
    """This node leaves the tree, or is told to: withdraw its routes, route its spool again."""

    text: str = ""


class Ping(Frame, frozen=True, tag=6):
    number: int


class Pong(Frame, frozen=True, tag=7):
    number: int


class Advise(Frame, frozen=True, tag=8):
    advices: Annotated[list[Advice], Meta(max_length=MAX_ADVICES_IN_FRAME)]


class SnapshotBegin(Frame, frozen=True, tag=9):
    count: int


class SnapshotEnd(Frame, frozen=True, tag=10):
    """`digest` of the whole offer that the snapshot cut."""

    digest: bytes


class Bundle(Frame, frozen=True, tag=11):
    """`number` is the link's sequence number; `header` and `body` as in `bundles`."""

    number: int
    header: bytes
    body: bytes


class Part(Frame, frozen=True, tag=12):
    """A piece of a bundle that is larger than a packet may be. Pieces come in order, nothing but control
    frames between them.

    `number`: the bundle's, 0 = it is a volatile one. `header` stands in the first piece, '' in the others.
    `total`: bytes of header + body. `offset`: how many of them came before; `data`: the body's next bytes.
    """

    number: int
    header: bytes
    total: int
    offset: int
    data: bytes


class Volatile(Frame, frozen=True, tag=13):
    """A bundle that is neither stored nor numbered."""

    header: bytes
    body: bytes


class Ack(Frame, frozen=True, tag=14):
    """Everything up to `received` is committed here. Cumulative."""

    received: int


class Hold(Frame, frozen=True, tag=15):
    """Keep what is for `destination` (text; '' = everything) until Release."""

    destination: str


class Release(Frame, frozen=True, tag=16):
    destination: str


class Chain(Frame, frozen=True, tag=17):
    """The sender's chain of names up to the root has changed, or who else is `above` it. Sent down only."""

    chain: list[str]
    above: list[str] = []


class Moved(Frame, frozen=True, tag=18):
    """`name` is live elsewhere: withdraw it, stop copying, send its spool on. Sent down only."""

    name: str


class Declined(Frame, frozen=True, tag=19):
    """Advices over a limit, by name, and why; the link stays."""

    keys: Annotated[list[Destination], Meta(max_length=MAX_ADVICES_IN_FRAME)]
    text: str


class Conflict(Frame, frozen=True, tag=20):
    """Sent down: `name` is live from two children; the later link to it is to be refused."""

    name: str
    text: str


class WhoHas(Frame, frozen=True, tag=70):
    """Who is it that has these names or incarnations? Up, then down the way to the name; never to all.

    `keys`: node names, and incarnations in the 36 characters of a UUID.
    """

    keys: list[str]


class IHave(Frame, frozen=True, tag=71):
    """These nodes are there: an answer, a change, or, sent up, a node below the sender that came."""

    found: list[Whereabouts]


class Invalidate(Frame, frozen=True, tag=72):
    """These incarnations are no more what an `IHave` said on this link."""

    incarnations: list[bytes]


class Nobody(Frame, frozen=True, tag=73):
    """The answer to a `WhoHas` where nobody has these `keys`."""

    keys: list[str]
    text: str


class Mesh(Frame, frozen=True, tag=90):
    """The other nodes of the sender's mesh, as it knows them now. Told to parents and children, and to nodes
    of the mesh if any have `left` it for good.
    """

    members: list[Member]
    left: list[str] = []


class Authorities(Frame, frozen=True, tag=91):
    """Sent down, optional: PEM `certificates` of the authorities of all nodes of the sender's mesh, so that a
    child which joined at one of them trusts the others.
    """

    certificates: bytes


class Given(Frame, frozen=True, tag=92):
    """Between nodes of a mesh, optional: queues' bundles that were given to children, each with a digest of
    whom and what; an empty one where it has come back. `known`: perhaps long ago, told since the link is new.
    `back`: for each empty digest in turn the digest, in 4 bytes more how often the bundle was rerouted, and
    if not all of its messages have come back a bit for each that has; an older node does not say it.
    `which`: for each digest in `bundles` in turn a bit for each message that was given, empty for all of
    them, which an older node means. `since`: for each of these how often the bundle had been rerouted when it
    was given; an older node does not say it.
    """

    bundles: Annotated[list[tuple[bytes, bytes]], Meta(max_length=2 * MAX_GIVEN_IN_FRAME)]
    known: bool = False
    back: Annotated[list[bytes], Meta(max_length=MAX_GIVEN_IN_FRAME)] = []
    which: Annotated[list[bytes], Meta(max_length=MAX_GIVEN_IN_FRAME)] = []
    since: Annotated[list[int], Meta(max_length=MAX_GIVEN_IN_FRAME)] = []


class AskInterest(Frame, frozen=True, tag=93):
    """Sent up, optional: does anybody off the sender's way want these `topics`, or queues (`interest_keys`)?
    The answer is told, and each change of it, until one is among `ended` or the link ends.
    """

    topics: list[str]
    ended: list[str] = []


class TellInterest(Frame, frozen=True, tag=94):
    """Sent down, optional, of topics that were asked for: somebody off the receiver's way wants those in
    `wanted`, nobody those in `unwanted`; of those in `unsure` the sender cannot say now.
    """

    wanted: list[str]
    unwanted: list[str] = []
    unsure: list[str] = []


class Granted(Frame, frozen=True, tag=80):
    """Sent down, optional: what the receiver may do, as its parent and all above it have it.

    `data`: a piece of what `permits.pack` made; `more`: another piece follows.
    """

    data: bytes
    more: bool = False


class StreamOpen(Frame, frozen=True, tag=100):
    """Optional, as all frames of streams: the sender wants a stream to what node `to` offers as `name`.

    `stream`: its number on this link, odd from the dialler, even from the other end, higher than any before.
    `origin`: the node where it was asked for; `channel`: 16 bytes, the same on every link of the way; `hops`:
    links before this one.
    """

    stream: int
    to: str
    name: str
    origin: str
    channel: bytes
    hops: int = 0


class StreamOpened(Frame, frozen=True, tag=101):
    """What was asked for is there. Never sent by who opened it."""

    stream: int


class StreamData(Frame, frozen=True, tag=102):
    """The next bytes, as far as the receiver has given credit; never empty. Read, they are a view of the
    packet.
    """

    stream: int
    data: _Data


class StreamCredit(Frame, frozen=True, tag=103):
    """So many bytes more may come, beside `streams.PIECE` that may come at once."""

    stream: int
    size: int


class StreamEnd(Frame, frozen=True, tag=104):
    """The sender has no more to send; it goes on reading."""

    stream: int


class StreamReset(Frame, frozen=True, tag=105):
    """The stream is over in both directions, or never was. `reason`: for programs; `text`: for people."""

    stream: int
    reason: str
    text: str


class Unknown(msgspec.Struct, frozen=True):
    """Stands for an optional frame of a later version. Is never sent."""

    tag: int


AnyFrame = (
    Hello
    | Prove
    | Refuse
    | Pause
    | Goodbye
    | Ping
    | Pong
    | Advise
    | SnapshotBegin
    | SnapshotEnd
    | Bundle
    | Part
    | Volatile
    | Ack
    | Hold
    | Release
    | Chain
    | Moved
    | Declined
    | Conflict
    | WhoHas
    | IHave
    | Invalidate
    | Nobody
    | Mesh
    | Authorities
    | Given
    | AskInterest
    | TellInterest
    | Granted
    | StreamOpen
    | StreamOpened
    | StreamData
    | StreamCredit
    | StreamEnd
    | StreamReset
)

_encoder = msgspec.msgpack.Encoder()
raw_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])


def encode(frame: Frame) -> bytes:
    return _encoder.encode(frame)
