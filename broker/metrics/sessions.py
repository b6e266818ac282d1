"""Applications' sessions: what each has, sent and got. A session is named by its masked token."""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from broker.core.sessions.sessions import Session
from broker.metrics.exposition import Family, counter, gauge
from broker.metrics.label_limit import Counters, LabelLimit, summed

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_COUNTED: Final = (
    ("messages_sent", "Messages that the session has sent to this node."),
    ("messages_received", "Messages that the session was given."),
    ("sent_bytes", "Bytes that the session has sent."),
    ("received_bytes", "Bytes that the session was given."),
)
_MEASURED: Final[tuple[tuple[str, str, Callable[[Session], int]], ...]] = (
    ("connections", "Connections that are logged in to the session.", lambda item: len(item.connections)),
    ("readers", "Subscriptions of the session.", lambda item: len(item.consumers)),
    (
        "unacknowledged_messages",
        "Messages that the session has and has not acknowledged.",
        lambda item: sum(reader.outstanding for reader in item.consumers),
    ),
    ("blocked_transfers", "Transfers that wait for a message.", lambda item: len(item.mail.waiters)),
)


class SessionFigures:
    """Families of all sessions. Keep one for each node. `masked`: a token as it may be shown."""

    def __init__(self, limit: int, masked: Callable[[str], str]) -> None:
        self._seats = LabelLimit(limit, len(_COUNTED))
        self._masked = masked

    def __repr__(self) -> str:
        return f"<SessionFigures {self._seats!r}>"

    def families(self, core: "NodeCore") -> Generator[None, None, list[Family]]:
        """Some sessions a step."""
        now, sessions = core.clock.now, list(core.switch.sessions.items())
        sums = yield from summed(
            self._seats,
            lambda: ((self._masked(token), session) for token, session in sessions),
            lambda session: float(_MEASURED[2][2](session)),
            lambda session: session.totals,
            lambda: SessionSums(now),
        )
        return [
            gauge("sapwood_sessions", "Sessions of applications at this node.").add(len(sessions)),
            *_gauges(sums),
            _silence(sums, now),
            *_totals({name: self._seats.counters(name) for name in sums}),
        ]


class SessionSums:
    """Of some sessions. `measured`: as `_MEASURED` says. `heard`: when the most silent one was heard."""

    def __init__(self, now: float) -> None:
        self.measured = [0] * len(_MEASURED)
        self.heard = now
        self._now = now

    def add(self, session: Session) -> None:
        for index, (_, _, read) in enumerate(_MEASURED):
            self.measured[index] += read(session)
        self.heard = min(self.heard, max((line.heard for line in session.connections), default=self._now))


def _gauges(sums: dict[str, SessionSums]) -> list[Family]:
    families = []
    for index, (suffix, text, _) in enumerate(_MEASURED):
        families.append(family := gauge(f"sapwood_session_{suffix}", text))
        for name, each in sums.items():
            family.add(each.measured[index], session=name)
    return families


def _silence(sums: dict[str, SessionSums], now: float) -> Family:
    family = gauge("sapwood_session_silence_seconds", "Time since any connection of the session was heard.")
    for name, each in sums.items():
        family.add(max(round(now - each.heard, 3), 0.0), session=name)
    return family


def _totals(totals: dict[str, Counters]) -> list[Family]:
    families = []
    for index, (suffix, text) in enumerate(_COUNTED):
        families.append(family := counter(f"sapwood_session_{suffix}", text))
        for name, counters in totals.items():
            family.add(counters[index], session=name)
    return families
