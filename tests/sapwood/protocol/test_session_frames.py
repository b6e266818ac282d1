"""A client's frames are bounded in number before they are read: each of a few bytes is a hundred here."""

import msgspec
import pytest

from sapwood.protocol.errors import FrameError
from sapwood.protocol.session_frames import (
    MAX_FRAMES,
    MAX_RANGES_IN_FRAME,
    Acknowledge,
    SessionPing,
    decode_client_packet,
    encode_packet,
)


def test_a_packet_has_so_many_frames_and_no_more() -> None:
    frames = [SessionPing(1)] * MAX_FRAMES
    assert decode_client_packet(encode_packet(frames)) == frames
    more = msgspec.msgpack.encode([SessionPing(1)] * (MAX_FRAMES + 1))
    with pytest.raises(FrameError, match="length"):
        decode_client_packet(more)


def test_an_acknowledgement_has_so_many_ranges_and_no_more() -> None:
    frame = Acknowledge([(number, number) for number in range(MAX_RANGES_IN_FRAME)])
    assert decode_client_packet(encode_packet([frame])) == [frame]
    with pytest.raises(FrameError, match="length"):
        decode_client_packet(encode_packet([Acknowledge([(1, 1)] * (MAX_RANGES_IN_FRAME + 1))]))
