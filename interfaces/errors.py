"""What is wrong with definitions, all of it at once, and where.

InterfaceError
    one error for all files that were read: `problems` lists every mistake that was found
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOST: Final = 100
"""Problems of one file that are kept; the rest would follow from them."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake. `line` and `column` count from 1; 0 = the file as a whole."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        place = [str(part) for part in (self.file, self.line, self.column) if part]
        return f"{':'.join(place)}: {self.message}" if place else self.message


class InterfaceError(Exception):
    """Definitions that cannot be used; the text has one line a problem, in the files' order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))
