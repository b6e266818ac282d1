"""Fan-out: a topic's message to its subscriptions here, a part of them in each commit.

Law: a few are given their copies in the step that brought the message. Where there are many the message waits
until the last has one, and so does each that comes meanwhile for the same topic: the order stays. How far it
came is in its row, in the commit of the copies, and a start goes on from there.

Wrinkle: it waits in order of the subscriptions' ids. One that begins meanwhile has no part in it: it is given
what is retained.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import Final

from broker.core.context import Context
from broker.core.messages.queue import QueueEntry, StoredBundle
from broker.core.messages.queue_names import FAN_OUT
from broker.core.routing.subscriptions import Subscription

AT_ONCE: Final = 128
"""Copies of one step."""
_FEW: Final = 16
"""Copies that cost no more than the message itself, so they are not counted."""


class FanOut:
    """Of one node. `match`: the subscriptions to a topic; `give`: a copy to one of `subscriptions`.

    `_topics`: of how many messages that wait. `_left`: those that are to have the one under way, the next
    one last.
    """

    __slots__ = (
        *("_context", "_custody", "_give", "_goes_on", "_left", "_match", "_spent", "_subscriptions"),
        *("_topics", "_under_way"),
    )

    def __init__(
        self,
        context: Context,
        subscriptions: Mapping[str, Subscription],
        match: Callable[[str], Collection[Subscription]],
        give: Callable[[Subscription, StoredBundle, str], None],
    ) -> None:
        self._context = context
        self._custody = context.custody
        self._subscriptions, self._match, self._give = subscriptions, match, give
        self._topics: Counter[str] = Counter()
        self._under_way: QueueEntry | None = None
        self._left: list[Subscription] = []
        self._spent = (0.0, 0)
        self._goes_on = False

    def __repr__(self) -> str:
        return f"<FanOut of {self._topics.total()} messages>"

    def begin(self) -> None:
        """A start goes on with what the last one left."""
        left = self._custody.queues.get(FAN_OUT)
        if left is not None:
            self._topics.update(entry.stored.header.destination.name for entry in left.waiting.look())
            self._later()

    def publish(
        self, stored: StoredBundle, came: str, sender: str, matched: Collection[Subscription]
    ) -> None:
        """To all of these. `sender`: the session here that sent it."""
        topic, (at, spent) = stored.header.destination.name, self._spent
        if len(matched) > _FEW:
            now = self._context.clock.now
            spent = len(matched) + (spent if at == now else 0)
            self._spent = now, spent
        if topic not in self._topics and (spent <= AT_ONCE or len(matched) <= _FEW):
            for subscription in matched:
                self._give(subscription, stored, came)
            return
        queue = self._custody.queue_named(FAN_OUT)
        if not stored.row and queue.size >= self._context.settings.cache_bytes:
            self._context.counters["volatile_dropped"] += stored.header.count * len(matched)
            return
        entry = self._custody.add(stored, queue, came, self._context.clock.now)
        entry.note = f"{sender}\n"
        queue.waiting.append(entry)
        self._topics[topic] += 1
        self._later()

    def _later(self) -> None:
        if not self._goes_on and self._topics:
            self._goes_on = True
            self._context.next_commit.then(self._part)

    def _part(self) -> None:
        self._goes_on = False
        room = AT_ONCE
        while room > 0 and (entry := self._under_way or self._next()) is not None:
            room -= self._some(entry, room)
        self._later()

    def _next(self) -> QueueEntry | None:
        """The message that has waited longest."""
        queue = self._custody.queues[FAN_OUT]
        if not queue.waiting:  # those that it counts have expired
            self._topics.clear()
            return None
        entry = self._under_way = queue.waiting.popleft()
        sender, _, after = entry.note.partition("\n")
        self._left = [
            each
            for each in self._match(entry.stored.header.destination.name)
            if each.id > after and each.begins <= entry.row and not each.is_deaf_to(sender)
        ]
        self._left.sort(key=attrgetter("id"), reverse=True)
        return entry

    def _some(self, entry: QueueEntry, most: int) -> int:
        """Give so many copies of it. Returns how many there were, and one more for the end."""
        count, after = min(most, len(self._left)), ""
        for _ in range(count):
            subscription = self._left.pop()
            after = subscription.id
            if self._subscriptions.get(after) is subscription:
                self._give(subscription, entry.stored, entry.came)
        if self._left:
            sender = entry.note.partition("\n")[0]
            entry.note = f"{sender}\n{after}"
            self._custody.changed(entry)
            return count
        self._custody.discard(entry)
        self._under_way = None
        topic = entry.stored.header.destination.name
        self._topics[topic] -= 1
        if self._topics[topic] <= 0:
            del self._topics[topic]
        return count + 1
