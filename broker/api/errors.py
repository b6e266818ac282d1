"""An error that asking a node ended with, in an operator's words."""

import msgspec

from broker.cells.errors import RefusedByCell
from broker.core.errors import BadRequest, NotFound, SwitchError
from sapwood.protocol.errors import InvalidName

_ERRORS = {each.code: each for each in (NotFound, BadRequest)}


class Unreachable(SwitchError):
    """The node that was asked about did not answer."""

    code = "UNREACHABLE"


def in_words(name: str, error: Exception) -> SwitchError:
    """An error that asking `name` ended with."""
    match error:
        case SwitchError():
            return error
        case InvalidName():
            return NotFound(str(error))
        case RefusedByCell():
            return _ERRORS.get(error.code, SwitchError)(str(error))
        case msgspec.ValidationError():
            return Unreachable(f"{name} answered what is not understood: {error}")
    return Unreachable(str(error))
