"""What many nodes said, as one story: hops in the order of the way, and events in the order of time.

Every node tells times by its own wall clock. An answer shows how far that is from the asking node's: its
`now` must lie between question and answer. And what arrived must have been sent before and be acknowledged
after. Where a clock contradicts that, the node's times are shifted, and the hop says by how much.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from broker.cells.walk import Found, Passage, WalkEvent

Clocks = dict[str, int]
"""What is added to a node's times, in microseconds."""

_MOMENTS: Final = {
    "entered": "arrived",
    "arrived": "arrived",
    "committed": "committed",
    "sent": "sent",
    "acknowledged": "acknowledged",
    "delivered": "delivered",
    "dealt_with": "dealt_with",
}
_SHOWN: Final = tuple(dict.fromkeys(_MOMENTS.values()))
_LATEST: Final = frozenset(("acknowledged", "dealt_with"))
_STEPS: Final = ("arrived", "sent", "acknowledged")
_OF_CHANNELS: Final = ("opening", "opening", "open")
_CHANNEL_ENDS: Final = frozenset(("over", "refused", "broken"))
_ENDS: Final = frozenset(("dealt_with", "dead", "expired", "dropped"))


def message_story(message: str, found: Found) -> dict[str, Any]:
    """The answer of `/api/trace/message/{id}`."""
    passages = _merged(found, message)
    order = _order(passages)
    clocks = clocks_of(found)
    _mend(order, passages, clocks)
    events = [event.at + clocks[node] for node in order for event in passages[node].events]
    start = min(events, default=0)
    hops = [_hop(node, passages[node], clocks[node], start) for node in order]
    lost = [name for node in order for name in _neighbours(passages[node]) if name not in passages]
    return {
        "id": message,
        "destination": next((passages[node].destination for node in order), ""),
        "origin": next((passages[node].origin for node in order if passages[node].origin), ""),
        "hops": hops,
        "complete": bool(hops) and not lost and not found.unreachable and _is_over(passages),
        "unknown_at": sorted(set(lost) - set(found.unreachable)),
        **_unanswered(found),
    }


def task_story(task: str, found: Found) -> dict[str, Any]:
    """The answer of `/api/trace/task/{task}`: the events of all its messages at all nodes, by time."""
    clocks = clocks_of(found)
    ways = {message: _merged(found, message) for message in found.of_task}
    for passages in ways.values():
        _mend(_order(passages), passages, clocks)
    told = [
        (event.at + clocks[node], node, message, passages[node].destination, event)
        for message, passages in ways.items()
        for node in _order(passages)
        for event in passages[node].events
    ]
    told.sort(key=lambda item: item[0])
    start = told[0][0] if told else 0
    notes = _notes(ways)
    return {
        "task": task,
        "messages": list(found.of_task),
        "events": [
            {
                **_fields(event, at, start),
                **notes.get(message, {}),
                "node": node,
                "queue": destination.removeprefix("queue:"),
                "message": message,
            }
            for at, node, message, destination, event in told
        ],
        **_unanswered(found),
    }


def channel_story(number: str, found: Found) -> dict[str, Any]:
    """The answer of `/api/trace/channel/{channel}`."""
    passages = _merged(found, number)
    order = _order(passages)
    clocks = clocks_of(found)
    _mend(order, passages, clocks, _OF_CHANNELS)
    start = min((event.at + clocks[node] for node in order for event in passages[node].events), default=0)
    lost = {name for node in order for name in _neighbours(passages[node])} - set(passages)
    first = passages[order[0]] if order else Passage()
    return {
        "channel": number,
        "destination": first.destination,
        "origin": first.origin,
        "hops": [_channel_hop(node, passages[node], clocks[node], start) for node in order],
        "complete": bool(order)
        and not (lost or found.unreachable)
        and all(_has_ended(passages[node]) for node in order),
        "unknown_at": sorted(lost - set(found.unreachable)),
        **_unanswered(found),
    }


def _has_ended(passage: Passage) -> bool:
    return any(event.kind in _CHANNEL_ENDS for event in passage.events)


def _channel_hop(node: str, passage: Passage, clock: int, start: int) -> dict[str, Any]:
    ends = [event for event in passage.events if event.kind in _CHANNEL_ENDS]
    return {
        "node": node,
        "came": passage.came[0] if passage.came else "",
        "to": passage.went[0] if passage.went else "",
        "there": passage.there,
        "back": passage.back,
        "ended": ends[0].kind if ends else "",
        "reason": ends[0].reason if ends else "",
        "ms": {event.kind: _ms(event.at + clock - start) for event in passage.events},
        "clock_shifted_s": round(clock / 1e6, 6),
        "events": [_fields(event, event.at + clock, start) for event in passage.events],
    }


def _unanswered(found: Found) -> dict[str, Any]:
    away = {
        name: f"{why}; {found.down[name]}" for name, why in found.unreachable.items() if name in found.down
    }
    return {
        "unreachable": sorted(found.unreachable),
        "refused": sorted(found.refused),
        "why": {**found.unreachable, **away, **found.refused},
        "not_asked": found.not_asked,
    }


def _notes(ways: dict[str, dict[str, Passage]]) -> dict[str, dict[str, Any]]:
    """What is known of a message from where it was decoded, for all its events."""
    found: dict[str, dict[str, Any]] = {}
    for message, passages in ways.items():
        for passage in passages.values():
            for event in passage.events:
                said = {"correlation_id": event.correlation_id, "reply_to": event.reply_to}
                known = {name: value for name, value in said.items() if value not in (None, "")}
                found[message] = found.get(message, {}) | known
    return found


def _fields(event: WalkEvent, at: int, start: int) -> dict[str, Any]:
    """An event for people: `at` in UTC, `ms` since the first of the story."""
    return {**msgspec.to_builtins(event), "at": iso(at), "ms": _ms(at - start)}


# --- the way


def _merged(found: Found, message: str) -> dict[str, Passage]:
    return dict(found.passages(message))


def _neighbours(passage: Passage) -> list[str]:
    return [*passage.came, *passage.went]


def _order(passages: dict[str, Passage]) -> list[str]:
    """From where it entered along the way; what hangs together with nothing comes last, by time."""
    by_time = sorted(passages, key=lambda node: _first(passages[node]))
    starts = [node for node in by_time if not set(passages[node].came) & set(passages)]
    order: dict[str, None] = {}
    for start in [*starts, *by_time]:
        ahead = [start]
        while ahead:
            node = ahead.pop(0)
            if node not in order:
                order[node] = None
                ahead += [name for name in passages[node].went if name in passages]
    return list(order)


def _first(passage: Passage) -> int:
    return min((event.at for event in passage.events), default=0)


def _is_over(passages: dict[str, Passage]) -> bool:
    """At each end of the way, has the message ended?"""
    ends = [passage for passage in passages.values() if not passage.went]
    return all(any(event.kind in _ENDS for event in passage.events) for passage in ends)


# --- clocks


def clocks_of(found: Found) -> Clocks:
    """How far each node's clock is from the asking node's, where its answer shows that."""
    clocks: Clocks = {}
    for node, answers in found.answers.items():
        before, said, after = min(answers, key=lambda answer: answer[2] - answer[0])
        clocks[node] = 0 if before <= said.now <= after else (before + after) // 2 - said.now
    return clocks


def _mend(
    order: Iterable[str],
    passages: dict[str, Passage],
    clocks: Clocks,
    steps: tuple[str, str, str] = _STEPS,
) -> None:
    """Nothing arrives before it is sent, or after it is acknowledged. `steps`: the names of these three."""
    arriving, sending, acknowledging = steps
    for node in order:
        arrived = _at(passages[node], arriving, clocks[node])
        sender = next((name for name in passages[node].came if name in passages), None)
        if arrived is None or sender is None:
            continue
        sent = _at(passages[sender], sending, clocks[sender], node)
        acknowledged = _at(passages[sender], acknowledging, clocks[sender], node)
        if sent is not None and arrived < sent:
            clocks[node] += (sent if acknowledged is None else (sent + acknowledged) // 2) - arrived
        elif sent is not None and acknowledged is not None and arrived > acknowledged:
            clocks[node] += (sent + acknowledged) // 2 - arrived


def _at(passage: Passage, kind: str, clock: int, neighbour: str = "") -> int | None:
    times = [
        event.at + clock
        for event in passage.events
        if event.kind == kind and neighbour in ("", event.neighbour)
    ]
    return times[0] if times else None


# --- showing


def _hop(node: str, passage: Passage, clock: int, start: int) -> dict[str, Any]:
    moments: dict[str, int] = {}
    for event in passage.events:
        name = _MOMENTS.get(event.kind)
        if name is not None and (name in _LATEST or name not in moments):
            moments[name] = event.at + clock
    return {
        "node": node,
        "came": passage.came[0] if passage.came else "",
        "to": passage.went,
        **{name: iso(moments[name]) if name in moments else None for name in _SHOWN},
        "ms": {name: _ms(at - start) for name, at in moments.items()},
        "clock_shifted_s": round(clock / 1e6, 6),
        "events": [_fields(event, event.at + clock, start) for event in passage.events],
    }


def iso(micros: int) -> str:
    """UTC with microseconds."""
    seconds, rest = divmod(micros, 1_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
    except (ValueError, OverflowError, OSError):
        return ""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _ms(micros: int) -> float:
    return round(micros / 1000, 3)
