"""Files of lines that are begun anew when they are long, as the trail of changes writes them."""

import logging
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

_log: Final = logging.getLogger("sapwood.operator")


class RotatingLines(RotatingFileHandler):
    """`size`: bytes of a file; `older`: files that are kept beside the one that is written.

    Makes its folder with the first line, and says in the log, once, when it cannot write any more. A file
    that somebody has removed or moved is begun anew: nobody would see what went on into it.
    """

    def __init__(self, file: Path, size: int, older: int) -> None:
        super().__init__(file, maxBytes=size, backupCount=older, encoding="utf-8", delay=True)
        self._failed = self._is_said = False

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(mode=0o700, exist_ok=True)
        return super()._open()

    def emit(self, record: logging.LogRecord) -> None:
        self._failed = False
        if not self._is_named():
            _log.warning("! %s was removed or moved: the trail begins it anew", self.baseFilename)
            self.close()
        super().emit(record)
        self._is_said = self._failed

    def _is_named(self) -> bool:
        """Is what is open, if anything, the file of that name? Where that cannot be told, it is."""
        if self.stream is None:
            return True
        try:
            return os.path.samestat(os.stat(self.baseFilename), os.fstat(self.stream.fileno()))
        except OSError as error:
            return not isinstance(error, FileNotFoundError | NotADirectoryError)

    def close(self) -> None:
        """Also where what waits to be written cannot be: that was said when it was added."""
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the standard library's name)
        self._failed = True
        if not self._is_said:
            error = sys.exc_info()[1]
            why = (error.strerror if isinstance(error, OSError) else None) or repr(error)
            text = "! the trail %s cannot be written (%s), and misses changes from %s on"
            _log.error(text, self.baseFilename, why, record.getMessage())
