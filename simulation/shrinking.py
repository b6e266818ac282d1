"""The shortest part of a history that still goes wrong (delta debugging).

Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28(2), 2002: leave out ever
smaller pieces for as long as what is left still fails.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def shortest(
    history: Sequence[Item], fails: Callable[[list[Item]], bool], attempts: int = 2000
) -> list[Item]:
    """A part of `history`, in order, that `fails`, and of which no single item can be left out.

    Caller's duty: `history` itself fails, and `fails` says the same each time. After `attempts` calls the
    shortest so far is returned, though more might be left out.
    """
    found, pieces = list(history), 2
    while len(found) > 1:
        size = -(-len(found) // pieces)
        for start in range(0, len(found), size):
            if not attempts:
                return found
            attempts -= 1
            rest = found[:start] + found[start + size :]
            if fails(rest):
                found, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                return found
            pieces = min(pieces * 2, len(found))
    return found
