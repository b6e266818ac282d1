"""What is wrong with a configuration, all of it at once, and where.

ConfigurationError (a sapwood.protocol.errors.SapwoodError)
    one error for a whole file or table: `problems` lists every mistake that was found in it
"""

from collections.abc import Iterable
from typing import Final

from config.records import record
from sapwood.protocol.errors import SapwoodError

LISTED: Final = 100


@record
class Problem:
    """One mistake. `line` and `column` count from 1; in a table `column` is the column's name."""

    message: str
    file: str = ""
    line: int | None = None
    column: int | str | None = None

    def __str__(self) -> str:
        place = [str(part) for part in (self.file, self.line, self.column) if part not in (None, "")]
        return f"{':'.join(place)}: {self.message}" if place else self.message


class ConfigurationError(SapwoodError):
    """A configuration that cannot be used; the text has one line a problem, in the file's order."""

    def __init__(self, problems: Iterable[Problem] | str) -> None:
        self.problems = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        lines = [str(problem) for problem in self.problems[:LISTED]]
        if len(self.problems) > LISTED:
            lines.append(f"and {len(self.problems) - LISTED} more")
        super().__init__("\n".join(lines))


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """Return `; did you mean 'x'?` for the nearest of `known`, `most` of them at most, or nothing."""
    from difflib import get_close_matches  # only needed once something is wrong

    by_folded = {name.replace("_", "").lower(): name for name in known}
    near = get_close_matches(word[:80].replace("_", "").replace("-", "").lower(), by_folded, most, 0.7)
    *more, last = [repr(by_folded[name]) for name in near] or [""]
    return f"; did you mean {', '.join(more)}{' or ' if more else ''}{last}?" if near else ""
