"""A channel in a message: the URLs at which it is taken, and the secret that is shown there, once.

    unix:/tmp/sapwood-channel-k2x9q0ab/socket     by programs of the same user on the same machine
    tcp://10.1.2.3:40123                          at an address that the site's file names
    sapwood://shop/channel-7f3a…                  through the tree, at the node of whoever made it

Law: a message can come from anybody. An application that takes a channel dials only addresses of
these forms, and says nothing there but a secret of its one form, so that nobody makes it speak with another
program.
"""

import re
import secrets
from ipaddress import ip_address
from typing import Annotated, Final, TypeAlias

import msgspec

UNIX: Final = "unix"
TCP: Final = "tcp"
TREE: Final = "tree"
WAYS: Final = (UNIX, TCP, TREE)
"""The ways of a channel, the most efficient first."""
MOST: Final = 16
_FORMS: Final = {
    UNIX: re.compile(r"unix:(/[A-Za-z0-9._/-]{0,60}/sapwood-channel-[A-Za-z0-9_]{4,16}/socket)"),
    TCP: re.compile(r"tcp://(?:\[([0-9a-f:.]{2,45})\]|([0-9.]{7,15})):([1-9][0-9]{0,4})"),
    TREE: re.compile(r"sapwood://([A-Za-z0-9._-]{1,64})/(channel-[0-9a-f]{32})"),
}
Url: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
Secret: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{43}$")]


class ChannelUrls(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that can be taken once. `secret`: whoever shows it gets the channel."""

    urls: Annotated[list[Url], msgspec.Meta(min_length=1, max_length=MOST)]
    secret: Secret

    def __repr__(self) -> str:
        return f"<ChannelUrls {', '.join(self.urls)}>"

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, payload: bytes) -> "ChannelUrls":
        """Raises `ValueError`."""
        try:
            return msgspec.json.decode(payload, type=cls)
        except RecursionError:
            raise ValueError("no channel: it is nested too deeply") from None


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def parts_of(url: str) -> tuple[str, tuple[str, ...]] | None:
    """The way of a URL, and its place: a path, host and port, node and name. None: no way that is known."""
    for way, form in _FORMS.items():
        if found := form.fullmatch(url):
            place = tuple(part for part in found.groups() if part is not None)
            return (way, place) if way != TCP or _is_address(*place) else None
    return None


def _is_address(host: str, port: str) -> bool:
    """A name would be looked up, however long that takes."""
    try:
        return not ip_address(host).is_unspecified and int(port) <= 65535
    except ValueError:
        return False
