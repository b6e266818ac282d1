"""Who may ask what: no web page in a visitor's browser drives the node, and tokens are compared safely.

Several of the verbs are GETs that change state, as their deployed clients need. A browser says where a
request comes from; programs do not. So one look (`page_of`) tells which page makes a request: verbs, links
and sessions are for no page at all, `/api` and what the dashboard shows for the node's own page as well.

Law of `/api` and the node's own pages (`why_not`): never for a page of another origin, with or without a
token. Where the file names a token or an operator every request has one, from wherever it comes. Without any
only this very machine may ask: over a direct connection from loopback to loopback, through no proxy, under a
name that means this machine, since a foreign page can make its own host's name resolve to it.
"""

import base64
import enum
import ipaddress
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from broker.core.sessions.masking import masked
from broker.entrance.near import is_near, of_a_proxy
from broker.entrance.operators import HERE, Asker, Operators
from broker.intake.addresses import shown
from config.operators import Role

if TYPE_CHECKING:
    from aiohttp import web

__all__ = [
    "PageOrigin",
    "address",
    "asker",
    "bearer",
    "credentials",
    "extra",
    "from_a_web_page",
    "is_here",
    "is_rebound",
    "masked",
    "over_loopback",
    "page_of",
    "why_not",
]

_HOW: Final = (
    "needs the header 'Authorization: Bearer TOKEN' with the token of this node's configuration (http,"
    " token_file or token_env), of one of its operators, or of the issuer that it names"
)
_NOBODY: Final = Asker("nobody", "viewer", 0.0)
_HTTP_1_1: Final = (1, 1)
_HOST: Final = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([^:\[\]]*))(?::[0-9]*)?")
_OR_HERE: Final = f"{_HOW}, or a direct connection from this machine, where no token is configured"


class PageOrigin(enum.Enum):
    """Which page in a browser makes a request."""

    NONE = "a program, or a person who typed the address"
    OWN = "a page of this node"
    FOREIGN = "a page of somebody else"


def page_of(request: "web.BaseRequest") -> PageOrigin:
    """The look that verbs, sessions, links and `/api` have in common.

    Wrinkle: older browsers, and all of them on plain http to another machine, do not say where a request
    comes from. No program calls itself by a browser's name: it is a page's request, and not known as our own.
    """
    headers = request.headers
    site = headers.get("Sec-Fetch-Site")
    if site not in (None, "none", "same-origin"):
        return PageOrigin.FOREIGN
    page = headers.get("Origin", headers.get("Referer"))
    if page is None:
        if site is None:
            browser = headers.get("User-Agent", "").startswith("Mozilla/")
            return PageOrigin.FOREIGN if browser else PageOrigin.NONE
        return PageOrigin.NONE if site == "none" else PageOrigin.OWN
    try:
        host = urlsplit(page).netloc.lower()
    except ValueError:
        return PageOrigin.FOREIGN
    return PageOrigin.OWN if host and host == headers.get("Host", "").lower() else PageOrigin.FOREIGN


def from_a_web_page(request: "web.BaseRequest") -> bool:
    """True for a request that a page in a browser makes, be it a page of this very node.

    A page can make its own host's name resolve to this machine, so 'same origin' proves nothing here.
    """
    return page_of(request) is not PageOrigin.NONE


def over_loopback(request: "web.BaseRequest") -> bool:
    """True if this very machine asks, over a direct connection."""
    return is_near(extra(request, "peername"), extra(request, "sockname")) and not of_a_proxy(request.headers)


def is_here(request: "web.BaseRequest") -> bool:
    """Does this very machine ask, under one of its own names?"""
    return over_loopback(request) and _is_this_machine(_host(request.headers.get("Host", "")))


def bearer(request: "web.BaseRequest") -> str:
    """The token of an `Authorization: Bearer TOKEN` header, or ''."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def credentials(request: "web.BaseRequest") -> tuple[str, str]:
    """Account and password of `Authorization: Basic …`; or '' and the secret of `Bearer SECRET`; or ''."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return "", bearer(request)
    try:
        name, _, password = base64.b64decode(given.strip(), validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return name, password


def asker(request: "web.BaseRequest", operators: Operators) -> Asker:
    """The operator that asks, where nothing speaks against it; see `why_not`.

    A token may have ended since, which makes nobody this very machine.
    """
    return operators.holder(bearer(request)) or (_NOBODY if operators.ask_all else HERE)


def why_not(
    request: "web.BaseRequest", operators: Operators, role: Role = "viewer"
) -> tuple[str, str] | None:
    """Code and text of the answer to whoever may not look at the node or administrate it; None if it may.

    `role`: the least that is needed for what is asked.
    """
    if page_of(request) is PageOrigin.FOREIGN:
        return "FOREIGN_PAGE", "this is not for pages of other sites"
    if operators.ask_all:
        token = bearer(request)
        found = operators.holder(token)
        if found is None:
            why = operators.why_nobody(token) if token else ""
            return "TOKEN_NEEDED", f"{why}; it {_HOW}" if why else _HOW
        text = f"this is for the role {role} or a higher one: {found.name!r} is {found.role}"
        return None if found.may(role) else ("ROLE_NEEDED", text)
    if not over_loopback(request) or request.version < _HTTP_1_1:  # as proxies speak that say nothing
        return "TOKEN_NEEDED", _OR_HERE
    if not _is_this_machine(_host(request.headers.get("Host", ""))):
        shown = request.headers.get("Host", "")[:80]
        return "WRONG_HOST", f"{shown!r} is no name of this machine: {_OR_HERE}"
    return None


def is_rebound(request: "web.BaseRequest") -> bool:
    """Does it come over loopback under a name that somebody made to mean this machine? An address is none."""
    host = _host(request.headers.get("Host", ""))
    return over_loopback(request) and not (_is_this_machine(host) or _is_address(host))


def _host(header: str) -> str:
    """The host of a Host header, without port and brackets; all of it, if that is none."""
    found = _HOST.fullmatch(header.strip().lower())
    return header if found is None else found[1] or found[2]


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


def address(request: "web.BaseRequest") -> str:
    """Where a request comes from, for people."""
    return shown(extra(request, "peername"))


def extra(request: "web.BaseRequest", what: str) -> Any:
    return request.transport.get_extra_info(what) if request.transport else None
