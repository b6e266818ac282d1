"""Listening sockets, and how many files this process may have open."""

import socket
from typing import Final

from sapwood.channels.probes import probe

_BACKLOG: Final = 4096
_UNKNOWN: Final = 1 << 20


def most_files() -> int:
    """A connection is an open file: take as many as this user may have, and return how many that are."""
    try:
        import resource
    except ImportError:
        return _UNKNOWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else _UNKNOWN


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address that `host` means, with probes for dead peers. Raises `OSError`."""
    found = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
    )
    listeners: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
            listeners.append(_listener(family, address))
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _listener(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe(listener)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
