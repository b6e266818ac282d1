"""Writes the files of a chain: OUT/xml/NAME.xml, OUT/yaml/NAME.yaml, and on request its secrets.

Secrets: OUT/secrets/NAME.secret proves a node to its parent, OUT/secrets/NAME.children is the table of a
parent, OUT/secrets/WORD.mesh is what the nodes of a mesh prove to each other; only their owner can read them.
A secret that is already there is kept, so that writing the chain again after a change of the table leaves
every other site as it is.

Law: nothing is written unless the whole table is right.
"""

import os
import secrets as random_secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from config.credentials import resolve_secret
from config.errors import ConfigurationError
from config.fleet.model import sites
from config.fleet.row import SiteRow
from config.fleet.tree import Meshes
from config.model import Listener, Site
from config.write import WRITERS

FORMATS: Final = tuple(WRITERS)
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The models as they stand in the files, the files, and what an operator should know."""

    sites: tuple[Site, ...]
    files: tuple[Path, ...]
    warnings: tuple[str, ...]


def write_fleet(
    rows: Sequence[SiteRow],
    out_dir: str | Path,
    formats: Iterable[str] = FORMATS,
    *,
    secrets: bool = False,
) -> FleetReport:
    """Write the file of every row in each of `formats`; with `secrets`, a secret for each child too.

    Raises `ConfigurationError` when the rows are no tree, or when a file cannot be written.
    """
    wanted, out = tuple(formats), Path(out_dir)
    unknown = [name for name in wanted if name not in WRITERS]
    if unknown:
        raise ConfigurationError(f"{unknown[0]!r} is not a format: expected {' or '.join(FORMATS)}")
    made = sites(rows)
    warnings = [] if secrets else _left_alone(rows, made)
    files: list[Path] = []
    try:
        if secrets:
            made = _with_secrets(made, rows)
            files += _write_secrets(rows, out / "secrets")
        for name in wanted:
            files += _write_sites(made, out / name, name)
            warnings += _strangers(made, out / name, name)
    except OSError as error:
        raise ConfigurationError(f"cannot write {error.filename}: {error.strerror or error}") from None
    return FleetReport(tuple(made), tuple(files), tuple(warnings))


def _write_sites(made: Iterable[Site], folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    write, files = WRITERS[name], []
    for site in made:
        file = folder / f"{site.name}.{name}"
        file.write_text(write(site), "utf-8", newline="\n")
        files.append(file)
    return files


def _strangers(made: Iterable[Site], folder: Path, name: str) -> list[str]:
    """Files that an earlier table left behind."""
    known = {site.name for site in made}
    strangers = sorted(file for file in folder.glob(f"*.{name}") if file.stem not in known)
    return [f"{file} belongs to no site of the table: remove it" for file in strangers]


def _left_alone(rows: Sequence[SiteRow], made: Iterable[Site]) -> list[str]:
    """Parents that would refuse children, because these come from another machine without a secret."""
    meshes = Meshes(rows)
    bare = {
        parent.name for row in rows if not (row.secret_env or row.secret_file) for parent in meshes.above(row)
    }
    return [
        f"{site.name!r} will refuse children from other machines, because these have no secret: "
        "let secrets be generated, or fill the columns secret_file (children) and children_secrets (parent)"
        for site in made
        if site.name in bare and _asks_for_secrets(site.listener)
    ]


def _asks_for_secrets(listener: Listener) -> bool:
    return bool(listener.link_brokers or not (listener.loopback or listener.tls.client_ca))


def _with_secrets(made: Iterable[Site], rows: Sequence[SiteRow]) -> list[Site]:
    """Name the files of secrets in every site that the table does not tell where they are."""
    meshes = Meshes(rows)
    parents = {parent.name for row in rows for parent in meshes.above(row)}
    words = {row.name: row.mesh for row in rows}
    named = []
    for site in made:
        if site.name in parents and site.children_secrets is None:
            site = replace(site, children_secrets=Path("..", "secrets", f"{site.name}.children"))
        if site.mesh.cores:
            file = Path("..", "secrets", f"{words[site.name]}.mesh")
            site = replace(site, mesh=replace(site.mesh, secret_file=file))
        connector = site.connector
        if connector and not (connector.secret_env or connector.secret_file):
            file = Path("..", "secrets", f"{site.name}.secret")
            site = replace(site, tree_connectors=(replace(connector, secret_file=file),))
        named.append(site)
    return named


def _write_secrets(rows: Sequence[SiteRow], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    meshes = Meshes(rows)
    tables: defaultdict[str, list[str]] = defaultdict(list)
    files = [folder / f"{members[0].mesh}.mesh" for members in meshes]
    for file in files:
        _secret(file)
    for row in rows:
        if row.parent:
            file = folder / f"{row.name}.secret"
            line = f"{row.name}\t{_secret(file)}\n"
            for parent in meshes.above(row):
                tables[parent.name].append(line)
            files.append(file)
    for name, lines in tables.items():
        table = folder / f"{name}.children"
        _write_private(table, "".join(lines))
        files.append(table)
    return files


def _secret(file: Path) -> str:
    """Return the secret in `file`, which is made where it is not there yet."""
    if file.exists():
        kept = resolve_secret(None, file, what=f"secret of {file.stem!r}")
        assert kept is not None
        return kept.reveal()
    made = random_secrets.token_urlsafe(_SECRET_BYTES)
    _write_private(file, made + "\n")
    return made


def _write_private(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8", newline="\n") as opened:
        os.fchmod(descriptor, 0o600)
        opened.write(text)
