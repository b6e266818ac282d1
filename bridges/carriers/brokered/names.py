"""How the topics, queues and routing keys of links are called.

Law: everything that a child touches has its tree and its name in it, and nothing of another child's can be
spelled with it. MQTT: the child says on `up` (and below it), hears on `down`. AMQP: it says with two keys on
one topic exchange of the tree, hears on a queue of its own; a queue's name ends with the child's half of the
link's nonce, so that a new link need not wait until a broker has noticed the end of the old one.
"""

from dataclasses import dataclass

from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name


@dataclass(frozen=True, slots=True)
class Topics:
    """On MQTT."""

    tree: str

    @property
    def knocks(self) -> str:
        """The parent subscribes to this, to hear of children."""
        return f"{self._all}/+/up/knock"

    @property
    def parents(self) -> str:
        """Where parents meet. No child may read or write it."""
        return f"{self._all}/parents"

    def knock(self, child: str) -> str:
        return f"{self._all}/{child}/up/knock"

    def up(self, child: str) -> str:
        return f"{self._all}/{child}/up"

    def down(self, child: str) -> str:
        return f"{self._all}/{child}/down"

    def child_of(self, topic: str) -> str:
        """Whose topic it is; '' if it is the parents', or no node can have that name."""
        return "" if topic == self.parents else _legal(topic.removeprefix(f"{self._all}/").partition("/")[0])

    @property
    def _all(self) -> str:
        return f"sapwood/{self.tree}/link"


@dataclass(frozen=True, slots=True)
class Queues:
    """On AMQP. `half` and `mark` are hexadecimal."""

    tree: str

    @property
    def exchange(self) -> str:
        """The topic exchange that children publish to; the parent makes it, it goes with the last queue."""
        return f"sapwood.{self.tree}.link"

    @property
    def knocks(self) -> str:
        """The binding key of the parent's queue for knocks. Children's names may hold dots."""
        return "#.up.knock"

    parents = "parents"
    """The key with which parents meet; each child's has a dot."""

    def knock(self, child: str) -> str:
        return f"{child}.up.knock"

    def up(self, child: str) -> str:
        return f"{child}.up"

    def down_queue(self, child: str, half: str) -> str:
        return f"{self.exchange}.{child}.down.{half}"

    def up_queue(self, child: str, mark: str) -> str:
        return f"{self.exchange}.{child}.up.{mark}"

    def knocks_queue(self, mark: str) -> str:
        return f"{self.exchange}.knocks.{mark}"

    @staticmethod
    def child_of(key: str) -> str:
        """The child that knocks with this routing key; '' if no node can have that name."""
        return _legal(key.removesuffix(".up.knock")) if key.endswith(".up.knock") else ""


def _legal(name: str) -> str:
    try:
        return node_name(name)
    except InvalidName:
        return ""
