"""What a link is told when it is made, and the hello that follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sapwood.protocol.errors import FrameError, InvalidName, LocalError
from sapwood.protocol.names import node_name
from treeconnector import frames, hellos
from treeconnector.frames import Hello, Member, Position
from treeconnector.identity import Identity
from treeconnector.stream_pool import StreamPool

MAX_TEXT: Final = 1000
MOST_STREAMS: Final = 2048


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Sizes in bytes, times in seconds. `window_*`: how much the peer may send unacknowledged.

    `keep_alive`: silence after which the peer is asked; `dead_after`: silence after that which ends the
    link. `max_frames_per_second`: of control frames; who sends more is read more slowly. `streams`: how many
    the peer may have open, of those that it opened; 0 = this end takes part in none. `pool`: what those of
    all links with these settings are lent together. `knows`: words for optional frames, as the hello says.
    """

    max_frame: int = frames.DEFAULT_MAX_FRAME
    max_message: int = 16 * 1024 * 1024
    window_bundles: int = 64
    window_bytes: int = 8 * 1024 * 1024
    keep_alive: float = 10.0
    dead_after: float = 10.0
    handshake_timeout: float = 10.0
    max_frames_per_second: float = 20_000
    streams: int = MOST_STREAMS
    pool: StreamPool = field(default_factory=StreamPool, compare=False)
    knows: tuple[str, ...] = frames.KNOWN


@dataclass(frozen=True, slots=True)
class Standing:
    """Where this node stands, as it is on disk: its position, and what it holds of the peer's offers."""

    position: Position
    held_count: int
    held_digest: bytes


def hello_of(
    identity: Identity,
    settings: LinkSettings,
    chain: Sequence[str],
    addresses: Sequence[str],
    zone: str,
    mesh: Sequence[Member],
    above: Sequence[str],
    nonce: bytes,
    reads: int,
) -> Hello:
    """This end's hello. Raises `LocalError` if it is none that a peer would take."""
    hello = Hello(
        version=frames.VERSION,
        oldest=frames.OLDEST_VERSION,
        tree=identity.tree,
        name=identity.name,
        role=identity.role,
        store_id=identity.store_id,
        start=identity.start,
        incarnation=identity.incarnation,
        nonce=nonce,
        max_frame=settings.max_frame,
        max_message=settings.max_message,
        window_bundles=settings.window_bundles,
        window_bytes=settings.window_bytes,
        chain=list(chain),
        addresses=list(addresses),
        zone=zone,
        reads=reads,
        mesh=list(mesh),
        above=list(above),
        streams=settings.streams,
        knows=list(settings.knows),
    )
    try:
        hellos.check(hello)
    except FrameError as error:
        raise LocalError(f"a peer would refuse our hello: {error}") from None
    return hello


def checked_name(text: str) -> str:
    try:
        return node_name(text)
    except InvalidName as error:
        raise FrameError(f"a name that cannot be: {error}") from None


def clean(text: str) -> str:
    """A text that may be logged and shown: cut, and without control characters."""
    text = text[:MAX_TEXT]
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in text)
