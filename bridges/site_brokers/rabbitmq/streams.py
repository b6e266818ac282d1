"""How far each stream of a RabbitMQ was taken: it keeps what was read, so each reader counts for himself.

A stream is taken from where it was left, and at first from what is published from then on. One that was
deleted and made anew since is another one, which is read whole: see `recognition`.

Law: an offset is written down once the message there is in our custody, before it is acknowledged. A node
that dies between the two takes messages again: those that may be are `doubtful`, and known by their offsets.

Law: a lost line costs an older offset, never the stream. So offsets are added to the end of the file, one
line of JSON each, of which the last of a name counts; a machine that loses its power loses the latest lines,
and a disk that takes none ends the visit. A file that has grown is written anew, and is on disk before it
takes the place of the one before.

Wrinkle: nothing in AMQP tells that a queue is a stream, but a stream refuses consumers with a priority.

Wrinkle: a line holds the offset under the stream's name, as the version before reads it, and the message's
digest under no name, which no queue has.
"""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from bridges.amqp.errors import PRECONDITION_FAILED, ChannelLost
from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import SiteBrokerError
from config.whole_files import put

OFFSET: Final = "x-stream-offset"
MOST: Final = 10_000
"""Streams whose offsets are known; of more the one that was taken from longest ago begins anew."""
GROWN: Final = 1024 * 1024
"""Bytes of the file from which on it is written anew."""
_FILE: Final = "rabbitmq-streams.json"
_KIND: Final = "rabbit_stream_queue"


def is_of_a_stream(error: ChannelLost) -> bool:
    """Was a consumer refused since its queue is a stream?"""
    return error.code == PRECONDITION_FAILED and _KIND in error.text


def offset_of(message: Incoming) -> int | None:
    """Where in its stream a message is; None: it is of no stream."""
    found = (message.properties.headers or {}).get(OFFSET)
    return found if isinstance(found, int) else None


class Position(NamedTuple):
    """The last message that was taken of a stream. `digest`: '' where an older node wrote it down."""

    offset: int
    digest: str = ""


WHOLE: Final = Position(-1)
"""Nothing was taken yet, and all that is there is new."""


def digest_of(message: Incoming) -> str:
    """Of all in a message that no broker's version spells otherwise."""
    said = message.properties
    rest = (message.exchange, message.key, said.message_id, said.correlation_id, said.timestamp)
    return blake2b(message.body, key=blake2b(repr(rest).encode()).digest(), digest_size=8).hexdigest()


class Streams:
    """Those that one connection takes from. What writes raises `SiteBrokerError`."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / _FILE
        self._taken: dict[str, Position] = _load(self._file)
        self._begun: dict[str, int] = {}
        self._size = GROWN  # it is written anew first: its last line may have no end

    def __repr__(self) -> str:
        return f"<Streams {len(self._begun)}>"

    def __contains__(self, name: str) -> bool:
        return name in self._begun

    def begin(self, name: str) -> Position | None:
        """The last message that was taken; None: begin with what is published from now on."""
        last = self._taken.get(name)
        self._begun[name] = -1 if last is None else last.offset
        return last

    def is_doubtful(self, name: str, offset: int, most: int) -> bool:
        """May the message there have been taken before? At most so many were not yet written down."""
        begun = self._begun.get(name, -1)
        return 0 <= begun < offset <= begun + most

    def taken(self, name: str, offset: int, digest: str = "") -> None:
        """All up to this one is in our custody."""
        self._taken.pop(name, None)
        self._taken[name] = Position(offset, digest)
        if len(self._taken) > MOST:
            del self._taken[next(iter(self._taken))]
        self._write(_line(name, self._taken[name]))

    def renew(self, name: str) -> None:
        """The stream that was taken from is no more: another one of that name is read whole."""
        if self._begun.pop(name, None) is not None:
            self.taken(name, *WHOLE)

    def _write(self, line: bytes) -> None:
        try:
            if self._size + len(line) > GROWN:
                self._write_all()
            else:
                with self._file.open("ab", buffering=0) as output:
                    output.write(line)
                self._size += len(line)
        except OSError as error:
            self._size = GROWN  # half a line may be there
            raise SiteBrokerError(f"{self._file} cannot be written: {error.strerror or error}") from None

    def _write_all(self) -> None:
        lines = b"".join(_line(name, last) for name, last in self._taken.items())
        put(self._file, lines)
        self._size = min(len(lines), GROWN // 2)


def _line(name: str, last: Position) -> bytes:
    return json.dumps({name: last.offset, "": last.digest}).encode() + b"\n"


def _load(file: Path) -> dict[str, Position]:
    """Those of its lines that can be read; an older node wrote one line with all, and null for none."""
    taken: dict[str, Position] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return taken
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(found, dict):
            continue
        digest = str(found.pop("", ""))
        for name, offset in found.items():
            taken.pop(name, None)
            if isinstance(offset, int):
                taken[name] = Position(offset, digest)
    return taken
