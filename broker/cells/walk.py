"""Following messages from node to node: who handed them over, who has them, and what else their task made.

This node asks itself first, then whoever is named in an answer: where a message came from, where it went,
where it entered, whom it is for. What nobody near knows is asked of the ancestors, then of the nodes below.
Every node is asked once for each message. Bounded in nodes, messages, rounds and time; what was left out is
counted, who did not answer is named.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from broker.cells.errors import CellError, RefusedByCell
from sapwood.protocol.errors import SapwoodError

MOST_NODES: Final = 200
MOST_MESSAGES: Final = 300
MOST_ROUNDS: Final = 64
ANSWER_WITHIN: Final = 2.0
_AT_ONCE: Final = 100

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Asks a node for its trace; raises `CellError`."""


class WalkEvent(msgspec.Struct, omit_defaults=True):
    """One thing that happened to a message at a node. `at`: microseconds of its wall clock."""

    at: int
    kind: str
    neighbour: str = ""
    session: str = ""
    reason: str = ""
    place: str = ""
    transfer_id: int = 0
    processing_s: float = 0.0
    correlation_id: int | None = None
    task_id: str = ""
    reply_to: str = ""


class Passage(msgspec.Struct):
    """What a node says of one message, or channel. `came`, `went`: neighbours.

    `for_node`: of a directed message. `there`, `back`: bytes of a channel towards its end, and back.
    """

    destination: str = ""
    for_node: str = msgspec.field(default="", name="for")
    origin: str = ""
    came: list[str] = []
    went: list[str] = []
    events: list[WalkEvent] = []
    there: int = 0
    back: int = 0


class WalkSaid(msgspec.Struct):
    """A node's answer. Times: microseconds of its wall clock."""

    node: str
    now: int
    messages: dict[str, Passage] = {}
    down: dict[str, str] = {}
    task_messages: list[str] = []
    more: int = 0


@dataclass
class Found:
    """What a walk found. `answers`: by node, with the asking node's clock (us) before and after each."""

    task: str = ""
    answers: dict[str, list[tuple[int, WalkSaid, int]]] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    down: dict[str, str] = field(default_factory=dict)
    more: int = 0
    left_out: set[str] = field(default_factory=set)
    messages: dict[str, None] = field(default_factory=dict)
    of_task: dict[str, None] = field(default_factory=dict)

    @property
    def not_asked(self) -> int:
        """How many nodes and messages were not looked at."""
        return self.more + len(self.left_out)

    def passages(self, message: str) -> Iterator[tuple[str, Passage]]:
        """(node, what it says) of one message."""
        for node, answers in self.answers.items():
            for _, said, _ in answers:
                if message in said.messages:
                    yield node, said.messages[message]


class Walk:
    """One search. `clock`: the asking node's wall clock in microseconds."""

    def __init__(
        self, ask: Ask, clock: Callable[[], int], me: str, above: Iterable[str], below: Iterable[str]
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._me = me
        self._further = [[name for name in above if name != me], [name for name in below if name != me]]
        self._asked: dict[str, set[str]] = {}
        self._wanted: dict[str, set[str]] = {}
        self.found = Found()

    def __repr__(self) -> str:
        return f"<Walk asked={len(self._asked)} messages={len(self.found.messages)}>"

    async def message(self, message: str) -> Found:
        self._want(message, [self._me])
        await self._rounds()
        while self._further and not any(True for _ in self.found.passages(message)):
            self._want(message, self._further.pop(0))
            await self._rounds()
        return self.found

    async def task(self, task: str) -> Found:
        """All messages of a task that are known at the nodes which have to do with it."""
        self.found.task = task
        self._wanted[self._me] = set()
        await self._rounds()
        while self._further and not self.found.of_task:
            self._wanted.update((node, set()) for node in self._further.pop(0) if node not in self._asked)
            await self._rounds()
        return self.found

    def _want(self, message: str, nodes: Iterable[str]) -> None:
        found = self.found
        if message not in found.messages and len(found.messages) >= MOST_MESSAGES:
            found.left_out.add(message)
            return
        found.messages[message] = None
        for node in nodes:
            if node and message not in self._asked.get(node, ()):
                self._wanted.setdefault(node, set()).add(message)

    async def _rounds(self) -> None:
        for _ in range(MOST_ROUNDS):
            wanted, self._wanted = self._wanted, {}
            wanted = {node: messages for node, messages in wanted.items() if self._may_ask(node)}
            if not wanted:
                return
            await asyncio.gather(*(self._one(node, sorted(messages)) for node, messages in wanted.items()))

    def _may_ask(self, node: str) -> bool:
        if node in self.found.unreachable:
            return False
        if node not in self._asked and len(self._asked) >= MOST_NODES:
            self.found.left_out.add(node)
            return False
        self._asked.setdefault(node, set())
        return True

    async def _one(self, node: str, messages: list[str]) -> None:
        self._asked[node].update(messages)
        for start in range(0, max(len(messages), 1), _AT_ONCE):
            part = messages[start : start + _AT_ONCE]
            before = self._clock()
            try:
                said = msgspec.convert(
                    await self._ask(node, {"messages": part, "task": self.found.task}), WalkSaid
                )
            except RefusedByCell as error:
                self.found.refused[node] = str(error)
                return
            except (CellError, SapwoodError) as error:
                self.found.unreachable[node] = str(error)
                return
            except msgspec.ValidationError as error:
                self.found.refused[node] = f"{node}: its answer is not understood: {error}"
                return
            self.found.answers.setdefault(node, []).append((before, said, self._clock()))
            self._take(node, said)

    def _take(self, node: str, said: WalkSaid) -> None:
        """Who else has to do with what this node knows?"""
        self.found.more += said.more
        self.found.down.update(said.down)
        for message, passage in said.messages.items():
            self._want(message, [*passage.came, *passage.went, passage.origin, passage.for_node])
        for message in said.task_messages:
            self._want(message, [node])
            if message in self.found.messages:
                self.found.of_task[message] = None
