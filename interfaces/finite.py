"""Which definitions rest on something in the end, and do not need themselves.

A definition has one or several ways to be; each way needs others. It is founded if all that one of its ways
needs is founded. A struct that has itself as a field is not: none of its values could ever be written down.

Law: time in proportion to the number of needs, whatever needs what.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from interfaces.model import Alias, Applied, Struct, Type, Variant
from interfaces.scope import Found, Key, Scope


def founded(ways: Mapping[Key, Sequence[set[Key]]]) -> set[Key]:
    """Those that rest on something. `ways`: of each, what each of its ways needs."""
    users: dict[Key, list[tuple[Key, int]]] = defaultdict(list)
    missing: dict[tuple[Key, int], int] = {}
    for node, several in ways.items():
        for number, needs in enumerate(several):
            missing[node, number] = len(needs)
            for need in needs:
                users[need].append((node, number))
    waiting = [node for (node, _), count in missing.items() if count == 0]
    found: set[Key] = set()
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        for way in users[node]:
            missing[way] -= 1
            if missing[way] == 0:
                waiting.append(way[0])
    return found


def without_value(types: Mapping[Key, Found]) -> set[Key]:
    """The types of which no value can be written down."""

    def needs(type_: Type, scope: Scope) -> set[Key]:
        return {found.key for found in references(type_, scope, all_of_it=False) if found.key in types}

    ways: dict[Key, list[set[Key]]] = {}
    for key, found in types.items():
        match found.definition:
            case Struct(fields=fields):
                ways[key] = [set().union(*(needs(each.type, found.scope) for each in fields))]
            case Variant(cases=cases):
                ways[key] = [needs(each.type, found.scope) if each.type else set() for each in cases]
            case Alias(type=type_):
                ways[key] = [needs(type_, found.scope)]
    return set(ways) - founded(ways)


def in_circles(types: Mapping[Key, Found]) -> set[Key]:
    """The aliases that are another name for themselves, or for such a one."""
    aliases = {key: found for key, found in types.items() if isinstance(found.definition, Alias)}
    ways = {
        key: [{each.key for each in references(found.definition.type, found.scope) if each.key in aliases}]
        for key, found in aliases.items()
        if isinstance(found.definition, Alias)
    }
    return set(ways) - founded(ways)


def references(type_: Type, scope: Scope, *, all_of_it: bool = True) -> Iterator[Found]:
    """The definitions that a type names; without `all_of_it` those that each of its values needs."""
    if isinstance(type_, Applied):
        if all_of_it or type_.name == "pair":
            for each in type_.arguments:
                yield from references(each, scope, all_of_it=all_of_it)
    elif (found := scope.find(type_)) is not None:
        yield found
