"""`sapwood node recover`, and the look at a store that `node check` takes.

Looking opens the database read-only and never while a node has it. Wrinkle: SQLite may leave its empty
`-shm` file behind; nothing that the store reads is changed.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from broker.cli.output import patience, print_json
from broker.core.rows import UNREAD
from broker.store import files, marks, migrations, soundness
from broker.store.errors import StoreCorrupt, StoreMismatch, mapped
from broker.store.mending import why_not_read
from config.model import Site
from sapwood.protocol.errors import StoreError
from treeconnector.wording import counted


def recover_file(file: Path, *, force: bool, as_json: bool) -> None:
    """Salvage the store of the site that the file describes. Raises `StoreError` or `ConfigurationError`."""
    from broker.store.recovery import recover
    from config.load import load

    site = load(file)
    with patience(f"reading what can be read of {site.data_directory / files.NAME}"):
        try:
            found = recover(site.data_directory, tree=site.tree, node=site.name, force=force)
        except OSError as error:
            raise mapped(error, site.data_directory / files.NAME) from None
    if as_json:
        print_json(found.as_dict())
    else:
        print(found)


def look_at_store(site: Site) -> str:
    """Say in one line how a site's store is. Raises `StoreError` if a node could not start on it."""
    directory = site.data_directory
    path = directory / files.NAME
    try:
        if not path.exists():
            if directory.is_dir():
                marks.check_missing(directory)
            return "none yet: the first start makes it"
        with _held_by_nobody(directory) as holder:
            if holder:
                return f"{path} is in use by process {holder}, and was not looked into"
            return _look(path, site)
    except (OSError, sqlite3.Error) as error:
        raise mapped(error, path) from None


@contextmanager
def _held_by_nobody(directory: Path) -> Iterator[str]:
    """Keep nodes away meanwhile; yield the process id of a node that is there already, else ''."""
    try:
        descriptor = os.open(directory / files.LOCK, os.O_RDONLY)
    except FileNotFoundError:
        yield ""
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield ""
    except BlockingIOError:
        yield os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
    finally:
        os.close(descriptor)


def _look(path: Path, site: Site) -> str:
    files.check_unopened(path)
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
        soundness.check_kind(connection, path)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version < 1:
            raise StoreCorrupt(path, "it says no schema version")
        if version > migrations.VERSION:
            raise StoreMismatch(f"{path} was made by a newer Sapwood (version {version}): install that one")
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise StoreCorrupt(path, str(found))
        own = files.own_values(connection)
        unread = why_not_read(connection) if version == migrations.VERSION else ""
    soundness.check_owner(path, own, site.tree, site.name)
    soundness.confirmed(path, own)
    if unread:
        raise StoreError(UNREAD.format(unread))
    started = counted(files.number(own, files.START), "time")
    return f"{path} is sound: {path.stat().st_size} bytes, started {started}"
