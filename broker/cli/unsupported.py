"""What a site's file may say and this version cannot do yet.

Law: such a setting is refused before the node starts, never left aside in silence: a site whose broker is
not joined looks like one that is.
"""

from collections.abc import Iterator
from typing import Final

from config.model import Site
from config.uris import BROKERED, address

CARRIERS: Final = frozenset({"ws", "wss"}) | BROKERED


def what_is_missing(site: Site) -> Iterator[str]:
    """Say for each such setting what it is, and what to do."""
    if site.scheme:
        yield f"scheme {site.scheme!r}: this version knows trees only; say nodetype at the tree connector"
    for uri in site.connector.ways if site.connector else ():
        scheme = address(uri).scheme
        if scheme not in CARRIERS:
            yield (
                f"tree connector {uri!r}: this version looks nothing up in DNS;"
                " write ws://HOST:7600/link, wss://, mqtt:// or amqp://"
            )
