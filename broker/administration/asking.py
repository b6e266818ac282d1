"""What another node is asked on behalf of an operator, and its answer as a type of ours."""

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import msgspec.inspect

from broker.cells.errors import Refused
from broker.core.errors import BadRequest, NotFound, SwitchError
from broker.core.policies.trace import SYSTEM
from treeconnector.errors import InvalidName, SapwoodError

if TYPE_CHECKING:
    from broker.node import Node

Kind = TypeVar("Kind")
_TIMEOUT: Final = 10.0
_ERRORS: Final = {each.code: each for each in (NotFound, BadRequest)}


class Unreachable(SwitchError):
    """The node that was asked about did not answer."""

    code = "UNREACHABLE"


async def asked(
    node: "Node",
    name: str,
    command: str,
    arguments: dict[str, Any],
    kind: type[Kind],
    cell: str = SYSTEM,
) -> Kind:
    """What node `name` answers. Raises `NotFound`, `Unreachable`, or what that node refuses with."""
    try:
        found = await node.cells.ask(name, command, arguments, _TIMEOUT, cell)
        return found if isinstance(found, kind) else msgspec.convert(_known(found, _info(kind)), kind)
    except (SapwoodError, msgspec.ValidationError) as error:
        raise told(name, error) from None


def told(name: str, error: Exception) -> SwitchError:
    """An error that asking `name` ended with, in an operator's words."""
    match error:
        case SwitchError():
            return error
        case InvalidName():
            return NotFound(str(error))
        case Refused():
            return _ERRORS.get(error.code, SwitchError)(str(error))
        case msgspec.ValidationError():
            return Unreachable(f"{name} answered what is not understood: {error}")
    return Unreachable(str(error))


def _info(kind: Any) -> Any:
    return msgspec.inspect.type_info(kind)


def _known(told: Any, kind: Any) -> Any:
    """What another node told, without what only a later version tells."""
    match kind:
        case msgspec.inspect.StructType() if isinstance(told, dict):
            names = {field.encode_name: field.type for field in kind.fields}
            return {name: _known(told[name], names[name]) for name in names.keys() & told.keys()}
        case msgspec.inspect.ListType() if isinstance(told, list):
            return [_known(each, kind.item_type) for each in told]
        case msgspec.inspect.UnionType() if told is not None:
            return next((_known(told, each) for each in kind.types if _is_struct(each)), told)
    return told


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, msgspec.inspect.StructType)
