"""The files that the bridge keeps on disk: what we are subscribed to, and who else is.

Law: what we are subscribed to is on disk before the broker hears of it, for the broker keeps messages for it
while we are away. The subscriptions of others are a memory only: if it is lost, discovery begins anew, and
says so.
"""

import logging
import secrets
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bridges.site_brokers.mosquitto.consumers import ClientOnDisk
from config.whole_files import put

_log = logging.getLogger("sapwood.site")
_CONSUMERS: Final = "consumers.json"
_SESSION: Final = "session.json"
_MOST: Final = 256 * 1024 * 1024


class _OwnSession(msgspec.Struct):
    session: str = ""
    filters: dict[str, int] = {}
    named: str = ""
    heir: bool = False


class _Consumers(msgspec.Struct):
    clients: dict[str, ClientOnDisk] = {}
    retained: dict[str, str] = {}


_Part = TypeVar("_Part", _OwnSession, _Consumers)


class Memory:
    """`session`: a name for the session that the broker keeps for us, '' = we have had none.

    `filters`: ours in it, with their ids. `heir`: it is from before our database was made.
    `named`: the part of our client ids that tells them from others'.
    `clients`: who is subscribed. `retained`: topics whose retained message at the broker is from the tree,
    with a digest of it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        own, others = _read(directory / _SESSION, _OwnSession), _read(directory / _CONSUMERS, _Consumers)
        self.session, self.filters, self.named, self.heir = own.session, own.filters, own.named, own.heir
        self.clients, self.retained = others.clients, others.retained

    def __repr__(self) -> str:
        return f"<Memory filters={len(self.filters)} clients={len(self.clients)}>"

    def save_session(self) -> None:
        """Before the broker hears of it."""
        own = _OwnSession(self.session, self.filters, self.named, self.heir)
        self._write(_SESSION, msgspec.json.encode(own), True)

    def save_consumers(self) -> None:
        self._write(_CONSUMERS, msgspec.json.encode(_Consumers(self.clients, self.retained)), False)

    def new_session(self, filters: dict[str, int] | None = None) -> None:
        """The broker has kept nothing for us; or a session with these filters, of which we knew nothing."""
        self.session, self.heir = secrets.token_hex(4), filters is not None
        self.filters.clear()
        self.filters.update(filters or {})
        self.save_session()

    def name(self, name: str, earlier: str) -> str:
        """How our client ids end: as they did when our session was made. `earlier`: as they once did."""
        self.named = self.named or (earlier if self.session else name)
        return self.named

    def _write(self, name: str, data: bytes, sure: bool) -> None:
        """Replace a file. A failure is said, and the next change tries again."""
        file = self._directory / name
        try:
            put(file, data, durably=sure)
        except OSError as error:
            _log.warning("! %s cannot be written: %s", file, error)


def _read(file: Path, kind: type[_Part]) -> _Part:
    try:
        if file.stat().st_size > _MOST:
            raise ValueError(f"it is larger than {_MOST} bytes")
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return kind()
    except (OSError, ValueError, msgspec.DecodeError) as error:
        _log.warning("! %s cannot be read (%s): what it said is learned anew", file, error)
        return kind()
