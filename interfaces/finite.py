"""Which definitions rest on something in the end, and do not need themselves; and how large values must be.

A definition has one or several ways to be; each way needs others. It is founded if all that one of its ways
needs is founded. A struct that has itself as a field is not: none of its values could ever be written down.

Law: time in proportion to the number of needs, whatever needs what.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from interfaces.model import Alias, Applied, Struct, Type, Variant
from interfaces.scope import Found, Key, Scope

MOST_PARTS: Final = 10_000
"""Values of defined types in the smallest value of a type."""
MOST_LEVELS: Final = 100
"""Types in each other: generated modules of more are none that Python can read."""


def sizes(ways: Mapping[Key, Sequence[Sequence[Key]]]) -> dict[Key, int]:
    """How large the smallest of each is, smallest first: 1 and what its way needs, as often as it does.

    `ways`: of each, what each of its ways needs. Whatever is not in the answer is not founded. By Knuth's
    generalization of Dijkstra's algorithm (1977).
    """
    users: dict[Key, list[tuple[Key, int]]] = defaultdict(list)
    missing: dict[tuple[Key, int], int] = {}
    found: dict[Key, int] = {}
    waiting: list[tuple[int, Key]] = []
    for node, several in ways.items():
        for number, needs in enumerate(several):
            missing[node, number] = len(set(needs))
            for need in set(needs):
                users[need].append((node, number))
            if not needs:
                heappush(waiting, (1, node))
    while waiting:
        size, node = heappop(waiting)
        if node in found:
            continue
        found[node] = size
        for user, number in users[node]:
            missing[user, number] -= 1
            if missing[user, number] == 0:
                heappush(waiting, (1 + sum(found[need] for need in ways[user][number]), user))
    return found


def parts(types: Mapping[Key, Found]) -> dict[Key, int]:
    """The values of defined types in the smallest value of each type; not of those that have no value."""
    return sizes(_ways(types))


def levels(types: Mapping[Key, Found]) -> dict[Key, int]:
    """How many types stand in each other, from each on down. In a circle each counts once, as it is met."""
    found: dict[Key, int] = {}
    whole: set[Key] = set()
    for key in types:
        way = [(key, _named_in(types[key], types))] if key not in found else []
        found.setdefault(key, 1)
        while way:
            here, rest = way[-1]
            inner = next(rest, None)
            if inner is None:
                way.pop()
                whole.add(here)
                if way:
                    above = way[-1][0]
                    found[above] = max(found[above], found[here] + 1)
            elif inner not in found:
                found[inner] = 1
                way.append((inner, _named_in(types[inner], types)))
            elif inner in whole:
                found[here] = max(found[here], found[inner] + 1)
    return found


def _named_in(found: Found, types: Mapping[Key, Found]) -> Iterator[Key]:
    match found.definition:
        case Struct(fields=parts) | Variant(cases=parts):
            inside: list[Type | None] = [each.type for each in parts]
        case Alias(type=type_):
            inside = [type_]
        case _:
            inside = []
    for each in inside:
        for named in references(each, found.scope) if each else ():
            if named.key in types:
                yield named.key


def _ways(types: Mapping[Key, Found]) -> dict[Key, list[list[Key]]]:
    """By type, its ways to be: the types of which each needs a value, as often as it does."""

    def needs(type_: Type | None, scope: Scope) -> list[Key]:
        all_of_it = references(type_, scope, all_of_it=False) if type_ else ()
        return [found.key for found in all_of_it if found.key in types]

    ways: dict[Key, list[list[Key]]] = {}
    for key, found in types.items():
        match found.definition:
            case Struct(fields=fields):
                ways[key] = [[need for each in fields for need in needs(each.type, found.scope)]]
            case Variant(cases=cases):
                ways[key] = [needs(each.type, found.scope) for each in cases]
            case Alias(type=type_):
                ways[key] = [needs(type_, found.scope)]
    return ways


def in_circles(types: Mapping[Key, Found]) -> set[Key]:
    """The aliases that are another name for themselves, or for such a one."""
    aliases = {key: found for key, found in types.items() if isinstance(found.definition, Alias)}
    ways = {
        key: [[each.key for each in references(found.definition.type, found.scope) if each.key in aliases]]
        for key, found in aliases.items()
        if isinstance(found.definition, Alias)
    }
    return ways.keys() - sizes(ways).keys()


def references(type_: Type, scope: Scope, *, all_of_it: bool = True) -> Iterator[Found]:
    """The definitions that a type names; without `all_of_it` those that each of its values needs."""
    if isinstance(type_, Applied):
        if all_of_it or type_.name == "pair":
            for each in type_.arguments:
                yield from references(each, scope, all_of_it=all_of_it)
    elif (found := scope.find(type_)) is not None:
        yield found
