"""A queue: where entries wait, who reads there, and where they go."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.core.messages.backlog import Backlog
from broker.core.messages.queue_names import SUBSCRIPTION, Spool
from broker.core.messages.tally import Tally
from treeconnector.destinations import Destination, Kind

if TYPE_CHECKING:
    from broker.core.delivery.consumers import PushConsumer
    from broker.core.messages.entries import QueueEntry
    from broker.core.messages.paging import Paging


class Queue:
    """Where entries wait, in order. `waiting`: those with messages that nobody has.

    `keeps`: for consumers here or to be routed; not for a link or for another node's subscribers, not dead.
    `resting`: by row, those that would go back where they came from, until a timer ends; for a link, those
    that the peer does not take now.
    `unfollowed`: entries below that row may have heirs that are to have them before they leave.
    `swept`: for a link, whether the child may have what is older is to be asked before it is sent.
    `spool`: where it counts, None = nowhere; `together`: bytes of entries with no spool of their own.
    """

    __slots__ = (
        "_paging",
        "consumers",
        "created",
        "destination",
        "held_back",
        "home",
        "keeps",
        "messages",
        "name",
        "owner",
        "resting",
        "senders",
        "size",
        "spool",
        "swept",
        "tally",
        "targets",
        "together",
        "turn",
        "unfollowed",
        "waiting",
    )

    def __init__(self, name: str, destination: Destination | None, paging: "Paging") -> None:
        self.name = name
        self.destination = destination
        for_a_node = destination is not None and destination.kind == Kind.TOPIC
        self.keeps = (destination is not None and not for_a_node) or name.startswith(SUBSCRIPTION)
        self._paging = paging
        self.waiting = Backlog(paging)
        self.resting: dict[int, QueueEntry] = {}
        self.messages = 0
        self.size = 0
        self.spool: Spool | None = Spool.UP
        self.together = 0
        self.consumers: list[PushConsumer] = []
        self.turn = 0
        self.targets: frozenset[str] = frozenset()
        self.held_back: set[str] = set()
        self.senders: dict[str, int] = {}
        self.created = False
        self.home = False
        self.owner = ""
        self.swept = 0
        self.unfollowed = 0
        self.tally = Tally()

    def __repr__(self) -> str:
        return f"<Queue {self.name} messages={self.messages} readers={len(self.consumers)}>"

    @property
    def left(self) -> int:
        """How many messages have gone from here since the start, whatever way."""
        return self.tally.brought + self.tally.entered - self.messages

    @property
    def oldest(self) -> float | None:
        """Since when the first has been here that waits; None if none does."""
        return self.waiting.since

    def end_rest(self) -> None:
        """Let those that would only go back where they came from wait with the others again."""
        self.put_back(self.resting.values())
        self.resting.clear()

    def put_back(self, entries: "Iterable[QueueEntry]") -> None:
        """Let entries wait again, oldest first, in front of what came after them."""
        self.waiting.put_back(entries)

    def empty(self) -> Backlog:
        """Take all that waits or rests here, for whoever makes an end of it."""
        self.end_rest()
        taken, self.waiting = self.waiting, Backlog(self._paging)
        return taken
