import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.rows import (
    BundleRow,
    CopyRow,
    MetaRow,
    QueueRow,
    RetainedRow,
    RouteRow,
    SeenRow,
    Transaction,
)
from broker.store import Store, StoreBusy, StoreCorrupt, StoreMismatch, migrations
from broker.store.recovery import recover
from sapwood.protocol import bundles
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import StoreError

PAGE = 4096
BUNDLES = 600
PAYLOAD = b"0123456789" * 40


def fill(store: Store, make) -> None:
    store.apply(make(1, BUNDLES, PAYLOAD))
    transaction = Transaction()
    for number in range(300):
        transaction.put(RouteRow("queue", f"queue-{number:04}", "local", 1, "store-1", "c", 1, 0))
        transaction.put(SeenRow(number.to_bytes(16, "big"), number))
    transaction.put(QueueRow("prices", 0))
    transaction.put(MetaRow("ticks", b"\x10"))
    store.apply(transaction)


@pytest.fixture
def model(tmp_path, opened, make) -> Path:
    """The directory of a filled database."""
    store = opened(tmp_path / "model")
    fill(store, make)
    store.close()
    return tmp_path / "model"


def damage(path: Path, page: int, data: bytes = b"\xa5" * PAGE, offset: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + offset)
        file.write(data)


def root_page(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    connection.close()
    return page


def leaf_holding(path: Path, text: bytes) -> int:
    return path.read_bytes().index(text) // PAGE + 1


def reopened(directory: Path, opened) -> Store:
    store = opened(directory)
    assert store._writing().execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return store


def check_consistent(store: Store) -> tuple[dict, list]:
    loaded = store.load()
    bundles = {bundle.row: bundle for bundle in loaded.bundles}
    copies = loaded.rows(CopyRow)
    assert {copy.bundle for copy in copies} == set(bundles)
    bodies = store.bodies(list(bundles))
    assert all(PAYLOAD in body for body in bodies.values())
    return bundles, copies


def test_a_sound_database_is_left_alone(model, opened):
    before = (model / "node.db").read_bytes()
    with pytest.raises(StoreError, match="is sound"):
        recover(model)
    assert (model / "node.db").read_bytes() == before
    assert sorted(path.name for path in model.iterdir()) == ["node.db", "node.lock"]


def test_force_makes_a_complete_copy_with_a_new_store_id(model, opened):
    old = opened(model)
    identity = old.store_id
    old.close()
    report = recover(model, force=True)
    assert report.complete
    assert (report.saved["bundle"], report.saved["copy"], report.saved["route"]) == (BUNDLES, BUNDLES, 300)
    assert report.saved["meta"] == 1
    store = reopened(model, opened)
    assert store.store_id == report.store_id != identity
    assert (store.recovered_from, store.start) == (identity, 1)
    assert store.load().rows(MetaRow) == [MetaRow("ticks", b"\x10")]
    assert len(check_consistent(store)[1]) == BUNDLES


def test_one_broken_leaf_costs_the_bundles_on_it_and_their_copies(model, opened):
    path = model / "node.db"
    damage(path, leaf_holding(path, (300).to_bytes(16, "big")))
    with pytest.raises(StoreCorrupt):
        opened(model).load()
    _close_all(opened)
    report = recover(model)
    assert report.unreadable["bundle"] == 1
    assert 1 <= report.lost_bundles <= 20
    assert report.saved["bundle"] == BUNDLES - report.lost_bundles == report.saved["copy"]
    assert report.lost_copies == report.lost_bundles
    assert report.dead == 0
    assert not report.complete
    store = reopened(model, opened)
    assert 300 not in check_consistent(store)[0]


def _close_all(opened) -> None:
    """A store that failed while loading is still open: give its lock back."""
    opened.stack.close()


def test_bundles_whose_copies_are_lost_become_dead_letters(model, opened):
    path = model / "node.db"
    damage(path, root_page(path, "copy"))
    report = recover(model)
    assert report.dead == BUNDLES
    assert report.saved["copy"] == 0
    store = reopened(model, opened)
    _, copies = check_consistent(store)
    assert {(copy.place, copy.note) for copy in copies} == {("dead", "RECOVERED")}


def test_a_damaged_body_is_told_by_its_header(model, opened):
    path = model / "node.db"
    place = path.read_bytes().index(PAYLOAD)
    with path.open("r+b") as file:
        file.seek(place - 3)
        file.write(b"\xc1\xc1\xc1")
    report = recover(model, force=True)
    assert (report.damaged["bundle"], report.lost_bundles) == (1, 1)


def test_routes_are_read_from_both_ends(model, opened):
    path = model / "node.db"
    damage(path, leaf_holding(path, b"queue-0150"))
    report = recover(model)
    names = [row.name for row in reopened(model, opened).load().rows(RouteRow)]
    assert report.unreadable["route"] == 1
    assert len(names) == report.saved["route"] >= 100
    assert {"queue-0000", "queue-0299"} <= set(names)
    assert "queue-0150" not in names


def test_a_broken_first_page_loses_nothing(model, opened):
    damage(model / "node.db", 1)
    report = recover(model)
    assert report.complete
    assert report.saved["bundle"] == BUNDLES
    check_consistent(reopened(model, opened))
    assert not [path.name for path in model.iterdir() if "copy" in path.name or "new" in path.name]


def test_a_cut_file_gives_what_is_left(model, opened):
    path = model / "node.db"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    report = recover(model)
    assert 0 < report.saved["bundle"] < BUNDLES
    assert not report.complete
    check_consistent(reopened(model, opened))


def test_what_was_only_in_the_log_is_saved_too(model, opened, make, tmp_path):
    store = opened(model)
    store.apply(make(BUNDLES + 1, 50, PAYLOAD))
    crashed = tmp_path / "crashed"
    shutil.copytree(model, crashed)
    store.close()
    path = crashed / "node.db"
    damage(path, root_page(model / "node.db", "seen"))
    report = recover(crashed, force=True)
    assert report.saved["bundle"] == BUNDLES + 50
    assert not list(crashed.glob("node.db-*"))
    check_consistent(reopened(crashed, opened))


@pytest.mark.parametrize("seed", range(25))
def test_pages_broken_at_random_places(model, opened, seed):
    choice = random.Random(seed)
    path = model / "node.db"
    pages = path.stat().st_size // PAGE
    for _ in range(choice.choice((1, 2, 5, 20))):
        page = choice.randrange(1, pages + 1)
        if choice.random() < 0.5:
            damage(path, page, choice.randbytes(PAGE))
        else:
            damage(path, page, choice.randbytes(60), choice.randrange(0, PAGE - 60))
    content = path.read_bytes()
    report = recover(model, tree="acme", node="store-1", force=True)
    assert report.broken.read_bytes() == content
    store = reopened(model, opened)
    bundles, copies = check_bundles(store)
    dead = [copy for copy in copies if copy.place == "dead"]
    assert len(bundles) == report.saved["bundle"]
    assert (len(copies) - len(dead), len(dead)) == (report.saved["copy"], report.dead)
    if report.complete:
        assert len(bundles) == BUNDLES
    assert all(1 <= row <= BUNDLES for row in bundles)


def check_bundles(store: Store) -> tuple[set, list]:
    loaded = store.load()
    bundles, copies = {bundle.row for bundle in loaded.bundles}, loaded.rows(CopyRow)
    assert {copy.bundle for copy in copies} == bundles
    return bundles, copies


def long_names() -> Iterator[tuple[bytes, bytes]]:
    """Bundles of a former version for topics of more bytes than a header may have now."""
    for number, name in enumerate(("a/" * 20 + "€" * 3000, "x" * 5000)):
        destination = Destination(Kind.TOPIC, name)
        plain = bundles.encode_message(bundles.Message(b"sold %d" % number))
        header = bundles.Header(id=bytes([number] * 16), destination=destination, size=len(plain))
        yield bundles.encode_header(header), plain


def test_a_message_whose_topic_is_too_long_now_is_a_dead_letter(tmp_path, opened, make):
    store = opened(tmp_path)
    transaction = make(1, 3)
    for row, found in enumerate(long_names(), 11):
        transaction.put(BundleRow(row, *found))
        for number in range(2):
            place = f"subscription:{number}"
            transaction.put(CopyRow(10 * row + number, row, place, 0, b"", "", 0, 0, 0, ""))
        transaction.put(RetainedRow(f"topic {row}", *found))
    transaction.put(RetainedRow("well", *transaction.changes[BundleRow][1][1:]))
    store.apply(transaction)
    store.close()
    report = recover(tmp_path)
    assert not any(report.damaged.values())
    assert (report.saved["bundle"], report.saved["copy"], report.saved["retained"]) == (7, 3, 1)
    assert (report.dead, report.lost_bundles, report.complete) == (4, 0, False)
    store = reopened(tmp_path, opened)
    dead = [copy.bundle for copy in store.load().rows(CopyRow) if copy.place == "dead"]
    headers = [bundles.decode_header(each.header) for each in store.load().bundles if each.row in dead]
    beginnings = ["a/" * 20 + "€" * 1352, "x" * 4096]
    assert [header.destination.name for header in headers] == beginnings * 2
    bodies = store.bodies(dead).values()
    payloads = [bundles.unpack(*each)[0].payload for each in zip(headers, bodies, strict=True)]
    assert payloads == [b"sold 0", b"sold 1"] * 2


def test_each_broken_file_is_kept_under_its_own_number(model, opened):
    for number in (1, 2, 3):
        assert recover(model, force=True).broken == model / f"node.db.broken-{number}"
    assert reopened(model, opened).start == 1


def test_a_recovery_cut_short_is_taken_up(model, opened, monkeypatch):
    from broker.store import recovery

    damage(model / "node.db", 1)
    with monkeypatch.context() as cut:
        cut.setattr(recovery, "_tie_up", _power_cut)
        with pytest.raises(RuntimeError, match="power cut"):
            recover(model)
    with pytest.raises(StoreCorrupt, match="has not ended"):
        opened(model)
    report = recover(model)
    assert (report.broken.name, report.saved["bundle"]) == ("node.db.broken-1", BUNDLES)
    check_consistent(reopened(model, opened))


def _power_cut(_target) -> None:
    raise RuntimeError("power cut")


def test_names_that_are_lost_must_be_given(model, opened):
    path = model / "node.db"
    damage(path, root_page(path, "meta"))
    with pytest.raises(StoreError, match="does not say its tree any more"):
        recover(model)
    report = recover(model, tree="acme", node="store-1")
    assert report.unreadable["meta"] == 1
    assert reopened(model, opened).recovered_from == b""


def test_other_names_are_refused(model):
    damage(model / "node.db", 1)
    with pytest.raises(StoreError, match="belongs to node 'store-1', not 'store-2'"):
        recover(model, node="store-2")


def test_a_running_node_is_not_disturbed(model, opened):
    opened(model)
    with pytest.raises(StoreBusy):
        recover(model)


def test_nothing_to_recover(tmp_path):
    with pytest.raises(StoreError, match="there is nothing to recover"):
        recover(tmp_path)
    with pytest.raises(StoreError, match="is no directory"):
        recover(tmp_path / "missing")


@pytest.mark.parametrize("force", [False, True])
def test_a_newer_database_is_not_taken_for_a_broken_one(model, force):
    connection = sqlite3.connect(model / "node.db")
    migrations.set_version(connection, 99)
    connection.close()
    with pytest.raises(StoreMismatch, match="newer"):
        recover(model, force=force)
    assert [path.name for path in model.glob("node.db*")] == ["node.db"]


def test_the_report_reads_as_text(model):
    path = model / "node.db"
    damage(path, leaf_holding(path, (300).to_bytes(16, "big")))
    report = recover(model)
    text = str(report)
    assert f"bundle: {report.saved['bundle']} rows saved, unreadable stretches: 1" in text
    assert (
        f"bundles lost: {report.lost_bundles} ({report.lost_copies} deliveries); dead letters made: 0" in text
    )


def test_the_report_is_json(model):
    report = recover(model, force=True)
    found = json.loads(json.dumps(report.as_dict()))
    assert found["store_id"] == report.store_id.hex()
    assert (found["complete"], found["saved"]["bundle"]) == (True, BUNDLES)
    assert found["broken"].endswith("node.db.broken-1")


def test_every_table_is_in_the_report(model):
    report = recover(model, force=True)
    assert set(report.saved) == set(report.unreadable) == set(report.damaged)
    assert report.saved["seen"] == 300
