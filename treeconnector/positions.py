"""Where two neighbours stand with each other, and how they go on after a crash or a restored backup.

Each end keeps a `Position` for each neighbour (pair of store ids). In the handshake both show theirs, and
both compute the same answer from the same pair: *resume*, or *begin a new epoch*.

Law: an end discards only what the other surely has. So numbers are trusted only where both accounts belong
to one history. Every handshake makes a `session`, a number that nobody can have seen before. An end *enters*
it when it stores its first change under it, and notes in `met` what the other showed then. Two accounts
belong to one history if both ends entered the same session, or if one did and the other still shows exactly
what it showed then (it crashed, or had nothing to store). Anything else means that a database was put back.

Surprise: numbers alone are not enough. Restore an old backup, work for an hour, then restore a newer one:
every number fits, and a third of the bundles behind them are others.

The caller's duty: show only what is on disk; store `Resumption.position` in a transaction that commits no
later than the first change of a number under it; change no number for an older link once a position is shown.
"""

import hashlib
import struct
from typing import Final

import msgspec

from sapwood.protocol.errors import FrameError
from treeconnector.frames import Position
from treeconnector.wording import counted

MAX_NUMBER: Final = 1 << 62


class Resumption(msgspec.Struct, frozen=True):
    """What both ends agreed on, seen from one of them.

    `position`: this end's account from now on; store it. `peer_received`: what this end may delete, through
    this number; sending goes on with the next. `peer_assigned`: the highest number that the peer gave before.
    `new_epoch`: this end's epoch changes because state was lost: its numbers restart at 0; before anything
    is sent, what waits in the outbox must be numbered again, and it may arrive twice. (False beside True at
    the peer: the peer had not yet entered our epoch.) `lost_here`, `lost_there`: bundles that an end had
    confirmed and no longer has, as far as numbers tell; at least so many. `text`: for people.
    """

    position: Position
    peer_received: int
    peer_assigned: int
    new_epoch: bool
    lost_here: int
    lost_there: int
    text: str

    @property
    def epoch(self) -> int:
        return self.position.epoch

    @property
    def gap(self) -> int:
        """Confirmed bundles that were lost, on either side; the same number on both."""
        return self.lost_here + self.lost_there

    @property
    def peer_knew_nothing(self) -> bool:
        """Did the peer show no account? It is new, or it has let go of this end since they last met."""
        return self.position.met == shown(Position())


def check(position: Position) -> None:
    """Raise `FrameError` if no honest end could have this account."""
    for name, number in zip(position.__struct_fields__, msgspec.structs.astuple(position), strict=True):
        if not 0 <= number < MAX_NUMBER:
            raise FrameError(f"a position whose {name} is {number}: expected 0 to 2^62")
    if position.deleted > position.assigned:
        raise FrameError(
            f"a position that deleted {position.deleted} of {position.assigned} assigned bundles"
        )


def agree(mine: Position, theirs: Position, session: int) -> Resumption:
    """Decide how to go on. `session`: 1 to 2^62, the same at both ends, never used before."""
    here, there = _in_one_epoch(mine, theirs)
    met = shown(theirs)
    trouble = _trouble(mine, theirs, here, there)
    if not trouble:
        text = f"resumed epoch {here.epoch}: the peer has ours up to {there.received}"
        text += f", we have theirs up to {here.received}"
        kept = msgspec.structs.replace(here, session=session, met=met)
        return Resumption(kept, there.received, there.assigned, here.epoch != mine.epoch, 0, 0, text)
    fresh = Position(epoch=max(mine.epoch, theirs.epoch) + 1, session=session, met=met)
    return Resumption(
        fresh, 0, 0, True, _lost(here, there), _lost(there, here), f"{trouble}; epoch {fresh.epoch} begins"
    )


def shown(position: Position) -> int:
    """Digest of an account, by which it is known again. `deleted` may change without a handshake."""
    fields = (position.session, position.epoch, position.received, position.assigned)
    digest = hashlib.sha256(b"sapwood position" + struct.pack(">4Q", *fields)).digest()
    return (int.from_bytes(digest[:8], "big") >> 2) or 1


def _in_one_epoch(mine: Position, theirs: Position) -> tuple[Position, Position]:
    """Both accounts, where the one that has not yet entered the other's new epoch stands at its beginning."""
    if mine.epoch > theirs.epoch and mine.met == shown(theirs):
        return mine, Position(epoch=mine.epoch)
    if theirs.epoch > mine.epoch and theirs.met == shown(mine):
        return Position(epoch=theirs.epoch), theirs
    return mine, theirs


def _one_history(mine: Position, theirs: Position) -> bool:
    return mine.session == theirs.session or mine.met == shown(theirs) or theirs.met == shown(mine)


def _bundles(count: int) -> str:
    return counted(count, "bundle")


def _trouble(mine: Position, theirs: Position, here: Position, there: Position) -> str:
    """Why these two cannot resume, '' if they can."""
    if here.epoch != there.epoch:
        return f"we are in epoch {here.epoch}, the peer in {there.epoch}: one of us lost state"
    if there.received > here.assigned:
        return (
            f"the peer has {_bundles(there.received)} of ours and we know of {here.assigned}: we lost state"
        )
    if here.received > there.assigned:
        return (
            f"we have {_bundles(here.received)} of the peer, which knows of {there.assigned}: it lost state"
        )
    if there.deleted > here.received:
        return f"we confirmed {_bundles(there.deleted)} to the peer and have {here.received}: we lost state"
    if here.deleted > there.received:
        return f"the peer confirmed {_bundles(here.deleted)} to us and has {there.received}: it lost state"
    if not _one_history(mine, theirs):
        return f"our accounts of epoch {here.epoch} come from two histories: a database was put back"
    return ""


def _lost(holder: Position, giver: Position) -> int:
    """How many bundles of `giver` its peer `holder` had confirmed and does not have."""
    if holder.epoch > giver.epoch:
        return 0
    received = holder.received if holder.epoch == giver.epoch else 0
    return max(0, giver.deleted - received)
