"""Logs and history on a real object store, without a jar: the audit of `s3a://` finds what that of a folder
finds, and names the files by where they lie."""

import csv
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from object_store import object_store, upload
from pyarrow import dataset, fs

from audit import places
from audit.errors import UsageError
from audit.history import Day
from audit.run import Request, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"
DAY = date(2026, 11, 21)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store("chain") as url:
        yield url


def tables(out: Path) -> dict[str, list[list[str]]]:
    found = {}
    for path in sorted((out / "csv").iterdir()):
        with path.open(encoding="utf-8") as file:
            found[path.stem] = list(csv.reader(file))
    return found


def test_logs_on_s3a_are_audited_as_those_of_a_folder(
    spark: "SparkSession", bucket: str, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(DATA / "demo", logs / "day=1 é")
    (logs / "broken.jsonl").write_text("rubbish\n")
    (logs / "notes.txt").write_text("nobody's log")
    shutil.copytree(logs / "day=1 é", logs / "old" / "tables")
    (logs / "old" / "tables" / ".sapwood-results").touch()
    upload(logs, f"{bucket}/logs")
    upload(DATA, f"{bucket}/given")
    near = audit(spark, Request([str(logs)], str(DATA / "stores.csv"), tmp_path / "near", named=True))
    far = audit(
        spark,
        Request(["s3a://chain/logs/"], "s3a://chain/given/stores.csv", tmp_path / "far", named=True),
    )
    different = ("seconds", "report")
    assert {k: v for k, v in far.items() if k not in different} == {
        k: v for k, v in near.items() if k not in different
    }
    assert near["ignored_files"] == 2, "the notes, and the mark of what an audit wrote"
    here, there = tables(tmp_path / "near"), tables(tmp_path / "far")
    names = [row[0] for row in there["files"][1:]]
    assert all(name.startswith("s3a://chain/logs/") for name in names)
    begins = f"file:{logs}/"
    here["files"] = [[cell.replace(begins, "s3a://chain/logs/") for cell in row] for row in here["files"]]
    assert there == here
    for form in ("parquet", "delta"):
        _history(f"s3a://chain/kept-{form}", form, tmp_path / "far", far)


def _history(root: str, form: str, out: Path, summary: dict[str, Any]) -> None:
    """The day on the store, added twice: the second run alone is in the tables."""
    Day(root, DAY, form=form).append(out / "tables", summary)
    run = Day(root, DAY, form=form).append(out / "tables", summary)
    assert Day(root, DAY).done == [run]
    system, path = places.opened(root)
    if form == "parquet":
        found = dataset.dataset(
            f"{path}/tables/volume_by_node", format="parquet", filesystem=system
        ).to_table()
    else:
        from deltalake import DeltaTable

        url = f"{root.replace('s3a', 's3')}/tables/volume_by_node"
        found = DeltaTable(url, storage_options={"allow_http": "true"}).to_pyarrow_table()
    assert set(found["run"].to_pylist()) == {run}
    assert sum(found["advisories"].to_pylist()) == summary["advisories"]
    with system.open_input_stream(f"{path}/views.spark.sql") as file:
        assert f"{root}/tables/volume_by_node" in file.read().decode()


def test_a_key_that_leads_out_of_the_folder_is_left(bucket: str, tmp_path: Path) -> None:
    near = places.Near(tmp_path / "a" / "b" / "c")
    with pytest.raises(UsageError, match="no such file"):
        near.bring("s3a://chain/nothing")
    (tmp_path / "log.jsonl").write_text("{}\n")
    stranger = fs.FileInfo(f"{tmp_path}/a/../log.jsonl", fs.FileType.File)
    places._fetch(fs.LocalFileSystem(), stranger, near.folder, "")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["log.jsonl"]


def test_executors_elsewhere_need_the_jar() -> None:
    class Elsewhere:
        """A session whose executors are on other machines; for nothing but its words."""

        def __getattr__(self, name: str) -> Any:
            return self if name != "master" else "spark://hq:7077"

        def __call__(self, *_: Any) -> Any:
            return self

    session: Any = Elsewhere()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "_reaches", lambda *_: False)
        patch.setattr(places, "_hadoop", lambda _: "3.5.0")
        with pytest.raises(UsageError, match=r"hadoop-aws:3\.5\.0"), places.near(session, ["s3a://chain/x"]):
            pass
