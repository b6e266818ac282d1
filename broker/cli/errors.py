"""What a command says when it cannot do its work, and the exit code that goes with it.

An exception that is ours or the system's becomes one text; anything else is a defect and says so.
`SAPWOOD_TRACEBACK=1` in the environment shows where it came from.

Law: what stands on the command line, or in a file that it names, and cannot be used is wrong use, whoever
finds it: a word, a file that is not there, a folder that cannot be made, a request that a node calls none.
Files and folders are named in many commands, so they are read and made here.
"""

import errno
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

WELL: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2


class CommandError(Exception):
    """A command could not do its work. The text names the thing, what was expected and what to do."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def explain(error: Exception) -> tuple[str, int]:
    """Return (text, exit code) for an error that ended a command."""
    from sapwood.protocol.errors import SapwoodError

    if isinstance(error, CommandError):
        return str(error), error.exit_code
    if isinstance(error, SapwoodError):
        return str(error), WRONG_USE if _is_wrong_use(error) else FAILED
    for one in (error, error.__context__):
        if isinstance(one, UnicodeEncodeError) and _is_no_text(one.object):
            return f"{one.object[:80]!r} is no text in UTF-8", WRONG_USE
    if isinstance(error, OSError):
        return _explain_system(error), FAILED
    return f"unexpected {type(error).__name__}: {error} (SAPWOOD_TRACEBACK=1 shows where)", FAILED


def read_given(file: "Path", most: int | None = None) -> bytes:
    """A file that the command line names. Raises `CommandError`.

    With `most` a plain file; one byte more than that tells that it is too large. Without, a pipe to its end.
    """
    from config.files import read_plain

    try:
        return file.read_bytes() if most is None else read_plain(file, most)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror or error}", WRONG_USE) from None


def make_given(folder: "Path") -> None:
    """Have a folder that the command line names, to write into. Raises `CommandError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{folder} cannot be made: {error.strerror or error}", WRONG_USE) from None


def wants_traceback() -> bool:
    return os.environ.get("SAPWOOD_TRACEBACK", "") not in ("", "0")


def _is_no_text(text: str) -> bool:
    """Has it bytes of the command line that are not UTF-8?"""
    return any("\udc80" <= each <= "\udcff" for each in text)


def _is_wrong_use(error: Exception) -> bool:
    from config.errors import ConfigurationError
    from sapwood.protocol.errors import LocalError

    return isinstance(error, ConfigurationError | LocalError)


def _explain_system(error: OSError) -> str:
    text = error.strerror or str(error) or type(error).__name__
    if error.errno == errno.EMFILE:  # whichever file was the last one, it is not at fault
        return f"{text}: raise the limit of this process (ulimit -n, or LimitNOFILE of its unit)"
    return f"{error.filename}: {text}" if error.filename else text
