"""Taking: what others want is consumed from the site's broker, and acknowledged once it is in our custody.

A queue that is wanted is consumed where it is, below all priorities, so that an application that comes
meanwhile is served first. Topics come through one durable queue of ours, bound to the topic exchanges by each
filter that is wanted: so what is published while the node is away waits for it, up to a bound.

Law: a queue is never made or changed for an application: it would not find it as it declares it. Those for
replies are ours.

Law: messages are acknowledged only by `done`: see `taps`.

Wrinkle: each queue has a channel of its own, because the broker closes the channel when it refuses.

Wrinkle: a queue that vanishes with its last consumer is left alone: it would vanish with us.
"""

import asyncio
import heapq
import secrets
from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from bridges.amqp.connection import Channel, Connection
from bridges.amqp.errors import NOT_FOUND, PRECONDITION_FAILED, AmqpLost, ChannelLost
from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import NotTaken, SiteBrokerError, in_parts
from bridges.site_brokers.rabbitmq.bindings import BIND_AGAIN, TOPICS, Bindings
from bridges.site_brokers.rabbitmq.changeover import Changeover
from bridges.site_brokers.rabbitmq.consumers import OURS, REPLIES
from bridges.site_brokers.rabbitmq.discovery import Prober
from bridges.site_brokers.rabbitmq.exchanges import Binding, Exchanges
from bridges.site_brokers.rabbitmq.recognition import Recognition
from bridges.site_brokers.rabbitmq.replies import ARGUMENTS, MOST, Replies
from bridges.site_brokers.rabbitmq.streams import Streams, digest_of, is_of_a_stream, offset_of
from bridges.site_brokers.rabbitmq.taps import Read, Tap
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import PatternError
from treeconnector.edge import Taken

PRIORITY: Final = -10
PREFETCH: Final = 500
LOOK_AGAIN: Final = 5.0
MOST_QUEUES: Final = 1000
_LEAVES_EVERY: Final = 0.05
_AT_ONCE: Final = 20
"""Queues for answers that are consumed, left or deleted before it is seen who has come meanwhile."""

Take = Callable[[list[Taken], Callable[[], None]], None]


class Taker:
    """Consumes what is wanted, over one connection. `read_queue(name)`, `read_topic`: see `Tap`.

    `may_take(queue)`: False for one that is not there or must be left alone. `replies`: some may be spare.

    `_unread`: what is wanted since it was looked at last.
    """

    replies: Replies

    def __init__(
        self,
        connection: Connection,
        prober: Prober,
        exchanges: Exchanges,
        directory: Path,
        take: Take,
        read_queue: Callable[[str], Read],
        read_topic: Read,
        may_take: Callable[[str], bool],
    ) -> None:
        self._connection = connection
        self._prober = prober
        self.streams = Streams(directory)
        self._exchanges = exchanges
        self.changeover = Changeover(exchanges, directory)
        self._take = take
        self._read_queue = read_queue
        self._read_topic = read_topic
        self._may_take = may_take
        self._unread: frozenset[Destination] | None = None
        self._queues: frozenset[str] = frozenset()
        self._replies: Set[str] = frozenset()
        self._keys: frozenset[Binding] = frozenset()
        self._taps: dict[str, Tap] = {}
        self._changing: set[str] = set()
        self._spent: list[Channel] = []
        self._absent: dict[str, float] = {}
        self._gathered: list[tuple[Tap, Incoming]] = []
        self._mistake: Exception | None = None
        self._is_leaving = False
        self._is_done = False
        self._is_bound = False
        self._news = asyncio.Event()
        self.not_taken = NotTaken(MOST_QUEUES)
        self._bindings = Bindings(connection, exchanges.usual, directory, self.not_taken)

    def __repr__(self) -> str:
        return f"<Taker queues={len(self._taps)} filters={len(self._keys)}>"

    def want(self, wanted: frozenset[Destination]) -> None:
        """Take exactly these."""
        if self._is_leaving:
            return
        self._unread = wanted
        self._news.set()

    async def _look_at(self, wanted: frozenset[Destination]) -> None:
        queues: set[str] = set()
        keys: set[Binding] = set()
        async for part in in_parts(wanted):
            for each in part:
                if each.kind == Kind.QUEUE:
                    queues.add(each.name)
                    continue
                try:
                    keys.update(self._exchanges.bindings(each.name))
                except PatternError as error:
                    self.not_taken.note(str(each), str(error))
        self._queues, self._keys = frozenset(queues), frozenset(keys)
        self._bindings.news.set()

    def want_replies(self, queues: Set[str]) -> None:
        """Take all that comes into these, which are ours: into the last of them first."""
        self._replies = queues
        self._news.set()

    def look(self, queues: Iterable[str]) -> None:
        """These queues were made."""
        for name in queues:
            self._absent.pop(name, None)
        if not self._queues.isdisjoint(queues):
            self._news.set()

    def unbound(self, bindings: Set[Binding]) -> None:
        """Somebody else has unbound our queue, or deleted an exchange, and made it again maybe."""
        self._bindings.lost(bindings)

    def ours(self, queue: str) -> int | None:
        """How many consumers of a queue are ours; None while that changes."""
        return None if queue in self._changing else int(queue in self._taps)

    @property
    def taking(self) -> list[str]:
        """The queues that we consume."""
        return sorted(name for name in self._taps.keys() - self._changing if not name.startswith(OURS))

    async def run(self) -> None:
        """For ever. Raises `AmqpError` when the connection is lost."""
        while True:
            self._news.clear()
            if self._mistake is not None:
                raise self._mistake
            if (unread := self._unread) is not None:
                self._unread = None
                await self._look_at(unread)
            wanted = self._queues
            if self._is_bound or self._is_leaving:
                wanted = wanted | {TOPICS}
            if self._is_done:
                wanted = frozenset()
            await self._leave(wanted)
            while self._spent:
                await self._spent.pop().close()
            if self.replies.too_many:
                await self._delete_spare()
            missing = await self._enter(wanted)
            leaving = any(tap.leaving for tap in self._taps.values())
            pause = 0.05 if leaving else LOOK_AGAIN if missing else None
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def bind(self) -> None:
        """Beside `run`, for ever, since thousands of filters take seconds. Raises `AmqpError` likewise."""
        while True:
            await self._bindings.news.wait()
            self._bindings.news.clear()
            self._is_bound = await self._bindings.settle(self._keys)
            self._news.set()

    async def leave(self) -> None:
        """Take nothing more but what is in our own queue, and delete that. Raises `AmqpError`.

        A queue counts as empty while we hold the last of it: so it is left first, with all acknowledged.
        """
        self.want(frozenset())
        self.want_replies(frozenset())
        self._is_leaving = True
        while not self._bindings.has_none:
            await asyncio.sleep(_LEAVES_EVERY)
        while not await self._delete_if_empty():
            self._is_done = False
            self._news.set()
            await asyncio.sleep(_LEAVES_EVERY)

    async def _delete_if_empty(self) -> bool:
        """Delete our queue, unless something is in it still. Returns whether it is gone."""
        channel = await self._connection.channel()
        try:
            if (await channel.declare(TOPICS, passive=True)).messages:
                return False
            self._is_done = True
            self._news.set()
            while self._taps or self._changing:
                await asyncio.sleep(_LEAVES_EVERY)
            await channel.delete(TOPICS, if_empty=True)
        except ChannelLost as error:
            if error.code == PRECONDITION_FAILED:
                return False
            if error.code != NOT_FOUND:
                raise
        finally:
            await channel.close()
        return True

    # --- queues

    async def _enter(self, wanted: frozenset[str]) -> bool:
        """Consume what is wanted and there; whether something is not.

        A queue that was not there is looked for again after `LOOK_AGAIN`, or when it is made.
        """
        missing, now = False, asyncio.get_running_loop().time()
        every = wanted | self._replies
        self._absent = {name: due for name, due in self._absent.items() if due > now and name in every}
        if await self._enter_replies():
            self._news.set()  # there may be more, and others to be left before
        taken = sum(not name.startswith(REPLIES) for name in self._taps)
        for name in await _in_order(wanted - self._taps.keys() - self._absent.keys()):
            await self._enter_replies()
            if taken > MOST_QUEUES:
                self.not_taken.note(
                    f"queue:{name}", f"more than {MOST_QUEUES} queues at once are not taken from"
                )
                return True
            self._absent[name] = now + LOOK_AGAIN
            if not self._may_take(name):
                continue
            consumers, private = await self._prober.count(name)
            if consumers is not None or name == TOPICS:
                self._absent.pop(name, None)
            if consumers is None and name == TOPICS:
                self._bindings.forget()
            if consumers is None or private:
                missing = True
                continue
            read = self._read_topic if name == TOPICS else self._read_queue(name)
            if await self._open(name, read):
                taken += 1
            else:
                missing = True
        return missing or bool(self._absent)

    async def _enter_replies(self) -> bool:
        """Consume some queues for answers, those that were used last: somebody waits. Were there any?

        A connection has 2,047 channels, and those that are left are closed between.
        """
        known = self._taps.keys() | self._absent.keys()
        room = 0 if self._is_done else min(MOST_QUEUES + MOST - len(self._taps), 0) + _AT_ONCE
        names = list(islice((name for name in reversed([*self._replies]) if name not in known), max(room, 0)))
        await asyncio.gather(*(self._open(name, self._read_queue(name)) for name in names))
        return bool(names)

    async def _delete_spare(self) -> None:
        """Delete some queues for answers that are used no more; what has come into one is taken first."""
        channel, name = await self._connection.channel(), ""
        try:
            for _ in range(_AT_ONCE):
                if not self.replies.too_many:
                    return
                name = self.replies.spare()
                await channel.delete(name, if_empty=True)
            self._news.set()
        except ChannelLost as error:
            if error.code == 0:
                raise
            if error.code == PRECONDITION_FAILED:
                self.replies.adopt((name,))
            self._news.set()
        finally:
            await channel.close()

    async def _open(self, name: str, read: Read) -> bool:
        channel = await self._connection.channel()
        self._changing.add(name)
        tap = self._taps[name] = Tap(name, channel, read, partial(self._settled, name))
        is_stream = name in self.streams
        channel.on_cancelled = lambda tag: self._cancelled(tap)
        try:
            await channel.prefetch(PREFETCH)
            if name.startswith(REPLIES):  # whoever publishes the request makes it too, maybe later
                await channel.declare(name, durable=True, arguments=ARGUMENTS)
            await self._consume(tap, is_stream=is_stream)
        except ChannelLost as error:
            if not is_stream and is_of_a_stream(error):
                self.streams.begin(name)
                return await self._open(name, read)
            self._lost(tap, error)
            return False
        finally:
            self._changing.discard(name)
        if tap.is_gone:
            return False
        channel.ended.add_done_callback(lambda ended: self._lost(tap, ended.result()))
        self.not_taken.is_over(f"queue:{name}")
        return True

    async def _consume(self, tap: Tap, *, is_stream: bool) -> None:
        if tap.queue == TOPICS:
            self.changeover.opened()
        tap.tag, came = f"{OURS}{secrets.token_hex(8)}", partial(self._came, tap)
        if is_stream:
            recognition = Recognition(
                self.streams, tap.queue, tap.channel, tap.tag, came, lambda: tap.leaving, self._fail
            )
            await recognition.begin()
        else:
            priority = 0 if tap.queue.startswith(OURS) else PRIORITY
            await tap.channel.consume(tap.queue, came, tag=tap.tag, priority=priority)

    def _settled(self, name: str, last: Incoming) -> None:
        if name == TOPICS:
            self.changeover.settled(last)
        elif name in self.streams and (offset := offset_of(last)) is not None:
            self.streams.taken(name, offset, digest_of(last))

    def _cancelled(self, tap: Tap) -> None:
        """The queue was deleted: nobody is to be told of what we have of it."""
        if tap.is_gone:
            return
        tap.is_gone = True
        self._spent.append(tap.channel)
        self._changing.discard(tap.queue)
        self._news.set()
        try:
            self.streams.renew(tap.queue)
        except SiteBrokerError as error:
            self._fail(error)
        if tap.queue == TOPICS:
            self._bindings.forget()
        if self._taps.get(tap.queue) is tap:
            del self._taps[tap.queue]

    def _lost(self, tap: Tap, error: ChannelLost) -> None:
        if self._taps.get(tap.queue) is not tap:
            return
        del self._taps[tap.queue]
        self._changing.discard(tap.queue)
        if error.code:
            self.not_taken.note(f"queue:{tap.queue}", error.text)
        if error.code and not tap.is_idle:
            # As where the node has no room for as long as RabbitMQ waits for an answer: all that the node
            # holds comes again, so it lets go of that, and would double and gather it otherwise.
            self._fail(AmqpLost(f"queue {tap.queue!r}: {error}"))
        loop = asyncio.get_running_loop()
        pause = BIND_AGAIN if error.is_forbidden else LOOK_AGAIN  # RabbitMQ logs each attempt
        self._absent[tap.queue] = loop.time() + pause
        loop.call_later(pause, self._news.set)

    async def _leave(self, wanted: frozenset[str]) -> None:
        """Stop consuming what is not wanted; what we have of it is acknowledged first."""
        kept = wanted | self._replies
        leaving = [tap for tap in self._taps.values() if tap.leaving or tap.queue not in kept]
        for first in range(0, len(leaving), _AT_ONCE):
            await self._enter_replies()
            await asyncio.gather(*map(self._stop, leaving[first : first + _AT_ONCE]))

    async def _stop(self, tap: Tap) -> None:
        try:
            await self._close(tap)
        except ChannelLost as error:
            if error.code == 0:
                raise
            self._lost(tap, error)

    async def _close(self, tap: Tap) -> None:
        if not tap.leaving:
            tap.leaving = True
            self._changing.add(tap.queue)
            await tap.channel.cancel(tap.tag, of_stream=tap.queue in self.streams)
        if tap.is_gone:
            return
        if tap.is_idle and not any(each is tap for each, _ in self._gathered):
            del self._taps[tap.queue]
            await tap.channel.close()
            self._changing.discard(tap.queue)

    # --- messages

    def _came(self, tap: Tap, message: Incoming) -> None:
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._gathered.append((tap, message))

    def _hand_over(self) -> None:
        """All that has come, as one batch. After a mistake of ours nothing more is acknowledged."""
        if self._mistake is not None:
            return
        try:
            self._hand_all_over()
        except Exception as mistake:
            self._fail(mistake)

    def _fail(self, mistake: Exception) -> None:
        """It ends the visit."""
        self._mistake = mistake
        self._news.set()

    def _hand_all_over(self) -> None:
        """Each queue's by themselves, and of topics those in a row of one: for some there may be no room."""
        gathered, self._gathered = self._gathered, []
        batches: dict[tuple[Tap, int], tuple[list[Taken], list[Incoming]]] = {}
        run, of = 0, None
        for tap, message in gathered:
            tap.handed(message)
            taken = tap.taken(message)
            if tap.queue == TOPICS and taken is not None and taken.destination != of:
                run, of = run + 1, taken.destination
            batch, messages = batches.setdefault((tap, run if tap.queue == TOPICS else 0), ([], []))
            messages.append(message)
            if taken is not None:
                batch.append(taken)
        for (tap, _), (batch, messages) in batches.items():
            self._take(batch, partial(tap.settle, messages))


async def _in_order(names: frozenset[str]) -> Iterator[str]:
    """Ours first, then as they are sorted, however many there are."""

    def key(name: str) -> tuple[bool, str]:
        return not name.startswith(OURS), name

    return heapq.merge(*[sorted(part, key=key) async for part in in_parts(names)], key=key)
