"""The client's side of WebSocket, without a line: what it says, and what it takes."""

import base64
import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.carriers import websocket_frames
from bridges.carriers.websocket_frames import (
    BINARY,
    CLOSE,
    PING,
    PROTOCOL_ERROR,
    TOO_BIG,
    BadFrame,
    Frames,
    closing,
    frame,
    load_fast_mask,
    opening,
    request,
)

KEY = bytes(range(16))
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PROOF = base64.b64encode(hashlib.sha1(base64.b64encode(KEY) + GUID).digest())
OPENED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: "
)


def said(first: int, payload: bytes) -> bytes:
    """A frame as a server sends it."""
    size = len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2) + payload
    return bytes((first, 127)) + size.to_bytes(8) + payload


def unmasked(data: bytes) -> bytes:
    """The payload of one frame as a client sends it."""
    size = data[1] & 0x7F
    begin = 2 + {126: 2, 127: 8}.get(size, 0)
    assert data[1] & 0x80
    if size >= 126:
        size = int.from_bytes(data[2:begin])
    key, payload = data[begin : begin + 4], data[begin + 4 :]
    assert len(payload) == size
    return bytes(octet ^ key[place % 4] for place, octet in enumerate(payload))


def test_the_request_asks_for_a_websocket_and_for_no_extension() -> None:
    text = request("hq:7600", "/link", KEY).decode()
    assert text.startswith("GET /link HTTP/1.1\r\nHost: hq:7600\r\n")
    assert "Extensions" not in text
    assert f"Sec-WebSocket-Key: {base64.b64encode(KEY).decode()}\r\n" in text
    assert text.endswith("\r\n\r\n")


def test_an_answer_that_proves_that_it_read_the_request_opens_it() -> None:
    assert opening(OPENED + PROOF, KEY).status == 101
    with pytest.raises(BadFrame, match="not to the request"):
        opening(OPENED + PROOF, bytes(16))
    with pytest.raises(BadFrame, match="was not asked for"):
        opening(OPENED + PROOF + b"\r\nSec-WebSocket-Extensions: permessage-deflate", KEY)
    with pytest.raises(BadFrame, match="does not answer as HTTP"):
        opening(b"SSH-2.0-OpenSSH_9.2", KEY)
    answer = opening(b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/", KEY)
    assert (answer.status, answer.location) == (302, "http://elsewhere/")


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 70001])
def test_a_frame_is_masked_whole_whatever_masks_it(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    payload, key = os.urandom(size), os.urandom(4)
    ours = frame(BINARY, payload, key)
    assert ours[0] == 0x82
    assert unmasked(ours) == payload
    monkeypatch.setattr(websocket_frames, "mask", websocket_frames.mask)
    load_fast_mask()
    assert websocket_frames.mask is not websocket_frames._mask
    assert frame(BINARY, payload, key) == ours


@given(st.lists(st.binary(max_size=300), max_size=6), st.lists(st.integers(1, 200), min_size=1))
def test_packets_come_out_whole_however_the_line_cuts_them(packets: list[bytes], cuts: list[int]) -> None:
    line = b"".join(said(0x82, packet) for packet in packets)
    frames, got, at = Frames(1000), [], 0
    for turn in range(len(line)):
        step = cuts[turn % len(cuts)]
        got += frames.receive(line[at : at + step])
        at += step
    assert got == [(BINARY, packet) for packet in packets]


def test_a_packet_in_parts_is_one_with_control_frames_between() -> None:
    line = said(0x02, b"one") + said(0x89, b"?") + said(0x00, b" and ") + said(0x80, b"two")
    assert list(Frames(11).receive(line)) == [(PING, b"?"), (BINARY, b"one and two")]


def test_what_a_close_frame_says() -> None:
    (message,) = Frames(10).receive(said(0x88, b"\x03\xe9gone"))
    assert message[0] == CLOSE
    assert closing(message[1]) == (1001, "gone")
    assert closing(b"") == (1005, "")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (said(0x82, b"x" * 11), TOO_BIG),
        (said(0x02, b"x" * 6) + said(0x80, b"x" * 5), TOO_BIG),
        (b"\x82\x7f" + (1 << 40).to_bytes(8), TOO_BIG),
        (b"\x82\x81\0\0\0\0x", PROTOCOL_ERROR),
        (said(0xC2, b"x"), PROTOCOL_ERROR),
        (said(0x80, b"x"), PROTOCOL_ERROR),
        (said(0x02, b"x") + said(0x82, b"x"), PROTOCOL_ERROR),
        (said(0x83, b"x"), PROTOCOL_ERROR),
        (said(0x09, b"x"), PROTOCOL_ERROR),
        (said(0x89, b"x" * 126), PROTOCOL_ERROR),
    ],
)
def test_a_frame_that_breaks_the_rules_is_refused_after_those_before_it(line: bytes, code: int) -> None:
    received = Frames(10).receive(said(0x82, b"before") + line)
    assert next(received) == (BINARY, b"before")
    with pytest.raises(BadFrame) as caught:
        list(received)
    assert caught.value.code == code
