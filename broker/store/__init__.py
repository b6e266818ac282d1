"""The node's durable store: `Store.open`, `GroupCommit` in front of it, and `recover` for a damaged one."""

from broker.store.commit import GroupCommit
from broker.store.errors import StoreBusy, StoreCorrupt, StoreFull, StoreIOFailed, StoreMismatch
from broker.store.loaded import Loaded
from broker.store.recovery import Report, recover
from broker.store.schema import LoadedBundle
from broker.store.store import Store

__all__ = [
    "GroupCommit",
    "Loaded",
    "LoadedBundle",
    "Report",
    "Store",
    "StoreBusy",
    "StoreCorrupt",
    "StoreFull",
    "StoreIOFailed",
    "StoreMismatch",
    "recover",
]
