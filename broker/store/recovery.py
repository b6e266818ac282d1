"""`recover`: saves what can be read from a damaged database into a new one.

Law: the damaged file is set aside (`node.db.broken-1`, `-2`, …) and kept; the new database gets a new store
id, because positions on links belonged to what was lost. A recovery that is cut short is taken up again.

What is lost cannot all be known here: the report counts what is visibly gone, and the peers' positions show
the rest once the links are up.

Wrinkle: opening the file that was set aside folds its log into it, as any opening would.
"""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from broker.core.rows import KEYS, BundleRow, CopyRow, MetaRow, PageRow, RetainedRow
from broker.store import files, journal, log_index, marks, migrations, salvage, schema, soundness
from broker.store.errors import StoreCorrupt, mapped
from broker.store.mending import why_not_read
from config.whole_files import sync_directory
from sapwood.protocol.errors import StoreError
from treeconnector.wording import counted

NOTE: Final = "RECOVERED"
_BATCH: Final = 1000
_LATER: Final = (
    "rows that left no trace cannot be counted here: once the links are up, `gaps` and `gap_bundles` of each "
    "link (`sapwood status --json`, here and at the neighbours) count what was confirmed and is unknown now"
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a recovery did. Tables by name, in rows.

    `unreadable`: stretches of a table that could not be read, however many rows were there. `damaged`: rows
    that could be read and made no sense. `lost_bundles`: bundles that were still to be delivered and are
    gone; `lost_copies`: duties to deliver them. `dead`: bundles whose destination is not known any more,
    now dead letters with the reason RECOVERED. `saved_at`, `confirmed_at`: ms since 1970 of the newest marked
    state that was saved, and of the newest that the node had confirmed; 0 = not known. Where these differ,
    all that was committed between is gone. `cut`: how the log was cut short, if it was. `journal_lost`:
    bytes that were committed to the journal and are not there. `later`: it is of a later state than the rest.
    `journal_removed`: there must have been one, and nothing says how much it had.
    """

    database: Path
    broken: Path
    store_id: bytes
    saved: dict[str, int]
    unreadable: dict[str, int]
    damaged: dict[str, int]
    lost_bundles: int
    lost_copies: int
    dead: int
    saved_at: int = 0
    confirmed_at: int = 0
    cut: log_index.ShortLog | None = None
    journal_lost: int = 0
    later: bool = False
    journal_removed: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing is visibly gone."""
        return not (
            any(self.unreadable.values())
            or any(self.damaged.values())
            or self.lost_copies
            or self.dead
            or self.older
            or self.journal_lost
            or self.later
            or self.journal_removed
            or (self.cut is not None and self.cut.lost)
        )

    @property
    def older(self) -> bool:
        """Whether what was saved is older than what the node had confirmed."""
        return self.confirmed_at > self.saved_at

    def as_dict(self) -> dict[str, Any]:
        """For JSON: paths as text, the store id as hexadecimal digits."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        paths = {"database": str(self.database), "broken": str(self.broken)}
        known = {"store_id": self.store_id.hex(), "complete": self.complete, "older": self.older}
        cut = self.cut and self.cut._asdict() | {"lost": self.cut.lost}
        return named | paths | known | {"cut": cut}

    def __str__(self) -> str:
        lines = [f"{self.database} is new; what was there is now {self.broken}"]
        for table, saved in self.saved.items():
            gone = [
                f"{what}: {count}"
                for count, what in (
                    (self.unreadable[table], "unreadable stretches"),
                    (self.damaged[table], "damaged rows"),
                )
                if count
            ]
            if saved or gone:
                lines.append(
                    f"  {table}: {counted(saved, 'row')} saved{''.join(', ' + text for text in gone)}"
                )
        lines.append(
            f"  bundles lost: {self.lost_bundles} ({counted(self.lost_copies, 'delivery')}); "
            f"dead letters made: {self.dead}"
        )
        if self.older:
            since = f"after {marks.moment(self.saved_at)}" if self.saved_at else "before that"
            lines.append(
                f"  the node had confirmed a state of {marks.moment(self.confirmed_at)}, which is not there: "
                f"all that was committed {since} and was in no other file is lost"
            )
        if self.cut:
            missing = (
                f"{self.cut.lost} that were committed last are lost" if self.cut.lost else "nothing is lost"
            )
            lines.append(
                f"  its log was cut short: {self.cut}, {self.cut.copied} were in the database: {missing}"
            )
        if self.later:
            lines.append("  it was older than its journal, which was read over it: what came between is lost")
        elif self.journal_lost:
            lines.append(
                f"  its journal was cut short: {self.journal_lost} bytes that were committed last are lost"
            )
        elif self.journal_removed:
            lines.append("  its journal was removed: what was committed last is lost")
        lines.append(f"  {_LATER}")
        return "\n".join(lines)


def recover(directory: Path | str, *, tree: str = "", node: str = "", force: bool = False) -> Report:
    """Save what can be read from the database in `directory`, which must be stopped.

    `tree` and `node` are needed where the damaged database does not say them any more, and must agree where
    it does. A database that is sound is left alone with a `StoreError`, unless `force`.
    """
    directory = Path(directory)
    path = directory / files.NAME
    if not directory.is_dir():
        raise StoreError(f"{directory} is no directory: give the one that holds {files.NAME}")
    lock = files.lock(directory)
    try:
        mark = marks.read(directory)
        cut = log_index.cut(path)
        broken = _pending(directory, mark)
        if broken is None and not path.exists():
            broken, cut = _stand_in(path, mark), cut and cut._replace(copied=0)
        if broken is None:
            _refuse_sound(path, force=force)
            broken = _set_aside(path, mark)
        _move_log(path, broken, cut)
        report = replace(_rebuild(broken, path, tree, node, mark), cut=cut)
        marks.remove(directory)
        return report
    except (sqlite3.Error, OSError) as error:
        raise mapped(error, path) from error
    finally:
        os.close(lock)


def _pending(directory: Path, mark: marks.Mark | None) -> Path | None:
    """The file that a recovery cut short has set aside; None if there is none."""
    path = directory / files.NAME
    if path.exists():
        return None
    broken = files.broken_files(directory)
    if broken and (mark is None or mark.recovering):
        return broken[-1]
    if mark is None and not files.companion(path, "-wal").exists():
        raise StoreError(f"{path} does not exist: there is nothing to recover; a start makes a new one")
    return None


def _stand_in(path: Path, mark: marks.Mark | None) -> Path:
    """The database is gone: an empty one in its place, which its log is read over if that is there."""
    new, broken = path.with_name(files.NEW), _next_broken(path)
    files.create(new, tree="", node="").close()
    _begin(path, mark)
    files.publish(new, broken)
    return broken


def _begin(path: Path, mark: marks.Mark | None) -> None:
    """From now on a missing database is a recovery that has not ended."""
    if mark is not None:
        marks.write(path.parent, mark._replace(recovering=True))


def _refuse_sound(path: Path, *, force: bool) -> None:
    """`force` does not overrule a newer version: what this one does not know is left out."""
    try:
        files.check_unopened(path)
        connection = files.connect(path)
        try:
            sound = _is_sound(connection, path)
            soundness.confirmed(path, files.own_values(connection))
        finally:
            connection.close()
    except (sqlite3.Error, StoreCorrupt):
        return
    if sound and not force:
        raise StoreError(
            f"{path} is sound (every page and row was checked): start the node; "
            "a recovery would only give it a new store id"
        )


def _is_sound(connection: sqlite3.Connection, path: Path) -> bool:
    verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    version = migrations.version_of(connection)
    if verdict == "ok" and version > migrations.VERSION:
        raise migrations.newer(path, version)
    if verdict != "ok" or version < 1:
        return False
    if version < migrations.VERSION:
        return True
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    whole = bool(path.stat().st_size >= pages * files.PAGE_BYTES)
    owned = {files.STORE_ID, files.START, files.TREE, files.NODE} <= files.own_values(connection).keys()
    return whole and owned and not schema.missing(connection) and not why_not_read(connection)


def _next_broken(path: Path) -> Path:
    taken = files.broken_files(path.parent)
    number = int(taken[-1].name[len(files.BROKEN) :]) + 1 if taken else 1
    return path.with_name(f"{files.BROKEN}{number}")


def _set_aside(path: Path, mark: marks.Mark | None) -> Path:
    broken = _next_broken(path)
    _begin(path, mark)
    path.rename(broken)
    sync_directory(path.parent)
    return broken


def _move_log(path: Path, broken: Path, cut: log_index.ShortLog | None) -> None:
    """The log goes with its database, and never stays where the new one would take it for its own.

    The rest of one that was cut short is not read where the database is newer: it would hide that.
    """
    wal = files.companion(path, "-wal")
    if wal.exists():
        hides = cut is not None and cut.copied >= cut.whole
        wal.rename(files.companion(broken, ".log" if hides else "-wal"))
    files.companion(path, "-shm").unlink(missing_ok=True)
    for ending in ("", "-index"):
        each = path.with_name(files.JOURNAL + ending)
        if each.exists():
            each.rename(files.companion(broken, f".journal{ending}"))
    sync_directory(path.parent)


def _rebuild(broken: Path, path: Path, tree: str, node: str, mark: marks.Mark | None) -> Report:
    new = path.with_name(files.NEW)
    model = files.companion(new, ".model")
    try:
        files.create(model, tree="", node="").close()
        source = salvage.open_damaged(broken, model)
        try:
            old = _own_values(source)
            tree, node = _owner(broken, old, tree, node)
            target = files.create(new, tree=tree, node=node, recovered_from=old.get(files.STORE_ID, b""))
            try:
                store_id = mark.store_id if mark else old.get(files.STORE_ID, b"")
                beside, generation = files.companion(broken, ".journal"), files.number(old, files.GENERATION)
                found = journal.salvage(beside, store_id, generation)
                report = replace(
                    _copy_all(source, target, found, broken, path),
                    journal_lost=found.lost,
                    later=found.later,
                    journal_removed=bool(mark and generation) and not beside.exists(),
                )
            finally:
                target.close()
        finally:
            source.close()
        files.publish(new, path)
        return report if mark is None else _compared(report, marks.kept(old), mark)
    finally:
        files.remove(model)
        files.remove(files.companion(broken, ".copy"))


def _compared(report: Report, saved: marks.Mark, confirmed: marks.Mark) -> Report:
    """With what the marks say; of an owner that could not be read they say nothing of the database."""
    if not saved.number or saved.store_id != confirmed.store_id:
        return replace(report, confirmed_at=confirmed.at)
    if confirmed.number <= saved.number:
        return replace(report, saved_at=saved.at, confirmed_at=saved.at)
    return replace(report, saved_at=saved.at, confirmed_at=max(confirmed.at, saved.at + 1))


def _own_values(source: sqlite3.Connection) -> dict[str, bytes]:
    rows = salvage.TableReading(source, MetaRow).rows()
    return {row.name: row.value for row in rows if row.name.startswith("store.")}


def _owner(broken: Path, old: dict[str, bytes], tree: str, node: str) -> tuple[str, str]:
    """Whose database it is: what it says, else what the caller says."""
    found = (
        old.get(files.TREE, b"").decode("utf-8", "replace"),
        old.get(files.NODE, b"").decode("utf-8", "replace"),
    )
    for said, given, what in ((found[0], tree, "tree"), (found[1], node, "node")):
        if said and given and said != given:
            raise StoreError(f"{broken} belongs to {what} {said!r}, not {given!r}: nothing was recovered yet")
        if not (said or given):
            raise StoreError(f"{broken} does not say its {what} any more: give the {what}'s name as well")
    return found[0] or tree, found[1] or node


def _copy_all(
    source: sqlite3.Connection, target: sqlite3.Connection, found: journal.Records, broken: Path, path: Path
) -> Report:
    readings: dict[type[Any], salvage.TableReading] = {}
    tables = [table for table in KEYS if table is not PageRow]  # a start makes these from the copies
    for table in tables:
        reading = readings[table] = salvage.TableReading(source, table)
        _insert(target, table, _foreign(_addressed(target, reading.rows(), readings)))
    _follow(target, found)
    lost_bundles, lost_copies, dead = _tie_up(target)
    counts = {name: _count(target, name) for name in map(schema.table_name, tables)}
    counts["meta"] -= len(files.own_values(target))
    counts["copy"] -= dead
    return Report(
        database=path,
        broken=broken,
        store_id=files.own_values(target)[files.STORE_ID],
        saved=counts,
        unreadable={schema.table_name(table): each.stretches for table, each in readings.items()},
        damaged={schema.table_name(table): each.damaged for table, each in readings.items()},
        lost_bundles=lost_bundles,
        lost_copies=lost_copies,
        dead=dead,
    )


def _follow(target: sqlite3.Connection, found: journal.Records) -> None:
    """Do what the journal says. A header without a body changes nothing where the bundle is lost."""
    for transaction in found.transactions:
        target.execute("BEGIN IMMEDIATE")
        for table, rows, gone in transaction.tables():
            if table is not PageRow:
                schema.change(target, table, list(_foreign(iter(rows))), gone)
        target.execute("COMMIT")


def _foreign(rows: Iterator[Any]) -> Iterator[Any]:
    """Leave out what the old store kept for itself."""
    return (row for row in rows if not (isinstance(row, MetaRow) and row.name.startswith("store.")))


def _addressed(
    target: sqlite3.Connection, rows: Iterator[Any], readings: dict[type[Any], salvage.TableReading]
) -> Iterator[Any]:
    """Leave nothing but the bundle where its destination is known in part only: it is a dead letter then."""
    used = 'SELECT max(row) FROM (SELECT "row" FROM bundle UNION ALL SELECT "bundle" AS "row" FROM "copy")'
    for row in rows:
        if isinstance(row, RetainedRow) and row.topic in readings[RetainedRow].nowhere:
            (last,) = target.execute(used).fetchone()
            _insert(target, BundleRow, iter([BundleRow((last or 0) + 1, row.header, row.body)]))
        elif not isinstance(row, CopyRow) or row.bundle not in readings[BundleRow].nowhere:
            yield row


def _insert(target: sqlite3.Connection, table: type[Any], rows: Iterator[Any]) -> None:
    while batch := list(islice(rows, _BATCH)):
        target.execute("BEGIN IMMEDIATE")
        target.executemany(schema.STATEMENTS[table].put, batch)
        target.execute("COMMIT")


def _count(target: sqlite3.Connection, table: str) -> int:
    return int(target.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])  # noqa: S608


def _tie_up(target: sqlite3.Connection) -> tuple[int, int, int]:
    """Drop copies of lost bundles; make a dead letter of each bundle that no copy refers to any more."""
    target.execute("BEGIN IMMEDIATE")
    orphans = 'FROM "copy" WHERE "bundle" NOT IN (SELECT "row" FROM bundle)'
    (bundles,) = target.execute(f'SELECT count(DISTINCT "bundle") {orphans}').fetchone()
    copies = target.execute(f"DELETE {orphans}").rowcount
    (highest,) = target.execute('SELECT coalesce(max("row"), 0) FROM "copy"').fetchone()
    alone = target.execute(
        'SELECT "row" FROM bundle WHERE "row" NOT IN (SELECT "bundle" FROM "copy") ORDER BY "row"'
    ).fetchall()
    rows = [
        CopyRow(highest + place, row, "dead", 0, b"", "", 0, 0, 0, NOTE)
        for place, (row,) in enumerate(alone, 1)
    ]
    target.executemany(schema.STATEMENTS[CopyRow].put, rows)
    target.execute("COMMIT")
    return int(bundles), copies, len(rows)
