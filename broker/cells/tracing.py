"""The trace as a node offers it: its own events to be polled, and stories across the tree.

Polled events are of two kinds, as in XCP: `message` when one enters (`input`: its session) or is given to a
reader (`output`), `ack` when the reader has dealt with it. Ids ascend, also over restarts of the node.

Law: ids are even. Pollers of the message switch ask for the last one and 1, and are given what is not below
that; others ask for the last one, and are given what is above it. Between two even ids both mean the same.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from broker.cells.cells import CellCommand, NodeCells
from broker.cells.channel_trace_command import NUMBER, ChannelTraceCommand
from broker.cells.timeline import channel_story, message_story, task_story
from broker.cells.trace_command import TraceCommand
from broker.cells.walk import ANSWER_WITHIN, Walk
from broker.core.errors import BadRequest
from broker.core.messages.trace import DEALT_WITH, DELIVERED, ENTERED, Record
from broker.core.sessions.masking import masked
from broker.forwards.channel_trace import ChannelTrace
from broker.host import Host
from sapwood.protocol.destinations import Kind
from treeconnector.identity import MessageId, parse_message_id

MOST_EVENTS: Final = 1000
_LONGEST_TASK: Final = 320
_OF_CHANNELS: Final = "trace_channel"
_POLLED: Final = frozenset((ENTERED, DELIVERED, DEALT_WITH))

Events = list[tuple[int, dict[str, Any]]]


class Tracing:
    """One node's trace. Adds the commands `trace` and `trace_channel` to its cell."""

    def __init__(self, host: Host, cells: NodeCells, channels: ChannelTrace) -> None:
        self._host = host
        self._cells = cells
        self._command = TraceCommand(host)
        self._channels = ChannelTraceCommand(host, channels, self._command)
        self._ring = host.core.trace
        cells.commands["trace"] = CellCommand(self._command, open=True)
        cells.commands[_OF_CHANNELS] = CellCommand(self._channels, open=True)

    def __repr__(self) -> str:
        return f"<Tracing {self._ring!r}>"

    # --- polled events

    def events(self, last_id: int) -> Events:
        """The oldest events with ids above `last_id`, at most `MOST_EVENTS`."""
        last = last_id // 2
        records = self._ring.after(last, _POLLED)
        if not records:
            return []
        senders, wall = self._ring.senders(), self._command.wall
        found: Events = []
        for record in records:
            for number, position in enumerate(record.positions(), record.id):
                if number > last:
                    found.append((2 * number, self._event(record, position, senders, wall)))
            if len(found) >= MOST_EVENTS:
                break
        return found[:MOST_EVENTS]

    def wait(self, ready: Callable[[], None]) -> None:
        """Be called once when there is more."""
        self._ring.wait(ready)

    def cancel(self, ready: Callable[[], None]) -> None:
        self._ring.cancel(ready)

    def _event(self, record: Record, position: int, senders: dict[bytes, str], wall: float) -> dict[str, Any]:
        to, sender = record.destination, senders.get(record.bundle, "")
        plain = f"{to.name}@{to.node}" if to.node else to.name
        event: dict[str, Any] = {
            "kind": "ack" if record.kind == DEALT_WITH else "message",
            "time": round(record.at + wall, 6),
            "queue": plain if to.kind == Kind.QUEUE else str(to),
            "message_id": str(MessageId(record.bundle, position)),
        }
        if sender:
            event["input"] = masked(sender)
        if record.kind != ENTERED and record.who:
            event["output"] = masked(record.who)
        if record.kind == DEALT_WITH:
            event["processing_time"] = round(record.extra, 6)
        note = self._ring.note(record.bundle, position)
        if note is not None:
            said = {"correlation_id": note.correlation_id, "reply_to": note.reply_to, "task_id": note.task_id}
            event |= {name: value for name, value in said.items() if value not in (None, "")}
        event["message"] = _as_switch(event, _number(record.bundle, position))
        return event

    # --- stories

    async def message(self, text: str) -> dict[str, Any]:
        """The way of one message through the tree. Raises `BadRequest`."""
        try:
            message = str(parse_message_id(text))
        except ValueError as error:
            raise BadRequest(str(error)) from None
        return message_story(message, await self._walk().message(message))

    async def task(self, task: str) -> dict[str, Any]:
        """All messages of a task at all nodes that have to do with it. Raises `BadRequest`."""
        if not 0 < len(task) <= _LONGEST_TASK:
            raise BadRequest(f"a task id has 1 to {_LONGEST_TASK} characters")
        return task_story(task, await self._walk().task(task))

    async def channel(self, text: str) -> dict[str, Any]:
        """Follow a channel over all nodes of its way. Raises `BadRequest` and `NotFound`.

        `text`: its number, or NAME@NODE: the latest to that service which this node knows.
        """
        number = text if NUMBER.fullmatch(text) else self._channels.latest(text)
        return channel_story(number, await self._walk(_OF_CHANNELS).message(number))

    def _walk(self, command: str = "trace") -> Walk:
        core = self._host.core
        ask = partial(self._ask, command)
        return Walk(ask, _clock, core.identity.name, core.ancestry.in_order, self._below())

    def _below(self) -> Iterator[str]:
        """The nodes below that are there."""
        table = self._host.core.table
        for child in self._host.core.context.children():
            for key in table.routes_of(child.name):
                route = table.route(key, child.name) if key.kind == Kind.DOMAIN else None
                if route is not None and route.live:
                    yield key.name

    async def _ask(self, command: str, node: str, arguments: dict[str, Any]) -> Any:
        return await self._cells.ask(node, command, arguments, ANSWER_WITHIN)


def _as_switch(event: dict[str, Any], number: int) -> list[Any]:
    """The message, or its acknowledgement, as the message switch writes it; payloads are never shown."""
    if event["kind"] == "ack":
        return ["Ack", number]
    said = {"payload": "", "correlation_id": event.get("correlation_id", 0)}
    if "reply_to" in event:
        said["reply_to"] = event["reply_to"]
    return ["Message", number, said]


def _number(bundle: bytes, position: int) -> int:
    """A message's number in its events, the same in all of them: 53 bits, as JavaScript reads them."""
    digest = blake2b(bundle + position.to_bytes(4, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 11


def _clock() -> int:
    return round(time.time() * 1_000_000)
