"""Combinations in a mesh that cannot be."""

from collections.abc import Iterator

from config.contradictions import Contradiction, needless_path
from config.fields import Path, Spelling
from config.model import Site
from config.uris import Address, address


def mesh(site: Site, _spell: Spelling) -> Iterator[Contradiction]:
    """A mesh is one of roots or of branches, and lists each other node once."""
    cores = site.mesh.cores
    looked_at: tuple[Path, ...] = (("scheme",), ("tree_connectors",), ("tree_connectors", 0, "nodetype"))
    for name in ("cores", "uri", "secret_env", "secret_file"):
        if getattr(site.mesh, name) and site.role == "leaf":
            role = "satellite" if site.scheme else "leaf"
            message = f"a {role} is in no mesh: it finds all cores by its connector"
            yield Contradiction(("mesh", name), message, looked_at)
    if site.mesh.uri and not (site.mesh.secret_env or site.mesh.secret_file):
        message = "DNS proves nothing: whoever it names proves the secret of the mesh; give the mesh one"
        yield Contradiction(("mesh", "uri"), message, (("mesh", "secret_file"),))
    seen: dict[str, Path] = {site.name: ("name",)}
    ways: dict[Address, Path] = {address(uri): ("listener",) for uri in site.listener.announced}
    for i, core in enumerate(cores):
        path: Path = ("mesh", "cores", i)
        if core.name in seen:
            what = "this node itself: list the others" if core.name == site.name else "listed twice"
            yield Contradiction((*path, "name"), f"core {core.name!r} is {what}", (seen[core.name],))
        seen.setdefault(core.name, (*path, "name"))
        for j, uri in enumerate(core.ways):
            where: Path = (*path, "uris", j - 1) if j else (*path, "uri")
            if address(uri) in ways:
                message = f"{uri!r} is the address of another node, or stands twice: each has its own"
                yield Contradiction(where, message, (ways[address(uri)],))
            ways.setdefault(address(uri), where)
            yield from needless_path(where, address(uri))
