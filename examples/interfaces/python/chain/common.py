"""The types and errors of common.idl, which several interfaces share.

Written by `sapwood idl python`: change the definition, and write it again.
"""

from __future__ import annotations

from typing import TypeAlias

from sapwood.stubs import DeclaredError, Int64, Struct


class Money(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An amount of money, exact."""

    cents: Int64
    """Hundredths of the currency; below 0 for what is given back."""
    currency: str
    """Its three letters, as EUR."""


Article: TypeAlias = Int64
"""Number of an article, as HQ gives it."""


Store: TypeAlias = str
"""Name of a store, as its node is called: store-0042."""


Day: TypeAlias = str
"""A day as YYYY-MM-DD, in the store's own time."""


class NoSuchArticle(DeclaredError):
    """HQ knows no article of this number."""

    name = "no_such_article"
    about = "HQ knows no article of this number."
    type = Article
    value: Article

    def __init__(self, value: Article) -> None:
        super().__init__(value)
