"""The node's log on standard error: text for people, JSON for programs.

A line begins with a glyph for its direction: `>` sent, `<` received, `+` came, `-` went, `=` state,
`!` trouble. What a line is about stands in its text, and in JSON as fields as well: `extra=` with names of
`FIELDS`. Law: no token and no secret is ever logged. What looks like one in a path is masked all the same.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final

from broker.core.clients.duplicate_injection import warning
from config.model import Site

_log = logging.getLogger("sapwood.node")
_TEXT: Final = "%(asctime)s %(levelname).1s %(name)s %(message)s"
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


def set_up(site: Site) -> None:
    """Write the logs of this process as its site says."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if site.log.format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("sapwood").setLevel(site.log.level.upper())
    if site.debug.deliver_twice:
        _log.warning("! %s", warning(site.debug.deliver_twice, site.debug.seed))
