"""The message switch: what clients of this node can do (the embedded site broker).

Services are known only by the names of their queues. A message is confirmed to its sender after the commit
that holds it; a message stays until it is acknowledged.
"""

from collections.abc import Callable
from typing import assert_never

from broker.core.custody import Copy, Custody, Place
from broker.core.entry import Entry
from broker.core.errors import BadRequest, NotFound, NotLoggedIn, SwitchError
from broker.core.forwarding import Forwarder
from broker.core.local_queues import LocalQueues
from broker.core.places import TRANSIENT
from broker.core.readers import Fetcher, Given, Reader
from broker.core.sending import Sending
from broker.core.sessions import Connection, Session, Waiter
from broker.core.topics import Subscription, Topics
from broker.core.trace import RETURNED
from broker.core.transfers import Fetched, Transfers
from broker.core.trials import SUSPECTED
from treeconnector.bundles import Message
from treeconnector.destinations import Destination, Kind, queue
from treeconnector.errors import FrameError, PatternError, SapwoodError
from treeconnector.interests import Interests
from treeconnector.patterns import check_pattern
from treeconnector.session_frames import (
    Acknowledge,
    ClientFrame,
    Create,
    Done,
    EndSubscription,
    Failed,
    Login,
    Ping,
    Pong,
    Refuse,
    Send,
    Subscribe,
    Unsubscribe,
)

_TRANSFER_CREDIT = 1000
_MAX_TOKEN = 255
_MOST_READERS = 10_000
_MOST_SAID = 300

Outcome = Callable[[SwitchError | None], None]


class Switch:
    """Sessions, queues and subscriptions of one node. All calls are synchronous and pure.

    `stopping`: the node ends for a while. Sessions end then, but not what they were interested in.
    `owner_of`: whose a session of that name would be, '' = of nobody in particular.
    """

    def __init__(
        self,
        node: str,
        start: int,
        forwarder: Forwarder,
        topics: Topics,
        interests: Interests,
        entry: Entry,
    ) -> None:
        self._node = node
        self._start = start
        self._forwarder = forwarder
        self._custody: Custody = forwarder.custody
        self._topics = topics
        self._interests = interests
        self._events = 0
        self.stopping = False
        self.warnings: list[str] = []
        self.sessions: dict[str, Session] = {}
        self.sending = Sending(node, forwarder, entry)
        self._transfers = Transfers(forwarder)
        self.queues = LocalQueues(node, forwarder.settings, forwarder.custody)
        self.on_local_route: Callable[[Destination], None] = lambda key: None
        self.on_acknowledged: Callable[[Copy, int], None] = lambda copy, count: None
        self.on_queue_end: Callable[[str], None] = lambda name: None
        self.on_end: Callable[[Subscription], int] = lambda subscription: 0
        self.on_consumer: Callable[[str, Destination, str], None] = lambda op, key, cause: None
        self.on_interest: Callable[[Destination], None] = lambda key: None
        self.owner_of: Callable[[str], str] = lambda token: ""

    def __repr__(self) -> str:
        return f"<Switch of {self._node} sessions={len(self.sessions)}>"

    # --- sessions

    def login(self, connection: Connection, token: str) -> Session:
        """Bind a connection to the session that `token` names; made if it is not there.

        Caller's duty: who is at its other end has proved that it has the connection's rights.
        """
        rights = connection.rights
        if rights is None:
            raise NotLoggedIn("this connection has not proved whose it is")
        if not token or len(token) > _MAX_TOKEN:
            raise BadRequest(f"a session's token has 1 to {_MAX_TOKEN} characters")
        if not token.isprintable():
            raise BadRequest("a session's token has no control characters")
        token = rights.space + token
        if connection.session is not None and connection.session.token != token:
            raise BadRequest("this connection is logged in to another session already")
        session = self.sessions.get(token)
        owner = session.rights.who if session is not None else rights.who or self.owner_of(token)
        if owner != rights.who:
            raise SwitchError(f"this session is of {owner or 'somebody else'}: choose another name for yours")
        if session is None:
            session = self.sessions[token] = Session(token, rights)
        session.connections.add(connection)
        connection.session, connection.heard = session, self._forwarder.moment.now
        return session

    def close(self, connection: Connection) -> None:
        """A connection is gone. With its session's last one the session ends."""
        session = connection.session
        if session is None:
            return
        connection.session = None
        session.leave(connection)
        ended = [reader for reader in session.readers if reader.connection is connection]
        if not session.connections:
            ended = list(session.readers)
            del self.sessions[session.token]
        self._detach(session, ended)
        if not session.connections:
            for name in session.transient.copy():
                self.on_queue_end(name)
        else:
            session.wake_again(connection)

    def _session(self, connection: Connection) -> Session:
        if connection.session is None:
            raise NotLoggedIn("log in first: this connection has no session")
        connection.heard = self._forwarder.moment.now
        return connection.session

    # --- queues

    def create(self, connection: Connection, name: str, home: bool = False) -> str:
        """Make a queue, or find it made; '' makes a transient one. Returns the name to send to."""
        session = self._session(connection)
        if name:
            session.rights.check_make(self.queues.local_name(name))
        return self.queues.create(session, name, home)

    # --- reading

    def subscribe(self, connection: Connection, name: str) -> None:
        """Read an existing queue by transfer. Subscribing twice is no error."""
        session = self._session(connection)
        name = self.queues.local_name(name)
        place = self._readable(session, name)
        if any(reader.connection is None and reader.places[0] is place for reader in session.readers):
            return
        number = len(session.readers) + 1
        self._read_queue(Fetcher(session, number, _TRANSFER_CREDIT, self._custody.queues_here(name)), name)

    def _readable(self, session: Session, name: str) -> Place:
        """A queue that is there, and that the session may read. Raises `SwitchError`."""
        if session.rights.limited and name not in session.transient:
            session.rights.check_consume(queue(name))
        return self.queues.existing(name)

    def _read_queue(self, reader: Reader, name: str) -> None:
        reader.session.readers.append(reader)
        reader.places[0].readers.append(reader)
        if not reader.places[0].owner:
            self.consumer("add", queue(name), self._consumer_id(reader))
        for place in reader.places:
            self._forwarder.dispatch(place)

    def _read_topic(self, reader: Reader, name: str, pattern: str, request: int) -> None:
        session = reader.session
        before = self._topics.find(session.token, name, self._filter(pattern))
        if before is not None and before.pattern != pattern:
            if before.place.readers:
                raise BadRequest(
                    f"the durable subscription {name!r} reads {before.pattern!r} now: end that first"
                )
            self.end_subscription(before)
        subscription, new = self._topics.subscribe(session.token, name, pattern)
        subscription.attached = True
        if reader.connection is not None:
            reader.connection.send(Done(request))
        reader.places.append(subscription.place)
        session.readers.append(reader)
        subscription.place.readers.append(reader)
        self.consumer("add", Destination(Kind.TOPIC, pattern), subscription.id)
        if new:
            self._topics.greet(subscription)
        self._forwarder.dispatch(subscription.place)

    def _filter(self, pattern: str) -> str:
        settings = self._forwarder.settings
        try:
            return check_pattern(pattern, settings.max_filter_length, settings.max_levels)
        except PatternError as error:
            raise BadRequest(str(error)) from None

    @staticmethod
    def _consumer_id(reader: Reader) -> str:
        return f"{reader.session.token}#{id(reader)}"

    def consumer(self, op: str, key: Destination, consumer: str) -> None:
        """A local consumer comes or goes: the table learns, and the log."""
        self._events += 1
        cause = f"{self._node}:{self._start}:{self._events}"
        self.on_consumer(op, key, cause)
        if op == "add":
            changed = self._interests.add(key, consumer, cause, self._forwarder.moment.now) is not None
        else:
            changed = self._interests.remove(key, consumer, cause, self._forwarder.moment.now)
        if changed:
            self.on_local_route(key)
        self.on_interest(key)

    def _detach(self, session: Session, readers: list[Reader]) -> None:
        """Readers go together: what they had is given again, and their interest ends (but a durable one's).

        Together, so that none of them is given what another one leaves.
        """
        gone = frozenset(readers)
        session.readers = [reader for reader in session.readers if reader not in gone]
        places = {place.name: place for reader in readers for place in reader.places}
        for place in places.values():
            place.readers[:] = [reader for reader in place.readers if reader not in gone]
        self._give_back(session, gone)
        if self.stopping:
            return
        for reader in readers:
            self.end_interest(reader)
        for place in places.values():
            self._forwarder.let_volatile_go(place)
            self._forwarder.dispatch(place)

    def end_interest(self, reader: Reader) -> None:
        first = reader.places[0]
        subscription = self._topics.subscriptions.get(first.name.removeprefix("subscription:"))
        if subscription is not None and first is subscription.place:
            self._detach_topic(subscription)
        elif not first.owner and first.destination is not None:
            self.consumer("remove", queue(first.destination.name), self._consumer_id(reader))

    def _detach_topic(self, subscription: Subscription) -> None:
        subscription.attached = bool(subscription.place.readers)
        if not subscription.name and not subscription.attached:
            self.end_subscription(subscription)

    def _end_durable(self, session: Session, name: str) -> None:
        if (found := self._topics.durable(session.token, name)) is None:
            raise NotFound(f"this session has no durable subscription {name!r}")
        self.on_end(found)

    def end_subscription(self, subscription: Subscription) -> None:
        self.consumer("remove", Destination(Kind.TOPIC, subscription.pattern), subscription.id)
        self._topics.end(subscription)

    def _give_back(self, session: Session, gone: frozenset[Reader]) -> None:
        again: dict[Place, dict[Copy, int]] = {}
        told: dict[Copy, int] = {}
        tried = self._forwarder.trials.gone(gone)
        for given in session.desk.of(None):
            if given.reader not in gone:
                continue
            session.desk.remove(given)
            copy = given.copy
            copy.given &= ~given.bits
            left = given.bits & ~copy.done
            if not session.take_mail(given):
                told[copy] = told.get(copy, 0) | left
            if copy.done != copy.all:
                copies = again.setdefault(copy.place, {})
                copies[copy] = copies.get(copy, 0) | left
        for place, copies in again.items():
            place.put_back(copies)
        if self.stopping:
            return
        culprits = {given.copy for given in tried}
        alone = sum(bits.bit_count() for bits in told.values()) == 1
        for copy, bits in told.items():
            if bits:
                self._came_back(copy, bits, guilty=alone or copy in culprits)

    def _came_back(self, copy: Copy, bits: int, *, guilty: bool) -> None:
        """A reader went and left these. `guilty`: it was by the fault of the first of them."""
        most = self._forwarder.settings.max_deliveries
        copy.deliveries = (
            copy.deliveries + 1 if guilty else max(copy.deliveries, min(copy.deliveries + 1, SUSPECTED))
        )
        self._custody.trace.happened(RETURNED, copy, bits, "")
        self._custody.changed(copy)
        if guilty and copy.deliveries >= most:
            copy.deliveries = 1
            if self._forwarder.bury_part(copy, bits & -bits, "TOO_MANY_DELIVERIES"):
                copy.place.waiting.remove(copy)

    def acknowledge(self, connection: Connection, transfer: int, done: Outcome) -> None:
        """One message is dealt with; `done` is called after the commit."""
        session = self._session(connection)
        if not self._acknowledge(session, transfer, transfer) and not self._returned(session, transfer):
            raise NotFound(f"no message {transfer} waits for an acknowledgement of this session")
        self._forwarder.turn.after.append(lambda: done(None))

    def _returned(self, session: Session, transfer: int) -> bool:
        """Was it given to a session that is no more, and is with nobody now?"""
        copy = self._transfers.settle_returned(session, transfer)
        if copy is not None:
            self.on_acknowledged(copy, 1)
        return copy is not None

    def _acknowledge(self, session: Session, first: int, last: int) -> int:
        count = 0
        touched: dict[str, Place] = {}
        for given in session.desk.within(first, last):
            count += self._settle(session, given, given.bits_of(first, last), touched)
            touched.update((place.name, place) for place in given.reader.places)
        for place in touched.values():
            self._forwarder.dispatch(place)
            if place.held_back:
                self._forwarder.holds.relieve(place)
        return count

    def _settle(self, session: Session, given: Given, bits: int, touched: dict[str, Place]) -> int:
        copy = given.copy
        bits &= ~copy.done
        count = bits.bit_count()
        if not count:
            return 0
        copy.deliveries = min(copy.deliveries, 1)
        if session.token:
            self.on_acknowledged(copy, count)
        self._custody.trace.dealt_with(given, bits, count)
        if self._custody.mark_done(copy, bits):
            self._forwarder.finished(copy)
        given.reader.outstanding -= count
        self._clear(session, given, touched)
        return count

    def _refuse(self, session: Session, first: int, last: int, reason: str) -> None:
        """A reader cannot do anything with these, nor can another like it: dead letters."""
        touched: dict[str, Place] = {}
        for given in session.desk.within(first, last):
            copy, bits = given.copy, given.bits_of(first, last) & ~given.copy.done
            touched.update((place.name, place) for place in given.reader.places)
            if bits:
                given.reader.outstanding -= bits.bit_count()
                self._forwarder.bury_part(copy, bits, reason)
            self._clear(session, given, touched)
        for place in touched.values():
            self._forwarder.dispatch(place)

    def _clear(self, session: Session, given: Given, touched: dict[str, Place]) -> None:
        """Is all of a slice dealt with?"""
        if not given.bits & ~given.copy.done and session.desk.has(given):
            session.desk.remove(given)
            if given.reader.tried is given:
                for place in self._forwarder.trials.answered(given.reader):
                    touched[place.name] = place

    # --- transfers

    def transfer(self, connection: Connection, ack_to: int) -> list[Fetched]:
        """What this session was given and has not acknowledged, above `ack_to`, or given again."""
        return self._transfers.transfer(self._session(connection), connection, ack_to)

    def when_told(self, found: list[Fetched], call: Callable[[], None]) -> None:
        """Call once it is on disk that these may have been given: at once, where it is."""
        if any(each.number >= self._forwarder.transfers_known for each in found):
            self.when_committed(call)
        else:
            call()

    def wait(self, connection: Connection, ack_to: int, ready: Callable[[], None]) -> Waiter:
        """Be called once, when there is mail; not from within this call. Transfer then."""
        return self._transfers.wait(self._session(connection), ack_to, ready)

    def cancel(self, waiter: Waiter) -> None:
        waiter.session.waiters.pop(waiter, None)

    def send(self, connection: Connection, name: str, message: Message, done: Outcome) -> None:
        """One message to a queue or, as `topic:…`, to a topic; `done` is called after the commit."""
        self.sending.one(self._session(connection), name, message)
        connection.messages_in += 1
        connection.bytes_in += len(message.payload)
        self._forwarder.turn.after.append(lambda: done(None))

    def when_committed(self, call: Callable[[], None]) -> None:
        """Call once everything that was done so far is on disk."""
        self._forwarder.turn.after.append(call)

    # --- streaming

    def receive(self, connection: Connection, frames: list[ClientFrame]) -> None:
        """What a streaming client sent. Errors are answered; a `FrameError` says: close the connection."""
        for frame in frames:
            try:
                self._handle(connection, frame)
            except SwitchError as error:
                connection.send(Failed(getattr(frame, "request", 0), error.code, error.text))
            except FrameError:
                raise
            except SapwoodError as error:
                connection.send(Failed(getattr(frame, "request", 0), "BAD_REQUEST", str(error)))

    def _handle(self, connection: Connection, frame: ClientFrame) -> None:
        match frame:
            case Send():
                self.sending.pipelined(connection, self._session(connection), frame)
            case Acknowledge(ranges):
                session = self._session(connection)
                for first, last in ranges:
                    self._acknowledge(session, first, last)
            case Refuse(first, last, reason):
                self._refuse(self._session(connection), first, last, f"REJECTED: {reason}"[:_MOST_SAID])
            case Login():
                self._login(connection, frame)
            case Create(request, name, home):
                done = Done(request, self.create(connection, name, home))
                self.when_committed(lambda: connection.send(done))
            case Subscribe():
                self._subscribe(connection, frame)
            case Unsubscribe(request, number):
                session = self._session(connection)
                reader = session.reader(connection, number)
                if reader is None:
                    raise NotFound(f"this connection has no subscription {number}")
                self._detach(session, [reader])
                connection.send(Done(request))
            case EndSubscription(request, durable):
                self._end_durable(self._session(connection), durable)
                connection.send(Done(request))
            case Ping(number):
                connection.send(Pong(number))
            case _:
                assert_never(frame)

    def _login(self, connection: Connection, frame: Login) -> None:
        if len(frame.producer) > _MAX_TOKEN:
            raise BadRequest(f"a producer's name has at most {_MAX_TOKEN} characters")
        session = self.login(connection, frame.session)
        self.sending.welcome(connection, session, frame.producer)

    def _subscribe(self, connection: Connection, frame: Subscribe) -> None:
        session = self._session(connection)
        if session.reader(connection, frame.subscription) is not None:
            raise BadRequest(f"subscription {frame.subscription} is in use on this connection")
        if len(session.readers) >= _MOST_READERS:
            raise BadRequest(f"this session has {_MOST_READERS} subscriptions already: end some first")
        if frame.credit < 1:
            raise BadRequest("a subscription needs a credit of at least 1 message")
        destination = frame.destination
        if destination.kind == Kind.TOPIC:
            if len(frame.durable) > _MAX_TOKEN or not frame.durable.isprintable():
                raise BadRequest(
                    f"a durable subscription's name has at most {_MAX_TOKEN} printable characters"
                )
            session.rights.check_consume(Destination(Kind.TOPIC, self._filter(destination.name)))
            reader = Reader(session, connection, frame.subscription, frame.credit, [])
            self._read_topic(reader, frame.durable, destination.name, frame.request)
            return
        name = self.queues.local_name(str(destination).removeprefix("queue:"))
        if name.startswith(TRANSIENT):  # who lost its line comes back for the answers that are on their way
            self.queues.own(session, name)
        self._readable(session, name)
        connection.send(Done(frame.request))
        self._read_queue(
            Reader(session, connection, frame.subscription, frame.credit, self._custody.queues_here(name)),
            name,
        )
