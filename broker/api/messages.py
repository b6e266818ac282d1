"""Messages of one queue: shown, and one of them deleted."""

import asyncio
import heapq
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

import msgspec

from broker.api import previews
from broker.api.context import RunningNode
from broker.api.operation import GONE, PAGE, Answer, Parameter, PlainCommand, operation
from broker.api.pages import CHUNK, Cut, Key, cursor, place_in
from broker.api.queues import GIVEN, QUEUE
from broker.core.errors import BadRequest, NotFound, SwitchError
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.sessions.masking import masked

_MOST_GIVEN: Final = 20_000
_PAGE_BYTES: Final = 8 * 1024 * 1024
_MESSAGE: Final = Parameter(
    "id", "`BUNDLEHEX-INDEX`, as the queue's messages have it.", in_path=True, argument="ID"
)


class Message(Answer):
    """A message in a queue. `given`: a reader has it, `session` says which. `size`: of the payload.

    `preview`: the payload's beginning, as text or, where `encoding` says so, as base64. `unreadable`: why
    the message cannot be read, '' = it can.
    """

    id: str
    age_s: float
    size: int
    correlation_id: int | None
    reply_to: str
    task_id: str
    origin: str
    given: bool
    session: str | None
    deliveries: int
    preview: str
    truncated: bool
    encoding: previews.Encoding
    unreadable: str


class MessageDetail(Answer):
    """A whole message. `payload`: as text or, where `encoding` says so, as base64. `properties`: those that
    it has, as the client library calls them.
    """

    id: str
    destination: str
    age_s: float
    origin: str
    deliveries: int
    size: int
    payload: str
    encoding: previews.Encoding
    properties: dict[str, Any]


class Messages(Answer):
    """Oldest first. `more`: whether there are any that follow."""

    messages: list[Message]
    more: bool
    next: str | None


class MessageDeleted(Answer):
    deleted: str


@operation(
    "GET",
    "/api/queues/{name}/messages",
    "The messages of a queue, oldest first.",
    "queues",
    (QUEUE, *PAGE),
    errors=GONE,
    role="operator",
)
async def contents(node: RunningNode, name: str, cut: Cut) -> Messages:
    """The messages of a queue, oldest first; those that readers have are among them."""
    found: list[Message] = []
    last: Key | None = None
    places = node.core.removal.queues(name)
    row, index = place_in(cut.after)
    read = 0
    copies = sorted((copy for place in places for copy in _from(place, row)), key=_row)
    for copy in copies:
        if copy.open and len(found) < cut.limit and read < _PAGE_BYTES:
            read += copy.stored.header.size
            for message, position in _messages(node, copy, index if copy.row == row else -1):
                if len(found) == cut.limit:
                    return Messages(messages=found, more=True, next=_cursor(last))
                found.append(message)
                last = (copy.row, position)
            await asyncio.sleep(0)
        elif copy.open:
            return Messages(messages=found, more=True, next=_cursor(last))
    return Messages(messages=found, more=False, next=None)


def _from(place: Queue, row: int) -> list[QueueEntry]:
    """Copies of a place from a row on, in order: as many as a page can need, and one more."""
    waiting = list(islice(place.waiting.look(row), CHUNK))
    others = {copy.row: copy for copy in _given(place)} | place.resting
    beside = [others[each] for each in heapq.nsmallest(CHUNK, (each for each in others if each >= row))]
    merged = {copy.row: copy for copy in [*waiting, *beside]}
    return [merged[each] for each in sorted(merged)]


def _messages(node: RunningNode, copy: QueueEntry, after: int) -> Iterator[tuple[Message, int]]:
    core = node.core
    messages = previews.read(core.custody, copy)
    sessions = _sessions_of(copy)
    age = round(max(core.clock.now - copy.since, 0.0), 3)
    for index in range(after + 1, copy.stored.header.count):
        if copy.done >> index & 1:
            continue
        message = Message(
            id=f"{copy.stored.header.id.hex()}-{index}",
            age_s=age,
            origin=copy.stored.header.origin,
            given=bool(copy.given >> index & 1),
            session=sessions.get(index),
            deliveries=copy.deliveries,
            **previews.shown(messages, index)._asdict(),
        )
        yield message, index


@operation(
    "GET",
    "/api/queues/{name}/messages/{id}",
    "One message with its whole payload; it stays where it is.",
    "queues",
    (QUEUE, _MESSAGE),
    errors=GONE,
    role="operator",
    commands=(
        PlainCommand(
            "queue message",
            "Show one message with its whole payload. It stays where it is.",
            texts={
                "name": "NAME or NAME@NODE.",
                "id": "The message's id, as `queues NAME` shows it.",
            },
            switches={"hex": "Show its payload as bytes in hexadecimal, as one that is no text is shown."},
        ),
    ),
)
async def detail(node: RunningNode, name: str, id: str) -> MessageDetail:
    """Whoever has it now."""
    copy, index = await _message(node, name, id)
    messages = previews.read(node.core.custody, copy)
    if isinstance(messages, str):
        raise SwitchError(f"message {id} cannot be read: {messages}")
    message, header = messages[index], copy.stored.header
    properties = msgspec.to_builtins(message.properties, builtin_types=(bytes,))
    payload, encoding = previews.text_of(message.payload, len(message.payload))
    return MessageDetail(
        id=id,
        destination=str(header.destination),
        age_s=round(max(node.core.clock.now - copy.since, 0.0), 3),
        origin=header.origin,
        deliveries=copy.deliveries,
        size=len(message.payload),
        payload=payload,
        encoding=encoding,
        properties={name.replace("-", "_"): value for name, value in properties.items()},
    )


@operation(
    "DELETE",
    "/api/queues/{name}/messages/{id}",
    "Delete one message that waits.",
    "queues",
    (QUEUE, _MESSAGE),
    errors={**GONE, **GIVEN},
    changes=True,
    commands=(
        PlainCommand(
            "queue delete-message",
            "Delete one message that waits. One that a reader has is refused.",
            texts={
                "name": "NAME or NAME@NODE.",
                "id": "The message's id, as `queues NAME` shows it.",
            },
            sure="Delete the message {id} of {name} at {url}?",
        ),
    ),
)
async def delete(node: RunningNode, name: str, id: str) -> MessageDeleted:
    """Delete one message that waits; `Given` if a reader has it."""
    copy, index = await _message(node, name, id)
    node.core.removal.delete_message(copy, index)
    return MessageDeleted(deleted=id)


async def _message(node: RunningNode, name: str, id: str) -> tuple[QueueEntry, int]:
    """The copy that has a message, and its place in it. Raises `NotFound`."""
    bundle, index = message_id(id)
    for place in node.core.removal.queues(name):
        copy = await _find(place, bundle)
        if copy is not None and index < copy.stored.header.count and not copy.done >> index & 1:
            return copy, index
    raise NotFound(f"queue {name!r} has no message {id!r} here")


async def _find(place: Queue, bundle: bytes) -> QueueEntry | None:
    """The copy that has it. Others have their turn while the pages on disk are looked through."""
    beside = {*place.resting.values(), *_given(place)}
    for number, copy in enumerate(chain(beside, place.waiting.look())):
        if copy.stored.header.id == bundle and copy.queue is place and copy.done != copy.all:
            return copy if copy in beside else place.waiting.wake(copy.row)
        if number % CHUNK == 0:
            await asyncio.sleep(0)
    return None


def _row(copy: QueueEntry) -> int:
    return copy.row


def _given(place: Queue) -> set[QueueEntry]:
    """Copies of a place of which readers have some, the first of each reader."""
    return {
        given.entry
        for reader in dict.fromkeys(reader.session for reader in place.consumers)
        for given in islice(reader.unacked.all(), _MOST_GIVEN)
        if given.entry.queue is place
    }


def _sessions_of(copy: QueueEntry) -> dict[int, str]:
    """Which session has which of a copy's messages."""
    if not copy.given:
        return {}
    found: dict[int, str] = {}
    for session in dict.fromkeys(reader.session for reader in copy.queue.consumers):
        for given in islice(session.unacked.all(), _MOST_GIVEN):
            if given.entry is copy:
                name = masked(session.token)
                found.update(dict.fromkeys(range(given.position, given.position + given.messages), name))
    return found


def _cursor(key: Key | None) -> str | None:
    return None if key is None else cursor(key)


def message_id(text: str) -> tuple[bytes, int]:
    """`BUNDLEHEX-INDEX`."""
    bundle, _, index = text.partition("-")
    try:
        found = bytes.fromhex(bundle), int(index)
    except ValueError:
        found = b"", -1
    if len(found[0]) != 16 or not 0 <= found[1] < 256:
        raise BadRequest(f"{text[:80]!r} is no message id: expected 32 hexadecimal digits, '-' and a number")
    return found
