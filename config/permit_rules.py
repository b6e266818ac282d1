"""Children and their permits that cannot be."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from config.contradictions import Contradiction, listed_twice
from config.fields import Path, Spelling
from config.model import Account, Child, Permits, Site
from sapwood.protocol.errors import PatternError
from treeconnector.permits import LISTS, NOTHING, check_channel_rule, check_node_rule, read_rule

_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    "consume": lambda text: read_rule(text, cells=False),
    "send": read_rule,
    "nodes": check_node_rule,
    "opens": check_channel_rule,
    "serves": check_channel_rule,
}


def permits(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    looked_at: tuple[Path, ...] = (("scheme",), ("tree_connectors",), ("tree_connectors", 0, "nodetype"))
    role = "satellite" if site.scheme else site.role
    if site.role == "leaf":
        advice = f"a {role} has no children: leave this out, or write {spell('nodetype')} branch"
        for name in ("children", "children_secrets"):
            if getattr(site, name):
                yield Contradiction((name,), advice, looked_at)
        if site.permits != Permits():
            yield Contradiction(("permits",), advice, looked_at)
    yield from rules_of_patterns(("permits",), site.permits)
    yield from _open(site)
    yield from listed_twice("children", "child", (child.name for child in site.children))
    for i, child in enumerate(site.children):
        if child.name == site.name:
            text = f"{child.name!r} is this node: it cannot be its own child"
            yield Contradiction(("children", i, "name"), text, (("name",),))
        yield from rules_of_patterns(("children", i), child)
        if child.role == "leaf" and child.nodes and child.nodes != (NOTHING,):
            yield Contradiction(
                ("children", i, "nodes"),
                "a leaf has no nodes below it: leave this out",
                (("children", i, "role"),),
            )


def _open(site: Site) -> Iterator[Contradiction]:
    """Everything is open, or there are rules."""
    if site.permits.default != "open":
        return
    sections: list[tuple[Path, Child | Permits]] = [(("permits",), site.permits)]
    sections += [(("children", i), child) for i, child in enumerate(site.children)]
    for path, given in sections:
        for name in LISTS:
            if getattr(given, name):
                yield Contradiction(
                    (*path, name),
                    "the default is open, which lets every child do everything: leave out that, or all rules",
                    (("permits", "default"),),
                )


def rules_of_patterns(
    path: Path, given: Child | Permits | Account, names: Iterable[str] = LISTS
) -> Iterator[Contradiction]:
    """What a pattern of the file's grammar does not see, as a '*' beside {name}."""
    for name in names:
        written: tuple[str, ...] = getattr(given, name)
        for i, text in enumerate(written):
            if text == NOTHING:
                if len(written) > 1:
                    yield Contradiction((*path, name, i), f"{NOTHING!r} stands alone, or not at all")
                continue
            try:
                _CHECKS[name](text)
            except PatternError as error:
                yield Contradiction((*path, name, i), str(error))
