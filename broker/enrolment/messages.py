"""What a joining or renewing node and its parent say to each other, as JSON; and what operators are told."""

from typing import Final

import msgspec

LONGEST_INVITATION: Final = 90 * 86_400.0
"""Seconds."""
MAX_BODY: Final = 16 * 1024
MAX_ANSWER: Final = 256 * 1024
JOIN_PATH: Final = "/enrol/join"
RENEW_PATH: Final = "/enrol/renew"
AUTHORITIES_PATH: Final = "/enrol/authorities"


class Join(msgspec.Struct, kw_only=True, frozen=True):
    """`request`: certificate request, PEM. `proof`: see `proofs.prove`."""

    invitation: bytes
    request: bytes
    proof: bytes


class Renew(msgspec.Struct, kw_only=True, frozen=True):
    """`request`: for the next key. `signature`: of `proofs.renewal_text`, with the present key."""

    request: bytes
    signature: bytes


class Granted(msgspec.Struct, kw_only=True, frozen=True):
    """`certificate`, `authorities`: PEM. `ways`: where the parent is, as it announces itself now."""

    certificate: str
    authorities: str
    ways: list[str] = []


class ListedInvitation(msgspec.Struct, kw_only=True):
    """`state`: open, used, ended. `ends`: seconds since 1970."""

    id: str
    name: str
    role: str
    ends: int
    state: str


class ListedMember(msgspec.Struct, kw_only=True):
    """A child with a certificate of ours. `certificate_ends`: seconds since 1970."""

    name: str
    role: str
    certificate_ends: int
    revoked: bool


class Listed(msgspec.Struct, kw_only=True):
    """Invitations of the last weeks, then children that joined by one; `more` of both follow this page."""

    invitations: list[ListedInvitation]
    members: list[ListedMember]
    more: int = 0
    next: str | None = None


class Invite(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What an operator asks for. `uris`: ways to this node, none = those that it announces. `lifetime`: s."""

    name: str = ""
    role: str = "leaf"
    uris: list[str] = []
    lifetime: float = 86_400.0


class Invited(msgspec.Struct, kw_only=True):
    """`token`: to be shown once, and kept nowhere. `ends`: seconds since 1970."""

    name: str
    role: str
    token: str
    ends: int
    ways: list[str]


class Revoked(msgspec.Struct, kw_only=True):
    """`invitations`: how many open ones. `member`: whether a child lost its right to its name."""

    revoked: str
    invitations: int
    member: bool
