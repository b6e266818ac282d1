"""Carries operations out: here, or at the node that is meant; and for other nodes, by this one's cells."""

import inspect
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import msgspec.inspect

from broker.api.context import RunningNode
from broker.api.errors import in_words
from broker.api.operation import Operation
from broker.cells.cells import Arguments, CellCommand
from broker.core.errors import SwitchError
from broker.shares import LoopShare
from sapwood.protocol.errors import SapwoodError

_TIMEOUT: Final = 10.0


async def carry_out(node: RunningNode, operation: Operation, values: Mapping[str, Any]) -> Any:
    """The answer to what was asked of this node, by name; of a stream its iterator. Raises `SwitchError`s."""
    assert operation.work is not None
    if operation.remote:
        name, question = operation.question(values)
        if name not in ("", node.name):
            return await _asked(node, name, operation, question)
    made = operation.work(node, **operation.arguments(values))
    answer = await made if inspect.isawaitable(made) else made
    if operation.changes:
        await node.driver.committed()
    return answer


def serve(node: RunningNode, operations: Iterable[Operation]) -> None:
    """Let other nodes ask this one, by its cells, for the operations that are for them."""
    for operation in operations:
        if operation.remote:
            cell, name = operation.cell
            node.cells.cells[cell][name] = CellCommand(
                partial(_answer, node, operation),
                open=operation.permission == "tree",
                changes=operation.changes,
            )


def _answer(node: RunningNode, operation: Operation, _asker: str, question: Arguments) -> Any:
    assert operation.work is not None
    made = operation.work(node, **operation.arguments(operation.take(question)))
    return _in_slices(made, LoopShare(node.driver.shares)) if inspect.iscoroutine(made) else made


async def _in_slices(work: Coroutine[Any, None, Any], share: LoopShare) -> Any:
    """The result of a function that lets others have their turn, worked out in slices of the loop.

    Other nodes wait for it, so it may wait for nothing itself.
    """
    share.begin()
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
