"""Carries operations out: here, or at the node that is meant; and for other nodes, by this one's cells."""

import contextlib
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import msgspec.inspect

from broker.api.context import RunningNode
from broker.api.errors import in_words
from broker.api.operation import Operation
from broker.cells.cells import Arguments, CellCommand
from broker.core.errors import SwitchError
from broker.core.sessions.masking import hidden
from broker.entrance.operators import Asker
from broker.shares import LoopShare
from config.operators import ROLES
from sapwood.protocol.errors import SapwoodError

_TIMEOUT: Final = 10.0
_BY: Final = "by"
_ROLE: Final = "by_role"
"""Beside the parameters of a question to another node: the operator who asks, and its role there."""
_LONGEST_NAME: Final = 512


class _AskerThere(NamedTuple):
    """Whoever asked at another node. `role`: '' = that node does not tell it."""

    name: str
    role: str


async def carry_out(
    node: RunningNode, operation: Operation, values: Mapping[str, Any], who: Asker, address: str
) -> Any:
    """The answer to what was asked of this node, by name; of a stream its iterator. Raises `SwitchError`s.

    `who`, from `address`: the operator, for the trail.
    """
    with _on_trail(node, operation, who, address) as said:
        said |= values
        return await _carried_out(node, operation, values, who)


async def _carried_out(node: RunningNode, operation: Operation, values: Mapping[str, Any], who: Asker) -> Any:
    assert operation.work is not None
    if operation.remote:
        name, question = operation.question(values)
        if name not in ("", node.name):
            return await _asked(node, name, operation, {**question, _BY: who.name, _ROLE: who.role})
    made = operation.work(node, **operation.arguments(values))
    answer = await made if inspect.isawaitable(made) else made
    if operation.changes:
        await node.driver.committed()
    return answer


@contextlib.contextmanager
def _on_trail(
    node: RunningNode, operation: Operation, who: Asker | _AskerThere, address: str
) -> Iterator[dict[str, Any]]:
    """Whatever changes something is written down, also where it was refused; of its values those that were
    taken, which the caller puts into the dictionary.
    """
    said: dict[str, Any] = {}
    result = "done"
    try:
        yield said
    except BaseException as error:
        result = str(error) or type(error).__name__
        for name, value in operation.secrets(said):
            said[name] = hidden(value)
            result = result.replace(value, said[name])
        raise
    finally:
        if operation.method != "GET":
            node.trail.add(who.name, who.role, address, f"{operation.method} {operation.path}", said, result)


def commands(node: RunningNode) -> Iterator[tuple[str, str, CellCommand]]:
    """By cell and name, the operations for which other nodes may ask this one."""
    from broker.api.table import OPERATIONS

    for operation in OPERATIONS:
        if operation.remote:
            is_open = operation.permission == "tree"
            handler = partial(_answer, node, operation)
            yield *operation.cell, CellCommand(handler, open=is_open, changes=operation.changes)


def _answer(node: RunningNode, operation: Operation, asker: str, question: Arguments) -> Any:
    assert operation.work is not None
    with _on_trail(node, operation, _who(asker, question), "the tree") as said:
        taken = operation.take(question)
        said |= operation.question(taken)[1]
        work = partial(operation.work, node, **operation.arguments(taken))
        if inspect.iscoroutinefunction(operation.work):
            return _in_slices(work, LoopShare(node.driver.shares))
        return work()


def _who(asker: str, question: Arguments) -> _AskerThere:
    """Whoever another node says it was. Its role there is for the trail, and opens nothing here."""
    by, role = question.get(_BY), question.get(_ROLE)
    name = f"{by[:_LONGEST_NAME]} at {asker}" if isinstance(by, str) else asker
    return _AskerThere(name, role if isinstance(role, str) and role in ROLES else "")


async def _in_slices(begin: Callable[[], Coroutine[Any, None, Any]], share: LoopShare) -> Any:
    """The result of a function that lets others have their turn, worked out in slices of the loop.

    Other nodes wait for it, so it may wait for nothing itself. It begins with its first slice: one that is
    asked for again, or too often, is closed before.
    """
    share.begin()
    work = begin()
    try:
        while work.send(None) is None:
            if share.is_over:
                await share.give_way()
    except StopIteration as ended:
        return ended.value
    finally:
        work.close()
    raise SwitchError("this cannot be answered to another node: it waits for something")


async def _asked(node: RunningNode, name: str, operation: Operation, question: Arguments) -> Any:
    """What node `name` answers. Raises `NotFound`, `Unreachable`, or what that node refuses with."""
    cell, command = operation.cell
    try:
        found = await node.cells.ask(name, command, question, _TIMEOUT, cell)
        return msgspec.convert(_known(found, _info(operation.answer)), operation.answer)
    except (SapwoodError, msgspec.ValidationError) as error:
        raise in_words(name, error) from None


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
