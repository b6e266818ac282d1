"""The node's durable store: `Store.open`, `GroupCommit` in front of it, and `recovery` for a
damaged one, which no start loads.

| module | |
|---|---|
| `ballast` | bytes of the disk that the store lets go when another program fills it |
| `checkpoints` | keeps the write-ahead log short without making commits wait |
| `commit` | group commit |
| `errors` | why the store cannot be used |
| `files` | the files of a store's directory: who holds them, how they are made, opened and checked |
| `journal` | commits that the database does not have yet |
| `loaded` | everything that a start reads from the store: all rows, but of bundles and copies |
| `log_index` | whether the write-ahead log is as long as it was when a kill left it |
| `marks` | a mark beside the database of the state that was confirmed |
| `mending` | bundles of a former version that this one does not read |
| `migrations` | brings an older database to the schema of this version |
| `pending` | the rows that are in the journal and not in the database |
| `reading` | what a running node reads again |
| `recovery` | `recover`: saves what can be read from a damaged database into a new one |
| `salvage` | reads what can be read from a damaged database |
| `schema` | the tables of a node's database, and the statements that write and read rows |
| `soundness` | whether an existing database may be used |
| `store` | the durable store of a node: a SQLite database, WAL, `synchronous=FULL`, and a journal before it |
"""

from broker.store.commit import GroupCommit
from broker.store.errors import StoreBusy, StoreCorrupt, StoreFull, StoreIOFailed, StoreMismatch
from broker.store.loaded import Loaded
from broker.store.schema import LoadedBundle
from broker.store.store import Store

__all__ = [
    "GroupCommit",
    "Loaded",
    "LoadedBundle",
    "Store",
    "StoreBusy",
    "StoreCorrupt",
    "StoreFull",
    "StoreIOFailed",
    "StoreMismatch",
]
