"""Replies across the tree: where an AMQP application answers, and how its answer finds its way.

A request that leaves this site says where to answer: the queue's name and this node's, `NAME@york`. An
application elsewhere answers to the name that it is given, through the default exchange: so what it is given
is a queue of ours at its broker, `sapwood.reply.NAME@york`; what comes into that goes on to `NAME@york`.

Whoever asks counts as a consumer of this node's from the request on: he may fetch the answer without being a
consumer (`basic.get`), or be answered on his very channel (*direct reply-to*), which is no queue, has a name
of the broker's, and no event tells of it.

Law: their number is bounded. Of too many, of those that lead to the node with most, that one is left which
was not used for longest: a node that asks with ever new names makes room for itself. A reply that comes late
waits in a queue that was left, and is fetched when that is needed again, or within a minute or two, since
each list of queues says where something waits. Of those that were left the oldest are deleted unless
something waits there, as the broker does after an hour; while that is not enough, the node with most gets no
new ones.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import islice
from typing import Any, Final

from bridges.site_brokers.rabbitmq.amqp_1_0 import queue_of
from bridges.site_brokers.rabbitmq.consumers import REPLIES
from sapwood.protocol.destinations import Destination, parse
from sapwood.protocol.errors import InvalidName

ARGUMENTS: Final[dict[str, Any]] = {"x-expires": 3_600_000, "x-queue-type": "classic"}
"""Its type is named, since a virtual host may make quorum queues by default: each of those costs seconds."""
MOST: Final = 1000
MOST_LEFT: Final = 10_000
"""Queues at the broker that are used no more; half of them may stay."""
_LONGEST: Final = 255
DIRECT: Final = "amq.rabbitmq.reply-to."


class Replies:
    """The reply queues of one node. `on_change(queues)`: consume exactly these, the last of them first.

    `on_asked(name)`: somebody waits for an answer of that name.
    """

    def __init__(
        self,
        node: str,
        on_change: Callable[[Set[str]], None],
        on_asked: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._node = node
        self._on_change = on_change
        self._on_asked = on_asked
        self._used: OrderedDict[str, None] = OrderedDict()
        self._left: OrderedDict[str, None] = OrderedDict()
        self._of: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Replies of {self._node} queues={len(self._used)} left={len(self._left)}>"

    @property
    def queues(self) -> frozenset[str]:
        return frozenset(self._used)

    def read(self, name: str) -> str:
        """The address in the tree of a reply queue of this site; '' if it can have none."""
        name = queue_of(name)
        is_ours = name.startswith(REPLIES)
        address = name.removeprefix(REPLIES) if is_ours else f"{name}@{self._node}"
        if destination_of(address) is None:
            return ""
        if not is_ours:
            self._on_asked(name)
        return address

    def spell(self, address: str) -> str:
        """The queue at this site's broker that leads to an address in the tree; '' if there is none."""
        where = destination_of(address)
        if where is None:
            return ""
        if where.node == self._node:
            return where.name
        name = REPLIES + address
        if len(name.encode()) > _LONGEST or not self._has_room(name):
            return ""
        self.adopt((name,))
        return name

    def adopt(self, queues: Iterable[str]) -> None:
        """Use these; of too many, forget the oldest."""
        before = self.queues
        for name in queues:
            self._left.pop(name, None)
            if name not in self._used:
                self._of[_node_of(name)] += 1
            self._used[name] = None
            self._used.move_to_end(name)
        while len(self._used) > MOST:
            self._forget_one()
        if self.queues != before:
            self._on_change(self._used.keys())

    def listed(self, there: Mapping[str, bool]) -> None:
        """All that the broker has, and whether something waits there, which brings some of them back.

        Half of the places stay with those that were used last, however many lists come meanwhile: their
        answers are on the way. So those that are brought back are the first to go again, and one where
        nothing waits comes back only where there is a place.
        """
        self._left = OrderedDict.fromkeys(name for name in self._left if name in there)
        self._left.update(dict.fromkeys(there.keys() - self._used.keys()))
        back = list(islice((name for name in self._left if there[name]), MOST // 2))
        free = max(MOST - len(self._used) - len(back), 0)
        back += islice((name for name in self._left if not there[name]), free)
        while len(self._used) > MOST - len(back):
            self._forget_one()
        self.adopt(back)
        for name in back:
            self._used.move_to_end(name, last=False)

    @property
    def too_many(self) -> bool:
        """Are there queues to be deleted? See `spare`."""
        return len(self._left) > MOST_LEFT // 2

    def spare(self) -> str:
        """The queue that was left first: the caller deletes it, or adopts it again."""
        return self._left.popitem(last=False)[0]

    def _has_room(self, name: str) -> bool:
        is_new = name not in self._used and name not in self._left
        return not is_new or len(self._left) < MOST_LEFT or _node_of(name) != self._greediest

    @property
    def _greediest(self) -> str:
        return max(self._of, key=self._of.__getitem__)

    def _forget_one(self) -> None:
        node = self._greediest
        oldest = next(name for name in self._used if _node_of(name) == node)
        del self._used[oldest]
        self._left[oldest] = None
        self._of[node] -= 1
        if not self._of[node]:
            del self._of[node]


def _node_of(queue: str) -> str:
    """Names without a node count together, as if they were one's."""
    _, at, node = queue.rpartition("@")
    return node if at else ""


def destination_of(address: str) -> Destination | None:
    """Where a reply goes: `queue:NAME@NODE`, `topic:NAME`, or a queue's name alone."""
    try:
        return parse(address if address.startswith(("queue:", "topic:")) else f"queue:{address}")
    except InvalidName:
        return None
