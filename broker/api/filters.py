"""What a person means by 'these destinations': a kind, a name with wildcards, perhaps a node."""

from broker.core.errors import BadRequest
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import PatternError
from treeconnector.patterns import check_pattern, has_wildcard, matches


class DestinationFilter:
    """`sales`, `queue:sales@york`, `queue:+`, `topic:prices/#`; '' = all. Raises `BadRequest`.

    Without a kind it is a queue's, or a topic's where it has a '/'. Without a node it holds for all nodes.
    """

    def __init__(self, text: str) -> None:
        kind, colon, rest = text.partition(":")
        if not colon or kind not in (Kind.QUEUE, Kind.TOPIC):
            kind, rest = ("topic" if "/" in text else "queue"), text
        name, _, self._node = rest.partition("@")
        self._kind, self._name = Kind(kind), name
        self._all = not text or text == "#"
        self._plain = True
        if not self._all:
            self._plain = self._check(text)

    def _check(self, text: str) -> bool:
        """Is it a plain name?"""
        try:
            return not has_wildcard(check_pattern(self._name))
        except PatternError as error:
            raise BadRequest(f"{text[:80]!r} is no filter of destinations: {error}") from None

    def holds(self, destination: Destination) -> bool:
        if self._all:
            return True
        if destination.kind != self._kind or (self._node and destination.node != self._node):
            return False
        return destination.name == self._name or (not self._plain and matches(self._name, destination.name))
