"""What two nodes say through a broker, and what is nothing that a node says."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.carriers.brokered import envelopes
from bridges.carriers.brokered.envelopes import (
    Answer,
    Claim,
    End,
    Envelope,
    Gone,
    Knock,
    Packets,
    Taken,
    decode,
    encode,
    end,
)
from sapwood.protocol.errors import FrameError

NONCE = bytes(range(16))
EVERY: list[Envelope] = [
    Knock(NONCE[:8], 65536),
    Answer(NONCE, 65536),
    Packets(NONCE, 7, [b"", b"abc"]),
    Taken(NONCE, 7),
    End(NONCE, 8, "bye"),
    Gone(NONCE[:8]),
    Gone(NONCE),
    Claim("hq", NONCE[:8], held=True),
]


@pytest.mark.parametrize("envelope", EVERY, ids=repr)
def test_each_is_read_as_it_was_written(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"hello",
        encode(Taken(NONCE, 7))[:-1],
        encode(Taken(NONCE[:8], 7)),
        encode(Taken(NONCE, -1)),
        encode(Knock(NONCE, 65536)),
        encode(Knock(NONCE[:8], 1)),
        encode(Packets(NONCE, 7, ["text"])),  # type: ignore[list-item]
        encode(Gone(b"")),
        b"\x91" * 5000,
    ],
)
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(FrameError, match=f"{len(message)} bytes that are no envelope of a link"):
        decode(message)


@given(st.binary(max_size=200))
def test_noise_is_refused_or_an_envelope(message: bytes) -> None:
    with contextlib.suppress(FrameError):
        assert encode(decode(message))


def test_a_reason_is_cut_to_what_may_travel() -> None:
    assert decode(encode(end(NONCE, 1, "é" * 5000))) == End(NONCE, 1, "é" * 200)


def test_a_newer_neighbour_may_add_to_an_envelope() -> None:
    longer = b"\x94" + encode(Taken(NONCE, 7))[1:] + b"\x01"
    assert decode(longer) == Taken(NONCE, 7)


def test_what_is_put_around_a_packet_fits_into_the_overhead() -> None:
    around = len(encode(Packets(NONCE, 2**64 - 1, [b""])))
    topic = len("sapwood//link//down") + 2 * 64
    assert around + topic + 16 <= envelopes.OVERHEAD
