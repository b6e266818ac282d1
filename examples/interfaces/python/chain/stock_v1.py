"""What is on the shelves and in the back of a store.

Interface stock 1.2, for which answer: Merchandise Planning, Store Systems.

Written by `sapwood idl python`: change the definition, and write it again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

from sapwood.stub_commands import main
from sapwood.stub_samples import sample as _sample
from sapwood.stubs import (
    Caller,
    DeclaredError,
    Function,
    Int64,
    Interface,
    Rpc,
    Struct,
    SyncCaller,
    SyncRpc,
    Unimplemented,
    handlers,
)

from .common import Article, Day, NoSuchArticle

INTERFACE = "stock"
VERSION = "1.2"


class Place(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where pieces of an article are."""

    aisle: Int64 | None = None
    """From 1, as painted on the floor; none = in the back."""
    pieces: Int64
    """From 0."""


class MovementSold(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="sold"):
    """Pieces that went over a till."""

    value: Int64


class MovementDelivered(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="delivered"):
    """A delivery note, and the pieces on it."""

    value: tuple[str, Int64]


class MovementCounted(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="counted"):
    """Somebody counted; the level is right from here on."""


Movement: TypeAlias = MovementSold | MovementDelivered | MovementCounted
"""Why a level changed."""


class NotEnough(DeclaredError):
    """Fewer are there than were asked for: so many."""

    name = "not_enough"
    about = "Fewer are there than were asked for: so many."
    type = Int64
    value: Int64

    def __init__(self, value: Int64) -> None:
        super().__init__(value)


class _LevelIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How many pieces of an article are here."""

    article: Article
    """The article."""


class LevelOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many pieces of an article are here."""

    pieces: Int64
    """On all places together."""
    places: list[Place]
    """Where they are, the fullest first."""


_LEVEL = Function(
    "level",
    _LevelIn,
    LevelOut,
    NoSuchArticle,
    about="How many pieces of an article are here.",
    inputs_about={"article": "The article."},
)


class _ReserveIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Put pieces aside for a customer."""

    article: Article
    """The article."""
    pieces: Int64
    """How many, from 1."""
    until: Day | None = None
    """The last day on which they wait; none = today."""


class ReserveOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Put pieces aside for a customer."""

    reservation: str
    """Names it when it is fetched or given back."""


_RESERVE = Function(
    "reserve",
    _ReserveIn,
    ReserveOut,
    NoSuchArticle,
    NotEnough,
    about="Put pieces aside for a customer.",
    inputs_about={
        "article": "The article.",
        "pieces": "How many, from 1.",
        "until": "The last day on which they wait; none = today.",
    },
)


class _HistoryMovementsIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The movements of one day, oldest first."""

    article: Article
    """The article."""
    day: Day
    """The day."""


class HistoryMovementsOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The movements of one day, oldest first."""

    movements: list[Movement]
    """Empty if there were none."""


_HISTORY_MOVEMENTS = Function(
    "history.movements",
    _HistoryMovementsIn,
    HistoryMovementsOut,
    NoSuchArticle,
    about="The movements of one day, oldest first.",
    inputs_about={"article": "The article.", "day": "The day."},
)


FUNCTIONS = (_LEVEL, _RESERVE, _HISTORY_MOVEMENTS)


class StockHistoryClient:
    """What happened to the stock."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def movements(self, *, article: Article, day: Day) -> HistoryMovementsOut:
        """The movements of one day, oldest first.

        `article`: The article.
        `day`: The day.

        Raises NoSuchArticle.
        """
        return await self._caller.call(_HISTORY_MOVEMENTS, _HistoryMovementsIn(article=article, day=day))


class StockHistorySyncClient:
    """What happened to the stock."""

    def __init__(self, caller: SyncCaller) -> None:
        self._caller = caller

    def movements(self, *, article: Article, day: Day) -> HistoryMovementsOut:
        """The movements of one day, oldest first.

        `article`: The article.
        `day`: The day.

        Raises NoSuchArticle.
        """
        return self._caller.call(_HISTORY_MOVEMENTS, _HistoryMovementsIn(article=article, day=day))


class StockHistoryServer(Protocol):
    """What happened to the stock.

    A server has these functions, each either with or without `async`; those without run in threads.
    """

    def movements(
        self,
        *,
        article: Article,
        day: Day,
    ) -> Awaitable[HistoryMovementsOut] | HistoryMovementsOut:
        """The movements of one day, oldest first.

        `article`: The article.
        `day`: The day.

        Raises NoSuchArticle.
        """
        ...


class StockHistory_server_dispatcher(Interface):
    """Checks and converts the inputs and outputs of a server: `rpc.serve(queue, [this])`."""

    def __init__(self, server: StockHistoryServer) -> None:
        super().__init__(handlers({_HISTORY_MOVEMENTS: server.movements}), INTERFACE, VERSION)


class StockHistory_skeleton:
    """Says of each function that it is not implemented: derive from it, and replace them one by one."""

    async def movements(self, *, article: Article, day: Day) -> HistoryMovementsOut:
        raise Unimplemented("history.movements")


class StockHistory_test:
    """Answers each call with a value of its type."""

    async def movements(self, *, article: Article, day: Day) -> HistoryMovementsOut:
        return _sample(HistoryMovementsOut)


class StockClient:
    """What is on the shelves and in the back of a store.

    Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`.
    """

    def __init__(self, rpc: Rpc, queue: str = INTERFACE, *, timeout: float | None = -1.0) -> None:
        self._caller = Caller(rpc, queue, INTERFACE, VERSION, timeout)
        self.history = StockHistoryClient(self._caller)

    async def level(self, *, article: Article) -> LevelOut:
        """How many pieces of an article are here.

        `article`: The article.

        Raises NoSuchArticle.
        """
        return await self._caller.call(_LEVEL, _LevelIn(article=article))

    async def reserve(self, *, article: Article, pieces: Int64, until: Day | None = None) -> ReserveOut:
        """Put pieces aside for a customer.

        `article`: The article.
        `pieces`: How many, from 1.
        `until`: The last day on which they wait; none = today.

        Raises NoSuchArticle, NotEnough.
        """
        return await self._caller.call(_RESERVE, _ReserveIn(article=article, pieces=pieces, until=until))


class StockSyncClient:
    """What is on the shelves and in the back of a store.

    Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`.
    """

    def __init__(self, rpc: SyncRpc, queue: str = INTERFACE, *, timeout: float | None = -1.0) -> None:
        self._caller = SyncCaller(rpc, queue, INTERFACE, VERSION, timeout)
        self.history = StockHistorySyncClient(self._caller)

    def level(self, *, article: Article) -> LevelOut:
        """How many pieces of an article are here.

        `article`: The article.

        Raises NoSuchArticle.
        """
        return self._caller.call(_LEVEL, _LevelIn(article=article))

    def reserve(self, *, article: Article, pieces: Int64, until: Day | None = None) -> ReserveOut:
        """Put pieces aside for a customer.

        `article`: The article.
        `pieces`: How many, from 1.
        `until`: The last day on which they wait; none = today.

        Raises NoSuchArticle, NotEnough.
        """
        return self._caller.call(_RESERVE, _ReserveIn(article=article, pieces=pieces, until=until))


class StockServer(Protocol):
    """What is on the shelves and in the back of a store.

    A server has these functions, each either with or without `async`; those without run in threads.
    """

    @property
    def history(self) -> StockHistoryServer: ...

    def level(self, *, article: Article) -> Awaitable[LevelOut] | LevelOut:
        """How many pieces of an article are here.

        `article`: The article.

        Raises NoSuchArticle.
        """
        ...

    def reserve(
        self,
        *,
        article: Article,
        pieces: Int64,
        until: Day | None = None,
    ) -> Awaitable[ReserveOut] | ReserveOut:
        """Put pieces aside for a customer.

        `article`: The article.
        `pieces`: How many, from 1.
        `until`: The last day on which they wait; none = today.

        Raises NoSuchArticle, NotEnough.
        """
        ...


class Stock_server_dispatcher(Interface):
    """Checks and converts the inputs and outputs of a server: `rpc.serve(queue, [this])`."""

    def __init__(self, server: StockServer) -> None:
        super().__init__(
            handlers(
                {
                    _LEVEL: server.level,
                    _RESERVE: server.reserve,
                    _HISTORY_MOVEMENTS: server.history.movements,
                },
            ),
            INTERFACE,
            VERSION,
        )


class Stock_skeleton:
    """Says of each function that it is not implemented: derive from it, and replace them one by one."""

    def __init__(self) -> None:
        self.history: StockHistoryServer = StockHistory_skeleton()

    async def level(self, *, article: Article) -> LevelOut:
        raise Unimplemented("level")

    async def reserve(self, *, article: Article, pieces: Int64, until: Day | None = None) -> ReserveOut:
        raise Unimplemented("reserve")


class Stock_test:
    """Answers each call with a value of its type."""

    def __init__(self) -> None:
        self.history: StockHistoryServer = StockHistory_test()

    async def level(self, *, article: Article) -> LevelOut:
        return _sample(LevelOut)

    async def reserve(self, *, article: Article, pieces: Int64, until: Day | None = None) -> ReserveOut:
        return _sample(ReserveOut)


if __name__ == "__main__":
    raise SystemExit(main(INTERFACE, VERSION, FUNCTIONS))
