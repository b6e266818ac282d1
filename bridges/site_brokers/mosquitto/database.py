"""The subscribers of a Mosquitto by its own database, `mosquitto.db`: sessions that outlive connections.

The file is what Mosquitto saved last: at its end, every `autosave_interval` (half an hour unless told
otherwise), and on SIGUSR1. So what it says is where to begin, not what is so now. Formats 5 and 6, of
Mosquitto 1.6 to 2.0 (its `src/persist.h`): chunks of a kind and a length, numbers big-endian.

Law: nothing in the file is believed beyond its length; of one that ends early, what stands before counts.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from config.files import open_plain
from sapwood.protocol.errors import SapwoodError

_MAGIC: Final = b"\x00\xb5\x00mosquitto db"
_HEAD: Final = struct.Struct(">15sII")
_CHUNK: Final = struct.Struct(">II")
_SUBSCRIPTION: Final = struct.Struct(">IHHBB2x")
_SUBSCRIPTION_CHUNK: Final = 5
_VERSIONS: Final = (5, 6)
_LARGEST: Final = 1 << 29

Read = Callable[[int], bytes]


class DatabaseError(SapwoodError):
    """The file cannot be read. The text says why, and what to do."""


def subscriptions(file: Path, most: int) -> dict[str, list[str]]:
    """By client id, the filters of sessions that were kept, at most `most`. Raises `DatabaseError`."""
    found: dict[str, list[str]] = {}
    try:
        with open_plain(file) as source:
            head = source.read(_HEAD.size)
            if len(head) < _HEAD.size or head[: len(_MAGIC)] != _MAGIC:
                raise DatabaseError(f"{file} is no database of a Mosquitto: look at its persistence_file")
            version = _HEAD.unpack(head)[2]
            if version not in _VERSIONS:
                raise DatabaseError(f"{file} has format {version}; formats {_VERSIONS} can be read")
            for count, (client, text) in enumerate(_read(source.read)):
                if count >= most:
                    break
                found.setdefault(client, []).append(text)
    except OSError as error:
        raise DatabaseError(
            f"{file} cannot be read ({error.strerror}): let the node's user read it, or take persistence_file"
            " out of site_broker"
        ) from None
    return found


def _read(read: Read) -> Iterator[tuple[str, str]]:
    while len(head := read(_CHUNK.size)) == _CHUNK.size:
        kind, length = _CHUNK.unpack(head)
        if length > _LARGEST:
            return
        body = read(length)
        if kind == _SUBSCRIPTION_CHUNK and len(body) == length >= _SUBSCRIPTION.size:
            _, client, text, _, _ = _SUBSCRIPTION.unpack_from(body)
            names = body[_SUBSCRIPTION.size : _SUBSCRIPTION.size + client + text]
            yield names[:client].decode(errors="replace"), names[client:].decode(errors="replace")
