"""The topics that go up from here with scope `tree`, the queues that were made here, and whether anybody off
the way wants them. Both are named by keys (`interest_keys`).

A question is asked of one parent (`neighbours.demand` does so). Law: a yes stands until a parent says no,
so that whatever is wanted goes on while the line is cut; a no is good for the link on which it was said only,
since a consumer may have come meanwhile. Without either a message waits here. A queue's messages wait in
their queue, and stay there at a no, which ends a topic's.
"""

from typing import Final

from broker.core.context import Context
from broker.core.lookup import Lookup
from broker.core.messages.pages import may_be_told
from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import UNDECIDED
from treeconnector.frames import INTEREST, QUEUE_INTEREST
from treeconnector.interest_keys import destination_of, is_queue
from treeconnector.link import Link

MOST_TOPICS: Final = 10_000
MOST_BYTES: Final = 1024 * 1024
"""Of their names. Topics beyond go up unasked."""


class Question:
    """`seen`: when it was published last. `link`: on which it was asked, of the neighbour `parent`."""

    __slots__ = ("answer", "link", "parent", "seen")

    def __init__(self, seen: float) -> None:
        self.seen = seen
        self.answer: bool | None = None
        self.link: Link | None = None
        self.parent = ""

    def __repr__(self) -> str:
        return f"<Question to {self.parent or 'nobody yet'}: {self.answer}>"


class Upward:
    """Of one node. `questions`: by topic. `unasked`: topics whose question is to be asked, or asked anew.
    `waiting`: by topic, the queues of messages that wait for an answer.
    """

    __slots__ = ("_bytes", "_context", "_lookup", "questions", "unasked", "waiting")

    def __init__(self, context: Context, lookup: Lookup) -> None:
        self._context = context
        self._lookup = lookup
        self.questions: dict[str, Question] = {}
        self.unasked: dict[str, None] = {}
        self.waiting: dict[str, Queue] = {}
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<Upward of {self._context.name}: {len(self.questions)} questions>"

    def published(self, name: str, *, always: bool = False) -> None:
        """Somebody here or below publishes this topic, or has messages in this queue. `always`: though there
        are many.
        """
        question = self.questions.get(name)
        if question is not None:
            question.seen = self._context.clock.now
        elif self._context.role.has_parent and (always or self._has_room(name)):
            self.questions[name] = Question(self._context.clock.now)
            self.unasked[name] = None
            self._bytes += len(name)

    def begin(self) -> None:
        """At a start: messages that waited for an answer wait for it again."""
        for name, queue in self._context.custody.queues.items():
            if queue.created and queue.destination is not None:
                pages, warm = queue.waiting.pages, queue.waiting.warm
                queue.asking = any(page.tells for page in pages) or any(map(may_be_told, warm))
            if name.startswith(UNDECIDED):
                topic = name.removeprefix(UNDECIDED)
                self.waiting[topic] = queue
                self.published(topic, always=True)

    def queue_of(self, name: str) -> Queue:
        """Where a topic's messages wait for an answer."""
        queue = self.waiting.get(name)
        if queue is None:
            queue = self.waiting[name] = self._context.custody.queue_named(UNDECIDED + name)
            self.published(name, always=True)
        return queue

    def has_left(self, queue: Queue) -> None:
        """Nothing waits there any more."""
        self.waiting.pop(queue.name.removeprefix(UNDECIDED), None)
        self._context.custody.forget(queue)

    def _has_room(self, name: str) -> bool:
        return len(self.questions) < MOST_TOPICS and self._bytes + len(name) <= MOST_BYTES

    def forget(self, name: str) -> Question:
        """Nobody publishes it any more."""
        self.unasked.pop(name, None)
        self._bytes -= len(name)
        return self.questions.pop(name)

    def is_needed(self, name: str) -> bool:
        """Does anything wait here for an answer, or for another one?"""
        if not is_queue(name):
            return name in self.waiting
        queue = self._context.custody.queues.get(str(destination_of(name)))
        return queue is not None and queue.created and bool(queue.messages)

    def is_asked_above(self, name: str) -> bool:
        """Does a node above want it itself, as advisories have told?"""
        table, parents = self._context.table, self._context.parents
        if is_queue(name):
            return not parents.keys().isdisjoint(table.gateways(destination_of(name)))
        return not table.match(name).gateways.isdisjoint(parents)

    @staticmethod
    def is_understood(name: str, link: Link) -> bool:
        """Can a parent be asked for it? One of an older version is sent everything."""
        return (QUEUE_INTEREST if is_queue(name) else INTEREST) in link.both_know

    def is_wanted(self, name: str) -> bool | None:
        """Does anybody want it to whom the way leads up? None: that is not known."""
        if self.is_asked_above(name):
            return True
        parent = self._lookup.parent_for(destination_of(name))
        if parent is None:
            return None if self._context.lacks_parent else False
        if parent.link is not None and not self.is_understood(name, parent.link):
            return True
        question = self.questions.get(name)
        if question is None:
            return None if self._has_room(name) else True
        if question.answer is False and question.link is not parent.link:
            return None
        return question.answer
