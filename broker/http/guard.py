"""Who may ask what: no web page in a visitor's browser drives the node, and tokens are compared safely.

Several of the verbs are GETs that change state, as their deployed clients need. A browser says where a
request comes from; programs do not: whatever carries such a header is refused.
"""

import hmac
import ipaddress
from typing import Any, Final

from aiohttp import web

_HARMLESS_SITES: Final = frozenset({"none"})
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})


def from_a_web_page(request: web.BaseRequest) -> bool:
    """True for a request that a page in a browser makes, be it a page of this very node.

    A page can make its own host's name resolve to this machine, so 'same origin' proves nothing here.
    """
    headers = request.headers
    site = headers.get("Sec-Fetch-Site")
    return "Origin" in headers or (site is not None and site not in _HARMLESS_SITES) or "Referer" in headers


def over_loopback(request: web.BaseRequest) -> bool:
    """True if the request came in on a loopback address, and no proxy says it came from elsewhere."""
    if "Forwarded" in request.headers or "X-Forwarded-For" in request.headers:
        return False
    address = extra(request, "sockname")
    try:
        return ipaddress.ip_address(address[0]).is_loopback
    except (ValueError, TypeError, IndexError):
        return False


def encrypted(request: web.BaseRequest) -> bool:
    return extra(request, "sslcontext") is not None


def bearer(request: web.BaseRequest) -> str:
    """The token of an `Authorization: Bearer TOKEN` header, or ''."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def same(given: str, expected: str) -> bool:
    """Compare secrets without telling by the time how much of them is right."""
    return hmac.compare_digest(given.encode(), expected.encode())


def may_administrate(request: web.BaseRequest, token: str) -> bool:
    """With the token from everywhere, without it only over loopback."""
    if token and same(bearer(request), token):
        return True
    return over_loopback(request) and request.headers.get("Sec-Fetch-Site") not in _OTHER_SITES


def address(request: web.BaseRequest) -> str:
    """Where a request comes from, for people."""
    name = extra(request, "peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) > 1 else str(name or "unknown")


def extra(request: web.BaseRequest, what: str) -> Any:
    return request.transport.get_extra_info(what) if request.transport else None
