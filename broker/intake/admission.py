"""How many connections a node's ports have at once: in all, and of strangers, also of one address.

A *stranger* is a connection that has not logged in, as an application or as a neighbour. A `Guest` is the
place of one connection; `prove` says that it is no stranger any more, `leave` that it has gone.

Law: whoever has proved itself is never sent away for others. Where strangers are too many, the one that has
been one for longest makes room for the next, but not within `GRACE` of its coming: a login takes a while.
Applications do not get the last places, so that a link always finds one.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from broker.intake.addresses import network_of
from treeconnector.wording import counted

_log = logging.getLogger("sapwood.intake")
GRACE: Final = 5.0
"""Seconds that a stranger has before it makes room for another."""
_SAY_EVERY: Final = 10.0
_OWN_FILES: Final = 64
_FEWEST: Final = 16
_SHARE_OF_LINKS: Final = 8


class Bounds(NamedTuple):
    """Most connections: in all, of strangers, and of strangers from one address."""

    connections: int = 20_000
    strangers: int = 1024
    strangers_per_address: int = 512

    def within(self, files: int) -> "Bounds":
        """The same for a process that may have so many files open, of which it needs some itself."""
        return self._replace(connections=min(self.connections, max(files - _OWN_FILES, _FEWEST)))


class Guest:
    """The place of one connection. `end`: cuts it off. `when_proved`: told when it is no stranger any more.

    `refusal`: why nothing more is read of it, '' as long as it is.
    """

    __slots__ = ("_admission", "at", "end", "gone", "host", "is_link", "proved", "refusal", "when_proved")

    def __init__(self, admission: "Admission", host: str, at: float) -> None:
        self._admission = admission
        self.host = host
        self.at = at
        self.proved = self.is_link = self.gone = False
        self.refusal = ""
        self.end: Callable[[], object] | None = None
        self.when_proved: Callable[[], object] | None = None

    def __repr__(self) -> str:
        return f"<Guest from {self.host}{'' if self.proved else ', a stranger'}>"

    @property
    def may_log_in(self) -> bool:
        """Is there a place for one more application?"""
        if self.proved or self._admission.has_room_for_applications:
            return True
        self._admission.turn_away("applications", self.host)
        return False

    def prove(self, *, is_link: bool = False) -> None:
        """It has logged in. Calling it again does nothing."""
        self._admission.prove(self, is_link=is_link)

    def leave(self) -> None:
        """It has gone. Calling it again does nothing."""
        self._admission.leave(self)

    def cut(self) -> None:
        """End it now: what was to be sent is not."""
        if self.end is not None:
            self.end()


class Admission:
    """All connections of a node. `clock`: seconds, monotonic. `turned_away`: how many, by reason. `gone`:
    how many connections have ever gone.

    `is_short`: there is hardly any memory, so strangers are few: as many as ask how the node is.
    """

    def __init__(self, bounds: Bounds | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.bounds = bounds or Bounds()
        self.turned_away: Counter[str] = Counter()
        self.applications = self.links = self.gone = 0
        self.is_short = False
        self._clock = clock
        self._strangers: dict[Guest, None] = {}
        self._of_host: dict[str, dict[Guest, None]] = {}
        self._unsaid: Counter[str] = Counter()
        self._said_at: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Admission of {len(self)} connections, {self.strangers} of strangers>"

    def __len__(self) -> int:
        return self.applications + self.links + len(self._strangers)

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    @property
    def has_room_for_applications(self) -> bool:
        most = self.bounds.connections
        return self.applications < most - max(most // _SHARE_OF_LINKS, 1)

    @property
    def must_wait(self) -> bool:
        """Are there so many strangers, all of them new, that who comes now waits until it is asked in?"""
        return len(self._strangers) >= self._most_strangers and not self._has_had_time(self._strangers)

    @property
    def _most_strangers(self) -> int:
        return min(self.bounds.strangers, _FEWEST) if self.is_short else self.bounds.strangers

    def admit(self, address: str) -> Guest | None:
        """A place for a connection from `address` (an IP address); None: it is to be closed at once."""
        host = network_of(address)
        of_host = self._of_host.get(host, {})
        if len(of_host) >= self.bounds.strangers_per_address and not self._make_room(of_host, "address"):
            self.turn_away("address", host)
            return None
        if len(self._strangers) >= self._most_strangers and not self._make_room(self._strangers, "strangers"):
            self.turn_away("strangers", host)
            return None
        if len(self) >= self.bounds.connections and not self.make_room("connections"):
            self.turn_away("connections", host)
            return None
        guest = Guest(self, host, self._clock())
        self._strangers[guest] = None
        self._of_host.setdefault(host, {})[guest] = None
        return guest

    def _has_had_time(self, strangers: dict[Guest, None]) -> bool:
        oldest = next(iter(strangers), None)
        return oldest is not None and self._clock() - oldest.at >= GRACE

    def _make_room(self, strangers: dict[Guest, None], reason: str) -> bool:
        return self._has_had_time(strangers) and self._send_away(next(iter(strangers)), reason)

    def make_room(self, reason: str) -> bool:
        """Send the oldest stranger away, however new it is. False if there is none."""
        oldest = next(iter(self._strangers), None)
        return oldest is not None and self._send_away(oldest, reason)

    def _send_away(self, guest: Guest, reason: str) -> bool:
        self.turn_away(reason, guest.host)
        self.leave(guest)
        guest.cut()
        return True

    def prove(self, guest: Guest, *, is_link: bool) -> None:
        if guest.proved or not self._forget(guest):
            return
        guest.proved, guest.is_link = True, is_link
        if is_link:
            self.links += 1
        else:
            self.applications += 1
        if guest.when_proved is not None:
            guest.when_proved()

    def leave(self, guest: Guest) -> None:
        self.gone += not guest.gone
        guest.gone = True
        if guest.proved:
            guest.proved = False
            if guest.is_link:
                self.links -= 1
            else:
                self.applications -= 1
        else:
            self._forget(guest)

    def _forget(self, guest: Guest) -> bool:
        """It is no stranger from now on. False if it was none."""
        if guest not in self._strangers:
            return False
        del self._strangers[guest]
        of_host = self._of_host[guest.host]
        del of_host[guest]
        if not of_host:
            del self._of_host[guest.host]
        return True

    # --- what is said of it

    def turn_away(self, reason: str, host: str) -> None:
        self.turned_away[reason] += 1
        self.complain(reason, _WHY[reason], host)

    def complain(self, reason: str, text: str, host: str = "") -> None:
        """Say it in the log, each reason now and then; what was not said is counted."""
        now = self._clock()
        self._unsaid[reason] += 1
        if reason in self._said_at and now < self._said_at[reason] + _SAY_EVERY:
            return
        self._said_at[reason] = now
        count = self._unsaid.pop(reason)
        who = f", the last from {host}" if host else ""
        _log.warning(
            "! %s: %s%s",
            text,
            counted(count, "time"),
            who,
            extra={"reason": reason, "count": count, "address": host},
        )

    def status(self) -> dict[str, object]:
        return {
            "connections": len(self),
            "strangers": self.strangers,
            "applications": self.applications,
            "links": self.links,
            "most": self.bounds.connections,
            "turned_away": dict(self.turned_away),
        }


_WHY: Final = {
    "address": (
        "too many connections of one address that have not logged in; one was closed"
        " (limits: strangers_per_address)"
    ),
    "strangers": "too many connections that have not logged in; one was closed (limits: strangers)",
    "connections": (
        "too many connections; one that has not logged in was closed (limits: connections, or the most files"
        " that this process may have open)"
    ),
    "files": "no more files can be opened; a connection that has not logged in was closed",
    "applications": "too many applications; one was not logged in (limits: connections)",
    "buffers": "connections that read nothing, or are in the middle of much, fill the memory; one was closed",
}
REASONS: Final = tuple(_WHY)
"""Why connections are closed, or not accepted."""
