"""Circles of modules: sets in which each module imports each other one, straight or by way of others.

`allowed.txt` lists those that are there and have to go: a module a line, an empty line between circles. A
circle may only shrink: a new one is a fault, and so is a listed module that is in no circle any more.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ALLOWED: Final = Path(__file__).with_name("allowed.txt")
Circle = frozenset[str]


def circles(imports: Mapping[str, Iterable[str]]) -> list[Circle]:
    """The circles of a graph (module -> modules that it imports), the largest first.

    Tarjan's way, with a stack of its own, since a graph may be deeper than Python's stack.
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_modules: dict[str, None] = {}
    found: list[Circle] = []
    for start in sorted(imports):
        if start in number:
            continue
        work = [(start, iter(sorted(imports[start])))]
        number[start] = lowest[start] = len(number)
        open_modules[start] = None
        while work:
            module, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[module])
                if lowest[module] == number[module]:
                    found.append(_closed(module, open_modules))
            elif following not in number:
                number[following] = lowest[following] = len(number)
                open_modules[following] = None
                work.append((following, iter(sorted(imports.get(following, ())))))
            elif following in open_modules:
                lowest[module] = min(lowest[module], number[following])
    real = [
        circle for circle in found if len(circle) > 1 or circle <= set(imports.get(next(iter(circle)), ()))
    ]
    return sorted(real, key=lambda circle: (-len(circle), sorted(circle)))


def _closed(module: str, open_modules: dict[str, None]) -> Circle:
    """Take a module and all above it off the stack."""
    taken = []
    while not taken or taken[-1] != module:
        taken.append(open_modules.popitem()[0])
    return frozenset(taken)


def read(text: str) -> list[Circle]:
    """The circles of a list; what follows a `#` is for people."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    parts = "\n".join(lines).split("\n\n")
    return [frozenset(part.split()) for part in parts if part.split()]


def faults(found: Iterable[Circle], allowed: Iterable[Circle]) -> list[str]:
    """Say which circles are new or grew, and which modules are free by now."""
    found, allowed = list(found), list(allowed)
    said = [_new(circle, allowed) for circle in found if not any(circle <= known for known in allowed)]
    inside = frozenset[str]().union(*found)
    for known in allowed:
        said += [
            f"{module} is in no circle any more: take it out of {ALLOWED.name}"
            for module in sorted(known - inside)
        ]
    return said


def _new(circle: Circle, allowed: list[Circle]) -> str:
    near = max(allowed, key=lambda known: len(known & circle), default=frozenset[str]())
    if near & circle:
        more = ", ".join(sorted(circle - near))
        return f"the circle of {min(near & circle)} has grown by {more}: break it (who needs what of whom?)"
    return f"a new circle: {', '.join(sorted(circle))}: break it (who needs what of whom?)"
