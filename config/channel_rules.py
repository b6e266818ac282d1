"""Forwards that cannot be."""

from collections.abc import Iterator

from config.contradictions import Contradiction
from config.fields import Path, Spelling
from config.model import Site


def forwards(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    names: dict[str, Path] = {}
    for i, forward in enumerate(site.forwards):
        path: Path = ("forwards", i, "name")
        if forward.name in names:
            yield Contradiction(path, f"forward {forward.name!r} is listed twice", (names[forward.name],))
        names.setdefault(forward.name, path)
        if not forward.permit:
            message = (
                f"nobody may reach forward {forward.name!r}: name the nodes from which it may be reached in"
                f" {spell('permit')!r}, or leave the forward out"
            )
            yield Contradiction(path, message, (("forwards", i, "permit"),))
