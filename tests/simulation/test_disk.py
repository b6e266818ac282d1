"""The simulated disk: what was committed is what is read, however it is kept."""

import pytest

from broker.core.rows import BundleRow, CopyRow, MetaRow, RouteRow, Transaction
from sapwood.protocol.destinations import Destination, Kind
from simulation.disk import Disk
from treeconnector.routes import Route, RoutingTable


def committed(disk: Disk, *rows: object) -> None:
    transaction = Transaction()
    for row in rows:
        transaction.put(row)
    disk.apply(transaction)


def row(name: str, live: int = 1, declined: int = 0) -> RouteRow:
    return RouteRow("queue", name, "store", live, "store", "store:1:1", 0, declined)


def copy_of(bundle: int, number: int = 1) -> CopyRow:
    values = dict.fromkeys(CopyRow._fields, 0) | {"row": number, "bundle": bundle}
    return CopyRow(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("shared", [False, True])
def test_routes_are_read_as_they_were_written(shared: bool) -> None:
    disk, table = Disk(), RoutingTable()
    for name, live in (("a", True), ("b", False), ("c", True)):
        table.put(Route(Destination(Kind.QUEUE, name), "store", live, "store", "store:1:1"))
    if shared:
        disk.routes.share(table.route)
    rows = [row("a"), row("b"), row("c", declined=1), row("d", live=0)]
    committed(disk, *reversed(rows))
    assert disk.rows(RouteRow) == rows
    table.remove_gateway("store")
    assert disk.rows(RouteRow) == rows
    transaction = Transaction()
    transaction.delete(RouteRow, ("queue", "b", "store"))
    transaction.delete(RouteRow, ("queue", "z", "store"))
    disk.apply(transaction)
    assert [each.name for each in disk.rows(RouteRow)] == ["a", "c", "d"]


def test_a_core_that_starts_shares_its_routes() -> None:
    disk, table = Disk(), RoutingTable()
    committed(disk, row("a"))
    table.put(Route(Destination(Kind.QUEUE, "a"), "store", True, "store", "store:1:1"))
    disk.routes.share(table.route)
    (kept,) = disk.routes._by_gateway["store"].values()
    assert kept is table.route(Destination(Kind.QUEUE, "a"), "store")


def test_a_backup_is_not_changed_by_what_comes_later() -> None:
    disk = Disk()
    committed(disk, row("a"), MetaRow("ticks", b"1"))
    backup = disk.backup()
    committed(disk, row("b"), MetaRow("ticks", b"2"))
    assert [each.name for each in backup.rows(RouteRow)] == ["a"]
    assert backup.rows(MetaRow) == [MetaRow("ticks", b"1")]
    assert (backup.store_id, backup.start) == (disk.store_id, disk.start)


def test_a_header_keeps_its_body() -> None:
    disk = Disk()
    committed(disk, BundleRow(1, b"header", b"body"))
    committed(disk, BundleRow(1, b"other", None))
    assert disk.bodies([1, 2]) == {1: b"body"}
    assert disk.bundles[0].header == b"other"
    with pytest.raises(AssertionError, match="a header changes whose bundle is not there"):
        committed(disk, BundleRow(2, b"header", None))


def test_a_copy_without_its_bundle_is_found() -> None:
    disk = Disk()
    with pytest.raises(AssertionError, match="a copy of a bundle that is not there"):
        committed(disk, copy_of(1))
    disk = Disk()
    committed(disk, BundleRow(1, b"", b""), BundleRow(2, b"", b""), copy_of(1), copy_of(2, 2))
    transaction = Transaction()
    transaction.delete(BundleRow, 2)
    with pytest.raises(AssertionError, match="bundle 2 goes, its copies stay"):
        disk.apply(transaction)
    disk = Disk()
    committed(disk, BundleRow(1, b"", b""), copy_of(1))
    transaction = Transaction()
    transaction.delete(BundleRow, 1)
    transaction.delete(CopyRow, 1)
    disk.apply(transaction)
    assert not disk.bundles
