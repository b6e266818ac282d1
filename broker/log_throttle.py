"""What is said in the log of children that are turned away: who tries again and again, now and then only."""

import asyncio
import logging
from typing import Final

_log = logging.getLogger("sapwood.node")
_AGAIN: Final = 600.0
_MOST: Final = 1000


class LogThrottle:
    """Warnings of callers at the node's port, one of a kind and host in ten minutes."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<LogThrottle of {len(self._next)} kinds>"

    def is_new(self, address: str, text: str) -> bool:
        """Was that not said of this host within ten minutes? It counts as said then."""
        now = asyncio.get_running_loop().time()
        key = f"{address.rpartition(':')[0]} {text}"
        if now < self._next.get(key, 0.0):
            return False
        if len(self._next) >= _MOST:
            self._next.clear()
        self._next[key] = now + _AGAIN
        return True

    def __call__(
        self, address: str, text: str, name: str = "", *, beside: bool = False, passing: bool = False
    ) -> None:
        """`name`: as the caller calls itself, '' or '?' if it never said so. `beside`: it is a node of this
        one's mesh. `passing`: nothing is wrong, as where two nodes dial each other at once.
        """
        if not self.is_new(address, f"{name} {text}"):
            return
        what = "node of the mesh" if beside else "child"
        who = f"{what} {name} at {address}" if name.strip("?") else f"a child at {address}"
        level = logging.INFO if passing else logging.WARNING
        fields = {"link": name, "address": address, "reason": text}
        _log.log(level, "! %s: %s", who, text, extra=fields)
