"""Is it this very machine that speaks? Asked of a connection's two ends, and of the headers of a request.

Law: only a connection from a loopback address to a loopback address is near, and none through which a proxy
says that it speaks for others. Wrinkle: a proxy that says nothing of itself, as one that passes bytes on,
cannot be told from a program here; a node behind one has a token, and accounts or a session secret.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, Final

_PROXIES: Final = re.compile(
    r"forwarded|via|cdn-loop|max-forwards|front-end-https|remote-(addr|user)"
    r"|(cf|fly|fastly|proxy|x-forwarded|x-original|x-envoy|x-proxy|x-proxyuser|x-nginx|x-arr|x-azure|x-amzn"
    r"|x-amz-cf|x-appengine|x-cluster|x-remote|x-varnish|x-cloud|x-akamai|x-sucuri|x-coming|wl-proxy)(-.*)?"
    r"|(.*-)?(real|client|connecting|source|remote|peer|user|original|end-user|visitor)-?ip"
    r"|x-(host|scheme|url-scheme|port|forward|forwarder|request-via|ssl-.*|tls-.*)|(x-)?client-cert(-.*)?"
    r"|ssl-client-.*",
    re.IGNORECASE,
)


def is_near(peer: Any, local: Any) -> bool:
    """`peer`, `local`: the addresses of a connection's ends, as sockets give them; anything else is far."""
    return _is_loopback(peer) and _is_loopback(local)


def of_a_proxy(headers: Iterable[str]) -> str:
    """The name of a header that a proxy has added, '' if there is none."""
    return next((name for name in headers if _PROXIES.fullmatch(name.replace("_", "-"))), "")


def host_of(address: Any) -> str:
    """The host of a socket's address, '' of what is none."""
    return str(address[0]) if isinstance(address, tuple) and address else ""


def _is_loopback(address: Any) -> bool:
    try:
        found = ipaddress.ip_address(host_of(address).partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback
