from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from broker.core.rows import BundleRow, CopyRow, Transaction
from broker.store import Store
from sapwood.protocol import bundles
from sapwood.protocol.destinations import Destination

TREE, NODE = "acme", "store-1"


def bundle_row(row: int, payload: bytes | None = None) -> BundleRow:
    message = bundles.Message(payload if payload is not None else b"price %d" % row)
    plain = bundles.encode_message(message)
    header = bundles.Header(
        id=row.to_bytes(16, "big"), destination=Destination("queue", "prices"), size=len(plain)
    )
    return BundleRow(row, bundles.encode_header(header), plain)


def copy_row(row: int, bundle: int, place: str = "queue:prices", number: int = 0) -> CopyRow:
    return CopyRow(row, bundle, place, number, b"", "hq", 0, 0, 1000, "")


def arrivals(first: int, count: int, payload: bytes | None = None) -> Transaction:
    """A transaction as an arrival makes it: bundles `first` and so on, each with one copy."""
    transaction = Transaction()
    for row in range(first, first + count):
        transaction.put(bundle_row(row, payload))
        transaction.put(copy_row(row, row))
    return transaction


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores that are closed at the test's end, in the test's own directory unless told."""
    with ExitStack() as stack:

        def open_store(
            directory: Path = tmp_path, *, tree: str = TREE, node: str = NODE, **options: int
        ) -> Store:
            store = Store.open(directory, tree=tree, node=node, **options)
            stack.callback(store.close)
            return store

        open_store.stack = stack
        yield open_store


@pytest.fixture
def make() -> Callable[..., Transaction]:
    return arrivals


@pytest.fixture
def opened_without_a_journal(opened: Callable[..., Store]) -> Callable[..., Store]:
    """As `opened`, but each commit is the database's own."""
    return partial(opened, journal_limit=0)
