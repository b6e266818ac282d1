"""Forwards and folders that cannot be."""

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


def folders(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    yield from listed_twice("folders", "folder", (folder.name for folder in site.folders))
    forwarded = {forward.name: i for i, forward in enumerate(site.forwards)}
    for i, folder in enumerate(site.folders):
        if not (folder.read or folder.write):
            message = (
                f"nobody may use folder {folder.name!r}: name the nodes from which files may be fetched in"
                f" {spell('read')!r}, or brought in {spell('write')!r}, or leave the folder out"
            )
            yield Contradiction(("folders", i, "name"), message, (("folders", i, "read"),))
        if folder.name in forwarded:
            message = f"{folder.name!r} is the name of a forward too: give one of them another"
            others = (("forwards", forwarded[folder.name], "name"),)
            yield Contradiction(("folders", i, "name"), message, others)
