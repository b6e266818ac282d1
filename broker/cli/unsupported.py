"""What a site's file may say and this version cannot do yet.

Law: such a setting is refused before the node starts, never left aside in silence: a site whose broker is
not joined looks like one that is.
"""

from collections.abc import Iterator

from config.model import Site


def what_is_missing(site: Site) -> Iterator[str]:
    """Say for each such setting what it is, and what to do."""
    if site.scheme:
        yield f"scheme {site.scheme!r}: this version knows trees only; say nodetype at the tree connector"
