"""Greetings: whoever asks for a pattern for the first time is given the retained messages that match.

Law: there may be very many of them, so they are given a part in each turn, in the order of their topics. A
topic's retained message comes before all that is sent of the topic later (`before`). How far a greeting came
is on disk where the reader outlives this process, with what was given in the same commit.

Wrinkle: a greeting that a start goes on with may give again what was given out of its turn before: all of it
is marked as perhaps a duplicate.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from broker.core.clock import PART
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import StoredBundle
from broker.core.messages.retained import Kept, Place, Retained, as_of
from broker.core.routing.subscriptions import Subscription
from broker.core.rows import MetaRow
from sapwood.protocol.bundles import Flag, Header, Scope
from sapwood.protocol.destinations import Destination, domain, topic
from treeconnector.patterns import matches
from treeconnector.relations import Relation
from treeconnector.static_routes import chosen_default

AT_ONCE: Final = PART // 2
"""Topics of one turn."""
BYTES_AT_ONCE: Final = 1 << 20
_ROW: Final = "greeting:"

Reader = Subscription | Neighbour


class _Greeting:
    """`after`: all topics up to there were given, and those `told` out of their turn."""

    __slots__ = ("after", "doubted", "told")

    def __init__(self, after: Place = (), *, doubted: bool = False) -> None:
        self.after = after
        self.doubted = doubted
        self.told: set[str] = set()

    def waits_for(self, pattern: str, name: str) -> bool:
        return name not in self.told and tuple(name.split("/")) > self.after and matches(pattern, name)


class Greetings:
    """Of one node. `give`: a copy to a reader; `forget`: a topic whose message has expired.

    `paused`: nobody is given anything now.
    """

    __slots__ = (
        *("_context", "_forget", "_give", "_lookup", "_retained", "_spent", "_subscriptions"),
        *("_under_way", "paused"),
    )

    def __init__(
        self,
        context: Context,
        lookup: Lookup,
        retained: Retained,
        subscriptions: Mapping[str, Subscription],
        give: Callable[[Reader, StoredBundle], None],
        forget: Callable[[str], None],
    ) -> None:
        self._context = context
        self._lookup = lookup
        self._retained = retained
        self._subscriptions = subscriptions
        self._give = give
        self._forget = forget
        self._under_way: dict[Reader, dict[str, _Greeting]] = {}
        self._spent = (0.0, 0)
        self.paused = False

    def __repr__(self) -> str:
        return f"<Greetings of {len(self._under_way)} readers>"

    def __bool__(self) -> bool:
        """Is any under way?"""
        return bool(self._under_way)

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """Go on with those that the last start left, once all readers are there."""
        left = {name: value for name, value in meta.items() if name.startswith(_ROW)}
        if left:
            self._context.clock.after(0.0, lambda: self._restore(left))

    def _restore(self, left: Mapping[str, bytes]) -> None:
        for name, after in left.items():
            whose, _, pattern = name.removeprefix(_ROW).partition("\n")
            kind, _, key = whose.partition(":")
            found = self._context.neighbours if kind == "link" else self._subscriptions
            reader: Reader | None = found.get(key)
            if reader is None:
                self._context.custody.transaction.delete(MetaRow, name)
                continue
            place = msgspec.msgpack.decode(after, type=Place)
            self._under_way.setdefault(reader, {}).setdefault(pattern, _Greeting(place, doubted=True))
            self._go_on(reader)

    def begin(self, reader: Reader, pattern: str) -> None:
        """Few things are given at once, whatever else is under way; at one moment no more than a part."""
        if not self._retained:
            return
        greeting = self._under_way.setdefault(reader, {})[pattern] = _Greeting()
        at, spent = self._spent
        if at != self._context.clock.now:
            self._spent = at, spent = self._context.clock.now, 0
        if spent < AT_ONCE:
            self._part(reader)
        else:
            self._go_on(reader)
        if not greeting.after and pattern in self._under_way.get(reader, {}):
            self._note(reader, pattern, greeting)  # its turn has not come, and may come after a start

    def pause(self, is_paused: bool) -> None:
        """Nobody is given anything while it is not known what is still true."""
        if self.paused and not is_paused:
            for reader in self._under_way:
                self._go_on(reader)
        self.paused = is_paused

    def end(self, reader: Reader, pattern: str) -> None:
        """It wants no more of them."""
        greetings = self._under_way.get(reader, {})
        if greetings.pop(pattern, None) is not None and _lasts(reader):
            self._context.custody.transaction.delete(MetaRow, _row(reader, pattern))

    def before(self, reader: Reader, name: str, *, renewed: bool) -> None:
        """A message of this topic is to be given now. `renewed`: in place of the retained one."""
        waits = [
            greeting
            for pattern, greeting in self._under_way.get(reader, {}).items()
            if greeting.waits_for(pattern, name)
        ]
        for greeting in waits:
            greeting.told.add(name)
        if waits and not renewed:
            self._tell(reader, name, waits[0])

    def _go_on(self, reader: Reader) -> None:
        self._context.clock.go_on((self, reader), lambda: self._part(reader))

    def _part(self, reader: Reader) -> None:
        if self.paused:
            return
        greetings, left = self._under_way.get(reader, {}), AT_ONCE
        while greetings and left > 0:
            pattern, greeting = next(iter(greetings.items()))
            if self._is_wanted(reader, pattern):
                left -= self._some(reader, pattern, greeting, left)
            else:
                self.end(reader, pattern)
                left -= 1
        at, spent = self._spent
        self._spent = at, spent + AT_ONCE - left
        if greetings:
            self._go_on(reader)
        else:
            self._under_way.pop(reader, None)

    def _some(self, reader: Reader, pattern: str, greeting: _Greeting, most: int) -> int:
        """Give a page of them. Returns how much of the turn it took."""
        page = self._retained.page(pattern, greeting.after, most)
        after, size = page.after, 0
        for name in page.names:
            if size >= BYTES_AT_ONCE:
                after = greeting.after
                break
            if name not in greeting.told:
                size += self._tell(reader, name, greeting)
            greeting.after = tuple(name.split("/"))
        if after is None:
            self.end(reader, pattern)
            return page.visited
        greeting.after = after
        self._note(reader, pattern, greeting)
        return most if size >= BYTES_AT_ONCE else page.visited

    def _note(self, reader: Reader, pattern: str, greeting: _Greeting) -> None:
        """How far it came, for the next start."""
        if _lasts(reader):
            row = MetaRow(_row(reader, pattern), msgspec.msgpack.encode(greeting.after))
            self._context.custody.transaction.put(row)

    def _tell(self, reader: Reader, name: str, greeting: _Greeting) -> int:
        """Give a topic's retained message, if it is for this reader. Returns its size.

        That it may be a repetition was said of the delivery that brought it. A node that has had it, and has
        dropped it since, would not take it with that mark.
        """
        kept = self.fresh(name)
        if kept is None or not self._is_for(reader, kept[0]):
            return 0
        header, body = kept
        flags = header.flags & ~Flag.MAYBE_DUPLICATE
        if isinstance(reader, Subscription):
            flags |= Flag.KEPT | (Flag.MAYBE_DUPLICATE if greeting.doubted else 0)
        elif reader.relation is not Relation.MESH:
            flags |= Flag.KEPT
        header = msgspec.structs.replace(header, flags=flags)
        self._give(reader, self._context.custody.store(header, body, self._context.clock.now))
        return len(body)

    def fresh(self, name: str) -> Kept | None:
        """A topic's retained message with the time that it has left. One that has none goes."""
        kept = self._retained.get(name)
        if kept is None:
            return None
        header = as_of(kept[0], self._context.clock.now)
        if header is None:
            self._forget(name)
            return None
        return header, kept[1]

    # --- for whom

    def _is_wanted(self, reader: Reader, pattern: str) -> bool:
        """Is the reader still there, and does it still ask for this? A node of a mesh keeps all, unasked."""
        if isinstance(reader, Subscription):
            return self._subscriptions.get(reader.id) is reader
        if self._context.neighbours.get(reader.name) is not reader:
            return False
        asks = self._context.table.route(topic(pattern), reader.name) is not None
        return asks or reader.relation is Relation.MESH

    def _is_for(self, reader: Reader, header: Header) -> bool:
        if isinstance(reader, Subscription):
            return bool(reader.pattern) or header.origin != self._context.name
        if reader.relation is Relation.PARENT:
            return self._came_from_here(header)
        if reader.relation is Relation.CHILD:
            return self.greets(reader, header.destination) and self.may_go_down(header, reader)
        return True

    def greets(self, child: Neighbour, destination: Destination) -> bool:
        """Of the nodes of a mesh one greets their child: which one depends on the topic."""
        peers = self._lookup.peers_to(child.name)
        return not peers or chosen_default(destination, [self._context.name, *peers]) == self._context.name

    def _came_from_here(self, header: Header) -> bool:
        """Made here or below: what came from above is known there."""
        return bool(
            set(self._context.table.gateways(domain(header.origin))).difference(self._context.table.apart)
        )

    def may_go_down(self, header: Header, neighbour: Neighbour) -> bool:
        """As when it came: not back where it came from; and on its way up into no sibling's subtree."""
        below = self._context.table.below(header.origin)
        return neighbour.name not in below and (header.scope == Scope.TREE or not below)


def _lasts(reader: Reader) -> bool:
    """Is it there after a start? Of subscriptions those with a name are, and the site broker's."""
    return isinstance(reader, Neighbour) or bool(reader.name) or not reader.pattern


def _row(reader: Reader, pattern: str) -> str:
    if isinstance(reader, Neighbour):
        return f"{_ROW}link:{reader.name}\n{pattern}"
    return f"{_ROW}reader:{reader.id}\n{pattern}"
