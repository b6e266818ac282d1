"""What a client and its node say to each other on a streaming session, as values and as bytes.

A packet is a MessagePack array of frames, as on links. Sends are pipelined and numbered by the producer;
the node confirms them in batches, after its commit. Deliveries are pushed as far as the client has given
credit, a slice of a bundle at a time; the client acknowledges transfer ids, in ranges.

`body` is always the plain concatenation of messages (see `bundles.join`), unless a frame says compressed.
Law: as for links: fields are only added at the end with a default; tags from 64 on may be ignored.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import FrameError

VERSION: Final = 1
MAX_PACKET: Final = 16 * 1024 * 1024
MAX_FRAMES: Final = 0xFFFF
"""Frames of one packet."""
MAX_RANGES_IN_FRAME: Final = 4096


class SessionFrame(msgspec.Struct, array_like=True, frozen=True, tag_field="t"):
    """Base of all session frames."""


# --- from the client


class Login(SessionFrame, frozen=True, tag=1):
    """`session`: the client's identity; several connections may share it. `secret`: where one is configured.

    `producer`: names a numbered stream of sends that outlives the connection; '' = none. `account`: whose
    password `secret` is then; '' = it is the node's session secret. `plain`: no body of a Deliver is to be
    compressed; a node whose Welcome does not say so may do it all the same.
    """

    version: int
    session: str
    secret: str = ""
    producer: str = ""
    account: str = ""
    plain: bool = False


class Create(SessionFrame, frozen=True, tag=2):
    """Make a queue; '' = a transient one with a fresh name. Answered by Done with the name."""

    request: int
    queue: str = ""
    home: bool = False


class Subscribe(SessionFrame, frozen=True, tag=3):
    """Read a queue or a topic pattern. `credit`: messages that may be unacknowledged here at once.

    `durable`: (topics) the subscription outlives the session. `subscription` is chosen by the client and
    comes back in Deliver. `own`: (topics) it is given what its own session sends, too. `retained`: (topics) a
    new subscription is given the retained messages that match. `group`: (topics, with `durable`) the readers
    of one group, pattern and account at a node share the messages; it lasts as long as one of them.
    """

    request: int
    subscription: int
    destination: Destination
    credit: int
    durable: str = ""
    own: bool = True
    retained: bool = True
    group: str = ""


class Unsubscribe(SessionFrame, frozen=True, tag=4):
    request: int
    subscription: int


class Send(SessionFrame, frozen=True, tag=5):
    """Messages for one destination, numbered `first`, `first` + 1, …

    `scope`: -1 = as configured. `tell`: (queues) where nobody serves it, say so at once to
    `reply_to`, and do not keep the message. `matched`: (topics) answer with Matched, too; an older node
    does not.
    """

    first: int
    destination: Destination
    count: int
    body: bytes
    persistent: bool = True
    retained: bool = False
    scope: int = -1
    tell: bool = False
    matched: bool = False


class Acknowledge(SessionFrame, frozen=True, tag=6):
    """Transfer ids that are dealt with: [first, last] ranges."""

    ranges: Annotated[list[tuple[int, int]], msgspec.Meta(max_length=MAX_RANGES_IN_FRAME)]


class SessionPing(SessionFrame, frozen=True, tag=7):
    number: int


class EndSubscription(SessionFrame, frozen=True, tag=8):
    """End this session's durable subscription of that name, with what waits for it. Answered by Done."""

    request: int
    durable: str


class RefuseDelivery(SessionFrame, frozen=True, tag=9):
    """Transfer ids of what nobody can deal with: dead letters, for this reason. Only to a node whose Welcome
    says that it knows this.

    `again`: they are given back, to be given again; only to a node whose Welcome says `returns`.
    """

    first: int
    last: int
    reason: str
    again: bool = False


class Delete(SessionFrame, frozen=True, tag=10):
    """Delete a queue with all its messages, as whoever may make it. Answered by Done; only to a node whose
    Welcome says `deletes`."""

    request: int
    queue: str


class Forget(SessionFrame, frozen=True, tag=11):
    """Nobody goes on with the numbers of this connection's producer. Only to a node whose Welcome says
    `forgets`; others remember them for a week."""


# --- from the node


class Reject(SessionFrame, frozen=True, tag=25):
    """Sends `first` to `last` were not taken."""

    first: int
    last: int
    code: str
    text: str


class Welcome(SessionFrame, frozen=True, tag=21):
    """`last`: highest number of this producer that is committed. `limit`: most bytes in a packet.

    `rejected`: of the numbers up to `last`, those that were not taken, as far as the producer may not have
    heard so. `refuses`: the node knows `RefuseDelivery`; `returns`: its `again` too; `deletes`: `Delete`;
    `forgets`: `Forget`. `store`: the node's store, in whose numbers transfer ids and confirmations are.
    `plain`: it heeds that of the Login.
    """

    node: str
    session: str
    last: int
    limit: int
    rejected: list[Reject] = []
    refuses: bool = False
    returns: bool = False
    store: bytes = b""
    deletes: bool = False
    plain: bool = False
    forgets: bool = False


class Done(SessionFrame, frozen=True, tag=22):
    request: int
    result: str = ""


class Failed(SessionFrame, frozen=True, tag=23):
    """`request` 0: the session itself; it is closed. `code` is for programs, `text` for people."""

    request: int
    code: str
    text: str


class Confirm(SessionFrame, frozen=True, tag=24):
    """All sends up to `through` are on disk, but for those that were rejected."""

    through: int


class Deliver(SessionFrame, frozen=True, tag=26):
    """Messages of one bundle. Message i has transfer id `first` + i and id (`bundle`, `position` + i).

    `skip`: mask of messages that are not for this reader. `size`: plain bytes of the body. `again`: a node
    in debug mode gives them a second time on purpose; they are to be handed out again. `elapsed`: ms since
    the messages entered the tree, where one of them expires.
    """

    subscription: int
    destination: Destination
    first: int
    count: int
    bundle: bytes
    position: int
    flags: int
    size: int
    body: bytes
    skip: bytes = b""
    redelivered: bool = False
    origin: str = ""
    again: bool = False
    elapsed: int = 0


class SessionPong(SessionFrame, frozen=True, tag=27):
    number: int


class ReadingEnded(SessionFrame, frozen=True, tag=28):
    """The node has ended a subscription: its queue was deleted, or it was ended for good elsewhere."""

    subscription: int
    code: str
    text: str


class Matched(SessionFrame, frozen=True, tag=29):
    """Sends `first` to `last` are for a topic that so many `readers` of the node want. It goes `onward` to so
    many neighbours, and has `passed_by` so many children that ask for it, as far as `scope` reaches."""

    first: int
    last: int
    readers: int
    onward: int
    passed_by: int
    scope: int


ClientFrame = (
    Login
    | Create
    | Subscribe
    | Unsubscribe
    | Send
    | Acknowledge
    | SessionPing
    | EndSubscription
    | RefuseDelivery
    | Delete
    | Forget
)
NodeFrame = Welcome | Done | Failed | Confirm | Reject | Deliver | SessionPong | ReadingEnded | Matched

_encoder = msgspec.msgpack.Encoder()
_client_decoder: msgspec.msgpack.Decoder[list[ClientFrame]] = msgspec.msgpack.Decoder(
    Annotated[list[ClientFrame], msgspec.Meta(max_length=MAX_FRAMES)]
)
_node_decoder = msgspec.msgpack.Decoder(list[NodeFrame])
# msgspec lets UnicodeDecodeError (a ValueError) and RecursionError through.
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)


def encode(frame: SessionFrame) -> bytes:
    return _encoder.encode(frame)


def encode_packet(frames: Sequence[ClientFrame] | Sequence[NodeFrame]) -> bytes:
    return _encoder.encode(frames)


def decode_client_packet(data: bytes) -> list[ClientFrame]:
    """Read what a client sent. Raises `FrameError`."""
    try:
        return _client_decoder.decode(data)
    except _UNREADABLE as error:
        raise FrameError(f"not a packet of client frames: {error}") from None


def decode_node_packet(data: bytes) -> list[NodeFrame]:
    """Read what a node sent. Raises `FrameError`."""
    try:
        return _node_decoder.decode(data)
    except _UNREADABLE as error:
        raise FrameError(f"not a packet of node frames: {error}") from None
