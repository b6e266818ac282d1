"""The node's log on standard error: text for people, JSON for programs.

A line begins with a glyph for its direction: `>` sent, `<` received, `+` came, `-` went, `=` state,
`!` trouble.
"""

import json
import logging
import sys
from typing import Final

from broker.core.doubling import warning
from config.model import Site

_log = logging.getLogger("sapwood.node")
_TEXT: Final = "%(asctime)s %(levelname).1s %(name)s %(message)s"


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(site: Site) -> None:
    """Write the logs of this process as its site says."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if site.log.format == "json" else logging.Formatter(_TEXT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("sapwood").setLevel(site.log.level.upper())
    if site.debug.deliver_twice:
        _log.warning("! %s", warning(site.debug.deliver_twice, site.debug.seed))
