"""Who may ask what: no web page in a visitor's browser drives the node, and tokens are compared safely.

Several of the verbs are GETs that change state, as their deployed clients need. A browser says where a
request comes from; programs do not: whatever carries such a header is refused.

Law of `/api` and the node's own pages (`refusal`): never for a page of another origin, with or without the
token; with the token from everywhere; without it over loopback only, and only under a name that means this
machine, since a foreign page can make its own host's name resolve to it.
"""

import hmac
import ipaddress
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from broker.core.masking import masked

__all__ = [
    "IN_THE_CLEAR",
    "address",
    "bearer",
    "encrypted",
    "extra",
    "from_a_web_page",
    "is_rebound",
    "masked",
    "may_administrate",
    "of_another_origin",
    "over_loopback",
    "private",
    "refusal",
    "same",
]

IN_THE_CLEAR: Final = (
    "a session's token does not travel in the clear: connect from this machine, use https, or configure a"
    " session secret (http, session_secret_file) and send it"
)
"""Why nobody logs in from elsewhere without TLS and without a secret."""
_HARMLESS_SITES: Final = frozenset({"none"})
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
_HOW: Final = (
    "needs the header 'Authorization: Bearer TOKEN' with the token of this node's configuration (http,"
    " token_file or token_env), or a connection from this machine"
)


def from_a_web_page(request: web.BaseRequest) -> bool:
    """True for a request that a page in a browser makes, be it a page of this very node.

    A page can make its own host's name resolve to this machine, so 'same origin' proves nothing here.
    """
    headers = request.headers
    site = headers.get("Sec-Fetch-Site")
    if "Origin" in headers or "Referer" in headers:
        return True
    if site is None:  # older browsers do not say, and no program calls itself one
        return headers.get("User-Agent", "").startswith("Mozilla/")
    return site not in _HARMLESS_SITES


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


def private(request: web.BaseRequest) -> bool:
    """Does nobody on the way read what is said, such as a session's token?"""
    return over_loopback(request) or encrypted(request)


def bearer(request: web.BaseRequest) -> str:
    """The token of an `Authorization: Bearer TOKEN` header, or ''."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def same(given: str, expected: str) -> bool:
    """Compare secrets without telling by the time how much of them is right."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), expected.encode())


def may_administrate(request: web.BaseRequest, token: str) -> bool:
    """Whether nothing speaks against it; see `refusal`."""
    return _why_not(request, token) is None


def refusal(request: web.BaseRequest, token: str) -> web.Response | None:
    """The answer to whoever may not look at the node or administrate it; None if the request may.

    `token`: the configured one, '' = there is none.
    """
    why = _why_not(request, token)
    if why is None:
        return None
    code, text = why
    return web.json_response({"code": code, "text": f"{request.path[:200]}: {text}"}, status=403)


def _why_not(request: web.BaseRequest, token: str) -> tuple[str, str] | None:
    if of_another_origin(request):
        return "FOREIGN_PAGE", "this is not for pages of other sites"
    if token and same(bearer(request), token):
        return None
    if not over_loopback(request):
        return "TOKEN_NEEDED", _HOW
    if not _is_this_machine(_host(request.headers.get("Host", ""))):
        return "WRONG_HOST", f"{request.headers.get('Host', '')[:80]!r} is no name of this machine: {_HOW}"
    return None


def of_another_origin(request: web.BaseRequest) -> bool:
    """Does a page make this request that is none of this node's own?"""
    headers = request.headers
    if headers.get("Sec-Fetch-Site") in _OTHER_SITES:
        return True
    page = headers.get("Origin") or headers.get("Referer")
    try:
        return page is not None and urlsplit(page).netloc.lower() != headers.get("Host", "").lower()
    except ValueError:
        return True


def is_rebound(request: web.BaseRequest) -> bool:
    """Does it come over loopback under a name that somebody made to mean this machine? An address is none."""
    host = _host(request.headers.get("Host", ""))
    return over_loopback(request) and not (_is_this_machine(host) or _is_address(host))


def _host(header: str) -> str:
    """The host of a Host header, without port and brackets."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_this_machine(host: str) -> bool:
    """No name at all comes from no browser."""
    if host.rstrip(".") in ("", "localhost") or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def address(request: web.BaseRequest) -> str:
    """Where a request comes from, for people."""
    name = extra(request, "peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) > 1 else str(name or "unknown")


def extra(request: web.BaseRequest, what: str) -> Any:
    return request.transport.get_extra_info(what) if request.transport else None
