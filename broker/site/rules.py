"""Which names pass between a site's broker and the tree, and what they are called there. Pure.

As a `topic` line of mosquitto.conf: `local_prefix` + pattern at the broker is `tree_prefix` + pattern in the
tree. Law: a filter passes through every rule that it overlaps, as far as it does; a message through the
first rule that matches it. Where no rule is about a kind, all of that kind passes as it is.

Wrinkle: where filters are cut to a rule's pattern, a `#` that is not at the end is widened first: the
broker, or the node, filters again where messages are delivered.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from bridges.site_brokers.base import unanswerable
from config.model import SiteRule
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination, Kind, topic
from treeconnector.edge import BrokerDelivery, Taken
from treeconnector.patterns import intersection, matches, to_mqtt


class _Way(NamedTuple):
    """A rule in one direction: names `start` + pattern become `end` + pattern."""

    kind: Kind
    pattern: str
    start: str
    end: str

    def name(self, name: str) -> str | None:
        rest = name.removeprefix(self.start)
        if not name.startswith(self.start) or not matches(self.pattern, rest):
            return None
        return self.end + rest

    def filter(self, pattern: str) -> str | None:
        both = intersection(to_mqtt(pattern), self.start + to_mqtt(self.pattern))
        return None if both is None else self.end + both[len(self.start) :]


class Rules:
    """The rules of one site."""

    def __init__(self, rules: Iterable[SiteRule]) -> None:
        self._inward: list[_Way] = []
        self._outward: list[_Way] = []
        self._kinds: set[Kind] = set()
        for rule in rules:
            kind, _, pattern = rule.pattern.partition(":")
            self._kinds.add(Kind(kind))
            local, tree = rule.local_prefix or "", rule.tree_prefix or ""
            out = _Way(Kind(kind), pattern, local, tree)
            into = _Way(Kind(kind), pattern, tree, local)
            if rule.direction != "in":
                self._outward.append(out)
            if rule.direction != "out":
                self._inward.append(into)

    def __repr__(self) -> str:
        return f"<Rules in={len(self._inward)} out={len(self._outward)}>"

    def consumed(self, local: Destination) -> list[Destination]:
        """What a consumer at the broker wants of the tree."""
        ways = [_Way(way.kind, way.pattern, way.end, way.start) for way in self._inward]
        return list(self._all(ways, local))

    def wanted(self, tree: Destination) -> list[Destination]:
        """What is to be taken from the broker if this is wanted in the tree."""
        ways = [_Way(way.kind, way.pattern, way.end, way.start) for way in self._outward]
        return list(self._all(ways, tree))

    def to_tree(self, local: Destination) -> Destination | None:
        """What a message from the broker is called in the tree; None: it stays."""
        return self._first(self._outward, local)

    def to_local(self, tree: Destination) -> Destination | None:
        """What a message from the tree is called at the broker; None: it does not go there."""
        return self._first(self._inward, tree)

    def named_here(self, delivery: BrokerDelivery) -> BrokerDelivery | None:
        """Under the name that the site's applications know; None if it may not go there any more."""
        if self._leaves(delivery):
            return delivery
        local = self.to_local(delivery.destination)
        if local is None:
            return None
        message = _answered(delivery.message, self._answers_from)
        if local is delivery.destination and message is delivery.message and not local.node:
            return delivery
        return structs.replace(delivery, destination=local._replace(node=""), message=message)

    def named_in_tree(self, batch: Sequence[Taken]) -> list[Taken]:
        """Under the names that the tree knows; what stays here is left out."""
        if all(map(self._leaves, batch)):
            return [*batch]
        found: list[Taken] = []
        for taken in batch:
            key = taken.destination if taken.odd else self.to_tree(taken.destination)
            if key is not None:
                message = _answered(taken.message, self._answers_to)
                odd, asked = taken.odd, taken.message.properties.reply_to
                if asked and not message.properties.reply_to:
                    odd = unanswerable(asked)
                is_same = key is taken.destination and message is taken.message
                found.append(
                    taken if is_same else structs.replace(taken, destination=key, message=message, odd=odd)
                )
        return found

    def _leaves(self, given: BrokerDelivery | Taken) -> bool:
        """Has it the same names here and in the tree? Asked of each message."""
        return not (self._kinds or given.destination.node or given.message.properties.reply_to)

    def _answers_to(self, local: Destination) -> Destination | None:
        """What a topic of this site is called elsewhere by whoever answers there: the answer comes in."""
        return next((each for each in self.consumed(local) if self.to_local(each) == local), None)

    def _answers_from(self, tree: Destination) -> Destination | None:
        """What a topic of the tree is called here by whoever answers there: the answer goes out."""
        return next((each for each in self.wanted(tree) if self.to_tree(each) == tree), None)

    def _all(self, ways: list[_Way], given: Destination) -> Iterator[Destination]:
        if given.kind not in self._kinds or given.node:
            yield given
            return
        for way in ways:
            if way.kind == given.kind:
                found = way.filter(given.name) if given.kind == Kind.TOPIC else way.name(given.name)
                if found:
                    yield given._replace(name=found)

    def _first(self, ways: list[_Way], given: Destination) -> Destination | None:
        if given.kind not in self._kinds or given.node:
            return given
        for way in ways:
            found = way.name(given.name) if way.kind == given.kind else None
            if found:
                return given._replace(name=found)
        return None


def _answered(message: Message, named: Callable[[Destination], Destination | None]) -> Message:
    """The same, with the name that a topic for the answer has on the other side, if it has one."""
    kind, colon, name = message.properties.reply_to.partition(":")
    if not colon or kind != Kind.TOPIC:
        return message
    other = named(topic(name))
    reply_to = "" if other is None else str(other)
    if reply_to == message.properties.reply_to:
        return message
    return Message(message.payload, structs.replace(message.properties, reply_to=reply_to))
