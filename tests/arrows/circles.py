"""Circles of modules: sets in which each module imports each other one, straight or by way of others."""

from collections.abc import Iterable, Mapping

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


def faults(found: Iterable[Circle]) -> list[str]:
    """Say which circles there are."""
    return [f"a circle: {', '.join(sorted(circle))}: break it (who needs what of whom?)" for circle in found]
