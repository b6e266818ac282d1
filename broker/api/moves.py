"""Messages of a queue moved to another one, or behind all others of their own."""

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from broker.api.context import RunningNode
from broker.api.messages import message_id
from broker.api.operation import GONE, Answer, PlainCommand, operation
from broker.api.pages import CHUNK
from broker.api.queues import OWN, QUEUE
from broker.core.clock import PART
from broker.core.errors import BadRequest, NotFound, SwitchError
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.queue_names import is_internal
from broker.core.operations.moving import Move
from broker.core.operations.removal import queue_key
from sapwood.protocol.destinations import Destination, Kind

_MOST_IDS: Final = 10_000
_ALL: Final = -1
MOST_BYTES: Final = 4 * 1024 * 1024
"""So much is read and written again in one commit, and nobody has his turn meanwhile."""


class MoveRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`ids`: of messages; who means all that waits says `all`. `to`: `NAME` or `NAME@NODE`; '' = behind all
    others of the same queue.
    """

    ids: list[str] = []
    to: str = ""
    all: bool = False

    def check(self) -> None:
        if bool(self.ids) == self.all:
            raise BadRequest("which messages? Expected either 'ids' or 'all': true")
        if len(self.ids) > _MOST_IDS:
            raise BadRequest(f"{len(self.ids)} ids: expected {_MOST_IDS} at most")


class Moved(Answer):
    """So many messages wait in `to` now, or go on from there. `why`: the reason that others stayed, '' = none
    did.
    """

    moved: int
    to: str
    why: str


@operation(
    "POST",
    "/api/queues/{name}/move",
    "Move messages that wait to another queue, or behind all others.",
    "queues",
    (QUEUE,),
    errors={**GONE, **OWN, 429: "QUEUE_FULL: there is no room in that queue."},
    body=MoveRequest,
    commands=(
        PlainCommand(
            "queue move",
            "Move messages that wait to another queue. Those that readers have stay with them.",
            texts={
                "name": "NAME or NAME@NODE.",
                "ids": "Ids of messages, as `queues NAME` shows them.",
                "to": "The other queue, NAME or NAME@NODE; without it, behind all others of the same queue.",
                "all": "All that waits.",
            },
            places={"ids": "[ID]"},
            sure="Move all that waits in {name} at {url}?",
            unless="ids",
        ),
    ),
)
async def move(node: RunningNode, name: str, body: MoveRequest) -> Moved:
    """Those that were there when this was asked, in their order; a part at a time, each in one commit."""
    body.check()
    to = _target(body.to)
    queues = node.core.removal.queues(name)
    if to is not None and any(queue.destination == to for queue in queues):
        to = None
    done = await _move(node, queues, _masks(body.ids), to)
    if body.ids and not done.messages:
        raise NotFound(f"none of these messages waits in queue {name!r} here")
    return Moved(moved=done.messages, to=str(to or queues[0].destination), why=done.why)


async def _move(
    node: RunningNode, queues: list[Queue], masks: dict[bytes, int], to: Destination | None
) -> Move:
    """Raises `SwitchError` if the first may not go; of one that comes later `why` says it."""
    done = Move()
    for queue in queues:
        async for part in _parts(queue, masks):
            try:
                some = node.core.moving.move(part, to)
            except SwitchError as error:
                if not done.messages:
                    raise
                some = Move(why=error.text)
            await node.driver.committed()
            done.messages += some.messages
            done.why = some.why
            if done.why:
                return done
    return done


def _target(text: str) -> Destination | None:
    if not text:
        return None
    try:
        found = queue_key(text)
    except NotFound as error:
        raise BadRequest(str(error)) from None
    if found.kind != Kind.QUEUE:
        raise BadRequest(f"{text[:80]!r} is no queue: expected NAME or NAME@NODE")
    if is_internal(found):
        raise SwitchError(f"REFUSED: the queue {found.name!r} is the node's own")
    return found


def _masks(ids: list[str]) -> dict[bytes, int]:
    masks: dict[bytes, int] = {}
    for text in ids:
        bundle, index = message_id(text)
        masks[bundle] = masks.get(bundle, 0) | 1 << index
    return masks


async def _parts(queue: Queue, masks: dict[bytes, int]) -> AsyncIterator[list[tuple[QueueEntry, int]]]:
    """Entries that wait now, each with the mask of what is meant of it. Each is looked up when its turn
    comes: meanwhile it may have gone, or be on disk alone.
    """
    resting = list(queue.resting)
    last = queue.waiting[-1].row if queue.waiting else 0
    for part in _sized(map(queue.resting.get, resting), masks):
        yield part
    row = 0
    while found := [each for each in islice(queue.waiting.look(row), CHUNK) if each.row <= last]:
        row = found[-1].row + 1
        meant = [each.row for each in found if _mask(each, masks)]
        for part in _sized(map(queue.waiting.wake, meant), masks):
            yield part


def _sized(
    entries: Iterable[QueueEntry | None], masks: dict[bytes, int]
) -> Iterator[list[tuple[QueueEntry, int]]]:
    """Parts that one commit takes well. None is empty: for each of them a commit is waited for."""
    part: list[tuple[QueueEntry, int]] = []
    size = 0
    for entry in entries:
        if entry is None or not (mask := _mask(entry, masks)):
            continue
        part.append((entry, mask))
        size += entry.stored.size
        if len(part) >= PART or size >= MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _mask(entry: QueueEntry, masks: dict[bytes, int]) -> int:
    return masks.get(entry.stored.header.id, 0) if masks else _ALL
