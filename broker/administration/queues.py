"""Queues, what is in them, and what an operator does with them."""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from broker.administration import answers, previews
from broker.administration.pages import CHUNK, Cut, Key, cursor, key_of, page_of
from broker.core.clients.masking import masked
from broker.core.errors import BadRequest, NotFound
from broker.core.messages.custody import Queue
from broker.core.messages.entries import QueueEntry
from broker.core.messages.tally import count_of, mean_of, quantile_of
from broker.core.policies.trace import is_internal
from broker.histogram import Histogram

if TYPE_CHECKING:
    from broker.node import Node

_MOST_READERS: Final = 200
_MOST_NAMES: Final = 20
_MOST_GIVEN: Final = 20_000
_NEVER: Final = 1e300
_PAGE_BYTES: Final = 8 * 1024 * 1024

_ORDERS: Final[dict[str, Callable[[Queue], float]]] = {
    "messages": lambda place: place.messages,
    "bytes": lambda place: place.size,
    "oldest_s": lambda place: -(place.oldest if place.oldest is not None else _NEVER),
    "readers": lambda place: len(place.consumers),
    "in_total": lambda place: place.tally.entered,
    "out_total": lambda place: place.left,
    "in_per_s": lambda place: place.tally.in_per_s,
    "out_per_s": lambda place: place.tally.out_per_s,
    "latency_s": lambda place: place.tally.latency_s or 0.0,
}
ORDERS: Final = ("name", *_ORDERS)


class Queues:
    """Reads and deletes. Raises `SwitchError`s."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    # --- reading

    async def page(self, search: str, sort: str, cut: Cut) -> answers.Queues:
        """Queues whose name holds `search`, in the order `sort`: by name, or the largest first."""
        order = _ORDERS.get(sort)
        if order is None and sort != "name":
            raise BadRequest(f"sort={sort[:40]!r}: expected one of {', '.join(ORDERS)}")
        wanted = search.lower()
        page = await page_of(
            [place for place in self._node.core.custody.queues.values() if is_shown(place)],
            _key(order),
            cut,
            lambda place: wanted in str(place.destination).lower(),
        )
        now = self._node.core.clock.now
        return answers.Queues(
            queues=[answers.Queue(**queue_fields(place, now)) for place in page.items],
            more=page.more,
            next=page.next,
        )

    def detail(self, name: str) -> answers.QueueDetail:
        """One queue and who reads it."""
        places = self._node.core.removal.queues(name)
        place = next((each for each in places if each.created or each.consumers), places[0])
        readers = place.consumers
        return answers.QueueDetail(
            **queue_fields(place, self._node.core.clock.now),
            given=sum(reader.outstanding for reader in readers),
            reading=[
                answers.QueueReader(
                    session=masked(reader.session.token),
                    address=reader.connection.address if reader.connection is not None else "",
                    credit=reader.credit,
                    outstanding=reader.outstanding,
                )
                for reader in readers[:_MOST_READERS]
            ],
            latency=_latency(place.tally.latency),
        )

    async def contents(self, name: str, cut: Cut) -> answers.Messages:
        """The messages of a queue, oldest first; those that readers have are among them."""
        found: list[answers.Message] = []
        last: Key | None = None
        places = self._node.core.removal.queues(name)
        row, index = _place_in(cut.after)
        read = 0
        copies = sorted((copy for place in places for copy in self._from(place, row)), key=_row)
        for copy in copies:
            if copy.open and len(found) < cut.limit and read < _PAGE_BYTES:
                read += copy.stored.header.size
                for message, position in self._messages(copy, index if copy.row == row else -1):
                    if len(found) == cut.limit:
                        return answers.Messages(messages=found, more=True, next=_cursor(last))
                    found.append(message)
                    last = (copy.row, position)
                await asyncio.sleep(0)
            elif copy.open:
                return answers.Messages(messages=found, more=True, next=_cursor(last))
        return answers.Messages(messages=found, more=False, next=None)

    def _from(self, place: Queue, row: int) -> list[QueueEntry]:
        """Copies of a place from a row on, in order: as many as a page can need, and one more."""
        waiting = list(islice(place.waiting.look(row), CHUNK))
        others = {copy.row: copy for copy in _given(place)} | place.resting
        beside = [others[each] for each in heapq.nsmallest(CHUNK, (each for each in others if each >= row))]
        merged = {copy.row: copy for copy in [*waiting, *beside]}
        return [merged[each] for each in sorted(merged)]

    def _messages(self, copy: QueueEntry, after: int) -> Iterator[tuple[answers.Message, int]]:
        core = self._node.core
        messages = previews.read(core.custody, copy)
        sessions = _sessions_of(copy)
        age = round(max(core.clock.now - copy.since, 0.0), 3)
        for index in range(after + 1, copy.stored.header.count):
            if copy.done >> index & 1:
                continue
            message = answers.Message(
                id=f"{copy.stored.header.id.hex()}-{index}",
                age_s=age,
                origin=copy.stored.header.origin,
                given=bool(copy.given >> index & 1),
                session=sessions.get(index),
                deliveries=copy.deliveries,
                **previews.shown(messages, index)._asdict(),
            )
            yield message, index

    # --- deleting

    async def delete(self, name: str) -> answers.QueueDeleted:
        """Delete a queue with everything in it; readers end."""
        node = self._node
        doomed = node.core.removal.delete_queue(name)
        await node.administration.committed()
        count = 0
        while part := doomed.take(CHUNK):
            count += node.core.removal.discard(part)
            await node.administration.committed()
        return answers.QueueDeleted(deleted=name, messages=count, readers=doomed.consumers)

    async def delete_message(self, name: str, message: str) -> answers.MessageDeleted:
        """Delete one message that waits; `Given` if a reader has it."""
        bundle, index = _message_id(message)
        for place in self._node.core.removal.queues(name):
            copy = await self._find(place, bundle)
            if copy is not None:
                self._node.core.removal.delete_message(copy, index)
                await self._node.administration.committed()
                return answers.MessageDeleted(deleted=message)
        raise NotFound(f"queue {name!r} has no message {message!r} here")

    async def _find(self, place: Queue, bundle: bytes) -> QueueEntry | None:
        """The copy that has it. Others have their turn while the pages on disk are looked through."""
        beside = {*place.resting.values(), *_given(place)}
        for number, copy in enumerate(chain(beside, place.waiting.look())):
            if copy.stored.header.id == bundle and copy.queue is place and copy.done != copy.all:
                return copy if copy in beside else place.waiting.wake(copy.row)
            if number % CHUNK == 0:
                await asyncio.sleep(0)
        return None


def queue_fields(place: Queue, now: float) -> dict[str, Any]:
    """What is said of a queue in a list: the fields of `answers.Queue`."""
    tally, latency = place.tally, place.tally.latency_s
    return {
        "name": str(place.destination),
        "messages": place.messages,
        "bytes": place.size,
        "oldest_s": 0.0 if place.oldest is None else round(max(now - place.oldest, 0.0), 3),
        "readers": len(place.consumers),
        "created": place.created,
        "home": place.home,
        "transient": bool(place.owner),
        "targets": heapq.nsmallest(_MOST_NAMES, place.targets),
        "held_back": heapq.nsmallest(_MOST_NAMES, place.held_back),
        "in_total": tally.entered,
        "out_total": place.left,
        "in_per_s": round(tally.in_per_s, 3),
        "out_per_s": round(tally.out_per_s, 3),
        "latency_s": None if latency is None else round(latency, 6),
    }


def is_shown(place: Queue) -> bool:
    """Is it a queue of somebody's, and not the node's own?"""
    return place.destination is not None and not is_internal(place.destination)


def _row(copy: QueueEntry) -> int:
    return copy.row


def _key(order: Callable[[Queue], float] | None) -> Callable[[Queue], Key]:
    if order is None:
        return lambda place: (str(place.destination),)
    return lambda place: (-order(place), str(place.destination))


def _latency(histogram: Histogram | None) -> answers.Latency | None:
    mean = mean_of(histogram)
    if histogram is None or mean is None:
        return None
    return answers.Latency(
        count=count_of(histogram),
        mean_s=round(mean, 6),
        p50_s=quantile_of(histogram, 0.5),
        p99_s=quantile_of(histogram, 0.99),
        bounds=list(histogram.bounds),
        counts=list(histogram.counts),
    )


def _given(place: Queue) -> set[QueueEntry]:
    """Copies of a place of which readers have some, the first of each reader."""
    return {
        given.entry
        for reader in dict.fromkeys(reader.session for reader in place.consumers)
        for given in islice(reader.desk.all(), _MOST_GIVEN)
        if given.entry.queue is place
    }


def _sessions_of(copy: QueueEntry) -> dict[int, str]:
    """Which session has which of a copy's messages."""
    if not copy.given:
        return {}
    found: dict[int, str] = {}
    for session in dict.fromkeys(reader.session for reader in copy.queue.consumers):
        for given in islice(session.desk.all(), _MOST_GIVEN):
            if given.entry is copy:
                name = masked(session.token)
                found.update(dict.fromkeys(range(given.position, given.position + given.messages), name))
    return found


def _place_in(after: str) -> tuple[int, int]:
    key = key_of(after) or (0, -1)
    if len(key) == 2 and isinstance(key[0], int) and isinstance(key[1], int):
        return key[0], key[1]
    raise BadRequest("'after' is not what 'next' of an earlier page said: leave it out")


def _cursor(key: Key | None) -> str | None:
    return None if key is None else cursor(key)


def _message_id(text: str) -> tuple[bytes, int]:
    """`BUNDLEHEX-INDEX`."""
    bundle, _, index = text.partition("-")
    try:
        found = bytes.fromhex(bundle), int(index)
    except ValueError:
        found = b"", -1
    if len(found[0]) != 16 or not 0 <= found[1] < 256:
        raise BadRequest(f"{text[:80]!r} is no message id: expected 32 hexadecimal digits, '-' and a number")
    return found
