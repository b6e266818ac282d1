"""How questions for interest name what they are about: a topic by its name, a queue with a mark before it.

The mark is a NUL, which no topic and no queue has in its name.
"""

from typing import Final

from sapwood.protocol.destinations import Destination, Kind, queue, topic
from sapwood.protocol.names import queue_name
from treeconnector.patterns import check_topic

_QUEUE: Final = "\0"


def key_of(destination: Destination) -> str:
    """Caller's duty: a topic, not a pattern; or a queue that is directed to no node."""
    return destination.name if destination.kind == Kind.TOPIC else _QUEUE + destination.name


def is_queue(key: str) -> bool:
    return key.startswith(_QUEUE)


def destination_of(key: str) -> Destination:
    return queue(key.removeprefix(_QUEUE)) if is_queue(key) else topic(key)


def check_key(key: str) -> None:
    """Raises `PatternError` or `InvalidName` for what can be neither."""
    if is_queue(key):
        queue_name(key.removeprefix(_QUEUE))
    else:
        check_topic(key)
