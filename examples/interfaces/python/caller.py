"""Asks a store's stock, with asyncio and without it: python caller.py [URL] [QUEUE]"""

import asyncio
import sys

from chain.common import NoSuchArticle
from chain.stock_v1 import NotEnough, StockClient, StockSyncClient

from sapwood import Rpc, connect, sync


async def ask(url: str, queue: str) -> None:
    async with connect(url) as client, Rpc(client) as rpc:
        stock = StockClient(rpc, queue, timeout=10)
        level = await stock.level(article=4711)
        print(f"{level.pieces} pieces, in aisle {level.places[0].aisle}")
        try:
            await stock.reserve(article=4711, pieces=level.pieces + 1)
        except NotEnough as error:
            print(f"only {error.value} are there")


def ask_without_asyncio(url: str, queue: str) -> None:
    with sync.connect(url) as client:
        stock = StockSyncClient(client.rpc, queue, timeout=10)
        print(stock.history.movements(article=4711, day="2026-11-23").movements)
        try:
            stock.level(article=1)
        except NoSuchArticle as error:
            print(f"HQ knows no article {error.value}")


if __name__ == "__main__":
    said = [*sys.argv[1:], *("http://127.0.0.1:7600", "stock")[len(sys.argv) - 1 :]]
    asyncio.run(ask(*said))
    ask_without_asyncio(*said)
