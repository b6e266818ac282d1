"""Pieces of a bundle: any size, any packet, put together as it was."""

import hypothesis.strategies as st
from hypothesis import given

from sapwood.protocol import packets
from treeconnector.incoming import decode_packet
from treeconnector.parts import VOLATILE, Assembly, split


@given(
    number=st.sampled_from([VOLATILE, 1, 1 << 40]),
    head=st.integers(1, 8192),
    size=st.integers(1, 400_000),
    max_frame=st.integers(32 * 1024, 128 * 1024),
)
def test_any_size_in_any_packet(number, head, size, max_frame):
    body = (b"0123456789" * (size // 10 + 1))[:size]
    assembly = Assembly(head + size)
    found = None
    for encoded in split(number, b"h" * head, body, max_frame):
        assert found is None
        packet = packets.packet([encoded])
        assert len(packet) <= max_frame
        (part,) = decode_packet(packet, max_frame)
        assembly.begins(part)
        found = assembly.add(part)
    assert found == (number, b"h" * head, body)
    assert not assembly.total
    assert repr(assembly) == "<Assembly of -1: 0 of 0 bytes>"
