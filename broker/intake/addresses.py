"""Addresses of those who connect: for people, and as they count."""

import ipaddress
from typing import Any, Final

UNKNOWN: Final = "an unknown address"
_SUBNET: Final = 64


def shown(peer: Any) -> str:
    """For people. `peer`: a socket's address, as a transport gives it."""
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else str(peer or UNKNOWN)


def network_of(host: str) -> str:
    """Whoever shares this is one: of IPv6 the network, of which anybody has all addresses."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:64]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None or found.is_loopback:
        return str(found.ipv4_mapped or found)
    return str(ipaddress.ip_network((found, _SUBNET), strict=False))
