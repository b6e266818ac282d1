"""A node's API as commands use it: one address, one token, pages joined to lists."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from broker.cli.http import TIMEOUT, ask, lines
from broker.cli.output import patience
from broker.cli.tls import Tls

Fields = dict[str, Any]
PAGE: Final = 1000
LONG: Final = 600.0
"""Seconds: a queue with a million messages takes its time to go."""


@dataclass(frozen=True, slots=True)
class NodeApi:
    """Asks the node at `url`. Calls raise `CommandError`."""

    url: str
    token: str = ""
    tls: Tls | None = None

    def get(self, path: str, **query: Any) -> Fields:
        """`query`: parameters; those that are None or '' are left out."""
        with patience(f"asking {self.url}"):
            found: Fields = ask(self.url, _with(path, query), token=self.token, tls=self.tls)
        return found

    def change(self, method: str, path: str, body: Any = None, **query: Any) -> Fields:
        """POST or DELETE."""
        with patience(f"{self.url} is at it"):
            found: Fields = ask(
                self.url,
                _with(path, query),
                method=method,
                token=self.token,
                tls=self.tls,
                timeout=LONG,
                body=body,
            )
        return found

    def pages(self, path: str, what: str, limit: int, *others: str, **query: Any) -> Fields:
        """The first `limit` of a long list; the answer is that of the last page, with all of them in it.

        `others`: lists in the same pages, each counted.
        """
        lists: dict[str, list[Any]] = {name: [] for name in (what, *others)}
        left, after = limit, ""
        while True:
            page = self.get(path, limit=min(left, PAGE), after=after, **query)
            for name, listed in lists.items():
                listed += page[name]
                left -= len(page[name])
            after = page.get("next") or ""
            if not after or left <= 0:
                return {**page, **lists}

    def stream(self, path: str, **query: Any) -> Iterator[Any]:
        """Objects as they come."""
        return lines(self.url, _with(path, query), token=self.token, tls=self.tls, silence=TIMEOUT)


def part(text: str) -> str:
    """Text as one part of a path."""
    return quote(text, safe="")


def _with(path: str, query: Fields) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "", False)}
    given = {name: int(value) if value is True else value for name, value in given.items()}
    return f"{path}?{urlencode(given)}" if given else path
