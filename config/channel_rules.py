"""Forwards that cannot be."""

from collections.abc import Iterator

from config.contradictions import Contradiction, listed_twice
from config.fields import Spelling
from config.model import Site


def forwards(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    yield from listed_twice("forwards", "forward", (forward.name for forward in site.forwards))
    for i, forward in enumerate(site.forwards):
        if not forward.permit:
            message = (
                f"nobody may reach forward {forward.name!r}: name the nodes from which it may be reached in"
                f" {spell('permit')!r}, or leave the forward out"
            )
            yield Contradiction(("forwards", i, "name"), message, (("forwards", i, "permit"),))
