"""Addresses of nodes, as applications write them."""

from typing import Any

import pytest

from sapwood.address import session_uri, session_uris
from sapwood.errors import ConnectFailed


@pytest.mark.parametrize(
    ("written", "uri"),
    [
        ("http://127.0.0.1:7600", "ws://127.0.0.1:7600/session"),
        ("https://hq.example", "wss://hq.example:7600/session"),
        ("ws://hq.example:80/", "ws://hq.example:80/session"),
        ("wss://hq.example/behind/a/proxy", "wss://hq.example:7600/behind/a/proxy"),
        ("hq.example:7700", "ws://hq.example:7700/session"),
        ("http://[::1]:7600", "ws://[::1]:7600/session"),
    ],
)
def test_addresses(written: str, uri: str) -> None:
    assert session_uri(written) == uri


@pytest.mark.parametrize("written", ["mqtt://hq:1883", "http://", "http://hq:port", "http://hq:99999", ""])
def test_what_is_none_is_refused_with_what_is(written: str) -> None:
    with pytest.raises(ConnectFailed, match="expected http://HOST:7600"):
        session_uri(written)


@pytest.mark.parametrize("given", [5, None, b"hq:7600", ["hq", 5], {"hq"}])
def test_what_is_no_text_at_all_is_refused_where_it_is_said(given: Any) -> None:
    with pytest.raises(TypeError, match=r"an address of a node: expected text as http://HOST:7600"):
        session_uris(given)
