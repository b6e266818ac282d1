"""One thing that happens in a random history, with everything that was chosen for it."""

from typing import Any, NamedTuple


class Action(NamedTuple):
    """`what`: one of the words that the history's maker knows; `arguments`: numbers and texts.

    A history of these can be written down, replayed, and shortened.
    """

    what: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.what} {' '.join(map(str, self.arguments))}".rstrip()
