"""Taking from the broker what is wanted, through a session that the broker keeps.

Law: we are subscribed to what is wanted and to nothing else. Changes go to the broker one after the other;
what comes meanwhile for a topic filter that is no longer ours is answered and left aside. Not so for a queue:
before its reader came, or while we were away, nobody else was given the message. So it is taken, and marked,
for it may be that the new reader has it as well.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import Any, Final

from bridges.mqtt.bulk import FAILURE
from bridges.properties import FROM_TREE, MqttProperties, from_mqtt
from bridges.site_brokers.base import Desk, NotTaken, SiteBrokerError, Taken, unanswerable
from bridges.site_brokers.mosquitto.connection import Filter, MqttConnection, Post, Received
from bridges.site_brokers.mosquitto.discovery import LogDiscovery
from bridges.site_brokers.mosquitto.filters import Copies, OwnFilters
from bridges.site_brokers.mosquitto.given import GIVEN
from bridges.site_brokers.mosquitto.loop_detection import LoopDetection, digest
from bridges.site_brokers.mosquitto.memory import Memory
from bridges.site_brokers.mosquitto.names import OURS, Names, Unspellable
from bridges.site_brokers.mosquitto.publishing import ENVELOPE, Poster
from bridges.site_brokers.mosquitto.session_takeover import FILTERS, PATIENCE, read, written
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination, Kind
from treeconnector.trie import PatternTrie

_log = logging.getLogger("sapwood.site")
_QOS: Final = 2
_GREETED: Final = 30.0
_LAST: Final = OURS + "last"
_LOOK_AGAIN: Final = 0.02
_LOOK_AFTER: Final = 1.0
_ASK_AGAIN: Final = 60.0
_LISTED: Final = 100
_REMEMBERED: Final = 1000
_LONGEST: Final = 1024
_NOT_KEPT: Final = (
    "it has not kept this node's session, so what applications published before the node was back is lost: it"
    " was restarted without `persistence true`, or the node was away for longer than a week, or than its"
    " persistent_client_expiration"
)


class Subscriber:
    """Of one connection. `inherited`: our filters as the broker keeps them. `poster`: publishes for us.

    `changed`: the memory is to be saved. `lost`: the connection is of no more use.
    """

    def __init__(
        self,
        client: MqttConnection,
        names: Names,
        filters: OwnFilters,
        memory: Memory,
        desk: Desk,
        loops: LoopDetection,
        poster: Poster,
        changed: Callable[[], None],
        lost: Callable[[SiteBrokerError], None],
        wanted: frozenset[Destination],
        inherited: bytes = b"",
    ) -> None:
        self._client = client
        self._names = names
        self._filters = filters
        self._copies = Copies(filters)
        self._memory = memory
        self._desk = desk
        self._loops = loops
        self._poster = poster
        self._save_soon = changed
        self._lost = lost
        self._wanted: frozenset[Destination] = frozenset()
        self._patterns: PatternTrie[Destination] = PatternTrie()
        self._meanings: dict[str, tuple[Destination | None, bool]] = {}
        self._note_wanted(wanted)
        self._inherited = inherited
        self._has_news = False
        self._late: list[Received] = []
        self._taking = 0
        self._last = asyncio.Event()
        self._discovery: LogDiscovery | None = None
        self._fresh: dict[str, float] = {}
        self._granted_filters: set[str] = set()
        self._unwanted: set[str] = set()
        self._denied: dict[str, int] = {}
        self._gathered: list[tuple[Received, Taken]] = []
        self._aside = 0
        self._lost_session = False
        self._changed = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None
        self._patience: asyncio.Task[None] | None = None
        self._not_taken = NotTaken(_LISTED)
        self._filters.awaited = {*self._wanted_filters()}

    def __repr__(self) -> str:
        return f"<Subscriber {self._client!r} filters={len(self._filters)}>"

    async def open(self) -> None:
        """Connect; what waits in a session that the broker kept comes at once."""
        memory = self._memory
        if not memory.session:
            memory.filters.update(read(self._inherited))
        memory.heir = memory.heir or not memory.session
        had_one = bool(memory.session and memory.filters)
        if not await self._client.open():
            self._lost_session = had_one
            memory.new_session()
        else:
            self._copies.resume()
            if not memory.session:
                _log.info("= the site's broker has a session of this node from before its database was made")
                memory.new_session(dict(memory.filters))
        self._filters.reread()
        if memory.heir:
            self._patience = asyncio.get_running_loop().create_task(self._be_patient())

    async def _be_patient(self) -> None:
        """Until a parent, which says who reads what, has been there for `PATIENCE`."""
        left = PATIENCE
        while left > 0:
            await asyncio.sleep(_LOOK_AFTER)
            left = left - _LOOK_AFTER if self._desk.is_told else PATIENCE
        self._inherit_no_more()

    def _inherit_no_more(self) -> None:
        self._memory.heir = False
        self._memory.save_session()
        self.want(self._wanted)

    def begin(self, discovery: LogDiscovery) -> None:
        """From now on be subscribed to what is wanted."""
        self._discovery = discovery
        if self._lost_session:
            discovery.lack("session", _NOT_KEPT)
        self._work = asyncio.get_running_loop().create_task(self._follow())
        self.want(self._wanted)

    def end(self) -> None:
        for task in (self._work, self._patience, self._again):
            if task is not None:
                task.cancel()

    async def leave(self, door: MqttConnection) -> None:
        """Want nothing more, and take all that the broker has for us. The door says when that is all."""
        if self._work is not None:
            self._work.cancel()
        self._inherit_no_more()
        await self._client.unsubscribe(list(self._filters.ids))
        await self._client.subscribe([Filter(_LAST, 1)])
        self._last.clear()
        door.post(Post(_LAST, b"", 1, False, MqttProperties(), lambda code: None))
        await self._last.wait()
        while self._taking or self._gathered:
            await asyncio.sleep(_LOOK_AGAIN)
        self._leave(FILTERS, b"")
        self._leave(GIVEN, b"")
        self._memory.filters.clear()
        self._memory.save_session()

    def saved(self) -> None:
        """The memory is on disk. Leave our filters at the broker, for the machine that comes after."""
        if not self._has_news:
            return
        self._has_news = False
        said = written(self._filters.ids)
        if said != self._inherited and len(said) + ENVELOPE < self._client.max_packet:
            self._inherited = said
            self._leave(FILTERS, said)

    def _leave(self, name: str, said: bytes) -> None:
        self._poster.say(Post(name, said, 1, True, MqttProperties(), lambda code: None))

    # --- subscriptions

    def want(self, wanted: frozenset[Destination]) -> None:
        """Ask anew for a filter that is wanted again: the broker gives what is retained."""
        self._note_wanted(wanted)
        filters = self._wanted_filters().keys()
        self._unwanted |= self._granted_filters - filters
        self._filters.awaited = filters - self._granted_filters - self._denied.keys()
        self._changed.set()
        late, self._late = self._late, []
        for received in late:
            self.came(received)

    def _note_wanted(self, wanted: frozenset[Destination]) -> None:
        self._meanings.clear()
        for key in self._wanted - wanted:
            self._patterns.remove(key.name, key)
        for key in wanted - self._wanted:
            self._patterns.add(key.name, key)
        self._wanted = wanted

    def _wanted_filters(self) -> dict[str, None]:
        wanted: dict[str, None] = {}
        for key in self._wanted:
            try:
                wanted[self._names.filter(key)] = None
            except Unspellable as error:
                self._not_taken.note(str(key), str(error))
        return wanted | {self._names.to_nodes: None}

    async def _follow(self) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._agree()
        except SiteBrokerError as error:
            self._lost(error)
        except Exception as mistake:
            _log.exception("! the bridge to the site's broker failed")
            self._lost(SiteBrokerError(f"a mistake in the bridge ({mistake!r}): please report it"))

    async def _agree(self) -> None:
        """Subscribe to what is new, and unsubscribe from what is not wanted any more.

        On a new connection all is new: the session that a killed broker has kept may be an old one.
        """
        wanted, ids = self._wanted_filters(), self._filters.ids
        unwanted, self._unwanted = self._unwanted, set()
        gone = [text for text in ids if text not in wanted and not self._memory.heir]
        fresh = [text for text in wanted if text not in self._granted_filters or text in unwanted]
        self._granted_filters.difference_update(gone)
        now = asyncio.get_running_loop().time()
        self._fresh = {text: at for text, at in self._fresh.items() if at > now - _GREETED}
        self._filters.add(self._filters.free_ids(text for text in fresh if text not in ids))
        self._fresh.update(dict.fromkeys(fresh, now))
        if fresh:
            self._memory.save_session()
        codes = await self._client.subscribe(
            [Filter(text, _QOS, ids[text], greeted=text in unwanted) for text in fresh]
        )
        self._answered(fresh, codes)
        await self._client.unsubscribe(gone)
        for text in gone:
            self._filters.remove(text)
        if gone:
            self._memory.save_session()
        self._has_news = True
        self._save_soon()
        if self._discovery is not None:
            self._discovery.own_changed(len(ids))

    def _answered(self, filters: list[str], codes: Iterable[int]) -> None:
        for text, code in zip(filters, codes, strict=True):
            self._granted(text, code)
        self._filters.awaited.difference_update(filters)
        self._poster.go_on()

    def _granted(self, text: str, code: int) -> None:
        if code >= FAILURE:
            self._filters.remove(text)
            self._granted_filters.discard(text)
            if self._denied.get(text) != code:
                _log.warning("! the site's broker does not let us read %s: reason code %d", text, code)
            self._denied[text] = code
            if self._again is None:
                self._again = asyncio.get_running_loop().call_later(_ASK_AGAIN, self._ask_again)
        else:
            self._denied.pop(text, None)
            self._granted_filters.add(text)

    def _ask_again(self) -> None:
        """Rights change while a broker runs, and it tells nobody."""
        self._again = None
        self._changed.set()

    # --- messages

    def came(self, received: Received) -> None:
        """A message of the broker's."""
        if received.topic == _LAST:
            self._last.set()
        key, is_wanted = self._meaning(received.topic)
        is_late = self._memory.heir and received.qos > 0
        if is_late and key is not None and key.kind == Kind.TOPIC and not is_wanted:
            self._late.append(received)
            return
        if key is None or not self._is_for_us(received, key, is_wanted):
            self._aside += 1
            self._client.answer(received)
            return
        message = Message(
            received.payload, from_mqtt(received.properties, received.qos, self._names.reply_from)
        )
        odd, asked = "", received.properties.response_topic
        if asked and not message.properties.reply_to:
            odd = unanswerable(asked)
        elif asked and self._discovery is not None:
            self._discovery.asked(asked)
        retained = received.retained and key.kind == Kind.TOPIC
        doubted = self._copies.in_doubt if key.kind == Kind.TOPIC else self._is_read_here(key)
        again = received.again or doubted
        taken = Taken(key, message, received.qos > 0, retained, self._key(received), again, odd)
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._hand_in)
        self._gathered.append((received, taken))

    def _meaning(self, name: str) -> tuple[Destination | None, bool]:
        """The destination of a topic here, and whether a filter of topics that is wanted matches its name.

        Remembered until something else is wanted: most messages are published where others were before.
        """
        found = self._meanings.get(name)
        if found is None:
            key = self._names.destination(name)
            found = key, key is not None and bool(self._patterns.match(key.name))
            if len(self._meanings) == _REMEMBERED:
                self._meanings.clear()
            if len(name) <= _LONGEST:
                self._meanings[name] = found
        return found

    def _is_for_us(self, received: Received, key: Destination, is_wanted: bool) -> bool:
        """Not so another filter's copy, and what we said ourselves."""
        if key.kind == Kind.QUEUE:
            return not self._overheard(received, key) and not self._is_echo(received, False)
        if not is_wanted and not any(self._filters.matching(received.topic)):
            return False
        if self._copies.is_one(received):
            return False
        return not self._is_echo(received, received.retained and self._is_fresh(received.topic))

    def _is_echo(self, received: Received, greeting: bool) -> bool:
        if greeting:
            known = digest(received.topic, received.payload)
            if (FROM_TREE, known) in received.properties.user:
                self._loops.retained(received.topic, known)
        return self._loops.is_one(received.topic, received.payload, greeting)

    def _overheard(self, received: Received, key: Destination) -> bool:
        """Did this message for a queue come only because a topic filter of ours is as wide as `#`?"""
        own = self._names.to_nodes if key.node else received.topic
        wide = {number for number, text in self._filters.matching(received.topic) if text != own}
        return bool(wide) and (
            wide.issuperset(received.filters) if received.filters else own not in self._filters.ids
        )

    def _is_read_here(self, key: Destination) -> bool:
        """A queue that we do not want any more, because somebody at the broker reads it."""
        return key.kind == Kind.QUEUE and not key.node and key not in self._wanted

    def _is_fresh(self, topic: str) -> bool:
        """Have we subscribed to this lately, so that what is retained comes without being published?"""
        since = asyncio.get_running_loop().time() - _GREETED
        return any(self._fresh.get(text, since) > since for _, text in self._filters.matching(topic))

    def _key(self, received: Received) -> str:
        """The same for a repetition, and for nothing else in one session of ours at the broker."""
        if not received.qos:
            return ""
        return f"{self._memory.session}:{received.number}:{digest(received.topic, received.payload)}"

    def _hand_in(self) -> None:
        """Those in a row of one destination together: for some there may be no room."""
        gathered, self._gathered = self._gathered, []
        for _, row in groupby(gathered, lambda each: each[1].destination):
            together = [*row]
            self._taking += 1
            answers = [received for received, _ in together if received.qos]
            self._desk.take([taken for _, taken in together], partial(self._taken_over, answers))

    def _taken_over(self, answers: list[Received]) -> None:
        self._taking -= 1
        self._client.answer(*answers)

    # --- for people

    def status(self) -> dict[str, Any]:
        return {
            "filters": len(self._filters),
            "taking": sorted(self._granted_filters)[:_LISTED],
            "denied": dict(list(self._denied.items())[:_LISTED]),
            "left_aside": self._aside,
            "not_taken": dict(self._not_taken.reasons),
            "echoes": self._loops.count,
            "retained_from_tree": len(self._memory.retained),
        }
