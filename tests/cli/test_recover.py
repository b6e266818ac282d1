"""`sapwood node recover` on stores that are sound, damaged and in use."""

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from broker.cli.check import examine
from broker.cli.recover import recover_file
from broker.core.rows import BundleRow, CopyRow, QueueRow, RetainedRow, Transaction
from broker.node import Node
from broker.store import Store
from config.load import load
from sapwood.client import connect
from sapwood.protocol import bundles
from sapwood.protocol.bundles import MOST_NUMBER, Flag, Header, Message, Properties
from sapwood.protocol.destinations import Destination, Kind
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


def test_what_root_recovers_is_the_nodes_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = site(tmp_path)
    folder = tmp_path / "data"
    with suppress(PermissionError):
        for path in (folder, *folder.iterdir()):
            os.chown(path, 4711, 4712)
    damage(tmp_path)
    (folder / "node.lock").unlink()
    recover_file(file, force=False, as_json=False)
    assert {path.stat().st_uid for path in folder.iterdir()} == {folder.stat().st_uid}


def test_no_link_in_the_folder_leads_root_to_another_file(tmp_path: Path) -> None:
    """The node's user may lay one there; what root opens by it would be emptied, and be that user's."""
    file = site(tmp_path)
    other = tmp_path / "of root"
    other.write_text("secret")
    (lock := tmp_path / "data" / "node.lock").unlink()
    lock.symlink_to(other)
    with pytest.raises(StoreError, match=r"node\.lock"):
        recover_file(file, force=True, as_json=False)
    assert other.read_text() == "secret"
    with suppress(PermissionError):
        os.chown(tmp_path / "data", 4711, 4712)
    lock.unlink()
    lock.hardlink_to(other)
    recover_file(file, force=True, as_json=False)
    assert other.stat().st_uid == os.geteuid()


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


TOO_LONG = MOST_NUMBER + 1
"""Of a message that no other expiry bounds, as versions before this one took it."""


def of_a_former_version(kind: Kind, times: list[int], flags: int) -> tuple[bytes, bytes]:
    """Header and body of a bundle whose messages expire so."""
    messages = [Message(b"payload " * 40, Properties(expires_in=time, headers={"n": 1})) for time in times]
    plain = b"".join(map(bundles.encode_message, messages))
    body, compressed = bundles.compress(plain)
    header = Header(
        id=bytes(range(16)),
        destination=Destination(kind, "orders"),
        flags=flags | compressed,
        count=len(times),
        size=len(plain),
        origin="hq",
        expires_first=min(filter(None, times)),
        expires_last=max(times),
    )
    return bundles.encode_header(header), body


def keep(folder: Path, *rows: object) -> None:
    store, transaction = Store.open(folder / "data", tree="sapwood", node="hq"), Transaction()
    for row in rows:
        transaction.put(row)
    store.apply(transaction)
    store.close()


async def test_a_message_with_an_expiry_that_is_too_long_now_is_mended_and_not_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = site(tmp_path)
    header, body = of_a_former_version(Kind.QUEUE, [TOO_LONG, 0, 3_600_000], int(Flag.PERSISTENT))
    retained = of_a_former_version(Kind.TOPIC, [2**63], int(Flag.PERSISTENT | Flag.RETAINED))
    keep(
        tmp_path,
        QueueRow("orders", False),
        BundleRow(1, header, body),
        CopyRow(1, 1, "queue:orders", 0, b"", "", 0, 0, 0, ""),
        RetainedRow("orders", *retained),
    )
    with pytest.raises(StoreError, match=r"a message that this version does not read.*sapwood node recover"):
        await Node(load(file)).start()
    assert examine(file)[1] == 1
    recover_file(file, force=False, as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["saved"]["bundle"] == report["saved"]["copy"] == report["saved"]["retained"] == 1
    assert not any(report["damaged"].values())
    assert examine(file)[1] == 0
    node = Node(load(file))
    await node.start()
    async with connect(f"http://127.0.0.1:{node.port}") as reader:
        reading = reader.subscribe("queue:orders")
        found = [await anext(reading) for _ in range(3)]
        told = await anext(reader.subscribe("topic:orders"))
    await node.stop()
    assert [each.payload for each in (*found, told)] == [b"payload " * 40] * 4
    assert [each.properties.expires_in for each in found] == [MOST_NUMBER, 0, 3_600_000]
