"""The message switch: what clients of this node can do (the embedded site broker).

Services are known only by the names of their queues. A message is confirmed to its sender after the commit
that holds it; a message stays until it is acknowledged.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from sys import maxsize
from typing import assert_never

from broker.core.clients.batching import Batching
from broker.core.clients.local_interest import LocalInterest
from broker.core.clients.local_queues import LocalQueues
from broker.core.clients.producers import Producers
from broker.core.clients.settlement import Settlement
from broker.core.clients.transfers import Fetched, Transfers
from broker.core.clock import PART
from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.errors import BadRequest, NotFound, NotLoggedIn, SwitchError
from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import TRANSIENT
from broker.core.policy import Policy
from broker.core.routing.admission import MessageAdmission
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.subscriptions import SHARED
from broker.core.routing.topics import Topics
from broker.core.sessions.mail import Waiter
from broker.core.sessions.sessions import Connection, PullConsumer, PushConsumer, Session
from sapwood.protocol import destinations
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import FrameError, PatternError, SapwoodError
from sapwood.protocol.session_frames import (
    Acknowledge,
    ClientFrame,
    Create,
    Delete,
    Done,
    EndSubscription,
    Failed,
    Forget,
    Login,
    Matched,
    RefuseDelivery,
    Send,
    SessionPing,
    SessionPong,
    Subscribe,
    Unsubscribe,
)
from treeconnector.interests import Interests
from treeconnector.patterns import check_pattern

_MAX_TOKEN, _MOST_READERS = 255, 10_000
_AT_ONCE = 100

Outcome = Callable[[SwitchError | None], None]


class Switch:
    """Sessions, queues and subscriptions of one node. All calls are synchronous and pure.

    `stopping`: the node ends for a while. Sessions end then, but not what they were interested in.
    """

    def __init__(
        self,
        context: Context,
        forwarder: Forwarder,
        dispatcher: Dispatcher,
        topics: Topics,
        interests: Interests,
        batching: Batching,
        admission: MessageAdmission,
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._dispatcher = dispatcher
        self._custody = context.custody
        self._topics = topics
        self.interest = LocalInterest(context, topics, interests)
        self._policies = context.policies
        self.stopping = False
        self.warnings: list[str] = []
        self.sessions: dict[str, Session] = {}
        self.producers = Producers(context, batching, admission)
        self._transfers = Transfers(context, forwarder, dispatcher)
        self._settlement = Settlement(context, forwarder, dispatcher)
        self.local_queues = LocalQueues(context.name, context.settings, context.custody, context.random_bytes)
        self._begin()

    def _begin(self) -> None:
        """For one that keeps more."""

    def __repr__(self) -> str:
        return f"<Switch of {self._context.name} sessions={len(self.sessions)}>"

    # --- sessions

    def login(self, connection: Connection, token: str) -> Session:
        """Bind a connection to the session that `token` names; made if it is not there.

        Caller's duty: who is at its other end has proved that it has the connection's rights.
        """
        rights = connection.proven_rights
        if not token or len(token) > _MAX_TOKEN:
            raise BadRequest(f"a session's token has 1 to {_MAX_TOKEN} characters")
        if not token.isprintable():
            raise BadRequest("a session's token has no control characters")
        token = rights.space + token
        if connection.session is not None and connection.session.token != token:
            raise BadRequest("this connection is logged in to another session already")
        session = self.sessions.get(token)
        if session is not None:
            owner = session.rights.who
        else:
            owner = rights.who or self._policies.ask(Policy.owner_of, token)
        if owner != rights.who:
            raise SwitchError(f"this session is of {owner or 'somebody else'}: choose another name for yours")
        if session is None:
            session = self.sessions[token] = Session(token, rights)
        session.connections[connection] = None
        connection.session, connection.heard = session, self._context.clock.now
        return session

    def close(self, connection: Connection) -> None:
        """A connection is gone. With its session's last one the session ends."""
        session = connection.session
        if session is None:
            return
        connection.session = None
        session.leave(connection)
        if session.connections:
            self._detach(session, [each for each in session.consumers if each.connection is connection])
            session.wake_again(connection)
            return
        del self.sessions[session.token]
        for consumer in session.consumers:
            consumer.credit = 0  # none is given what another one leaves
        self._end_some(session)

    def _end_some(self, session: Session) -> None:
        """A session is over: a part of what it leaves at a time, so that others have their turn."""
        given, most = (maxsize, maxsize) if self.stopping else (PART, _AT_ONCE)
        if self._settlement.give_back(session, session.consumers, stopping=self.stopping, most=given):
            if not self.stopping:
                self._end_consumers(session, list(islice(session.consumers, most)))
            if self.stopping or not session.consumers:
                self._end_transient(session, most)
        if not self.stopping and (session.consumers or session.transient):
            self._context.clock.go_on(session, partial(self._end_some, session))

    def _end_transient(self, session: Session, most: int) -> None:
        """End so many of its queues, unless a new session of that token has come back for them."""
        heir = self.sessions.get(session.token, session)
        for _ in range(min(most, len(session.transient))):
            name = session.transient.pop()
            if name not in heir.transient:
                self._policies.tell(Policy.transient_ended, name)

    def _session(self, connection: Connection) -> Session:
        if connection.session is None:
            raise NotLoggedIn("log in first: this connection has no session")
        connection.heard = self._context.clock.now
        return connection.session

    # --- queues

    def create(self, connection: Connection, name: str, home: bool = False) -> str:
        """Make a queue, or find it made; '' makes a transient one. Returns the name to send to."""
        session = self._session(connection)
        if name:
            session.rights.check_make(self.local_queues.local_name(name))
        return self.local_queues.create(session, name, home)

    def destroy(self, connection: Connection, name: str) -> None:
        """Delete a queue with all its messages; its readers end. Raises `NotFound`, or `SwitchError`."""
        name = self.local_queues.deletable(self._session(connection), name)
        self._policies.tell(Policy.queue_destroyed, name)

    def names(self, connection: Connection, prefix: str, *, read: bool) -> Iterator[str]:
        """The first queues made here whose names begin so, in order; `read`: only those with a consumer.

        Gives '' at a step that found none: whoever asks lets others have their turns between steps.
        """
        return self.local_queues.names(self._session(connection), prefix, read=read)

    # --- reading

    def subscribe(self, line: Connection, name: str, credit: int = maxsize, *, make: bool = False) -> bool:
        """Read an existing queue by transfer; twice sets its `credit`: unacknowledged at once.

        `make`: one that is not there is made, but not a session's transient one. Returns whether it was.
        """
        session = self._session(line)
        name = self.local_queues.local_name(name)
        made = make and not self.local_queues.has(name) and not name.startswith(TRANSIENT)
        if made:
            self.create(line, name)
        reader = session.fetching(self._readable(session, name))
        if reader is None:
            self._read_queue(PullConsumer(session, credit, self._custody.queues_here(name)))
        else:
            reader.credit = credit
            self._transfers.offer(session)
        return made

    def _readable(self, session: Session, name: str) -> Queue:
        """A queue that is there, and that the session may read. Raises `SwitchError`."""
        if session.rights.limited and name not in session.transient:
            session.rights.check_consume(destinations.queue(name))
        return self.local_queues.existing(name)

    def _read_queue(self, consumer: PushConsumer) -> None:
        consumer.session.add(consumer)
        consumer.queues[0].consumers.append(consumer)
        self.interest.came(consumer)
        for queue in consumer.queues:
            self._forwarder.dispatch(queue)

    def _read_topic(self, consumer: PushConsumer, frame: Subscribe) -> None:
        session, name, pattern = consumer.session, frame.durable, frame.destination.name
        if frame.group and not (name and frame.group.isprintable() and len(frame.group) <= _MAX_TOKEN):
            raise BadRequest(f"a group has a durable name, and at most {_MAX_TOKEN} printable characters")
        owner = f"{session.rights.space}{SHARED}{frame.group}" if frame.group else session.token
        before = self._topics.find(owner, name, self._filter(pattern))
        if before is not None and before.pattern != pattern:
            if before.queue.consumers:
                text = f"the durable subscription {name!r} reads {before.pattern!r} now: end that first"
                raise BadRequest(text)
            self.interest.end(before)
            before = None
        if name and before is None:
            self._topics.check_room(owner)
        subscription, new = self._topics.subscribe(owner, name, pattern)
        subscription.attached, subscription.deaf = True, not frame.own
        if consumer.connection is not None:
            consumer.connection.send(Done(frame.request))
        consumer.queues.append(subscription.queue)
        session.add(consumer)
        subscription.queue.consumers.append(consumer)
        self.interest.subscribed(subscription)
        if new and frame.retained:
            self._topics.greet(subscription)
        self._forwarder.dispatch(subscription.queue)

    def _filter(self, pattern: str) -> str:
        settings = self._context.settings
        try:
            return check_pattern(pattern, settings.max_filter_length, settings.max_levels)
        except PatternError as error:
            raise BadRequest(str(error)) from None

    def _detach(self, session: Session, consumers: list[PushConsumer]) -> None:
        """Consumers go together: what they had is given again, and their interest ends (but a durable one's).
        None of them is given what another one leaves.
        """
        for consumer in consumers:
            consumer.credit = 0
        self._settlement.give_back(session, frozenset(consumers), stopping=self.stopping)
        if not self.stopping:
            self._end_consumers(session, consumers)

    def _end_consumers(self, session: Session, consumers: list[PushConsumer]) -> None:
        gone = frozenset(consumers)
        queues = {queue.name: queue for consumer in consumers for queue in consumer.queues}
        for queue in queues.values():
            queue.consumers[:] = [consumer for consumer in queue.consumers if consumer not in gone]
        for consumer in consumers:
            session.remove(consumer)
            self.interest.went(consumer)
        for queue in queues.values():
            self._forwarder.let_volatile_go(queue)
            self._forwarder.dispatch(queue)

    def _end_durable(self, session: Session, name: str) -> None:
        if (found := self._topics.durable(session.token, name)) is None:
            raise NotFound(f"this session has no durable subscription {name!r}")
        self._policies.tell(Policy.subscription_ended, found.id)

    def acknowledge(self, line: Connection, transfer: int, done: Outcome, *, rejected: str = "") -> None:
        """One message is dealt with; `done` is called after the commit. `rejected`: it is a dead letter."""
        session, why = self._session(line), f"REJECTED: {rejected}" if rejected else ""
        was_full, settle = session.is_full, self._settlement
        one = session, transfer, transfer
        count = settle.refuse(*one, why) if why else settle.acknowledge(*one)
        if was_full:
            self._transfers.offer(session)
        if not count:
            returned = self._transfers.settle_returned(session, transfer, why)
            if returned is None:
                raise NotFound(f"no message {transfer} waits for an acknowledgement of this session")
            if not why:
                settle.count(returned, 1)
        self._context.next_commit.then(lambda: done(None))

    # --- transfers

    def transfer(self, connection: Connection, ack_to: int, waiter: Waiter | None = None) -> list[Fetched]:
        """What this session was given and has not acknowledged, above `ack_to`, or given again; to a transfer
        that was blocked (`waiter`) only what no other has told.
        """
        session = self._session(connection)
        found = self._transfers.transfer(session, connection, ack_to, waiter)
        refused, self._transfers.unreadable = self._transfers.unreadable, []
        for given, why in refused:
            self._settlement.refuse(session, given.first, given.last, why)
        return found

    def when_told(self, found: list[Fetched], call: Callable[[], None]) -> None:
        """Call once it is on disk that these may have been given: at once, where it is."""
        if any(each.number >= self._dispatcher.transfer_ids.known for each in found):
            self.when_committed(call)
        else:
            call()

    def wait(self, connection: Connection, ack_to: int, ready: Callable[[], None]) -> Waiter:
        """Be called once, when there is mail; not from within this call. Transfer then."""
        return self._transfers.wait(self._session(connection), ack_to, ready)

    def cancel(self, waiter: Waiter) -> None:
        waiter.mail.cancel(waiter)

    def is_full(self, connection: Connection) -> bool:
        """Is this session given nothing more by transfer until it acknowledges some of what it has?"""
        return self._session(connection).is_full

    def send(
        self,
        connection: Connection,
        name: str,
        message: Message,
        done: Outcome,
        *,
        retained: bool = False,
        tell: bool = False,
    ) -> None:
        """One message to a queue or, as `topic:…`, to a topic; `done` is called after the commit.

        `tell`: see `Producers.one`.
        """
        self.producers.one(self._session(connection), name, message, retained=retained, tell=tell)
        connection.messages_in += 1
        connection.bytes_in += len(message.payload)
        self._context.next_commit.then(lambda: done(None))

    def when_committed(self, call: Callable[[], None]) -> None:
        """Call once everything that was done so far is on disk."""
        self._context.next_commit.then(call)

    # --- streaming

    def go_on(self, connection: Connection) -> None:
        """It has room again: give it what waits."""
        self._forwarder.look_again([queue for each in connection.consumers for queue in each.queues])

    def receive(self, connection: Connection, frames: list[ClientFrame]) -> None:
        """A frame of a streaming client. Errors are answered; a `FrameError` says: close the connection."""
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
                self.producers.pipelined(connection, self._session(connection), frame)
                if frame.matched and frame.destination.kind == Kind.TOPIC:
                    connection.send(self._matched(frame))
            case Acknowledge(ranges):
                session = self._session(connection)
                for first, last in ranges:
                    self._settlement.acknowledge(session, first, last)
            case RefuseDelivery(first, last, again=True):
                self._settlement.take_back(self._session(connection), first, last)
            case RefuseDelivery(first, last, reason):
                self._settlement.refuse(self._session(connection), first, last, f"REJECTED: {reason}")
            case Login():
                self._login(connection, frame)
            case Forget():
                self.producers.leave(connection)
            case Create(request, name, home):
                done = Done(request, self.create(connection, name, home))
                self.when_committed(lambda: connection.send(done))
            case Delete(request, name):
                self.destroy(connection, name)
                self.when_committed(lambda: connection.send(Done(request)))
            case Subscribe():
                self._subscribe(connection, frame)
            case Unsubscribe(request, number):
                session = self._session(connection)
                if (consumer := session.consumer(connection, number)) is None:
                    raise NotFound(f"this connection has no subscription {number}")
                self._detach(session, [consumer])
                connection.send(Done(request))
            case EndSubscription(request, durable):
                self._end_durable(self._session(connection), durable)
                connection.send(Done(request))
            case SessionPing(number):
                connection.send(SessionPong(number))
            case _:
                assert_never(frame)

    def _matched(self, frame: Send) -> Matched:
        reach = self._topics.reach(frame.destination, frame.scope)
        last = frame.first + frame.count - 1
        return Matched(frame.first, last, reach.readers, len(reach.onward), reach.passed_by, reach.scope)

    def _login(self, connection: Connection, frame: Login) -> None:
        if len(frame.producer) > _MAX_TOKEN:
            raise BadRequest(f"a producer's name has at most {_MAX_TOKEN} characters")
        self.producers.welcome(connection, self.login(connection, frame.session), frame.producer)

    def _subscribe(self, connection: Connection, frame: Subscribe) -> None:
        session = self._session(connection)
        if session.consumer(connection, frame.subscription) is not None:
            raise BadRequest(f"subscription {frame.subscription} is in use on this connection")
        if len(session.consumers) >= _MOST_READERS:
            raise BadRequest(f"this session has {_MOST_READERS} subscriptions already: end some first")
        if frame.credit < 1:
            raise BadRequest("a subscription needs a credit of at least 1 message")
        self.producers.seal()
        destination = frame.destination
        if destination.kind == Kind.TOPIC:
            if len(frame.durable) > _MAX_TOKEN or not frame.durable.isprintable():
                raise BadRequest(f"a durable name has at most {_MAX_TOKEN} printable characters")
            session.rights.check_consume(Destination(Kind.TOPIC, self._filter(destination.name)))
            consumer = PushConsumer(session, connection, frame.subscription, frame.credit, [])
            self._read_topic(consumer, frame)
            return
        name = self.local_queues.local_name(str(destination).removeprefix("queue:"))
        if name.startswith(TRANSIENT):  # who lost its line comes back for the answers that are on their way
            self.local_queues.own(session, name)
        self._readable(session, name)
        connection.send(Done(frame.request))
        queues = self._custody.queues_here(name)
        self._read_queue(PushConsumer(session, connection, frame.subscription, frame.credit, queues))
