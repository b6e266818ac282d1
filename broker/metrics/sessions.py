"""Applications' sessions: what each has, sent and got. A session is named by its masked token."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.core.sessions.sessions import Session
from broker.metrics.exposition import Family, counter, gauge
from broker.metrics.label_limit import OTHER, Counters, LabelLimit

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

    def families(self, core: "NodeCore") -> list[Family]:
        now = core.clock.now
        sessions = {self._masked(token): session for token, session in core.switch.sessions.items()}
        counters: dict[str, Counters] = {name: session.totals for name, session in sessions.items()}
        weights = {name: float(_MEASURED[2][2](session)) for name, session in sessions.items()}
        named = sorted(self._seats.look(weights, counters))
        groups = {name: [sessions[name]] for name in named}
        rest = [session for name, session in sessions.items() if name not in groups]
        if rest or any(self._seats.rest):
            groups[OTHER] = rest
        totals = {**counters, OTHER: self._seats.rest}
        return [
            gauge("sapwood_sessions", "Sessions of applications at this node.").add(
                len(core.switch.sessions)
            ),
            *_gauges(groups),
            _silence(groups, now),
            *_totals(groups, totals),
        ]


def _gauges(groups: dict[str, list[Session]]) -> list[Family]:
    families = []
    for suffix, text, read in _MEASURED:
        families.append(family := gauge(f"sapwood_session_{suffix}", text))
        for name, sessions in groups.items():
            family.add(sum(map(read, sessions)), session=name)
    return families


def _silence(groups: dict[str, list[Session]], now: float) -> Family:
    family = gauge("sapwood_session_silence_seconds", "Time since any connection of the session was heard.")
    for name, sessions in groups.items():
        heard = [max((line.heard for line in item.connections), default=now) for item in sessions]
        family.add(max(round(now - min(heard, default=now), 3), 0.0), session=name)
    return family


def _totals(groups: dict[str, list[Session]], totals: dict[str, Counters]) -> list[Family]:
    families = []
    for index, (suffix, text) in enumerate(_COUNTED):
        families.append(family := counter(f"sapwood_session_{suffix}", text))
        for name in groups:
            family.add(totals[name][index], session=name)
    return families
