"""What can go wrong when a node joins or renews.

SapwoodError
└── EnrolmentError            the text says what to do
    ├── TokenError            a token that is mistyped, cut off, or of a newer version
    ├── FolderError           the folder to join into cannot be made
    ├── EnrolmentRefused      the parent said no; asking again does not help
    └── ParentUnreachable     no answer; asking again may help
"""

from typing import Final

from sapwood.protocol.errors import SapwoodError

STATUS: Final = {
    "BAD_REQUEST": 400,
    "REFUSED": 403,
    "NOT_FOUND": 404,
    "USED": 409,
    "ENDED": 410,
    "BUSY": 429,
}
"""The HTTP status of each code."""


class EnrolmentError(SapwoodError):
    """A node cannot join or renew."""


class TokenError(EnrolmentError):
    """A token that cannot be read."""


class FolderError(EnrolmentError):
    """The folder that a node is to join into cannot be made."""


class EnrolmentRefused(EnrolmentError):
    """The parent said no. `code`: one of `STATUS`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class ParentUnreachable(EnrolmentError):
    """Nobody answered who is the parent, or it has no time now."""


def without_library(error: ModuleNotFoundError) -> EnrolmentError:
    """What to say where `cryptography` is not installed."""
    return EnrolmentError(
        f"invitations and certificates need the Python package {error.name!r}:"
        " pip install 'sapwood-node[join]'"
    )
