"""What an operator takes away: a queue with its readers, a message, dead letters; and what he gives back.

Law: what is thrown away is counted (`deleted`, `dead_deleted`), and so is what is given back
(`dead_returned`). Whatever is long is taken a part at a time by a caller who lets others have their turn in
between; each part is whole, and in one transaction.
"""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from broker.core.copies import Copy
from broker.core.custody import Place
from broker.core.errors import NotFound, SwitchError
from broker.core.places import place_name
from broker.core.readers import Reader
from broker.core.rows import QueueRow
from broker.core.topics import Subscription
from broker.core.trace import DROPPED, is_internal
from broker.core.waiting import Waiting
from treeconnector.destinations import Destination, Kind, queue
from treeconnector.errors import InvalidName
from treeconnector.names import node_name, queue_name
from treeconnector.session_frames import Ended

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_TRACED: Final = 10
_AT_ONCE: Final = 2000
_PAUSE: Final = 0.001


class Given(SwitchError):
    """The message is with a reader now."""

    code = "GIVEN"


class Doomed:
    """What a queue held that is no more: it is nowhere else. `readers`: how many it had."""

    def __init__(self, held: Iterable[Copy], waiting: list[Waiting], readers: int) -> None:
        self.readers = readers
        self._held = deque(held)
        self._waiting = waiting

    def __repr__(self) -> str:
        return f"<Doomed {len(self)} copies>"

    def __len__(self) -> int:
        return len(self._held) + sum(map(len, self._waiting))

    def take(self, most: int) -> list[Copy]:
        """The next copies; none when there are no more."""
        found = [self._held.popleft() for _ in range(min(len(self._held), most))]
        for waiting in self._waiting:
            found += [waiting.popleft() for _ in range(min(len(waiting), most - len(found)))]
        return found


def place_key(text: str) -> Destination:
    """Read what a person calls a place: `NAME`, `NAME@NODE`, `queue:…`, `topic:…@NODE`. Raises `NotFound`."""
    kind, colon, rest = text.partition(":")
    if colon and kind == Kind.TOPIC:
        name, _, node = rest.rpartition("@")
        return Destination(Kind.TOPIC, name, node)
    plain, at, node = (rest if colon and kind == Kind.QUEUE else text).partition("@")
    try:
        return queue(queue_name(plain), node_name(node) if at else "")
    except InvalidName as error:
        raise NotFound(str(error)) from None


class Removal:
    """Deletes at one node. All calls are synchronous; `NodePort.wake` must follow."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self._custody = core.custody
        self._ending: deque[tuple[Doomed, str, bool]] = deque()

    def __repr__(self) -> str:
        return f"<Removal at {self._core.identity.name}>"

    # --- queues

    def places(self, name: str) -> list[Place]:
        """The places of a queue: `sales` means `sales@this-node` as well. Raises `NotFound`."""
        key, node = place_key(name), self._core.identity.name
        keys = [key]
        if key.kind == Kind.QUEUE and key.node in ("", node):
            keys = [queue(key.name), queue(key.name, node)]
        if is_internal(key):
            raise SwitchError(f"REFUSED: the queue {key.name!r} is the node's own")
        found = [self._custody.places.get(place_name(each)) for each in keys]
        places = [place for place in found if place is not None]
        if not any(place.created or place.readers or place.messages for place in places):
            raise NotFound(f"node {node} has no queue {name!r}")
        return places

    def delete_queue(self, name: str) -> Doomed:
        """Make an end of a queue: nobody reads it, it was never created, and what it held is nowhere.

        Caller's duty: `discard` all its copies. Raises `NotFound`, or `SwitchError` for the node's own.
        """
        places = self.places(name)
        readers = list(dict.fromkeys(reader for place in places for reader in place.readers))
        held = self._end_readers(readers, "QUEUE_DELETED", f"the queue {name} was deleted")
        waiting: list[Waiting] = []
        for reader in readers:
            self._core.switch.end_interest(reader)
        for place in places:
            waiting.append(place.empty())
            if place.created and not place.owner and place.destination is not None:
                self._custody.transaction.delete(QueueRow, place.destination.name)
            if place.owner and place.destination is not None:
                owner = self._core.switch.sessions.get(place.owner)
                if owner is not None:
                    owner.transient.discard(place.destination.name)
            place.created, place.home, place.owner = False, False, ""
        return Doomed(held, waiting, len(readers))

    def _end_readers(self, readers: list[Reader], code: str, text: str) -> dict[Copy, None]:
        """End them, and tell whoever streams. What was with them alone comes back to the caller."""
        gone = frozenset(readers)
        sessions = dict.fromkeys(reader.session for reader in readers)
        slices = [each for session in sessions for each in session.desk.of(None) if each.reader in gone]
        copies = {
            each.copy: None
            for each in slices
            if each.copy.given | each.copy.done == each.copy.all != each.copy.done
        }
        for given in slices:
            session = given.reader.session
            session.desk.remove(given)
            session.take_mail(given)
            given.copy.given &= ~given.bits
        for session in sessions:
            session.readers = [reader for reader in session.readers if reader not in gone]
        for reader in readers:
            for place in reader.places:
                place.readers[:] = [each for each in place.readers if each is not reader]
            if reader.connection is not None:
                reader.connection.send(Ended(reader.number, code, text))
        return copies

    def end_transient(self, name: str) -> None:
        """A session ends, and with it a queue of its own with all its messages, whoever has them.

        What is long goes a part at a time, so that others have their turn; a start throws away what a crash
        has left.
        """
        with suppress(NotFound):
            self._end(self.delete_queue(name), "transient_ended")

    def end_orphans(self, place: Place) -> None:
        """A start has found copies in a place that is none any more."""
        self._custody.places.pop(place.name, None)
        self._end(Doomed((), [place.empty()], 0), "lost", counted=True)

    def end(self, waiting: Waiting) -> None:
        """What waited for a subscription that is over goes; it has been counted."""
        self._end(Doomed((), [waiting], 0), "unsubscribed", counted=True)

    def _end(self, doomed: Doomed, counter: str, *, counted: bool = False) -> None:
        self._ending.append((doomed, counter, counted))
        if len(self._ending) == 1:
            self._end_some()

    def _end_some(self) -> None:
        room = _AT_ONCE
        while self._ending and room > 0:
            doomed, counter, counted = self._ending[0]
            part = doomed.take(room)
            room -= len(part)
            if counted:
                self._discard(part, counter)
            else:
                self.discard(part, counter)
            if not doomed:
                self._ending.popleft()
        if self._ending:
            self._core.moment.after(_PAUSE, self._end_some)

    def discard(self, copies: Iterable[Copy], counter: str = "deleted") -> int:
        """Throw away copies that are in no `waiting`; return how many messages that were."""
        count = self._discard(copies, counter)
        self._count(counter, count)
        return count

    def _discard(self, copies: Iterable[Copy], why: str) -> int:
        count = 0
        for number, copy in enumerate(copies):
            count += copy.open
            if number < _TRACED:
                self._custody.trace.happened(DROPPED, copy, copy.all, "", why)
            self._custody.discard(copy)
        return count

    def _count(self, counter: str, count: int) -> None:
        counters = self._core.counters
        counters[counter] = counters.get(counter, 0) + count

    # --- one message

    def delete_message(self, copy: Copy, position: int) -> None:
        """Throw away one message that waits in a queue here. Raises `Given` or `NotFound`."""
        bit = 1 << position
        if position >= copy.stored.header.count or copy.done & bit:
            raise NotFound("that message is not here any more")
        if copy.given & bit:
            raise Given(
                "a reader has that message now: it is dealt with when that reader acknowledges it, and waits"
                " here again when it does not; delete it then, or delete the queue"
            )
        place = copy.place
        self._custody.trace.happened(DROPPED, copy, bit, "", "deleted")
        if self._custody.mark_done(copy, bit):
            self.unlist(place, frozenset((copy,)))
            self._core.forwarder.finished(copy)
        self._count("deleted", 1)
        if place.held_back:
            self._core.forwarder.holds.relieve(place)

    @staticmethod
    def unlist(place: Place, gone: frozenset[Copy]) -> None:
        """These copies wait here no more."""
        waiting = [copy for copy in gone if place.resting.pop(copy.row, None) is None]
        if len(waiting) == 1 and waiting[0] in place.waiting:
            place.waiting.remove(waiting[0])
        elif waiting:
            place.waiting.take_out(gone.__contains__)

    # --- subscriptions

    def end_subscription(self, subscription: Subscription) -> int:
        """End a subscription for good, read or not; return how many messages go with it."""
        place = subscription.place
        text = f"the subscription to {subscription.pattern} was ended"
        held = self._end_readers(list(place.readers), "SUBSCRIPTION_ENDED", text)
        count, waiting = place.messages, place.empty()
        self._core.switch.end_subscription(subscription)
        self._end(Doomed(held, [waiting], 0), "unsubscribed", counted=True)
        return count
