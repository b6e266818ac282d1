"""The connection, as an application and its log are told of it, and the rest before the next one."""

import logging
from collections.abc import Callable
from typing import Final

_log = logging.getLogger("sapwood.session")
_STEADY: Final = 5.0
_SHORTEST_REST: Final = 0.2
_LONGEST_REST: Final = 5.0


class ConnectionWatch:
    """Of one client. `on_connected(node)` and `on_lost(error)` are the application's.

    Wrinkle: a connection that ends soon after its beginning, and with nothing confirmed, may end for what is
    said on it, and so would the next one: each but the first is waited for longer.
    """

    def __init__(
        self, on_connected: Callable[[str], object] | None, on_lost: Callable[[Exception], object] | None
    ) -> None:
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._began = (0.0, 0)
        self._short = 0

    def __repr__(self) -> str:
        return f"<ConnectionWatch {self._short} short connections>"

    def connected(self, node: str, uri: str, now: float, confirmed: int) -> None:
        self._began = now, confirmed
        _log.info("+ connected to node %s at %s", node, uri)
        _tell(self._on_connected, node)

    def lost(self, error: Exception, now: float, confirmed: int) -> float:
        """Returns how long to rest before the next, seconds."""
        began, before = self._began
        self._short = self._short + 1 if now - began < _STEADY and confirmed == before else 0
        rest = min(_SHORTEST_REST * 2.0 ** min(self._short - 2, 8), _LONGEST_REST) if self._short > 1 else 0.0
        _log.warning("! %s; it tries again after %.1f s", error, rest)
        _tell(self._on_lost, error)
        return rest


def _tell(listener: Callable[..., object] | None, news: object) -> None:
    """An application's own function; what it raises is its own fault and ends nothing here."""
    try:
        if listener is not None:
            listener(news)
    except Exception:
        _log.exception("! what was to be called at a change of the connection failed")
