"""Callers at one address where a channel waits, which have not said the secret yet.

Law: strangers keep nobody out. Each address has room of its own. Where there is none left, the oldest of the
host that has most there makes room for the newest.
"""

import asyncio
import ipaddress
from collections import Counter
from typing import Final

MOST: Final = 32
_NEIGHBOURS: Final = 64
"""Bits of an address of IPv6 that whoever has one of them shares with itself."""


class Callers:
    """The tasks that listen to them, oldest first."""

    def __init__(self) -> None:
        self._hosts: dict[asyncio.Task[None], str] = {}

    def __repr__(self) -> str:
        return f"<Callers {len(self._hosts)}>"

    def add(self, host: str, task: asyncio.Task[None]) -> None:
        if len(self._hosts) >= MOST:
            self._make_room()
        self._hosts[task] = host
        task.add_done_callback(self.discard)

    def discard(self, task: asyncio.Task[None]) -> None:
        """It has gone, or has the channel. Idempotent."""
        self._hosts.pop(task, None)

    def _make_room(self) -> None:
        most, _ = Counter(self._hosts.values()).most_common(1)[0]
        oldest = next(task for task, host in self._hosts.items() if host == most)
        self.discard(oldest)
        oldest.cancel()


def host_of(place: object) -> str:
    """The host, or its network, of the place that a socket tells; '' within the machine."""
    if not isinstance(place, tuple):
        return ""
    host = str(place[0]).partition("%")[0]
    return str(ipaddress.ip_network((host, _NEIGHBOURS), strict=False)) if ":" in host else host
