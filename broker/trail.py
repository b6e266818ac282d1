"""The trail of changes: who changed what by the operators' operations, when, from where, and what came of it.

One line of JSON for each, in `trail/changes.ndjson` of the node's data folder, and in the node's log. A line
is written before the answer goes out, and stays when the node is killed; `_FILES` older files are kept.
Channels that were opened and files that were copied have `channels.ndjson` beside it: they are many, and
displace no change.

Law: a disk that takes nothing stops no operator.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

import msgspec

from broker.entrance.operators import Asker

_BYTES: Final = 2**20
_FILES: Final = 9
_LONGEST: Final = 1000
"""Characters of one value, which others may have sent."""
_log = logging.getLogger("sapwood.operator")
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class ChangeRecord(msgspec.Struct, kw_only=True):
    """`seq`: counts them, over restarts too. `at`: seconds since 1970. `who`: the operator; `NAME at NODE`,
    or the node alone, where it was asked for from there. `said`: parameters and body. `result`: 'done', or
    why not.
    """

    seq: int
    at: float
    who: str
    role: str
    address: str
    operation: str
    said: dict[str, Any]
    result: str


_read: Final = msgspec.json.Decoder(ChangeRecord).decode


class ChangeTrail:
    """Of one node. `folder`: made with the first change. `name`: of its files."""

    def __init__(self, folder: Path, name: str = "changes") -> None:
        self._file = folder / f"{name}.ndjson"
        self._handler: _Rotating | None = None
        self._next = 1

    def __repr__(self) -> str:
        return f"<ChangeTrail in {self._file}>"

    def add(
        self, who: Asker, address: str, operation: str, said: Mapping[str, Any], result: str = "done"
    ) -> None:
        """Keep a change, and say it in the node's log."""
        if self._handler is None:
            self._next = next((change.seq + 1 for change in self.latest()), 1)
            self._handler = _Rotating(self._file)
        change = ChangeRecord(
            seq=self._next,
            at=round(time.time(), 3),
            who=who.name,
            role=who.role,
            address=address,
            operation=operation,
            said={name: _cut(value) for name, value in said.items()},
            result=result[:_LONGEST],
        )
        self._next += 1
        self._handler.handle(logging.makeLogRecord({"msg": _encode(change).decode()}))
        asked = " ".join((operation, *(f"{name}={value}" for name, value in change.said.items())))
        _log.info("= %s (%s) from %s: %s: %s", who.name, who.role, address, asked, change.result)

    def latest(self, before: int = 0) -> Iterator[ChangeRecord]:
        """Those whose number is less than `before` (0 = all), the latest first. Torn lines are left out."""
        older = (self._file.with_name(f"{self._file.name}.{number}") for number in range(1, _FILES + 1))
        for file in (self._file, *older):
            try:
                lines = file.read_bytes().splitlines()
            except OSError:
                return
            for line in reversed(lines):
                change = _changed(line)
                if change is not None and (not before or change.seq < before):
                    yield change

    def close(self) -> None:
        if self._handler is not None:
            self._handler.close()


class _Rotating(RotatingFileHandler):
    """Makes its folder with the first line, and says in the log when it cannot write."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, maxBytes=_BYTES, backupCount=_FILES, encoding="utf-8", delay=True)

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(mode=0o700, exist_ok=True)
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the standard library's name)
        _log.exception("! the trail of changes cannot be written, and misses %s", record.getMessage())


def _changed(line: bytes) -> ChangeRecord | None:
    try:
        return _read(line)
    except (msgspec.DecodeError, ValueError):
        return None


def _cut(value: object) -> object:
    """As JSON can say it, and no longer than a line of the trail may be."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else _encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
