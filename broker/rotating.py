"""Files of lines that are begun anew when they are long, as the trail of changes writes them."""

import logging
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

_log: Final = logging.getLogger("sapwood.operator")


class RotatingLines(RotatingFileHandler):
    """`size`: bytes of a file; `older`: files that are kept beside the one that is written.

    Makes its folder with the first line, and says in the log, once, when it cannot write any more.
    """

    def __init__(self, file: Path, size: int, older: int) -> None:
        super().__init__(file, maxBytes=size, backupCount=older, encoding="utf-8", delay=True)
        self._failed = self._is_said = False

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(mode=0o700, exist_ok=True)
        return super()._open()

    def emit(self, record: logging.LogRecord) -> None:
        self._failed = False
        super().emit(record)
        self._is_said = self._failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the standard library's name)
        self._failed = True
        if not self._is_said:
            text = "! the trail %s cannot be written, and misses changes from %s on"
            _log.exception(text, self.baseFilename, record.getMessage())
