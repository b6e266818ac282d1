"""A service on the queue `stock`: what is on the shelf, and reservations that are never made twice.

python examples/rpc/server.py [ADDRESS OF A NODE [DATABASE]]
"""

import asyncio
import sqlite3
import sys

from sapwood import ClientError, Interface, Rpc, ServiceError, connect, current_request
from sapwood.deduplication import SeenInDatabase

SCHEMA = "CREATE TABLE IF NOT EXISTS shelf (article INTEGER PRIMARY KEY, level INTEGER NOT NULL)"


class Stock:
    """Each public method is served."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute(SCHEMA)
        with database:
            database.executemany("INSERT OR IGNORE INTO shelf VALUES (?, 1000)", [(n,) for n in range(100)])
        self._seen = SeenInDatabase(database)

    async def level(self, article: int) -> int:
        """How many are on the shelf."""
        row = self._database.execute("SELECT level FROM shelf WHERE article = ?", (article,)).fetchone()
        if row is None:
            raise ServiceError("NO_SUCH_ARTICLE", f"there is no article {article}", {"article": article})
        return int(row[0])

    async def reserve(self, article: int, count: int = 1) -> int:
        """Take some from the shelf, once for each request; returns how many are left."""
        key = current_request().key
        with self._database:  # the reservation and its key are on disk together, or not at all
            if not self._seen.add(key):
                return int(self._seen.note(key))
            left = await self.level(article) - count
            if left < 0:
                raise ServiceError("SOLD_OUT", f"{count} of article {article} are not there")
            self._database.execute("UPDATE shelf SET level = ? WHERE article = ?", (left, article))
            self._seen.put_note(key, str(left))
        return left


async def main(address: str, path: str) -> None:
    database = sqlite3.connect(path)
    async with connect(address, session="stock-server") as client:
        offer = Interface(Stock(database), "stock", "1.0")
        async with Rpc(client).serve("stock", [offer], workers=8) as server:
            print(f"serving 'stock' at node {client.node}", flush=True)
            await server.run()


if __name__ == "__main__":
    given = dict(enumerate(sys.argv))
    try:
        asyncio.run(main(given.get(1, "http://127.0.0.1:7600"), given.get(2, "stock.db")))
    except KeyboardInterrupt:
        pass
    except ClientError as error:
        sys.exit(str(error))
