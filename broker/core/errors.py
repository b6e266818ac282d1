"""Errors: the switch says no. `code` is for programs and stands in answers; the text is for people."""

from typing import ClassVar, Final

from sapwood.protocol.errors import LocalError

TOO_MANY: Final = "this node has as many applications as it may have: try again later"


class SwitchError(LocalError):
    """A client's request that is not granted."""

    code: ClassVar[str] = "REFUSED"

    @property
    def text(self) -> str:
        return str(self)


class Busy(SwitchError):
    code: ClassVar[str] = "BUSY"


class QueueFull(SwitchError):
    code: ClassVar[str] = "QUEUE_FULL"


class NotFound(SwitchError):
    code: ClassVar[str] = "NOT_FOUND"


class NoSuchQueue(SwitchError):
    """A sender asked to be told: it is certain here that nobody serves the queue."""

    code: ClassVar[str] = "QUEUE_DOES_NOT_EXIST"


class NotLoggedIn(SwitchError):
    code: ClassVar[str] = "NOT_LOGGED_IN"


class TooLarge(SwitchError):
    code: ClassVar[str] = "TOO_LARGE"


class BadRequest(SwitchError):
    code: ClassVar[str] = "BAD_REQUEST"


class InDelivery(SwitchError):
    """The message is with a consumer now."""

    code: ClassVar[str] = "GIVEN"
