"""What articles cost, and from when.

Interface prices 2.0, for which answer: Pricing.

Written by `sapwood idl python`: change the definition, and write it again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

from sapwood.stub_commands import main
from sapwood.stub_samples import sample as _sample
from sapwood.stubs import (
    Caller,
    Function,
    Interface,
    Rpc,
    Struct,
    SyncCaller,
    SyncRpc,
    Unimplemented,
    handlers,
)

from .common import Article, Day, Money, NoSuchArticle, Store

INTERFACE = "prices"
VERSION = "2.0"


class ReductionPercent(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="percent"):
    """Of the price, above 0 and below 100."""

    value: float


class ReductionAmount(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="amount"):
    """Per piece."""

    value: Money


class ReductionNone(Struct, frozen=True, omit_defaults=True, tag_field="case", tag="none"):
    """The full price."""


class Price(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A price that holds from a day on."""

    full: Money
    """Without any reduction."""
    reduced: Reduction
    """What is taken off."""
    since: Day
    """The first day."""


Reduction: TypeAlias = ReductionPercent | ReductionAmount | ReductionNone
"""How much less is asked."""


class _OfArticleIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The price of one article in one store."""

    article: Article
    """The article."""
    store: Store
    """The store: prices differ by region."""


class OfArticleOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The price of one article in one store."""

    price: Price
    """The one that holds today."""


_OF_ARTICLE = Function(
    "of_article",
    _OfArticleIn,
    OfArticleOut,
    NoSuchArticle,
    about="The price of one article in one store.",
    inputs_about={"article": "The article.", "store": "The store: prices differ by region."},
)


class _OfStoreIn(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """All prices of a store."""

    store: Store
    """The store."""


class OfStoreOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All prices of a store."""

    prices: dict[Article, Price]
    """By article."""


_OF_STORE = Function(
    "of_store",
    _OfStoreIn,
    OfStoreOut,
    about="All prices of a store.",
    inputs_about={"store": "The store."},
)


FUNCTIONS = (_OF_ARTICLE, _OF_STORE)


class PricesClient:
    """What articles cost, and from when.

    Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`.
    """

    def __init__(self, rpc: Rpc, queue: str = INTERFACE, *, timeout: float | None = -1.0) -> None:
        self._caller = Caller(rpc, queue, INTERFACE, VERSION, timeout)

    async def of_article(self, *, article: Article, store: Store) -> OfArticleOut:
        """The price of one article in one store.

        `article`: The article.
        `store`: The store: prices differ by region.

        Raises NoSuchArticle.
        """
        return await self._caller.call(_OF_ARTICLE, _OfArticleIn(article=article, store=store))

    async def of_store(self, *, store: Store) -> OfStoreOut:
        """All prices of a store.

        `store`: The store.
        """
        return await self._caller.call(_OF_STORE, _OfStoreIn(store=store))


class PricesSyncClient:
    """What articles cost, and from when.

    Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`.
    """

    def __init__(self, rpc: SyncRpc, queue: str = INTERFACE, *, timeout: float | None = -1.0) -> None:
        self._caller = SyncCaller(rpc, queue, INTERFACE, VERSION, timeout)

    def of_article(self, *, article: Article, store: Store) -> OfArticleOut:
        """The price of one article in one store.

        `article`: The article.
        `store`: The store: prices differ by region.

        Raises NoSuchArticle.
        """
        return self._caller.call(_OF_ARTICLE, _OfArticleIn(article=article, store=store))

    def of_store(self, *, store: Store) -> OfStoreOut:
        """All prices of a store.

        `store`: The store.
        """
        return self._caller.call(_OF_STORE, _OfStoreIn(store=store))


class PricesServer(Protocol):
    """What articles cost, and from when.

    A server has these functions, each either with or without `async`; those without run in threads.
    """

    def of_article(self, *, article: Article, store: Store) -> Awaitable[OfArticleOut] | OfArticleOut:
        """The price of one article in one store.

        `article`: The article.
        `store`: The store: prices differ by region.

        Raises NoSuchArticle.
        """
        ...

    def of_store(self, *, store: Store) -> Awaitable[OfStoreOut] | OfStoreOut:
        """All prices of a store.

        `store`: The store.
        """
        ...


class Prices_server_dispatcher(Interface):
    """Checks and converts the inputs and outputs of a server: `rpc.serve(queue, [this])`."""

    def __init__(self, server: PricesServer) -> None:
        super().__init__(
            handlers({_OF_ARTICLE: server.of_article, _OF_STORE: server.of_store}),
            INTERFACE,
            VERSION,
        )


class Prices_skeleton:
    """Says of each function that it is not implemented: derive from it, and replace them one by one."""

    async def of_article(self, *, article: Article, store: Store) -> OfArticleOut:
        raise Unimplemented("of_article")

    async def of_store(self, *, store: Store) -> OfStoreOut:
        raise Unimplemented("of_store")


class Prices_test:
    """Answers each call with a value of its type."""

    async def of_article(self, *, article: Article, store: Store) -> OfArticleOut:
        return _sample(OfArticleOut)

    async def of_store(self, *, store: Store) -> OfStoreOut:
        return _sample(OfStoreOut)


if __name__ == "__main__":
    raise SystemExit(main(INTERFACE, VERSION, FUNCTIONS))
