"""Learning who reads what at a Mosquitto, from its log and its counts.

On each connection: hear the log, what was said while we were away included (the broker keeps it for some
seconds; if the end of our own last connection is still there, we miss nothing), find out whether it tells
(our own second subscription must show in it), say who is known, and from then on what changes. The broker
counts its subscriptions now and then; when nothing has happened for a while the count is compared with the
table.

Where the log does not tell, only the consumers that the site's file names are known.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterator
from enum import Enum, auto
from typing import Any, Final

from bridges.mqtt.bulk import FAILURE
from bridges.site_brokers.base import BrokerConsumer, BrokerDelivery, Desk, Setup
from bridges.site_brokers.mosquitto.connection import Filter, MqttConnection, Received
from bridges.site_brokers.mosquitto.consumers import Change, SubscriptionTable
from bridges.site_brokers.mosquitto.database import DatabaseError, subscriptions
from bridges.site_brokers.mosquitto.log_lines import LOG, SUBSCRIBE, Dropped, Went, colons, read
from bridges.site_brokers.mosquitto.memory import Memory
from bridges.site_brokers.mosquitto.names import Names
from bridges.site_brokers.mosquitto.replies import ResponseTopics
from sapwood.protocol.destinations import Destination, Kind
from treeconnector.patterns import matches
from treeconnector.wording import counted

_log = logging.getLogger("sapwood.site")
COUNT: Final = "$SYS/broker/subscriptions/count"
SHARED: Final = "$SYS/broker/shared_subscriptions/count"
VERSION: Final = "$SYS/broker/version"
PULSE: Final = "$SYS/broker/uptime"
CONNECTION: Final = "$SYS/broker/connection/"
BRIDGES: Final = f"{CONNECTION}+/state"
LOGS: Final = (LOG + "N", LOG + "E", LOG + "M/subscribe", LOG + "M/unsubscribe")
_QUIET: Final = 11.0
_LOOK_EVERY: Final = 2.0
_PATIENCE: Final = 2.0
_OTHERS: Final = 6
_DEAF_AFTER: Final = 60.0
_BEATS: Final = 6
_MOST_EARLY: Final = 100_000
_MOST_EARLY_BYTES: Final = 16 * 1024 * 1024
_SHOWN: Final = 100
_NAMED: Final = 5
_DEAF: Final = (
    "it tells this node nothing of $SYS any more, so consumers that come or go now are not found: give its"
    " user `topic read $SYS/#` again"
)
_QUEUE_FULL: Final = (
    "it throws away messages that wait for this node, which are more than its max_queued_messages: set"
    " max_queued_messages 100000 in mosquitto.conf, and restart it"
)


class Fate(Enum):
    """Of a queue's message that the broker threw away, since nobody read it.

    `ELSEWHERE`: its readers are withdrawn, maybe by the answer to the one before it, and it goes to others,
    or has gone there. `AGAIN`: somebody has come who reads it. `UNREAD`: it is for nobody else.
    """

    ELSEWHERE = auto()
    AGAIN = auto()
    UNREAD = auto()


def bridge_of(topic: str) -> str:
    """The name of the bridge of whose connection a topic of `BRIDGES` tells."""
    return topic.removeprefix(CONNECTION).removesuffix("/state")


def bridged(bridges: Collection[str]) -> str:
    """For people: that there are bridges, and some of them."""
    shown = ", ".join(repr(name[:80]) for name in sorted(bridges)[:_NAMED])
    return f"Mosquittos are bridged here ({shown})"


class LogDiscovery:
    """Of one connection. `broker`: what it calls itself. `tells`: whether its log says who subscribes.

    `last_words`: what the log said when our other connection ended. `lacks`: what of the broker's settings
    has cost messages, for people. `bridges`: to other brokers, that are connected.
    """

    def __init__(
        self, setup: Setup, names: Names, memory: Memory, desk: Desk, changed: Callable[[], None]
    ) -> None:
        self._setup = setup
        self._names = names
        self._memory = memory
        self._desk = desk
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self.table = SubscriptionTable(setup.max_consumers)
        self.table.restore(memory.clients)
        self.broker = ""
        self.tells = False
        self._replies = ResponseTopics(desk)
        self._ear: MqttConnection | None = None
        self._session = ""
        self.last_words = ""
        self.lacks: dict[str, str] = {}
        self.bridges: set[str] = set()
        self._own = 0
        self._others = _OTHERS
        self._heard_at = self._beat = 0.0
        self._began = False
        self._told = asyncio.Event()
        self._colons: int | None = None
        self._early: list[tuple[str, bytes]] = []
        self._early_bytes = 0
        self._unspeakable: dict[str, str] = {}
        self._counts: dict[bool, int] = {}
        self._quiet_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<LogDiscovery {self.table!r} tells={self.tells}>"

    @property
    def automatic(self) -> bool:
        return self._setup.settings.discovery == "automatic"

    # --- a connection

    async def begin(self, ear: MqttConnection, session: str) -> None:
        """Hear the log; say who is known. `session`: the id of our other connection."""
        self._ear = ear
        self._session = session
        if self.automatic:
            await ear.subscribe([Filter(text, 1) for text in LOGS])
            codes = await ear.subscribe([Filter(text, 0) for text in (COUNT, SHARED)])
            if max(codes) < FAILURE:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PATIENCE):
                        await self._told.wait()
            for text in (PULSE, BRIDGES):
                self._others += max(await ear.subscribe([Filter(text, 0)])) < FAILURE
        self._early = []
        if not self.tells:
            self.table = SubscriptionTable(self._setup.max_consumers, self.table.own)
            if self.automatic:
                _log.warning(
                    "! the site's broker does not tell who subscribes: only the consumers that the site's"
                    " file names are known; `sapwood node check` prints the lines that mosquitto.conf needs"
                )
        if self.tells:
            self._read_database()
        self._began = True
        self._desk.complete(self._consumers())
        self._touch()
        self._timer = self._loop.call_later(_LOOK_EVERY, self._look)

    def _read_database(self) -> None:
        """Learn of sessions from before this node heard the log: of those that outlive connections."""
        file = self._setup.settings.persistence_file
        if file is not None:
            try:
                self.table.found(subscriptions(file, self._setup.max_consumers))
            except DatabaseError as error:
                _log.warning("! %s", error)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._replies.end()

    def asked(self, response_topic: str) -> None:
        """An application wants an answer there."""
        key = self._names.asked_at(response_topic)
        if key is not None:
            self._replies.asked(key, told=self.tells)

    def _consumers(self) -> list[BrokerConsumer]:
        found = self._replies.consumers()
        for client, text in self.table.consumers():
            key = self._consumed(text)
            if key is not None:
                found.append(BrokerConsumer(key, f"{client} {text}"))
        return found

    def _consumed(self, text: str) -> Destination | None:
        key = self._names.consumed(text)
        if key is None and text not in self._unspeakable and len(self._unspeakable) < _SHOWN:
            why = self._names.why_left_out(text)
            if why:
                self._unspeakable[text] = why
                _log.warning("! readers of %s are left out: %s", text[:200], why[:200])
        return key

    # --- what is heard

    def heard(self, received: Received) -> None:
        """A message at one of the broker's own topics."""
        topic, payload = received.topic, received.payload
        if topic.startswith(LOG):
            self._line(topic, payload)
        elif topic in (COUNT, SHARED):
            with contextlib.suppress(ValueError):
                self._counts[topic == SHARED] = int(payload)
        elif topic == PULSE:
            self._pulse()
        elif topic.startswith(CONNECTION):
            name = bridge_of(topic)
            if payload != b"1":
                self.bridges.discard(name)
            elif len(self.bridges) < _SHOWN:
                self.bridges.add(name)
        elif topic == VERSION:
            self.broker = payload.decode(errors="replace").replace("mosquitto version", "Mosquitto")[:80]

    def _pulse(self) -> None:
        """It comes every `sys_interval`, unless that is 0."""
        now = self._loop.time()
        self._beat = now - self._heard_at if self._heard_at else 0.0
        self._heard_at = now
        if self.lacks.pop("log", ""):
            _log.info("= the site's broker tells of its $SYS again")
            self.table.doubt()

    def lack(self, what: str, text: str) -> None:
        self.lacks[what] = text
        _log.warning("! the site's broker lacks something: %s", text, extra={"reason": text})

    def _look_whether_deaf(self) -> None:
        """An acl_file is read anew while the broker runs, and refuses what it granted without a word."""
        silent = self._loop.time() - self._heard_at
        if self._beat and silent > max(_DEAF_AFTER, self._beat * _BEATS) and "log" not in self.lacks:
            self.lack("log", _DEAF)

    def _line(self, topic: str, payload: bytes) -> None:
        """Lines wait until one of our own subscriptions has shown how the log is written."""
        if self.tells:
            self._understood(topic, payload)
            return
        size = self._early_bytes + len(topic) + len(payload)
        if len(self._early) < _MOST_EARLY and size <= _MOST_EARLY_BYTES and not self._began:
            self._early.append((topic, payload))
            self._early_bytes = size
        if topic == SUBSCRIBE and self._ear is not None:
            self._colons = colons(payload, self._ear.id)
        if self._colons is not None:
            self.tells = True
            self._told.set()
            early, self._early = self._early, []
            is_whole = self._is_whole(early)
            if not is_whole:
                self.table.doubt()
            for line in early:
                self._understood(*line)
            if not is_whole:  # what is missing may be behind these lines
                self.table.doubt()

    def _is_whole(self, lines: list[tuple[str, bytes]]) -> bool:
        """Has the broker kept what it said while we were away? It does for 20 s: then our end is there."""
        ear = self._ear.id if self._ear is not None else ""
        return any(read(topic, payload, (ear,), self._colons) == Went(ear) for topic, payload in lines)

    def _understood(self, topic: str, payload: bytes) -> None:
        event = read(topic, payload, self.table, self._colons)
        if isinstance(event, Dropped):
            self._dropped(event.client)
            return
        if isinstance(event, Went) and event.client == self._session:
            self.last_words = payload.decode(errors="replace").partition(": ")[2][:200]
        if event is not None:
            self._touch()
            self._tell(self.table.heard(event))

    def _dropped(self, client: str) -> None:
        """Ours alone: what is dropped for others is between them and the broker."""
        if client == self._session and "max_queued_messages" not in self.lacks:
            self.lack("max_queued_messages", _QUEUE_FULL)

    def _tell(self, changes: list[Change]) -> None:
        for came, client, text in changes:
            key = self._consumed(text)
            if key is not None and self._began:
                consumer = BrokerConsumer(key, f"{client} {text}")
                if came:
                    self._desk.came(consumer)
                else:
                    self._desk.went(consumer)
        if changes:
            self._changed()

    def _touch(self) -> None:
        self._quiet_since = self._loop.time()

    def own_changed(self, filters: int) -> None:
        """Our other connection has so many subscriptions now."""
        self._own = filters
        self._touch()

    # --- counts

    def _look(self) -> None:
        self._timer = self._loop.call_later(_LOOK_EVERY, self._look)
        self._look_whether_deaf()
        if not self.tells or self._loop.time() - self._quiet_since < _QUIET:
            return
        for shared, count in self._counts.items():
            before = self.table.unknown[shared]
            ours = 0 if shared else self._own + len(LOGS) + self._others
            self._tell(self.table.counted(shared, count - ours))
            if self.table.unknown[shared] != before and self.table.unknown[shared]:
                _log.warning(
                    "! the site's broker counts %s that nobody told of: from before this node heard"
                    " its log. To make them known, let their clients subscribe again, or list them as"
                    " `consumers` of site_broker, or name its `persistence_file` there",
                    counted(self.table.unknown[shared], "subscription"),
                )

    def nobody(self, delivery: BrokerDelivery, topic: str, since: int) -> Fate:
        """The broker says that nobody was subscribed to this topic when it was given this message, which was
        after our table's moment `since`. Its readers are withdrawn, but for who was heard to subscribe after
        that: that may have been after the answer too, which comes on another line. The next message tells.

        A topic's message has done its duty; an answer is for nobody else.
        """
        key = delivery.destination
        asked = key if key.kind == Kind.TOPIC else key._replace(node=self._setup.node)
        readers = [*self._readers(key)] if self.tells else []
        stale = [reader for reader in readers if not self.table.heard_since(since, *reader)]
        if stale or key.kind == Kind.TOPIC:
            self._replies.over(asked)
        elif asked in self._replies:
            return Fate.UNREAD
        self._tell(self.table.nobody(stale))
        if len(stale) < len(readers):
            return Fate.AGAIN
        is_told = self.tells and key.kind == Kind.QUEUE and str(key) not in self._setup.settings.consumers
        return Fate.ELSEWHERE if is_told else Fate.UNREAD

    def _readers(self, key: Destination) -> Iterator[tuple[str, str]]:
        """Client and filter of whoever reads this."""
        for client, text in self.table.consumers():
            read_here = self._names.consumed(text)
            if read_here is not None and read_here.kind == key.kind and matches(read_here.name, key.name):
                yield client, text

    # --- for people

    def status(self) -> dict[str, Any]:
        if not self.automatic:
            state = "static"
        elif not self._began:
            state = "begins"
        elif not self.tells or "log" in self.lacks:
            state = "the broker does not tell who subscribes"
        elif self.table.missing:
            state = f"{counted(self.table.missing, 'subscription')} unknown"
        else:
            state = "complete"
        return {
            "discovery": state,
            "subscriptions": len(self.table),
            "unknown": self.table.missing,
            "left_out_filters": self.table.over,
            "cut_lines": self.table.cut,
            "lacks": dict(self.lacks),
            "unspeakable": {text[:200]: why[:200] for text, why in self._unspeakable.items()},
        }
