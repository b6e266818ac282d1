"""Errors: the switch says no. `code` is for programs and stands in answers; the text is for people."""

from typing import Final

from sapwood.protocol.errors import LocalError

TOO_MANY: Final = "this node has as many applications as it may have: try again later"


class SwitchError(LocalError):
    """A client's request that is not granted."""

    code = "REFUSED"

    @property
    def text(self) -> str:
        return str(self)


class Busy(SwitchError):
    code = "BUSY"


class QueueFull(SwitchError):
    code = "QUEUE_FULL"


class NotFound(SwitchError):
    code = "NOT_FOUND"


class NoSuchQueue(SwitchError):
    """A sender asked to be told: it is certain here that nobody serves the queue."""

    code = "QUEUE_DOES_NOT_EXIST"


class NotLoggedIn(SwitchError):
    code = "NOT_LOGGED_IN"


class TooLarge(SwitchError):
    code = "TOO_LARGE"


class BadRequest(SwitchError):
    code = "BAD_REQUEST"
