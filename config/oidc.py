"""Operators who log in elsewhere: the issuer whose tokens a node takes, and the roles that it says they have.

Law: closed. Whoever has none of the values that are listed has no role, and does not come in.
"""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from config.fields import parts, section, value
from config.kinds import Choice, Text
from config.operators import ROLES, Role
from config.uris import HOST_PATTERN, Uri, is_loopback
from config.values import PATH, WORDS

ISSUER: Final = Uri(
    "the https:// address that the issuer's tokens name, without a query; http:// on this machine only",
    f"https?://{HOST_PATTERN}(:[0-9]{{1,5}})?(/[A-Za-z0-9._~%!$&'()*+,;=:@/\\-]{{0,256}})?",
)
AUDIENCE: Final = Text("1 to 256 visible ASCII characters without spaces", "[!-~]{1,256}")


@section
class OidcRole:
    """A value of the claim, and the role of whoever has it."""

    name: str = value(
        WORDS,
        "one value of the claim, as a group or role is called at the issuer",
        example="chain-operators",
    )
    role: Role = value(Choice(ROLES), "the role here; of several the highest counts", default="viewer")


@section
class Oidc:
    """Takes bearer tokens of an OpenID Connect issuer. See docs/administration.md."""

    issuer: str | None = value(
        ISSUER,
        "the issuer (https), exactly as its tokens name it; where it is set, each request needs a token",
        default=None,
        example="https://login.example.com/realms/chain",
    )
    audience: str | None = value(
        AUDIENCE, "the audience that a token must name", default=None, example="sapwood"
    )
    claim: str = value(
        AUDIENCE,
        "the claim of a token that holds its groups or roles: a list, or one value; dots lead into objects",
        default="groups",
    )
    ca: Path | None = value(
        PATH,
        "file of the certificate authorities (PEM) that the issuer's certificate must come from; without it "
        "the system's",
        default=None,
        example="tls/issuer-ca.pem",
    )
    roles: tuple[OidcRole, ...] = parts(
        OidcRole,
        "which values of the claim mean which role; whoever has none of them does not come in",
        item="oidc_role",
        default=(),
    )


def is_safe_issuer(uri: str) -> bool:
    """May keys come from there? Over TLS, or from this very machine."""
    try:
        found = urlsplit(uri)
    except ValueError:
        return False
    return found.scheme == "https" or (found.scheme == "http" and is_loopback(found.hostname or ""))
