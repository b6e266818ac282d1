"""What a command says when it cannot do its work, and the exit code that goes with it.

An exception that is ours or the system's becomes one text; anything else is a defect and says so.
`SAPWOOD_TRACEBACK=1` in the environment shows where it came from.
"""

import os
from typing import Final

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
    from treeconnector.errors import SapwoodError

    if isinstance(error, CommandError):
        return str(error), error.exit_code
    if isinstance(error, SapwoodError):
        return str(error), WRONG_USE if _is_about_configuration(error) else FAILED
    if isinstance(error, OSError):
        return _explain_system(error), FAILED
    return f"unexpected {type(error).__name__}: {error} (SAPWOOD_TRACEBACK=1 shows where)", FAILED


def wants_traceback() -> bool:
    return os.environ.get("SAPWOOD_TRACEBACK", "") not in ("", "0")


def _is_about_configuration(error: Exception) -> bool:
    from config.errors import ConfigurationError
    from treeconnector.errors import LocalError

    return isinstance(error, ConfigurationError | LocalError)


def _explain_system(error: OSError) -> str:
    text = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {text}" if error.filename else text
