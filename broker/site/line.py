"""The desk as one connection of the bridge sees it.

Law: what comes after the connection's end is void, and nothing is handed to the bridge in the middle of the
core's work, or the other way round: both directions gather until the loop's next step.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from bridges.site_brokers.base import Bridge, unanswerable
from broker.host import Host
from broker.site.rules import Rules
from sapwood.protocol.destinations import Destination, topic
from treeconnector.edge import BrokerConsumer, BrokerDelivery, Taken
from treeconnector.patterns import matches

_log = logging.getLogger("sapwood.site")
_LOOK_AGAIN: Final = 0.25
_SAY_AGAIN: Final = 600.0


class Visited(Protocol):
    """The desk, which outlives the connection: it hears that the broker is ours, and who consumes there."""

    def connected(self, text: str) -> None: ...

    def complete(self, consumers: Iterable[BrokerConsumer]) -> None: ...

    def came(self, consumer: BrokerConsumer) -> None: ...

    def went(self, consumer: BrokerConsumer) -> None: ...

    def when_told(self, call: Callable[[], None]) -> None: ...


class _Batch:
    """Messages that the bridge handed over as one. `left`: how many of them the node has no room for yet."""

    __slots__ = ("done", "left", "messages")

    def __init__(self, messages: list[Taken], done: Callable[[], None]) -> None:
        self.messages = messages
        self.left = len(messages)
        self.done = done


_Held = deque[tuple[Taken, _Batch]]


class SiteLine:
    """`open`: until the connection ends. `up`: the broker was ours. `mistake`: what the bridge raised."""

    def __init__(self, host: Host, desk: Visited, rules: Rules, bridge: Bridge) -> None:
        self._host = host
        self._desk = desk
        self._rules = rules
        self._bridge = bridge
        self.open = True
        self.up = False
        self._outgoing: list[BrokerDelivery] = []
        self._confirmed: list[int] = []
        self._fresh: list[_Batch] = []
        self._held: dict[Destination, _Held] = {}
        self._looks = False
        self._said_at = float("-inf")
        self._flushing = False
        self.mistake: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<SiteLine open={self.open} up={self.up} held={self.held}>"

    @property
    def held(self) -> int:
        """Messages that the node has no room for now."""
        return sum(map(len, self._held.values()))

    @property
    def held_for(self) -> list[Destination]:
        """The destinations of these."""
        return [*self._held]

    def connected(self, text: str) -> None:
        if self.open:
            self.up = True
            self._desk.connected(text)

    def complete(self, consumers: Iterable[BrokerConsumer]) -> None:
        if self.open:
            self._desk.complete(consumers)

    def came(self, consumer: BrokerConsumer) -> None:
        if self.open:
            self._desk.came(consumer)

    def went(self, consumer: BrokerConsumer) -> None:
        if self.open:
            self._desk.went(consumer)

    # --- to the broker

    def give(self, deliveries: list[BrokerDelivery]) -> None:
        self._outgoing += deliveries
        self._flush_soon()

    def confirm(self, ids: Sequence[int]) -> None:
        if self.open:
            self._confirmed += ids
            self._flush_soon()

    def refuse(self, id: int, reason: str) -> None:
        if self.open:
            self._advance()
            self._host.core.site.refuse(id, reason)
            self._host.wake()

    def again(self, delivery: BrokerDelivery) -> None:
        if self.open:
            self._advance()
            self._host.core.site.again(delivery)
            self._host.wake()

    @property
    def is_told(self) -> bool:
        """Is a parent there, or none above?"""
        core = self._host.core
        above = not core.role.has_parent or any(each.up for each in core.neighbourhood.parents())
        return self.open and above

    def has_room(self, destination: Destination) -> bool:
        """By the name that the broker knows."""
        key = self._rules.to_tree(destination)
        if key is None or not self.open:
            return True
        self._advance()
        return self._host.core.site.intake.has_room(key)

    def outdated(self, topics: Iterable[str]) -> list[str]:
        """By the names that the broker knows."""
        if not self.open:
            return []
        self._advance()
        return [name for name in topics if self._is_outdated(topic(name))]

    def _is_outdated(self, local: Destination) -> bool:
        names = [key.name for key in self._rules.consumed(local)]
        return len(self._host.core.site.outdated(names)) == len(names)

    def _advance(self) -> None:
        """Tell the core what time it is."""
        self._host.core.advance(self._host.now())

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._safely, self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if not self.open:
            return
        if self._confirmed:
            confirmed, self._confirmed = self._confirmed, []
            self._advance()
            self._host.core.site.confirm(confirmed)
            self._host.wake()
        if self._outgoing:
            outgoing, self._outgoing = self._outgoing, []
            # Answers to these may be at once.
            self._desk.when_told(partial(self._safely, self._hand_over, outgoing))

    def _hand_over(self, outgoing: list[BrokerDelivery]) -> None:
        if not self.open:
            return
        here: list[BrokerDelivery] = []
        for delivery in outgoing:
            named = self._rules.named_here(delivery)
            if delivery.alone is not None and not _is_for(delivery.alone, named):
                self.confirm((delivery.id,))
                continue
            asked = delivery.message.properties.reply_to
            if named is None:
                self.refuse(delivery.id, "NOT_IMPORTED: no rule of this site lets it in")
            elif asked and not named.message.properties.reply_to:
                self.refuse(delivery.id, unanswerable(asked))
            else:
                here.append(named)
        if here:
            self._bridge.deliver(here)

    # --- from the broker

    def take(self, batch: Sequence[Taken], done: Callable[[], None]) -> None:
        if not self.open:
            return
        if not self._fresh:
            asyncio.get_running_loop().call_soon(self._safely, self._let_in)
        self._fresh.append(_Batch(self._rules.named_in_tree(batch), done))

    def _let_in(self) -> None:
        """All that has come, as one. A destination without room holds up no other."""
        if not self.open:
            return
        self._advance()
        fresh, self._fresh = self._fresh, []
        together = [taken for batch in fresh for taken in batch.messages]
        entered = 0 if self._held else self._host.core.site.take(together)
        if entered == len(together):
            for batch in fresh:
                self._is_in(batch, batch.left)
        else:
            self._hold(deque((taken, batch) for batch in fresh for taken in batch.messages), entered)
            for batch in fresh:
                self._is_in(batch, 0)
        self._host.wake()

    def _hold(self, rest: _Held, entered: int) -> None:
        """The rest of what is to be let in: in order for each destination, and behind what is held for it."""
        self._entered(rest, entered)
        while rest:
            others: _Held = deque()
            for each in rest:
                held = self._held.get(each[0].destination)
                (others if held is None else held).append(each)
            rest = others
            self._entered(rest, self._host.core.site.take([taken for taken, _ in rest]))
            if rest:
                self._held[rest[0][0].destination] = deque()
                self._say_full(rest[0][0].destination)
        self._look_soon()

    def _say_full(self, destination: Destination) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._said_at >= _SAY_AGAIN:
            self._said_at = now
            fields = {"destination": str(destination), "reason": "QUEUE_FULL"}
            _log.warning("! no room for more of %s: it waits at the site's broker", destination, extra=fields)

    def _look_soon(self) -> None:
        if self._held and not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_later(_LOOK_AGAIN, self._safely, self._look)

    def _look(self) -> None:
        """Is there room now?"""
        self._looks = False
        if not self.open:
            return
        self._advance()
        for destination, held in [*self._held.items()]:
            self._entered(held, self._host.core.site.take([taken for taken, _ in held]))
            if not held:
                del self._held[destination]
        self._look_soon()
        self._host.wake()

    def _entered(self, held: _Held, count: int) -> None:
        for _ in range(count):
            self._is_in(held.popleft()[1], 1)

    def _is_in(self, batch: _Batch, count: int) -> None:
        """So many more of its messages are in custody, once they are committed."""
        batch.left -= count
        if batch.left == 0 and (count or not batch.messages):
            self._host.core.switch.when_committed(partial(self._safely, batch.done))

    def _safely(self, call: Callable[..., None], *said: object) -> None:
        """A mistake ends the connection, so that the broker gives again all that was not answered. It ends
        neither the commit nor, unheard, a step of the loop.
        """
        try:
            call(*said)
        except Exception as mistake:
            if not self.mistake.done():
                self.mistake.set_result(mistake)


def _is_for(alone: BrokerConsumer, named: BrokerDelivery | None) -> bool:
    """Does a greeting go there? Its pattern may be wider in the tree than at the broker."""
    return named is not None and matches(alone.destination.name, named.destination.name)
