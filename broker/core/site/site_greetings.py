"""Greetings of single bindings at the site's broker, where that retains nothing: each is given by itself
what is retained here for its pattern.

Law: one part is under way at a time, of all bindings in turn; the next one goes once the broker has answered
it. So a slow broker costs the memory of one part. A topic's retained message comes before what is sent of the
topic later (`passes`). Once another has taken its place it does not come at all (`retained_anew`): that one
goes to all who are bound.

Law: the place up to which the broker has everything is on disk. A greeting that goes on from there, after a
start or a lost connection, may give again what was given behind it: it is marked as perhaps a duplicate.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from broker.core.context import Context
from broker.core.messages.retained import Place, Retained, last_of
from broker.core.policy import Policy
from broker.core.routing.greetings import AT_ONCE, BYTES_AT_ONCE, Greetings
from broker.core.rows import MetaRow
from sapwood.protocol.destinations import parse
from treeconnector.edge import BrokerConsumer, BrokerDelivery
from treeconnector.trie import PatternTrie

_MOST_TOLD: Final = 100_000
_ROW: Final = "site greeting:"
_left_decoder = msgspec.msgpack.Decoder(tuple[str, str, str, str, Place])


class _SiteGreeting:
    """`alone`: the binding by its name at the broker. It has all up to `place`, and was sent all up to
    `reached` (`is_whole`: there is no more) and those `told` out of their turn.
    """

    __slots__ = ("alone", "doubted", "is_whole", "place", "reached", "told")

    def __init__(self, alone: BrokerConsumer, place: Place = (), *, doubted: bool = False) -> None:
        self.alone = alone
        self.place = self.reached = place
        self.doubted = doubted
        self.is_whole = False
        self.told: set[str] = set()

    def go_back(self) -> None:
        """Nobody knows what the broker has of that which it was sent last."""
        self.reached, self.is_whole, self.doubted = self.place, False, True


class SiteGreetings(Policy):
    """Of one node. Their deliveries have numbers below zero, which `answered` takes back."""

    __slots__ = (
        *("_context", "_greetings", "_names", "_number", "_part_of", "_patterns", "_retained", "_told"),
        *("_unanswered", "_under_way", "_up"),
    )

    def __init__(self, context: Context, retained: Retained, greetings: Greetings) -> None:
        self._context = context
        self._retained = retained
        self._greetings = greetings
        self._under_way: dict[BrokerConsumer, _SiteGreeting] = {}
        self._patterns: PatternTrie[BrokerConsumer] = PatternTrie()
        self._unanswered: dict[int, tuple[BrokerConsumer, str]] = {}
        self._part_of: BrokerConsumer | None = None
        self._names: Sequence[str] = ()
        self._number = self._told = 0
        self._up = False

    def __repr__(self) -> str:
        return f"<SiteGreetings of {len(self._under_way)} bindings, {len(self._unanswered)} unanswered>"

    def __bool__(self) -> bool:
        """Is any under way?"""
        return bool(self._under_way)

    def restore(self, meta: Mapping[str, bytes]) -> None:
        for name, value in meta.items():
            if name.startswith(_ROW):
                here, mine, there, its, place = _left_decoder.decode(value)
                alone = BrokerConsumer(parse(there), its)
                self._add(BrokerConsumer(parse(here), mine), _SiteGreeting(alone, place, doubted=True))

    # --- bindings

    def begin(self, consumer: BrokerConsumer, alone: BrokerConsumer) -> None:
        """A binding came, under its name in the tree and, `alone`, at the broker."""
        if not self._retained:
            return
        self._add(consumer, _SiteGreeting(alone))
        self._note(consumer)
        self._go_on()

    def _add(self, consumer: BrokerConsumer, progress: _SiteGreeting) -> None:
        self._under_way[consumer] = progress
        self._patterns.add(consumer.destination.name, consumer)

    def end(self, consumer: BrokerConsumer) -> None:
        """It has all, or has gone."""
        progress = self._under_way.pop(consumer, None)
        if progress is None:
            return
        self._told -= len(progress.told)
        self._patterns.remove(consumer.destination.name, consumer)
        self._context.custody.transaction.delete(MetaRow, _row(consumer))

    def only(self, there: Iterable[BrokerConsumer]) -> None:
        """All others have gone."""
        for consumer in self._under_way.keys() - set(there):
            self.end(consumer)

    # --- the connection

    def connected(self) -> None:
        self._up = True
        self._go_on()

    def pause(self) -> None:
        self._up = False

    def lost(self) -> None:
        """The deliveries without an answer go again when the broker is back."""
        self._up = False
        for consumer, name in self._unanswered.values():
            if (progress := self._under_way.get(consumer)) is not None:
                progress.go_back()
                self._forget(progress, (name,))
        self._unanswered.clear()
        self._part_of, self._names = None, ()

    def answered(self, ids: Iterable[int]) -> None:
        """The broker has these, or will not have them."""
        for number in ids:
            self._unanswered.pop(number, None)
        if not self._unanswered:
            self._settle()
            self._go_on()

    # --- a part

    def _go_on(self) -> None:
        if self._up and self._under_way and not self._unanswered:
            self._context.clock.go_on(self, self._part)

    def _part(self) -> None:
        """Give a page to the binding whose turn it is."""
        if not self._up or self._unanswered or not self._under_way:
            return
        if not self._greetings.paused:
            consumer, progress = next(iter(self._under_way.items()))
            page = self._retained.page(consumer.destination.name, progress.reached, AT_ONCE)
            given: list[BrokerDelivery] = []
            size = 0
            progress.is_whole, names = page.after is None, list[str]()
            for name in page.names:
                if size >= BYTES_AT_ONCE:
                    progress.is_whole = False
                    break
                if name not in progress.told:
                    given += (told := self._give(consumer, progress, name))
                    size += sum(len(each.message.payload) for each in told)
                names.append(name)
                progress.reached = tuple(name.split("/"))
            else:
                progress.reached = page.after or progress.reached
            self._part_of, self._names = consumer, names
            self._deliver(given)
            if not self._unanswered:
                self._settle()
        self._go_on()

    def _settle(self) -> None:
        """The broker has the whole part: on with the next binding."""
        consumer, self._part_of = self._part_of, None
        progress = self._under_way.get(consumer) if consumer is not None else None
        if consumer is None or progress is None:
            return
        if progress.is_whole:
            self.end(consumer)
            return
        progress.place = progress.reached
        self._forget(progress, self._names)
        self._note(consumer)
        self._under_way[consumer] = self._under_way.pop(consumer)

    def _note(self, consumer: BrokerConsumer) -> None:
        """How far it came, for the next start."""
        alone, place = self._under_way[consumer].alone, self._under_way[consumer].place
        left = (str(consumer.destination), consumer.id, str(alone.destination), alone.id, place)
        self._context.custody.transaction.put(MetaRow(_row(consumer), msgspec.msgpack.encode(left)))

    def _give(self, consumer: BrokerConsumer, progress: _SiteGreeting, name: str) -> list[BrokerDelivery]:
        """The topic's retained message for a binding; nothing if there is none any more."""
        kept = self._greetings.fresh(name)
        if kept is None:
            return []
        self._number -= 1
        self._unanswered[self._number] = consumer, name
        header, body = kept
        last, doubted = last_of(header, body), progress.doubted
        return [BrokerDelivery(self._number, header.destination, last, True, True, doubted, progress.alone)]

    def _deliver(self, given: list[BrokerDelivery]) -> None:
        if given:
            self._context.policies.tell(Policy.for_site, given)

    # --- messages meanwhile

    def passes(self, name: str, *, retained: bool) -> None:
        """A message of this topic is given to the broker now, for all who are bound."""
        if not self._under_way:
            return
        if retained:
            self.retained_anew(name)
            return
        for consumer, progress in self._greeted_with(name):
            if tuple(name.split("/")) > progress.reached:
                self._remember(progress, name)
                self._deliver(self._give(consumer, progress, name))

    def retained_anew(self, topic: str) -> None:
        """Another message is retained, and goes to all who are bound by itself."""
        for _, progress in self._greeted_with(topic) if self._under_way else ():
            if tuple(topic.split("/")) > progress.place:
                self._remember(progress, topic)

    def _greeted_with(self, name: str) -> list[tuple[BrokerConsumer, _SiteGreeting]]:
        found = [(each, self._under_way[each]) for each in self._patterns.match(name)]
        return [(consumer, progress) for consumer, progress in found if name not in progress.told]

    def _remember(self, progress: _SiteGreeting, name: str) -> None:
        """It has been told this; where too much is to be remembered, it may come again, and is marked so."""
        if self._told < _MOST_TOLD:
            progress.told.add(name)
            self._told += 1
        else:
            progress.doubted = True

    def _forget(self, progress: _SiteGreeting, names: Iterable[str]) -> None:
        before = len(progress.told)
        progress.told.difference_update(names)
        self._told -= before - len(progress.told)


def _row(consumer: BrokerConsumer) -> str:
    return f"{_ROW}{consumer.destination}\n{consumer.id}"
