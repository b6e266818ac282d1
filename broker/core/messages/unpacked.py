"""Bundles whose messages are in memory: the latest few, since the next slice of one may soon be asked for.

What is 100 bytes in the store may be megabytes here. All raise `FrameError` if a bundle cannot be read.
"""

from collections import deque
from typing import Final

from broker.core.messages.queue import StoredBundle
from sapwood.protocol.bundles import MAX_BYTES, Message, opened, unpack

_KEPT: Final = 16
_LARGEST: Final = MAX_BYTES

_unpacked: deque[StoredBundle] = deque()


def messages_of(stored: StoredBundle, body: bytes) -> list[Message]:
    """Its messages; unpacked once, where they are few or small."""
    messages = stored.messages
    if messages is None:
        messages = unpack(stored.header, body)
        _keep(stored, messages)
    return messages


def check(stored: StoredBundle, body: bytes) -> None:
    """Can its messages be read? One that is not kept is unpacked when they are needed, and not for this."""
    if stored.header.size > _LARGEST:
        opened(stored.header, body)
    else:
        messages_of(stored, body)


def elapsed(stored: StoredBundle, body: bytes, now: float) -> float:
    """Milliseconds since the messages of a bundle entered the tree, of which one expires."""
    header = stored.header
    if stored.messages is not None:
        times = [message.properties.expires_in for message in stored.messages]
    else:
        times = [properties.expires_in for properties in opened(header, body)]
    before = min((time for time in times if time > 0), default=0) - header.expires_first
    return before + (now - stored.since) * 1000


def _keep(stored: StoredBundle, messages: list[Message]) -> None:
    if stored.header.size > _LARGEST:
        return
    stored.messages = messages
    _unpacked.append(stored)
    if len(_unpacked) > _KEPT:
        _unpacked.popleft().messages = None
