"""The trail of changes: who changed what by the operators' operations, when, from where, and what came of it.

One line of JSON for each, in `trail/changes.ndjson` of the node's data folder, and in the node's log. A line
is written before the answer goes out, and stays when the node is killed; `_FILES` older files are kept.
Refusals have files of their own, so that however many they are, they push no change out.
Channels that were opened and files that were copied have `channels.ndjson` beside it: they are many, and
displace no change, and fill no log.

Law: a disk that takes nothing stops no operator.
Law: names and values of others forge no line, and a line that somebody has spoilt hides no other. Passwords
in URIs and tokens of invitations are left out.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from broker.logs import masked_paths

_BYTES: Final = 2**20
_FILES: Final = 9
_LONGEST: Final = 1000
"""Characters of one value, which others may have sent."""
_PART: Final = 100
_LAST: Final = 253_402_300_799
"""Lines of a file that are read at once; seconds since 1970 of the last time that has a name."""
_DONE: Final = "done"
_PASSWORD: Final = re.compile(r"(//)[^/\s@]+(@)|(sapwood\d+-)[\w-]{16,}")
_log = logging.getLogger("sapwood.operator")
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class ChangeRecord(msgspec.Struct, kw_only=True):
    """`seq`: counts them, over restarts too. `at`: seconds since 1970. `who`: the operator; `NAME at NODE`,
    or the node alone, where it was asked for from there. `role`: '' = that node told none. `said`: parameters
    and body, as they were taken. `result`: 'done', or why not.
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
    """Of one node. `folder`: made with the first change. `name`: of its files. `logged`: in the log too."""

    def __init__(self, folder: Path, name: str = "changes", *, logged: bool = True) -> None:
        self._logged = logged
        self._files = {True: folder / f"{name}.ndjson", False: folder / f"{name}-refused.ndjson"}
        self._handlers: dict[bool, logging.Handler] = {}
        self._next = 0

    def __repr__(self) -> str:
        return f"<ChangeTrail in {self._files[True]}>"

    def add(
        self,
        who: str,
        role: str,
        address: str,
        operation: str,
        said: Mapping[str, Any],
        result: str = _DONE,
    ) -> None:
        """Keep a change."""
        self._next = (self._next or next((each.seq for each in self.latest()), 0)) + 1
        change = ChangeRecord(
            seq=self._next,
            at=round(time.time(), 3),
            who=who,
            role=role,
            address=address,
            operation=operation,
            said={name: _cut(value) for name, value in said.items()},
            result=_shown(result)[:_LONGEST],
        )
        is_done = result == _DONE
        if is_done not in self._handlers:
            from broker.rotating import RotatingLines  # loads much for what most nodes never write

            self._handlers[is_done] = RotatingLines(self._files[is_done], _BYTES, _FILES)
        self._handlers[is_done].handle(logging.makeLogRecord({"msg": _encode(change).decode()}))
        if self._logged:
            asked = " ".join((operation, *(f"{name}={value!r}" for name, value in change.said.items())))
            _log.info("= %r (%s) from %s: %s: %s", who, role, address, asked, change.result)

    def latest(self, before: int = 0) -> Iterator[ChangeRecord]:
        """Those whose number is less than `before` (0 = all), the latest first."""
        return filter(None, self.read(before))

    def read(self, before: int = 0) -> Iterator[ChangeRecord | None]:
        """The same, and None now and then: the files are long, and it is time that others have their turn."""
        both = [_read_back(file, before) for file in self._files.values()]
        heads: list[ChangeRecord | None] = [None, None]
        while both:
            for place, lines in reversed(list(enumerate(both))):
                while heads[place] is None:
                    try:
                        heads[place] = next(lines)
                    except StopIteration:
                        del both[place], heads[place]
                        break
                    if heads[place] is None:
                        yield None
            found = [each for each in heads if each is not None]
            if found:
                latest = max(found, key=lambda each: each.seq)
                heads[heads.index(latest)] = None
                yield latest

    def close(self) -> None:
        for handler in self._handlers.values():
            handler.close()


def _read_back(newest: Path, before: int) -> Iterator[ChangeRecord | None]:
    """The lines of a file and of those that were it before, the latest first; None after so many lines.

    Whatever cannot be read is left out.
    """
    older = (newest.with_name(f"{newest.name}.{number}") for number in range(1, _FILES + 1))
    for file in (newest, *older):
        try:
            lines = file.read_bytes().splitlines()
        except OSError:
            continue
        for number, line in enumerate(reversed(lines)):
            change = _changed(line)
            if change is not None and (not before or change.seq < before):
                yield change
            if number % _PART == 0:
                yield None


def _changed(line: bytes) -> ChangeRecord | None:
    try:
        change = _read(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return change if change.seq > 0 and 0 <= change.at <= _LAST else None


def _shown(text: str) -> str:
    """The same without what opens a door."""
    text = masked_paths(text)
    return _PASSWORD.sub(r"\1\3…\2", text) if "//" in text or "sapwood" in text else text  # for speed


def _cut(value: object) -> object:
    """As JSON can say it, and no longer than a line of the trail may be."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = _shown(value if isinstance(value, str) else _encode(value).decode("utf-8", "replace"))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
