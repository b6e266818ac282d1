"""A channel in a message can come from anybody."""

import pytest

from sapwood.channels.urls import ChannelUrls, parts_of


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("unix:/tmp/sapwood-channel-k2x9q0ab/socket", ("unix", ("/tmp/sapwood-channel-k2x9q0ab/socket",))),
        ("tcp://10.1.2.3:65535", ("tcp", ("10.1.2.3", "65535"))),
        ("tcp://[fd00::1]:80", ("tcp", ("fd00::1", "80"))),
        (f"sapwood://shop/channel-{'0' * 32}", ("tree", ("shop", f"channel-{'0' * 32}"))),
    ],
)
def test_a_url_of_a_known_form_has_a_place(url: str, parts: object) -> None:
    assert parts_of(url) == parts


@pytest.mark.parametrize(
    "url",
    [
        "tcp://127.0.0.1:65536",
        "tcp://1.2.3.4.5:80",
        "tcp://127.1.1:80",
        "tcp://0.0.0.0:80",
        "tcp://[::]:80",
        "tcp://[1:2]:80",
        "tcp://localhost:80",
        "unix:/run/other.sock",
        "unix:/tmp/sapwood-channel-k2x9q0ab/socket\n",
        "sapwood://shop/till",
        "http://10.1.2.3:80",
    ],
)
def test_nothing_else_is_dialled_or_looked_up(url: str) -> None:
    assert parts_of(url) is None


@pytest.mark.parametrize("said", [b"{}", b"[]", b"\xff", b'{"x":' + b"[" * 100_000])
def test_what_is_no_channel_is_a_mistake_in_a_value(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ChannelUrls.from_json(said)
