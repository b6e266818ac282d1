"""The words of two nodes to each other through a broker. MessagePack arrays whose first item is the kind.

Law: what belongs to one link carries its nonce: eight bytes that the child made, then eight that the parent
made. An envelope with another nonce comes from an earlier link, or from a second node that answered: it is
ignored. `Packets` and `End` are numbered by one count from 1, so that whatever a broker drops shows as a gap.
"""

import secrets
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sapwood.protocol.errors import FrameError
from sapwood.protocol.names import MAX_NODE_NAME

VERSION: Final = 1
HALF: Final = 8
OVERHEAD: Final = 256
"""Bytes that an envelope, its topic or keys and the broker's own header add at most to one packet."""

_MAX_REASON: Final = 200

Half = Annotated[bytes, Meta(min_length=HALF, max_length=HALF)]
Nonce = Annotated[bytes, Meta(min_length=2 * HALF, max_length=2 * HALF)]
Number = Annotated[int, Meta(ge=0)]
PacketSize = Annotated[int, Meta(ge=OVERHEAD)]


class _Envelope(msgspec.Struct, frozen=True, array_like=True):
    pass


class Knock(_Envelope, frozen=True, array_like=True, tag=1):
    """Child to parent: here I am. `half`: of the nonce; `max_packet`: bytes."""

    half: Half
    max_packet: PacketSize
    version: int = VERSION


class Answer(_Envelope, frozen=True, array_like=True, tag=2):
    """Parent to child: we are linked; `nonce` begins with the child's half."""

    nonce: Nonce
    max_packet: PacketSize
    version: int = VERSION


class Packets(_Envelope, frozen=True, array_like=True, tag=3):
    """Packets of the link, in order."""

    nonce: Nonce
    number: Number
    packets: list[bytes]


class Taken(_Envelope, frozen=True, array_like=True, tag=4):
    """The node has taken all up to `number`: they are no longer under way."""

    nonce: Nonce
    number: Number


class End(_Envelope, frozen=True, array_like=True, tag=5):
    """The other side closed the carrier; nothing follows."""

    nonce: Nonce
    number: Number
    reason: Annotated[str, Meta(max_length=_MAX_REASON)] = ""


class Gone(_Envelope, frozen=True, array_like=True, tag=6):
    """Said by the broker on behalf of a side that it has lost. `nonce`: whole, or the child's half."""

    nonce: Annotated[bytes, Meta(min_length=HALF, max_length=2 * HALF)]


class Claim(_Envelope, frozen=True, array_like=True, tag=7):
    """Parent to parents: I hear the children's knocks here. `run`: of one listener; `held`: since a while."""

    node: Annotated[str, Meta(max_length=MAX_NODE_NAME)]
    run: Half
    held: bool = False


Envelope = Knock | Answer | Packets | Taken | End | Gone | Claim

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Envelope]] = msgspec.msgpack.Decoder(Envelope)


def encode(envelope: Envelope) -> bytes:
    return _encoder.encode(envelope)


def decode(message: bytes) -> Envelope:
    """Raises `FrameError` for anything that no node says."""
    try:
        return _decoder.decode(message)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"{len(message)} bytes that are no envelope of a link: {error}") from None


def end(nonce: bytes, number: int, reason: str) -> End:
    """An `End` whose reason is cut to what may travel."""
    return End(nonce, number, reason[:_MAX_REASON])


def new_half() -> bytes:
    return secrets.token_bytes(HALF)
