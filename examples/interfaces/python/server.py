"""Serves the interface `stock` at a store: python server.py [URL]"""

import asyncio
import sys

from chain.common import NoSuchArticle
from chain.stock_v1 import (
    HistoryMovementsOut,
    LevelOut,
    MovementCounted,
    MovementSold,
    NotEnough,
    Place,
    ReserveOut,
    Stock_server_dispatcher,
)

from sapwood import Rpc, connect


class History:
    """Functions of a namespace."""

    async def movements(self, *, article: int, day: str) -> HistoryMovementsOut:
        return HistoryMovementsOut(movements=[MovementCounted(), MovementSold(3)])


class Stock:
    """The functions of the interface. Those without `async` run in threads: they may wait for a disk."""

    def __init__(self) -> None:
        self.pieces = {4711: 12}
        self.history = History()

    async def level(self, *, article: int) -> LevelOut:
        pieces = self._pieces(article)
        return LevelOut(pieces=pieces, places=[Place(aisle=3, pieces=pieces)])

    def reserve(self, *, article: int, pieces: int, until: str | None = None) -> ReserveOut:
        there = self._pieces(article)
        if there < pieces:
            raise NotEnough(there)
        self.pieces[article] -= pieces
        return ReserveOut(reservation=f"{article}-{pieces}-{until or 'today'}")

    def _pieces(self, article: int) -> int:
        if article not in self.pieces:
            raise NoSuchArticle(article)
        return self.pieces[article]


async def main(url: str) -> None:
    served = [Stock_server_dispatcher(Stock())]
    async with connect(url) as client, Rpc(client).serve("stock", served) as server:
        print("serving stock", flush=True)
        await server.run()


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["http://127.0.0.1:7600"])))
