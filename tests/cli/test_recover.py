"""`sapwood node recover` on stores that are sound, damaged and in use."""

import json
from pathlib import Path

import pytest

from broker.cli.check import examine
from broker.cli.recover import recover_file
from broker.store import Store
from sapwood.protocol.errors import StoreError


def site(folder: Path) -> Path:
    file = folder / "hq.yaml"
    file.write_text("broker:\n  name: hq\n  data: data\n  listener: {port: 0}\n")
    Store.open(folder / "data", tree="sapwood", node="hq").close()
    return file


def damage(folder: Path) -> None:
    database = folder / "data" / "node.db"
    data = bytearray(database.read_bytes())
    data[4096:] = b"\xee" * (len(data) - 4096)
    database.write_bytes(data)


def test_a_damaged_store_is_made_usable_and_the_old_file_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = site(tmp_path)
    damage(tmp_path)
    assert examine(file)[1] == 1
    recover_file(file, force=False, as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert Path(report["broken"]).exists()
    assert Path(report["database"]) == tmp_path / "data" / "node.db"
    assert examine(file)[1] == 0


def test_a_sound_store_is_left_alone_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = site(tmp_path)
    with pytest.raises(StoreError):
        recover_file(file, force=False, as_json=False)
    recover_file(file, force=True, as_json=False)
    assert "node.db.broken-1" in capsys.readouterr().out


def test_a_store_in_use_is_not_touched(tmp_path: Path) -> None:
    file = site(tmp_path)
    store = Store.open(tmp_path / "data", tree="sapwood", node="hq")
    try:
        with pytest.raises(StoreError, match="in use"):
            recover_file(file, force=True, as_json=False)
    finally:
        store.close()


def test_where_the_database_is_gone_and_its_log_is_there_the_advice_leads_to_a_node_that_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, data = site(tmp_path), tmp_path / "data"
    store = Store.open(data, tree="sapwood", node="hq")
    log = (data / "node.db-wal").read_bytes()
    store.close()
    assert log
    (data / "node.db-wal").write_bytes(log)
    (data / "node.db").unlink()
    with pytest.raises(StoreError, match=r"its log node\.db-wal is there.*sapwood node recover"):
        Store.open(data, tree="sapwood", node="hq")
    recover_file(file, force=False, as_json=False)
    assert "node.db.broken-1" in capsys.readouterr().out
    assert (data / "node.db.broken-1").exists()
    Store.open(data, tree="sapwood", node="hq").close()
