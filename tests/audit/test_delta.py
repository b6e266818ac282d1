"""A history of Delta tables says the same as one of files of Parquet, and each batch of a follower counts
once in both."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from threading import Barrier

import pyarrow as arrow
import pytest
from deltalake import DeltaTable, write_deltalake
from history_rows import kept_rows as rows
from pyarrow import Table, parquet
from test_history import DAYS, summary, tables

from audit.delta import SMALL_FILES
from audit.errors import AuditError, UsageError
from audit.history import Counts, Day

FORMS = ("parquet", "delta")


def batch(folder: Path, *counts: tuple[int, str, int]) -> Path:
    """One as Spark writes it: (day of March, node, rows)."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [
        {
            "since": datetime(2026, 3, day, 23, 55, tzinfo=UTC),
            "node": node,
            "event": "advisory",
            "kind": None,
            "rows": n,
            "bytes": 40 * n,
        }
        for day, node, n in counts
    ]
    types = {"since": arrow.timestamp("us", "UTC"), "kind": arrow.string(), "rows": arrow.int64()}
    names = list(found[0])
    table = Table.from_pylist(found)
    table = table.cast(
        arrow.schema([(name, types.get(name, table.schema.field(name).type)) for name in names])
    )
    parquet.write_table(table, folder / "part-00000.parquet")
    return folder


COUNTED = "select day, node, sum(rows) from sapwood_counts group by day, node order by day, node"


def test_a_new_run_replaces_the_old_one_in_delta_tables(tmp_path: Path) -> None:
    root = tmp_path / "it's kept"
    tree = "acme's/x y"
    Day(str(root), DAYS[0], tree, "delta").append(tables(tmp_path / "found", 1), summary())
    other = Day(str(root), DAYS[1], tree).append(tables(tmp_path / "found", 2), summary())
    again = Day(str(root), DAYS[0], tree)
    assert len(again.done) == 1
    new = again.append(tables(tmp_path / "found", 3), summary())
    select = "select tree, day, run, advisories from sapwood_volume_by_node order by day"
    assert rows(root, select) == [(tree, DAYS[0], new, 3), (tree, DAYS[1], other, 2)]
    assert Day(str(root), DAYS[0]).done == [new]
    assert Day(str(root), DAYS[0], "other").done == []
    assert DeltaTable(str(root / "tables" / "volume_by_node")).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_that_comes_again_counts_once(form: str, tmp_path: Path) -> None:
    root = tmp_path / "kept"
    batches = [((14, "hq", 1), (15, "hq", 2)), ((15, "hq", 4), (15, "york", 8)), ((16, "hq", 16),)]
    for number, counts in enumerate(batches):
        for _ in range(2):  # the second time by another process, as after a crash
            kept = Counts(str(root), "acme", "20260316T0-a", form)
            kept.take(number, batch(tmp_path / f"batch={number}", *counts))
    days = [date(2026, 3, day) for day in (14, 15, 15, 16)]
    sums = [("hq", 1), ("hq", 6), ("york", 8), ("hq", 16)]
    assert rows(root, COUNTED) == [(day, *each) for day, each in zip(days, sums, strict=True)]


@pytest.mark.parametrize("form", FORMS)
def test_a_follower_that_began_anew_replaces_the_days_that_it_has(form: str, tmp_path: Path) -> None:
    """Its checkpoints were lost: it reads again all logs that are still there."""
    root = tmp_path / "kept"
    Counts(str(root), "acme", "20260316T0-a", form).take(
        0, batch(tmp_path / "a", (14, "hq", 1), (15, "hq", 2))
    )
    Counts(str(root), "acme", "20260317T0-b", form).take(
        0, batch(tmp_path / "b", (15, "hq", 3), (16, "hq", 4))
    )
    Counts(str(root), "other", "20260318T0-c", form).take(0, batch(tmp_path / "c", (14, "hq", 7)))
    mine = COUNTED.replace("group by", "where tree = 'acme' group by")
    assert rows(root, mine) == [(date(2026, 3, day), "hq", n) for day, n in ((14, 1), (15, 3), (16, 4))]


@pytest.mark.parametrize("form", FORMS)
def test_several_trees_are_kept_in_one_history_at_once(form: str, tmp_path: Path) -> None:
    """Each by a process of its own in a chain; here they begin the tables in the same moment."""
    root, trees = tmp_path / "kept", ("acme", "bolt", "coil", "duct")
    together = Barrier(len(trees))

    def keep(tree: str) -> None:
        counts, found = Counts(str(root), tree, f"20260316T0-{tree}", form), tmp_path / "found" / tree
        together.wait()
        for number in range(6):
            counts.take(number, batch(tmp_path / f"{tree}-{number}", (14 + number, "hq", 1)))
        for times in (1, 2):
            Day(str(root), DAYS[0], tree, form).append(tables(found, times), summary())

    with ThreadPoolExecutor(len(trees)) as pool:
        for done in [pool.submit(keep, tree) for tree in trees]:
            done.result()
    assert rows(root, "select tree, sum(rows) from sapwood_counts group by tree order by tree") == [
        (tree, 6) for tree in trees
    ]
    select = "select tree, day, advisories from sapwood_volume_by_node order by tree"
    assert rows(root, select) == [(tree, DAYS[0], 2) for tree in trees]


def test_many_batches_of_a_day_are_few_files_and_all_their_rows(tmp_path: Path) -> None:
    root = tmp_path / "kept"
    for number in range(SMALL_FILES):
        Counts(str(root), "acme", "s", "delta").take(number, batch(tmp_path / "one", (14, "hq", 1)))
    assert len(DeltaTable(str(root / "tables" / "counts")).file_uris()) < SMALL_FILES
    assert rows(root, COUNTED) == [(date(2026, 3, 14), "hq", SMALL_FILES)]


@pytest.mark.parametrize("form", FORMS)
def test_the_other_form_is_refused(form: str, tmp_path: Path) -> None:
    root = str(tmp_path / "kept")
    Day(root, DAYS[0], form=form).append(tables(tmp_path / "found", 1), summary())
    other = next(each for each in FORMS if each != form)
    with pytest.raises(UsageError, match=f"expected --history-format {form}"):
        Day(root, DAYS[0], form=other)


def test_a_place_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    day = Day(str(tmp_path / "file"), DAYS[0], form="delta")
    with pytest.raises(AuditError, match="cannot be written to"):
        day.append(tables(tmp_path / "found", 1), summary())


def test_a_table_that_is_kept_for_longer_than_a_week_is_so(tmp_path: Path) -> None:
    root = tmp_path / "kept"
    Day(str(root), DAYS[0], form="delta").append(tables(tmp_path / "found", 1), summary())
    kept = {"delta.deletedFileRetentionDuration": "interval 30 days"}
    DeltaTable(str(root / "tables" / "volume_by_node")).alter.set_table_properties(kept)
    Day(str(root), DAYS[1]).append(tables(tmp_path / "found", 2), summary())
    assert rows(root, "select advisories from sapwood_volume_by_node order by day") == [(1,), (2,)]


def test_a_column_that_another_writer_made_narrower_takes_nothing_that_it_does_not_hold(
    tmp_path: Path,
) -> None:
    root, table = tmp_path / "kept", tmp_path / "kept" / "tables" / "volume_by_node"
    found = tables(tmp_path / "found", 1)

    def share(value: float) -> Path:
        shares = Table.from_pylist([{"node": "hq", "share": value}])
        parquet.write_table(shares, found / "volume_by_node" / "part-00000.parquet")
        return found

    Day(str(root), DAYS[0], form="delta").append(share(1.0), summary())
    there = DeltaTable(str(table)).to_pyarrow_table()
    whole = there.set_column(there.column_names.index("share"), "share", there["share"].cast(arrow.int64()))
    write_deltalake(
        str(table), whole, mode="overwrite", schema_mode="overwrite", partition_by=["tree", "day"]
    )
    Day(str(root), DAYS[1]).append(share(2.0), summary())
    with pytest.raises(AuditError, match=r"column share is int64 there: .* 2\.5"):
        Day(str(root), DAYS[1]).append(share(2.5), summary())
    assert rows(root, "select share from sapwood_volume_by_node order by day") == [(1,), (2,)]


def test_why_a_log_of_delta_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    root = tmp_path / "kept"
    Day(str(root), DAYS[0], form="delta").append(tables(tmp_path / "found", 1), summary())
    (root / "runs" / "_delta_log" / f"{0:020}.json").write_text('{"add": half')
    with pytest.raises(UsageError, match="cannot be reached: ") as raised:
        Day(str(root), DAYS[1])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("form", FORMS)
def test_what_others_lay_beside_the_tables_is_no_table(form: str, tmp_path: Path) -> None:
    root = tmp_path / "kept"
    Day(str(root), DAYS[0], form=form).append(tables(tmp_path / "found", 1), summary())
    (root / "tables" / ".DS_Store").touch()
    (root / "tables" / "readme.txt").touch()
    again = Day(str(root), DAYS[0])
    new = again.append(tables(tmp_path / "found", 2), summary())
    assert rows(root, "select run, advisories from sapwood_volume_by_node") == [(new, 2)]
