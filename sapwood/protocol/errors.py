"""The tree of errors. Everything that Sapwood raises on purpose is a `SapwoodError`.

SapwoodError
├── LocalError            we were used wrongly: a caller's mistake
│   ├── InvalidName       a node, tree or queue name that is not allowed
│   ├── PatternError      a topic pattern that cannot be read or spelled
│   └── RouteError        a route added twice, or removed that is not there
├── RemoteError           the peer broke the protocol: its fault, the link ends
│   ├── FrameError        bytes that are no frame, or a frame over its limits
│   │   └── TooMuchInside a body that unpacks, or decodes, to more than is taken
│   └── SequenceError     a frame that is legal, but not now
├── LinkRefused           one side said no in the handshake, and why
├── StoreError            the durable store cannot be used
└── (config.errors.ConfigurationError, bridges' carrier errors)
"""

from enum import StrEnum


class SapwoodError(Exception):
    """Root of all errors that Sapwood raises on purpose."""


class LocalError(SapwoodError):
    """We were used wrongly."""


class InvalidName(LocalError, ValueError):
    """A name that is not allowed; the text says which, why and what is."""


class PatternError(LocalError, ValueError):
    """A topic pattern that cannot be read, or that a protocol cannot spell."""


class RouteError(LocalError):
    """A route that is already there, or that is not."""


class RemoteError(SapwoodError):
    """The peer broke the protocol. The link ends; nothing else is touched."""


class FrameError(RemoteError):
    """Bytes that are no frame of ours, or exceed what was agreed."""


class TooMuchInside(FrameError):
    """A body that would be too much once it is unpacked or decoded; neither was done."""


class SequenceError(RemoteError):
    """A legal frame at a moment where it is not."""


class StoreError(SapwoodError):
    """The durable store cannot be used; the text says what to do."""


class Refusal(StrEnum):
    """Why a link was refused; travels in the `Refuse` frame."""

    VERSION = "version"
    TREE = "wrong-tree"
    SECRET = "wrong-secret"  # noqa: S105 - a reason, not a secret
    ROLE = "role"
    NAME = "name-in-use"
    CYCLE = "cycle"
    SECOND_ROOT = "second-root"
    CLONE = "clone"
    BUSY = "busy"
    PROTOCOL = "protocol"
    GONE = "forgotten"


class LinkRefused(SapwoodError):
    """One side said no. `reason` is for programs, `text` for people."""

    def __init__(self, reason: Refusal, text: str) -> None:
        super().__init__(f"{text} [{reason}]")
        self.reason = reason
        self.text = text
