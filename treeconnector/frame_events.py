"""The frames that change nothing of the link: each is checked, and becomes an event.

Raises `FrameError` or `SequenceError` for what a peer may not say; the link ends then.
"""

from collections.abc import Callable
from typing import Any, Final

from sapwood.protocol import bundles
from sapwood.protocol.errors import FrameError, InvalidName, PatternError
from treeconnector import address_frames, frames, hellos
from treeconnector import link_events as events
from treeconnector.frames import Member
from treeconnector.identity import BUNDLE_ID_BYTES
from treeconnector.incoming import Incoming, declined_keys, destination_text
from treeconnector.interest_keys import check_key
from treeconnector.link_events import Event
from treeconnector.link_settings import checked_name, clean
from treeconnector.streams import Streams

MAX_AUTHORITIES: Final = 24 * 1024
UNPACKED_AS_A_FRAME: Final = 16 * 1024
"""A bundle that is unpacked much larger than it comes costs as frames do that are read as slowly."""
DIGEST: Final = 16
DIGEST_BACK: Final = 20
_MOST_SINCE: Final = (1 << 32) - 1
_MAX_WHICH: Final = bundles.MAX_MESSAGES // 8
_MAX_DIGEST_BACK: Final = DIGEST_BACK + bundles.MAX_MESSAGES // 8


def _chain(peer: str, frame: frames.Chain) -> Event:
    try:
        hellos.check_chain(frame.chain, peer)
        hellos.check_above(frame.above)
    except InvalidName as error:
        raise FrameError(f"a chain: {error}") from None
    return events.ChainChanged(frame.chain, frame.above)


def _mesh(peer: str, frame: frames.Mesh) -> Event:
    hellos.check_mesh(frame.members, peer)
    hellos.check_mesh([Member(name, []) for name in frame.left], peer)
    return events.MeshChanged(frame.members, frame.left)


def _authorities(_peer: str, frame: frames.Authorities) -> Event:
    if len(frame.certificates) > MAX_AUTHORITIES:
        raise FrameError(f"authorities of more than {MAX_AUTHORITIES} bytes")
    return events.PeerAuthorities(frame.certificates)


def _given(_peer: str, frame: frames.Given) -> Event:
    sizes = {(len(bundle), len(digest)) for bundle, digest in frame.bundles}
    sound = sizes <= {(BUNDLE_ID_BYTES, 0), (BUNDLE_ID_BYTES, DIGEST)}
    sound = sound and all(DIGEST_BACK <= len(each) <= _MAX_DIGEST_BACK for each in frame.back)
    sound = sound and all(len(each) <= _MAX_WHICH for each in frame.which)
    sound = sound and all(0 <= each <= _MOST_SINCE for each in frame.since)
    if not sound or len(frame.bundles) > frames.MAX_GIVEN_IN_FRAME:
        raise FrameError("bundles that were given: expected ids and digests of 16 bytes, 500 at most")
    back, which, since = iter(frame.back), iter(frame.which), iter(frame.since)
    given = [
        (bundle, digest, next(which, b""), next(since, 0)) if digest else (bundle, next(back, b""), b"", 0)
        for bundle, digest in frame.bundles
    ]
    return events.PeerGave(given, frame.known)


def _nobody(_peer: str, frame: frames.Nobody) -> Event:
    return events.PeerKnowsNobody(address_frames.checked_keys(frame.keys), clean(frame.text))


def _topics(*several: list[str]) -> None:
    if sum(map(len, several)) > frames.MAX_TOPICS_IN_FRAME:
        raise FrameError(f"more than {frames.MAX_TOPICS_IN_FRAME} topics in a frame")
    try:
        for topics in several:
            for topic in topics:
                check_key(topic)
    except (PatternError, InvalidName) as error:
        raise FrameError(f"interest in what is no topic: {error}") from None


def _asks_interest(_peer: str, frame: frames.AskInterest) -> Event:
    _topics(frame.topics, frame.ended)
    return events.PeerAsksInterest(frame.topics, frame.ended)


def _tells_interest(_peer: str, frame: frames.TellInterest) -> Event:
    _topics(frame.wanted, frame.unwanted, frame.unsure)
    return events.PeerTellsInterest(frame.wanted, frame.unwanted, frame.unsure)


_READ: Final[dict[type[Any], Callable[[str, Any], Event]]] = {
    frames.Hold: lambda _, frame: events.PeerHolds(destination_text(frame.destination)),
    frames.Release: lambda _, frame: events.PeerReleases(destination_text(frame.destination)),
    frames.Chain: _chain,
    frames.Moved: lambda _, frame: events.PeerMoved(checked_name(frame.name)),
    frames.Declined: lambda _, frame: events.PeerDeclined(declined_keys(frame), clean(frame.text)),
    frames.Conflict: lambda _, frame: events.PeerConflict(checked_name(frame.name), clean(frame.text)),
    frames.WhoHas: lambda _, frame: events.PeerAsks(address_frames.checked_keys(frame.keys)),
    frames.IHave: lambda _, frame: events.PeerHas(address_frames.checked_found(frame.found)),
    frames.Invalidate: lambda _, frame: events.PeerInvalidates(
        address_frames.checked_incarnations(frame.incarnations)
    ),
    frames.Nobody: _nobody,
    frames.Mesh: _mesh,
    frames.Authorities: _authorities,
    frames.Given: _given,
    frames.AskInterest: _asks_interest,
    frames.TellInterest: _tells_interest,
}
_TAKEN: Final[dict[type[Any], Callable[[Incoming, Any], Event | None]]] = {
    frames.Advise: Incoming.advise,
    frames.SnapshotBegin: Incoming.snapshot_begin,
    frames.SnapshotEnd: Incoming.snapshot_end,
    frames.Part: Incoming.part,
    frames.Volatile: Incoming.volatile,
    frames.Granted: Incoming.granted,
    frames.Unknown: lambda _, frame: None,  # an optional frame of a later version
}

_STREAMED: Final[dict[type[Any], Callable[[Streams, Any], Event | None]]] = {
    frames.StreamOpen: Streams.asked,
    frames.StreamOpened: Streams.accepted,
    frames.StreamData: Streams.data,
    frames.StreamCredit: Streams.credit,
    frames.StreamEnd: Streams.ended,
    frames.StreamReset: Streams.reset,
}


def event_of(frame: Any, incoming: Incoming, streams: Streams, peer: str) -> Event | None:
    """What a frame says; None: nothing yet. `peer`: its name."""
    kind = type(frame)
    if kind in _STREAMED:
        return _STREAMED[kind](streams, frame)
    return _TAKEN[kind](incoming, frame) if kind in _TAKEN else _READ[kind](peer, frame)


def cost_of(event: Event) -> int:
    """Some events cost what further frames do."""
    match event:
        case events.Advised(advices=advices):
            return len(advices)
        case events.PeerAsksInterest(topics=topics, ended=ended):
            return len(topics) + len(ended)
        case events.BundleArrived() | events.VolatileArrived():
            return event.header.size // UNPACKED_AS_A_FRAME
    return 0
