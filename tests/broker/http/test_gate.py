"""What a WebSocket of a stranger may bring, by the heads of its frames."""

import pytest

from broker.http.gate import MOST_OF_A_STRANGER, Gate


def head(size: int) -> bytes:
    if size < 126:
        return bytes((0x82, 0x80 | size)) + b"mask"
    if size < 65536:
        return b"\x82\xfe" + size.to_bytes(2) + b"mask"
    return b"\x82\xff" + size.to_bytes(8) + b"mask"


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000, 10**6])
def test_small_packets_pass_unchanged_however_they_are_cut(cut: int) -> None:
    said = b"".join(head(size) + bytes(size) for size in (0, 5, 125, 126, 3000))
    gate = Gate()
    passed = b"".join(gate.pass_on(said[at : at + cut]) for at in range(0, len(said), cut))
    assert passed + gate.rest == said
    assert gate.refusal == ""


def test_a_long_packet_is_refused_by_its_head() -> None:
    gate = Gate()
    small = head(10) + bytes(10)
    assert gate.pass_on(small + head(MOST_OF_A_STRANGER + 1)[:9]) == small
    assert gate.refusal == ""
    assert gate.pass_on(head(MOST_OF_A_STRANGER + 1)[9:] + bytes(100)) == b""
    assert gate.refusal.startswith("a packet of 65537 bytes: 65536 at most")
    assert gate.pass_on(small) == b""


def test_many_packets_are_refused_together() -> None:
    few, many = Gate(), Gate()
    few.pass_on((head(60_000) + bytes(60_000)) * 2)
    assert few.refusal.startswith("120000 bytes in 2 frames")
    many.pass_on((head(0)) * 1000)
    assert many.refusal.startswith("0 bytes in 65 frames")
