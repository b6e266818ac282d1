"""The address of a node, as an application writes it, and the session's WebSocket behind it."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from sapwood.errors import ConnectFailed

DEFAULT_PORT: Final = 7600
SESSION_PATH: Final = "/session"
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def session_uris(address: str | Sequence[str]) -> list[str]:
    """Those of one address or of several, as `session_uri`. Raises `TypeError` for anything else."""
    given = [address] if isinstance(address, str) else address
    if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise TypeError(
            f"an address of a node: expected text as http://HOST:{DEFAULT_PORT}, or a list of such,"
            f" got {address!r}"
        )
    return [session_uri(each) for each in given]


def session_uri(address: str) -> str:
    """Return the ws:// or wss:// URI of the session endpoint of `address`. Raises `ConnectFailed`.

    Port 7600 and path /session unless given.
    """
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port = parts.port or DEFAULT_PORT
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in _SCHEMES or not parts.hostname or not port:
        raise ConnectFailed(
            f"{address!r} is no address of a node: expected http://HOST:{DEFAULT_PORT}, or https, ws, wss"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path if parts.path.strip("/") else SESSION_PATH
    return urlunsplit((_SCHEMES[parts.scheme], f"{host}:{port}", path, parts.query, ""))
