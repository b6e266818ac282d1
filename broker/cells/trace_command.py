"""What one node says of messages that passed it: the command `trace` of its cell.

Question: `{"messages": ["BUNDLEHEX-POSITION", …], "task": "…"}`, each optional. Answer: `node`, `now` (this
node's wall clock), `down` (neighbours that are away), `messages` (by id: where it came from and went, and its
events, oldest first) and `task_messages` (ids of the task's messages that were decoded here). Times:
microseconds of the wall clock.

Law: no payloads, no session's token. Whoever asks by id knows something that cannot be guessed; a task can
be, so who is not above this node is told of those of its messages only that were for the asking node, and
those that a session made which was given a message that the asker names: so what a request set off is told to
where it came from. Where its replies go is then not told: that name is as good as a key.
"""

import time
from itertools import chain, islice
from typing import Any, Final

from broker.core.errors import BadRequest
from broker.core.messages.queue import QueueEntry
from broker.core.messages.trace import (
    ACKNOWLEDGED,
    ARRIVED,
    BURIED,
    DEALT_WITH,
    DELIVERED,
    ENTERED,
    NAMES,
    SENT,
    Record,
)
from broker.core.sessions.masking import masked
from broker.host import Host
from treeconnector.identity import MessageId, parse_message_id

MOST_MESSAGES: Final = 100
MOST_OF_A_TASK: Final = 500
MOST_EVENTS: Final = 200
MOST_DOWN: Final = 1000
_SET: Final = 0.001
_LOOKED_THROUGH: Final = 50_000
_OF_SESSIONS: Final = frozenset((ENTERED, DELIVERED, DEALT_WITH))
_OF_NEIGHBOURS: Final = frozenset((ARRIVED, SENT, ACKNOWLEDGED))


class TraceCommand:
    """Answers for one node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._core = host.core
        self._wall = time.time() - host.now()

    def __repr__(self) -> str:
        return f"<TraceCommand {self._core.trace!r}>"

    @property
    def wall(self) -> float:
        """What is added to running time to show it to people; seconds. Changes when the clock is set."""
        found = time.time() - self._host.now()
        if abs(found - self._wall) > _SET:
            self._wall = found
        return self._wall

    def __call__(self, asker: str, arguments: dict[str, Any]) -> dict[str, Any]:
        ids, task = arguments.get("messages", []), arguments.get("task", "")
        if not isinstance(ids, list) or len(ids) > MOST_MESSAGES or not isinstance(task, str):
            raise BadRequest(f"trace takes a list of at most {MOST_MESSAGES} message ids, and a task id")
        messages = [_message_id(text) for text in ids]
        of_task = self._of_task(asker, task, frozenset(each.bundle for each in messages)) if task else []
        about = {str(message): found for message, found in self._about(asker, messages).items() if found}
        return {
            **self.answer(about),
            "task_messages": of_task[:MOST_OF_A_TASK],
            "more": max(len(of_task) - MOST_OF_A_TASK, 0),
        }

    def answer(self, about: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """`about`: what this node says of each that it was asked for, and knows."""
        return {
            "node": self._core.identity.name,
            "now": micros(self._host.now() + self.wall),
            "messages": about,
            "down": self._down(),
        }

    def _down(self) -> dict[str, str]:
        """The neighbours that are away, and for how long."""
        now = self._core.clock.now
        away = [neighbour for neighbour in self._core.neighbours.values() if not neighbour.up]
        return {
            each.name: f"its link to {self._core.identity.name} has been down for {now - each.since:.0f} s"
            for each in away[:MOST_DOWN]
        }

    def _about(self, asker: str, messages: list[MessageId]) -> dict[MessageId, dict[str, Any] | None]:
        records: dict[bytes, list[Record]] = {}
        for record in self._core.trace.of(frozenset(message.bundle for message in messages)):
            records.setdefault(record.bundle, []).append(record)
        return {message: self._one(asker, message, records.get(message.bundle, [])) for message in messages}

    def _one(self, asker: str, message: MessageId, records: list[Record]) -> dict[str, Any] | None:
        records = [record for record in records if record.covers(message.position)]
        kept = self._kept(message) if not records else None
        if kept is not None:
            return kept
        if not records:
            return None
        arrived = [record for record in records if record.kind == ARRIVED]
        entered = any(record.kind == ENTERED for record in records)
        origin = self._core.identity.name if entered else arrived[0].extra if arrived else ""
        above = self._core.ancestry.may_administer(asker)
        wall, theirs = self.wall, above or asker in (origin, records[0].destination.node)
        return {
            "destination": str(records[0].destination),
            "for": records[0].destination.node,
            "origin": origin,
            "came": sorted({record.who for record in arrived}),
            "went": sorted({record.who for record in records if record.kind == SENT}),
            "events": [
                self._event(record, message.position, wall, theirs) for record in records[-MOST_EVENTS:]
            ],
        }

    def _event(self, record: Record, position: int, wall: float, theirs: bool) -> dict[str, Any]:
        kind = "expired" if record.kind == BURIED and record.extra == "EXPIRED" else NAMES[record.kind]
        event: dict[str, Any] = {"at": micros(record.at + wall), "kind": kind}
        if record.kind in _OF_SESSIONS:
            event["session"] = masked(record.who) if record.who else ""
        elif record.kind in _OF_NEIGHBOURS or record.who:
            event["neighbour"] = record.who
        if record.kind == DELIVERED:
            before = record.bits & ((1 << position) - 1)
            event["transfer_id"] = record.extra + before.bit_count()
        elif record.kind == DEALT_WITH:
            event["processing_s"] = round(record.extra, 6)
        elif record.kind != ARRIVED and record.extra:
            event["reason"] = record.extra
        note = self._core.trace.note(record.bundle, position) if record.kind in _OF_SESSIONS else None
        if note is not None:
            said = {"correlation_id": note.correlation_id, "task_id": note.task_id}
            if theirs:
                said["reply_to"] = note.reply_to
            event |= {name: value for name, value in said.items() if value not in (None, "")}
        return event

    def _kept(self, message: MessageId) -> dict[str, Any] | None:
        """The ring does not reach back that far: is the message still here?"""
        copy = self._copy_of(message)
        if copy is None:
            return None
        header = copy.stored.header
        event = {"at": micros(copy.since + self.wall), "kind": "kept", "place": _shown(copy)}
        return {
            "destination": str(header.destination),
            "for": header.destination.node,
            "origin": header.origin,
            "came": [copy.came] if copy.came else [],
            "went": [],
            "events": [event | ({"reason": copy.note} if copy.queue is self._core.custody.dead else {})],
        }

    def _copy_of(self, message: MessageId) -> QueueEntry | None:
        custody = self._core.custody
        waiting = (place.waiting.look() for place in list(custody.queues.values()))
        outboxes = (neighbour.outbox for neighbour in self._core.neighbours.values())
        copies = chain.from_iterable(chain(waiting, outboxes))
        for copy in islice(copies, _LOOKED_THROUGH):
            if copy.stored.header.id == message.bundle:
                here = message.position < copy.stored.header.count
                if here and not copy.done >> message.position & 1:
                    return copy
        return None

    def _of_task(self, asker: str, task: str, named: frozenset[bytes]) -> list[str]:
        """Ids of a task's messages that were decoded here, as far as the asker may know them.

        `named`: bundles that it knows.
        """
        trace = self._core.trace
        noted = [(bundle, note.position) for bundle, note in trace.noted(task)]
        if not self._core.ancestry.may_administer(asker):
            bundles = frozenset(bundle for bundle, _ in noted)
            records = trace.of(bundles | named)
            given = {each.who for each in records if each.kind == DELIVERED and each.bundle in named}
            theirs = {
                each.bundle
                for each in records
                if each.destination.node == asker or (each.kind == ENTERED and each.who in given)
            }
            noted = [(bundle, position) for bundle, position in noted if bundle in theirs]
        return [str(MessageId(bundle, position)) for bundle, position in noted]


def _message_id(text: Any) -> MessageId:
    try:
        return parse_message_id(text if isinstance(text, str) else repr(text))
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _shown(copy: QueueEntry) -> str:
    """A place's name without what names a session."""
    return copy.queue.name.partition(":")[0] if copy.queue.destination is None else copy.queue.name


def micros(seconds: float) -> int:
    """As times are said here."""
    return round(seconds * 1_000_000)
