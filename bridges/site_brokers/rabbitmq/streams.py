"""How far each stream of a RabbitMQ was taken: it keeps what was read, so each reader counts for himself.

A stream is taken from where it was left, and at first from what is published from then on.

Law: an offset is written down once the message there is in our custody, before it is acknowledged. A node
that dies between the two takes messages again: those that may be are `doubtful`, and known by their offsets.

Wrinkle: nothing in AMQP tells that a queue is a stream, but a stream refuses consumers with a priority.
"""

import json
from pathlib import Path
from typing import Any, Final

from bridges.amqp.connection import Incoming
from bridges.amqp.errors import PRECONDITION_FAILED, ChannelLost

OFFSET: Final = "x-stream-offset"
_FILE: Final = "rabbitmq-streams.json"
_KIND: Final = "rabbit_stream_queue"


def is_of_a_stream(error: ChannelLost) -> bool:
    """Was a consumer refused since its queue is a stream?"""
    return error.code == PRECONDITION_FAILED and _KIND in error.text


def offset_of(message: Incoming) -> int | None:
    """Where in its stream a message is; None: it is of no stream."""
    found = (message.properties.headers or {}).get(OFFSET)
    return found if isinstance(found, int) else None


class Streams:
    """Those that one connection takes from."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / _FILE
        self._taken: dict[str, int] = _load(self._file)
        self._begun: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Streams {len(self._begun)}>"

    def __contains__(self, name: str) -> bool:
        return name in self._begun

    def begin(self, name: str) -> dict[str, Any]:
        """The argument of a consumer that goes on where the last one ended."""
        last = self._taken.get(name)
        self._begun[name] = -1 if last is None else last
        return {OFFSET: "next" if last is None else last + 1}

    def is_doubtful(self, name: str, offset: int, most: int) -> bool:
        """May the message there have been taken before? At most so many were not yet written down."""
        begun = self._begun.get(name, -1)
        return 0 <= begun < offset <= begun + most

    def taken(self, name: str, offset: int) -> None:
        """All up to this one is in our custody."""
        self._taken[name] = offset
        self._save()

    def forget(self, name: str) -> None:
        """The queue is no more; another one of that name begins anew."""
        self._begun.pop(name, None)
        if self._taken.pop(name, None) is not None:
            self._save()

    def _save(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self._taken), encoding="utf-8")
        fresh.replace(self._file)


def _load(file: Path) -> dict[str, int]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: offset for name, offset in found.items() if isinstance(offset, int)}
