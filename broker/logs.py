"""The node's log on standard error: text for people, JSON for programs.

A line begins with a glyph for its direction: `>` sent, `<` received, `+` came, `-` went, `=` state,
`!` trouble. What a line is about stands in its text, and in JSON as fields as well: `extra=` with names of
`FIELDS`. Law: no token and no secret is ever logged. What looks like one in a path is masked all the same.
"""

import json
import logging
import re
import select
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from broker.core.clients.duplicate_injection import warning
from config.model import Site

_log = logging.getLogger("sapwood.node")
_TEXT: Final = "%(asctime)s %(levelname).1s %(name)s %(message)s"
_PIECE: Final = 1024
"""Characters: 4 KiB at most."""
_TOKEN_IN_PATH: Final = re.compile(r"(/login/)[^\s/?#'\"]+", re.IGNORECASE)
FIELDS: Final = (
    *(
        "link",
        "relation",
        "state",
        "lasted_s",
        "bundle",
        "destination",
        "queue",
        "reason",
        "count",
        "address",
    ),
)
"""Names that `extra=` may have: the neighbour and what it is; its state, and how long the one before lasted;
the bundle's id in hex; the error's code or a text; how many; where a client comes from."""


def masked_paths(text: str) -> str:
    """The same without tokens of sessions."""
    return _TOKEN_IN_PATH.sub(r"\1…", text) if "/login/" in text.lower() else text


class TextFormatter(logging.Formatter):
    """One line; a traceback below it where there is one, each of whose lines is indented.

    Texts of others end no line, begin none and steer no terminal.
    """

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        return masked_paths(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the standard library's name)
        return escaped(super().formatMessage(record))

    def formatException(self, *given: Any) -> str:  # noqa: N802 (the standard library's name)
        lines = super().formatException(*given).split("\n")
        return "\n".join(f"  {escaped(line)}" for line in lines)


def escaped(text: str) -> str:
    """The same with control characters, ends of lines and the like written out."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class JsonFormatter(logging.Formatter):
    """One JSON object a line. `at`: ISO 8601, UTC."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked_paths(record.getMessage()),
        }
        given = record.__dict__
        line |= {name: given[name] for name in FIELDS if name in given}
        if record.exc_info:
            line["error"] = masked_paths(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


class Patient(logging.StreamHandler[TextIO]):
    """Writes where there is room, and counts what there is none for.

    A pipe whose reader stands still is full after 64 KiB. A write to it waits, and with it the
    loop of the node: no message would pass, nor SIGTERM count.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.left_out = 0
        self._cut = ""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            notice = self._cut + self._line(_unread(self.left_out)) if self.left_out else ""
            if self._wrote(notice + self._line(record)):
                self.left_out, self._cut = 0, ""
            else:
                self.left_out += 1
        except Exception:  # as in any handler of the standard library
            self.handleError(record)

    def _line(self, record: logging.LogRecord) -> str:
        return self.format(record) + self.terminator

    def _wrote(self, text: str) -> bool:
        for at in range(0, len(text), _PIECE):
            if not has_room(self.stream):
                self._cut = self.terminator if at else self._cut
                return False
            self.stream.write(text[at : at + _PIECE])
            self.flush()
        return True


def _unread(lines: int) -> logging.LogRecord:
    text = "! nobody read this log: %d lines of it were left out"
    return _log.makeRecord(_log.name, logging.WARNING, __file__, 0, text, (lines,), None)


def has_room(stream: TextIO) -> bool:
    """Whether a piece may be written without waiting: a pipe that may be written to takes 4 KiB."""
    try:
        ready = select.poll()
        ready.register(stream.fileno(), select.POLLOUT)
        return bool(ready.poll(0))
    except (OSError, ValueError):  # no file of the system, or none any more
        return True


def set_up(site: Site) -> None:
    """Write the logs of this process as its site says."""
    handler = Patient(sys.stderr)
    handler.setFormatter(JsonFormatter() if site.log.format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("sapwood").setLevel(site.log.level.upper())
    if site.debug.deliver_twice:
        _log.warning("! %s", warning(site.debug.deliver_twice, site.debug.seed))
