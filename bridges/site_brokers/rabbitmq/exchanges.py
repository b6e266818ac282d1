"""The topic exchanges of a site, and the part of the tree's topics that each has. Pure.

One exchange has all topics but those below the prefixes of the others. So each topic is of one exchange, a
message is given once, and applications that use one key in two exchanges do not hear each other.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sapwood.protocol.errors import PatternError
from treeconnector.patterns import MANY, from_amqp, intersection, matches, to_amqp, to_mqtt, topic_from_amqp


class Binding(NamedTuple):
    """A binding of a queue to an exchange, or where a message goes."""

    exchange: str
    key: str


class Exchanges:
    """Those of one site. `usual`: of all other topics; `others`: names with prefixes that are disjoint."""

    def __init__(self, usual: str, others: Iterable[tuple[str, str]] = ()) -> None:
        self.usual = usual
        self._others = dict(others)

    def __repr__(self) -> str:
        return f"<Exchanges {', '.join(self)}>"

    def __iter__(self) -> Iterator[str]:
        """Their names, the usual one first."""
        yield self.usual
        yield from self._others

    def __contains__(self, name: object) -> bool:
        return name == self.usual or name in self._others

    @property
    def prefixes(self) -> dict[str, str]:
        """Those but the usual one, with the prefixes of their topics."""
        return dict(self._others)

    def pattern(self, binding: Binding) -> str:
        """The topics of the tree that a binding reads. Raises `PatternError` where there are none."""
        return self._in_tree(binding.exchange, from_amqp(binding.key))

    def topic(self, exchange: str, key: str) -> str:
        """The topic of a message. Raises `PatternError` if it has none."""
        return self._in_tree(exchange, topic_from_amqp(key))

    def address(self, topic: str) -> Binding:
        """Where a message of a topic goes. Raises `PatternError` if AMQP has no room for it."""
        name, prefix = self._of(topic)
        return Binding(name, to_amqp(topic[len(prefix) :]))

    def bindings(self, pattern: str) -> list[Binding]:
        """The bindings that bring what matches a pattern. Raises `PatternError` if AMQP has no room."""
        name, prefix = self._of(pattern)
        if prefix:
            usual = (each for each in (prefix[:-1], prefix) if matches(pattern, each))  # not below the prefix
            below = Binding(name, to_amqp(pattern[len(prefix) :]))
            return [below, *(Binding(self.usual, to_amqp(each)) for each in usual)]
        found = [Binding(name, to_amqp(pattern))]
        for name, prefix in self._others.items():
            both = intersection(to_mqtt(pattern), prefix + MANY)
            if both is not None and both.startswith(prefix):
                found.append(Binding(name, to_amqp(both[len(prefix) :])))
        return found

    def differ(self, source: str, name: str) -> bool:
        """Has an exchange, of the site or not, other topics than one of the site? See `crossing`."""
        return self._others.get(source, "") != self._others.get(name, "")

    def crossing(self, feeding: Mapping[str, Iterable[str]]) -> dict[str, str]:
        """Exchanges that feed one of the site whose topics are others, with its name.

        `feeding`: by exchange of the site, those from which messages come to it. A message says only to which
        exchange it was published, and not by which it came here.
        """
        return {
            source: name
            for name, sources in feeding.items()
            for source in sorted(sources)
            if self.differ(source, name)
        }

    def _of(self, name: str) -> tuple[str, str]:
        """The exchange of a topic, or of all topics of a pattern, and its prefix."""
        for exchange, prefix in self._others.items():
            if name.startswith(prefix) and len(name) > len(prefix):
                return exchange, prefix
        return self.usual, ""

    def _in_tree(self, exchange: str, name: str) -> str:
        if exchange in self._others:
            return self._others[exchange] + name
        owner, prefix = self._of(name)
        if prefix:
            raise PatternError(f"topics below {prefix!r} are of exchange {owner!r}, not of {exchange!r}")
        return name


def through(key: str, kind: str, own: str) -> str | None:
    """The key of what comes to a queue that is bound by `own` to an exchange of a type, which is bound by
    `key` to one of the site; None: nothing comes. Wider than that where no key says it.
    """
    if kind not in ("topic", "direct"):
        return key
    try:
        there = from_amqp(own) if kind == "topic" else topic_from_amqp(own)
        both = intersection(to_mqtt(from_amqp(key)), to_mqtt(there))
        return to_amqp(both) if both is not None else None
    except PatternError:
        return key
