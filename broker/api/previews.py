"""Messages of bundles for people: taken out of a body that stays where it is, and cut to be read."""

import codecs
from base64 import b64encode
from typing import Final, Literal, NamedTuple

from broker.core.custody.custody import Custody
from broker.core.messages.queue import QueueEntry
from sapwood.protocol import bundles
from sapwood.protocol.errors import FrameError

PREVIEW: Final = 256
Encoding = Literal["utf-8", "base64"]
_NO_MESSAGE: Final = bundles.Message(b"")


class Shown(NamedTuple):
    """A message as far as it is shown. `preview` is base64 where `encoding` says so."""

    size: int
    correlation_id: int | None
    reply_to: str
    task_id: str
    preview: str
    truncated: bool
    encoding: Encoding
    unreadable: str


def read(custody: Custody, copy: QueueEntry) -> list[bundles.Message] | str:
    """A copy's messages, or why they cannot be read. Nothing of it stays in memory."""
    stored = copy.stored
    if stored.messages is not None:
        return stored.messages
    body = custody.peek(copy)
    if body is None:
        return "the message is not here any more"
    try:
        return bundles.unpack(stored.header, body)
    except FrameError as error:
        return str(error)


def shown(messages: list[bundles.Message] | str, index: int, length: int = PREVIEW) -> Shown:
    unreadable = messages if isinstance(messages, str) else ""
    message = _NO_MESSAGE if isinstance(messages, str) else messages[index]
    properties = message.properties
    preview, encoding = text_of(message.payload, length)
    return Shown(
        len(message.payload),
        properties.correlation_id,
        properties.reply_to,
        properties.task_id,
        preview,
        len(message.payload) > length,
        encoding,
        unreadable,
    )


def text_of(payload: bytes, length: int) -> tuple[str, Encoding]:
    """The first `length` bytes as (text, encoding): UTF-8, else base64. A cut character is left out."""
    part = payload[:length]
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(part, final=len(part) == len(payload)), "utf-8"
    except UnicodeDecodeError:
        return b64encode(part).decode(), "base64"
