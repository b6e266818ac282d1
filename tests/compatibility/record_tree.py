"""Makes the databases that a tree of this version leaves behind: run it once at a release.

    python tests/compatibility/record_tree.py tests/compatibility/0.1.0

`tree.zip` has the data folders of hq, north and york, which were cut off from each other while messages of
all kinds waited; north was killed, so that some of it is in SQLite's log. `tree.json` says what is due
to whom, and which rows are there.
"""

import asyncio
import json
import sqlite3
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "network")]

from commands import told
from harness import Network, receiving, waiting

from broker.core.rows import InvitationRow, MemberRow, RejectedRow, SeenRow, Transaction
from broker.store import Store

TREE, SITES = "test", ("hq", "north", "york")
LONG = [b"a long text that is worth compressing, number %02d; " % number * 20 for number in range(30)]
PERMITS = ("permits", "set", "north", "--nodes", "york", "--consume", "#", "--send", "#")
SHORT = [b"%03d" % number for number in range(100)]


def add_sites(network: Network) -> None:
    """hq over north over york, with lines that can be cut."""
    network.add("hq")
    network.add("north", "hq", role="branch", line=True)
    network.add("york", "north", line=True)


async def fill(network: Network) -> dict[str, Any]:
    """Let all kinds of state come into being. Returns what is due: by site, destination and subscription."""
    async with network.client("york", session="till") as york, network.client("hq", session="sales") as hq:
        await york.create("york/prices")
        prices = york.subscribe("queue:york/prices", credit=20)
        await prices.ready()
        await york.subscribe("topic:offers/#", durable="offers").ready()
        await hq.create("hq/sales")
        await hq.subscribe("topic:sold/#", durable="sold").ready()
        async with receiving(hq, "queue:hq/sales"):
            await network.until_known("hq", "queue:york/prices")
            await network.until_known("hq", "topic:offers/#")
            await network.until_known("york", "queue:hq/sales")
            await network.until_known("york", "topic:sold/#")
            await network.send("hq", "queue:york/prices", SHORT[:20])
            await _take_some(prices, 7)
            await told(network, "north", "route", "add", "alias", "till", "york/prices")
            await network.line("york").cut()
            await network.line("north").cut()
            await network.until_child("hq", "north", "down")
            await network.until_child("north", "york", "down")
            await network.send("hq", "queue:york/prices", LONG, correlation_id=7, headers={"till": 3})
            await network.send("north", "queue:york/prices", SHORT[20:60], expires_in=10 * 365 * 86_400_000)
            await network.send("north", "queue:till", SHORT[60:])
            await network.send("hq", "topic:offers/fruit", LONG)
            await network.send("north", "topic:offers/bread", SHORT[:5], retained=True)
            await network.send("york", "queue:hq/sales", SHORT)
            await network.send("north", "queue:hq/sales", LONG)
            await network.send("york", "topic:sold/apples", SHORT[:50])
            await network.send("york", "queue:york/own", SHORT[:3])
            await network.send("hq", "queue:nobody", SHORT[:2], expires_in=1)
            await network.until("hq", lambda status: status["dead"]["messages"] > 0, "rid of what expired")
            await told(network, "hq", *PERMITS)
            for name in SITES[1:]:
                await network.until(name, lambda status: waiting(status) > 0, "keeping what waits")
            assert await network.stop("york") == 0
            network.kill("north")
            assert await network.stop("hq") == 0
    return {
        "york queue:york/prices": _texts([*SHORT[7:20], *LONG, *SHORT[20:60], *SHORT[60:]]),
        "york topic:offers/# offers": _texts([*LONG, *SHORT[:5]]),
        "york queue:york/own": _texts(SHORT[:3]),
        "hq queue:hq/sales": _texts([*SHORT, *LONG]),
        "hq topic:sold/# sold": _texts(SHORT[:50]),
        "hq dead": 2,
    }


def _texts(payloads: list[bytes]) -> list[str]:
    return [payload.decode() for payload in payloads]


async def _take_some(subscription: Any, count: int) -> None:
    """Acknowledge the first of a bundle that is larger."""
    async for delivery in subscription:
        delivery.ack()
        count -= 1
        if not count:
            break


def add_rows(folder: Path, name: str) -> None:
    """What only clocks, operators and unlucky producers bring about, as the store writes it."""
    store = Store.open(folder, tree=TREE, node=name)
    transaction = Transaction()
    transaction.put(SeenRow(b"s" * 16 + b"hq", 1000, b"\x05"))
    transaction.put(RejectedRow("producer", 3, 5, "QUEUE_FULL", "no room"))
    transaction.put(InvitationRow(b"i" * 16, "bath", "leaf", b"stored", 4_000_000_000, 10**12, b""))
    transaction.put(MemberRow("leeds", "leaf", b"key", b"", 4_000_000_000, 0))
    store.apply(transaction)
    store.close()


def rows_of(database: Path) -> dict[str, Any]:
    """All rows of all tables but those that a start changes, as values of JSON."""
    connection = sqlite3.connect(database)
    named = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
    found = {}
    for (table,) in named:
        cursor = connection.execute(f'SELECT * FROM "{table}"')
        columns = [each[0] for each in cursor.description]
        rows = [[value.hex() if isinstance(value, bytes) else value for value in row] for row in cursor]
        found[table] = {"columns": columns, "rows": sorted(rows, key=repr)}
    connection.close()
    return found


async def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        async with Network(Path(temporary)) as network:
            add_sites(network)
            await network.start()
            due = await fill(network)
        add_rows(network.data("hq"), "hq")
        with zipfile.ZipFile(folder / "tree.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in SITES:
                for file in sorted(network.data(name).glob("node.*")):
                    if file.name not in ("node.lock", "node.db-shm"):
                        archive.write(file, f"{name}/{file.name}")
        rows = {name: rows_of(network.data(name) / "node.db") for name in SITES}
    (folder / "tree.json").write_text(json.dumps({"due": due, "rows": rows}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
