"""Combinations of lines out, and of strategies for them, that cannot be."""

from collections.abc import Iterator

from config.contradictions import Contradiction
from config.fields import Path, Spelling
from config.model import Site
from config.strategies import why_not
from config.uris import address


def lines(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    for i, connector in enumerate(site.tree_connectors):
        if unknown := why_not(connector.strategy):
            yield Contradiction(("tree_connectors", i, "strategy"), unknown)
        path: Path = ("tree_connectors", i, "local_addresses")
        for j, line in enumerate(connector.local_addresses):
            if line in connector.local_addresses[:j]:
                yield Contradiction((*path, j), f"{line!r} is listed twice", (path,))
        if connector.local_addresses and (unbound := next(filter(None, map(_unbound, connector.ways)), "")):
            message = f"the library for {unbound} binds no address: leave {spell('local_addresses')!r} out"
            yield Contradiction(path, message, ((*path[:2], "uri"), (*path[:2], "uris")))


def _unbound(uri: str) -> str:
    """The scheme of a way whose library takes no local address; '' if it does."""
    way = address(uri)
    return "" if way.looked_up or way.protocol.binds else way.protocol.scheme
