"""Debug mode: a switch that gives some messages to their consumers twice, so that services can test that they
bear it, as they have to bear it after a crash.

Law: nothing else changes. What is given twice is kept, acknowledged and counted once; its second copy has the
same transfer id, and may be acknowledged a second time without effect. On a streaming session it follows the
first at once, marked `again`; on a transfer it comes with the next one, whatever was acknowledged in between.

Which messages of a queue are doubled depends on the seed, the queue's name and how many were given before,
and on nothing else. Wrinkle: what is on its way the second time is in memory only.
"""

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from broker.core.clients.switch import Outcome, Switch
from broker.core.clients.transfers import Fetched
from broker.core.errors import NotFound
from broker.core.sessions.mail import Waiter
from broker.core.sessions.sessions import Connection, Session
from broker.core.settings import CoreSettings
from sapwood.protocol import bundles
from sapwood.protocol.destinations import Destination
from sapwood.protocol.session_frames import Deliver, NodeFrame

_MOST_REMEMBERED: Final = 100_000


def switch_for(settings: CoreSettings) -> type[Switch]:
    """The switch that a node's settings ask for."""
    return DuplicatingSwitch if settings.deliver_twice else Switch


def warning(rate: float, seed: int) -> str:
    """What a node in this mode says of itself, at its start and in its status."""
    return (
        f"DEBUG MODE: {rate:.1%} of all messages are given to their readers twice (seed {seed}): take `debug`"
        " out of the site's file before this node serves customers"
    )


class Dice:
    """Says of the next message of a destination whether it is given twice; a row of its own for each."""

    __slots__ = ("_rows", "rate", "seed")

    def __init__(self, rate: float, seed: int) -> None:
        self.rate = rate
        self.seed = seed
        self._rows: OrderedDict[Destination, random.Random] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Dice rate={self.rate} seed={self.seed}>"

    def falls(self, destination: Destination) -> bool:
        row = self._rows.get(destination)
        if row is None:
            row = self._rows[destination] = random.Random(f"{self.seed}/{destination}")
            if len(self._rows) > _MOST_REMEMBERED:
                self._rows.popitem(last=False)
        return row.random() < self.rate


class _Second:
    """What a session that transfers is still to be given again, and what it was."""

    __slots__ = ("due", "given", "rolled")

    def __init__(self) -> None:
        self.rolled = -1
        self.due: list[Fetched] = []
        self.given: OrderedDict[int, None] = OrderedDict()


class DuplicatingSwitch(Switch):
    """See the module. `doubled`: messages given twice so far."""

    def _begin(self) -> None:
        dice = self._dice = Dice(self._context.settings.deliver_twice, self._context.settings.seed)
        self.doubled = 0
        self._seconds: dict[Session, _Second] = {}
        self.warnings.append(warning(dice.rate, dice.seed))

    def close(self, connection: Connection) -> None:
        session = connection.session
        super().close(connection)
        if session is not None and not session.connections:
            self._seconds.pop(session, None)

    # --- streaming

    def login(self, connection: Connection, token: str) -> Session:
        first = connection.session is None
        session = super().login(connection, token)
        if first:
            connection.send = self._twice(connection.send)
        return session

    def _twice(self, send: Callable[[NodeFrame], None]) -> Callable[[NodeFrame], None]:
        def doubling(frame: NodeFrame) -> None:
            send(frame)
            if isinstance(frame, Deliver):
                again = self._again(frame)
                if again is not None:
                    send(again)

        return doubling

    def _again(self, frame: Deliver) -> Deliver | None:
        """The same frame for those of its messages that are given twice."""
        skipped = bundles.mask_bits(frame.skip)
        for index in range(frame.count):
            if not (skipped >> index & 1 or self._dice.falls(frame.destination)):
                skipped |= 1 << index
        doubled = frame.count - skipped.bit_count()
        if not doubled:
            return None
        self.doubled += doubled
        return Deliver(
            frame.subscription,
            frame.destination,
            frame.first,
            frame.count,
            frame.bundle,
            frame.position,
            frame.flags,
            frame.size,
            frame.body,
            bundles.mask_bytes(skipped),
            True,
            frame.origin,
            True,
        )

    # --- transfers

    def transfer(self, connection: Connection, ack_to: int, waiter: Waiter | None = None) -> list[Fetched]:
        found = super().transfer(connection, ack_to, waiter)
        session = self._session(connection)
        second = self._seconds.setdefault(session, _Second())
        due, second.due = second.due, []
        known = {each.number for each in found}
        self._roll(session, second, found)
        again = [each._replace(redelivered=True) for each in due if each.number not in known]
        return sorted(found + again, key=lambda each: each.number)

    def _roll(self, session: Session, second: _Second, found: list[Fetched]) -> None:
        """Which of those that are given for the first time come again?"""
        for each in found:
            number = each.number
            if number <= second.rolled:
                continue
            second.rolled = number
            if self._dice.falls(_destination(session, number)):
                self.doubled += 1
                second.due.append(each)
                second.given[number] = None
                if len(second.given) > _MOST_REMEMBERED:
                    second.given.popitem(last=False)

    def acknowledge(self, line: Connection, transfer: int, done: Outcome, *, rejected: str = "") -> None:
        try:
            super().acknowledge(line, transfer, done, rejected=rejected)
        except NotFound:
            second = self._seconds.get(self._session(line))
            if second is None or transfer not in second.given:
                raise
            self.when_committed(lambda: done(None))


def _destination(session: Session, transfer: int) -> Destination:
    (given,) = session.unacked.within(transfer, transfer)
    return given.entry.stored.header.destination
