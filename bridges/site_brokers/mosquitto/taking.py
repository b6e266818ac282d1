"""The connection of the bridge that takes and delivers, with a session that the broker keeps.

Law: we are subscribed to what is wanted and to nothing else. Changes go to the broker one after the other;
what comes meanwhile for a topic filter that is no longer ours is answered and left aside. Not so for a queue:
before its reader came, or while we were away, nobody else was given the message. So it is taken, and marked,
for it may be that the new reader has it as well.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from paho.mqtt.enums import MQTTProtocolVersion

from bridges.properties import FROM_TREE, MqttProperties, from_mqtt, size_of, to_mqtt
from bridges.site_brokers.base import Delivery, Desk, SiteBrokerError, Taken
from bridges.site_brokers.mosquitto.connection import (
    FAILURE,
    UNSPEAKABLE,
    Filter,
    MqttConnection,
    Post,
    Received,
)
from bridges.site_brokers.mosquitto.loop_detection import LoopDetection, digest
from bridges.site_brokers.mosquitto.memory import Memory
from bridges.site_brokers.mosquitto.messages import REASONS
from bridges.site_brokers.mosquitto.names import OURS, Unspellable
from bridges.site_brokers.mosquitto.session_takeover import FILTERS, PATIENCE, read, written
from treeconnector.bundles import Message
from treeconnector.destinations import Destination, Kind
from treeconnector.patterns import matches

if TYPE_CHECKING:
    from bridges.site_brokers.mosquitto.bridge import MosquittoBridge
    from bridges.site_brokers.mosquitto.discovery import LogDiscovery

_log = logging.getLogger("sapwood.site")
_SESSION: Final = 7 * 86_400
_AT_MOST: Final = 1000
_QOS: Final = 2
_NOBODY: Final = 0x10
_MOST_FILTERS_ID: Final = 268_435_455
_ENVELOPE: Final = 64
_GREETED: Final = 30.0
_LAST: Final = OURS + "last"
_LOOK_AGAIN: Final = 0.02
_LOOK_AFTER: Final = 1.0
_LISTED: Final = 100


class Hand:
    """One connection. `client` is open after `open`. `inherited`: our filters as the broker keeps them."""

    def __init__(
        self,
        bridge: "MosquittoBridge",
        version: MQTTProtocolVersion,
        memory: Memory,
        desk: Desk,
        lost: Callable[[SiteBrokerError], None],
        inherited: bytes = b"",
    ) -> None:
        self._bridge = bridge
        self._inherited = inherited
        self._has_news = False
        self._late: list[Received] = []
        self._taking = 0
        self._last = asyncio.Event()
        self._names = bridge.names
        self._memory = memory
        self._desk = desk
        self._lost = lost
        self._discovery: LogDiscovery | None = None
        self._filters: dict[str, int] = {}
        self._fresh: dict[str, float] = {}
        self._patterns: list[tuple[int, str]] = []
        self._granted_filters: set[str] = set()
        self._unwanted: set[str] = set()
        self._denied: dict[str, int] = {}
        self._gathered: list[tuple[Received, Taken]] = []
        self._aside = 0
        self._changed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._patience: asyncio.Task[None] | None = None
        self._unspeakable: dict[str, str] = {}
        self._unsaved: list[int] = []
        self._echoes = LoopDetection(memory.retained)
        self._suspects = bridge.suspects
        self._posts: deque[tuple[Delivery, Post]] = deque()
        self._unanswered: dict[int, None] = {}
        self._thrown_away: list[tuple[Delivery, str]] = []
        self.client = MqttConnection(
            bridge.access,
            bridge.client_id(),
            version,
            session=_SESSION,
            at_most=_AT_MOST,
            on_message=self._came,
            on_lost=lost,
        )

    def __repr__(self) -> str:
        return f"<Hand {self.client!r} filters={len(self._filters)}>"

    async def open(self) -> None:
        """Connect; what waits in a session that the broker kept comes at once."""
        memory = self._memory
        self._filters = memory.filters
        if not memory.session:
            self._filters.update(read(self._inherited))
        self._look_up()
        memory.heir = memory.heir or not memory.session
        if not await self.client.open():
            memory.new_session()
        elif not memory.session:
            _log.info("= the site's broker has a session of this node from before its database was made")
            memory.new_session(dict(self._filters))
        self._look_up()
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
        self.want()

    def begin(self, discovery: "LogDiscovery") -> None:
        """From now on be subscribed to what is wanted."""
        self._discovery = discovery
        thrown_away, self._thrown_away = self._thrown_away, []
        for delivery, topic in thrown_away:
            self._unread(delivery, topic)
        self._work = asyncio.get_running_loop().create_task(self._follow())
        self.want()

    async def close(self, *, forget: bool = False) -> None:
        for task in (self._work, self._patience):
            if task is not None:
                task.cancel()
        self._suspects.lost(list(self._unanswered))
        await self.client.close(forget=forget)

    async def leave(self, door: MqttConnection) -> None:
        """Want nothing more, and take all that the broker has for us. The door says when that is all."""
        if self._work is not None:
            self._work.cancel()
        self._inherit_no_more()
        await self.client.unsubscribe(list(self._filters))
        await self.client.subscribe([Filter(_LAST, 1)])
        self._last.clear()
        door.post(Post(_LAST, b"", 1, False, MqttProperties(), lambda code: None))
        await self._last.wait()
        while self._taking or self._gathered:
            await asyncio.sleep(_LOOK_AGAIN)
        self.say(Post(FILTERS, b"", 1, True, MqttProperties(), lambda code: None))

    def saved(self) -> None:
        """The memory is on disk. Leave our filters at the broker, for the machine that comes after."""
        unsaved, self._unsaved = self._unsaved, []
        self._desk.confirm(unsaved)
        if not self._has_news:
            return
        self._has_news = False
        said = written(self._filters)
        if said != self._inherited and len(said) + _ENVELOPE < self.client.max_packet:
            self._inherited = said
            self.say(Post(FILTERS, said, 1, True, MqttProperties(), lambda code: None))

    # --- subscriptions

    def want(self) -> None:
        """What is wanted has changed. What is wanted again is asked for anew: for what is retained."""
        self._unwanted |= self._granted_filters - self._wanted.keys()
        self._changed.set()
        late, self._late = self._late, []
        for received in late:
            self._came(received)

    @property
    def _wanted(self) -> dict[str, None]:
        wanted: dict[str, None] = {}
        for key in self._bridge.wanted:
            try:
                wanted[self._names.filter(key)] = None
            except Unspellable as error:
                self._leave_out(str(key), str(error))
        return wanted | {self._names.to_nodes: None}

    def _leave_out(self, key: str, text: str) -> None:
        if key not in self._unspeakable and len(self._unspeakable) < _LISTED:
            self._unspeakable[key] = text
            _log.warning("! %r is not taken from the site's broker: %s", key, text)

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
        wanted = self._wanted
        unwanted, self._unwanted = self._unwanted, set()
        gone = [text for text in self._filters if text not in wanted and not self._memory.heir]
        fresh = [text for text in wanted if text not in self._granted_filters or text in unwanted]
        now = asyncio.get_running_loop().time()
        self._fresh = {text: at for text, at in self._fresh.items() if at > now - _GREETED}
        for text in fresh:
            if text not in self._filters:
                self._filters[text] = self._free_id()
            self._fresh[text] = now
        self._look_up()
        if fresh:
            self._memory.save_session()
        codes = await self.client.subscribe(
            [Filter(text, _QOS, self._filters[text], greeted=text in unwanted) for text in fresh]
        )
        for text, code in zip(fresh, codes, strict=True):
            self._granted(text, code)
        await self.client.unsubscribe(gone)
        for text in gone:
            self._filters.pop(text, None)
            self._granted_filters.discard(text)
        self._look_up()
        if gone:
            self._memory.save_session()
        self._has_news = True
        self._bridge.save_soon()
        if self._discovery is not None:
            self._discovery.own_changed(len(self._filters))

    def _granted(self, text: str, code: int) -> None:
        if code >= FAILURE:
            self._filters.pop(text, None)
            self._granted_filters.discard(text)
            if self._denied.get(text) != code:
                _log.warning("! the site's broker does not let us read %s: reason code %d", text, code)
            self._denied[text] = code
        else:
            self._denied.pop(text, None)
            self._granted_filters.add(text)

    def _free_id(self) -> int:
        """Above all others, so that a new filter changes nothing for topics that an older one matches."""
        return max(self._filters.values(), default=0) % _MOST_FILTERS_ID + 1

    def _look_up(self) -> None:
        self._patterns = sorted((number, text) for text, number in self._filters.items())

    # --- taking

    def _came(self, received: Received) -> None:
        if received.topic == _LAST:
            self._last.set()
        key = self._names.destination(received.topic)
        is_late = self._memory.heir and received.qos > 0
        if is_late and key is not None and key.kind == Kind.TOPIC and not self._is_wanted(key):
            self._late.append(received)
            return
        if key is None or not self._is_for_us(received, key):
            self._aside += 1
            self.client.answer(received)
            return
        message = Message(
            received.payload, from_mqtt(received.properties, received.qos, self._names.reply_from)
        )
        retained = received.retained and key.kind == Kind.TOPIC
        again = received.again or self._is_read_here(key)
        taken = Taken(key, message, received.qos > 0, retained, self._key(received), again)
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._hand_in)
        self._gathered.append((received, taken))

    def _is_for_us(self, received: Received, key: Destination) -> bool:
        """Not so another filter's copy, and what we said ourselves."""
        if key.kind == Kind.QUEUE:
            return not self._overheard(received, key) and not self._is_echo(received, False)
        first = next((number for number, text in self._patterns if matches(text, received.topic)), 0)
        if not first and not self._is_wanted(key):
            return False
        if first and received.filters and min(received.filters) != first and not self._is_inherited(received):
            return False
        return not self._is_echo(received, received.retained and self._is_fresh(received.topic))

    def _is_inherited(self, received: Received) -> bool:
        """Was it kept for a filter that had an id which we do not know?"""
        return self._memory.heir and not any(
            number in received.filters and matches(text, received.topic) for number, text in self._patterns
        )

    def _is_wanted(self, key: Destination) -> bool:
        return any(matches(each.name, key.name) for each in self._bridge.wanted)

    def _is_echo(self, received: Received, greeting: bool) -> bool:
        if greeting:
            known = digest(received.topic, received.payload)
            if (FROM_TREE, known) in received.properties.user:
                self._echoes.retained(received.topic, known)
        return self._echoes.is_one(received.topic, received.payload, greeting)

    def _overheard(self, received: Received, key: Destination) -> bool:
        """Did this message for a queue come only because a topic filter of ours is as wide as `#`?"""
        own = self._names.to_nodes if key.node else received.topic
        wide = {number for number, text in self._patterns if text != own and matches(text, received.topic)}
        return bool(wide) and (
            wide.issuperset(received.filters) if received.filters else own not in self._filters
        )

    def _is_read_here(self, key: Destination) -> bool:
        """A queue that we do not want any more, because somebody at the broker reads it."""
        return key.kind == Kind.QUEUE and not key.node and key not in self._bridge.wanted

    def _is_fresh(self, topic: str) -> bool:
        """Have we subscribed to this lately, so that what is retained comes without being published?"""
        since = asyncio.get_running_loop().time() - _GREETED
        return any(at > since and matches(text, topic) for text, at in self._fresh.items())

    def _key(self, received: Received) -> str:
        """The same for a repetition, and for nothing else in one session of ours at the broker."""
        if not received.qos:
            return ""
        return f"{self._memory.session}:{received.number}:{digest(received.topic, received.payload)}"

    def _hand_in(self) -> None:
        gathered, self._gathered = self._gathered, []
        answers = [received for received, _ in gathered if received.qos]

        def done() -> None:
            self._taking -= 1
            for received in answers:
                self.client.answer(received)

        self._taking += 1
        self._desk.take([taken for _, taken in gathered], done)

    # --- delivering

    def deliver(self, batch: Sequence[Delivery]) -> None:
        for delivery in batch:
            if self._suspects.guilty(delivery.id):
                text = "REFUSED: the site's broker ended the connection whenever it was given this message"
                self._desk.refuse(delivery.id, f"{text} {self._suspects.reason}".strip())
                continue
            try:
                post = self._post(delivery)
            except Unspellable as error:
                self._desk.refuse(delivery.id, str(error))
                continue
            if post is not None:
                self._posts.append((delivery, post))
        self._post_waiting()

    def _post_waiting(self) -> None:
        """One by one while one of them may be what the broker ended the connection for."""
        while self._posts and not (self._suspects.any and self._unanswered):
            delivery, post = self._posts.popleft()
            self._unanswered[delivery.id] = None
            self.client.post(post)

    def _post(self, delivery: Delivery) -> Post | None:
        properties, key = delivery.message.properties, delivery.destination
        topic, payload = self._names.topic(key), delivery.message.payload
        said = to_mqtt(properties, self._names.reply_to, delivery.again)
        size = len(payload) + len(topic.encode()) + size_of(said) + _ENVELOPE
        if size > self.client.max_packet:
            text = f"TOO_LARGE: about {size} bytes, of {self.client.max_packet} that the site's broker takes"
            self._desk.refuse(delivery.id, text)
            return None
        qos = 0 if not delivery.persistent else 2 if properties.foreign and properties.foreign.qos == 2 else 1
        if delivery.retained:
            known = digest(topic, payload) if payload else ""
            said = said._replace(user=(*said.user, *([(FROM_TREE, known)] if known else ())))
            self._echoes.retained(topic, known)
            self._bridge.save_soon()
        elif self._is_echoed and any(matches(text, topic) for _, text in self._patterns):
            self._echoes.said(topic, payload)
        return Post(
            topic, payload, qos, delivery.retained, said, lambda code: self._answered(delivery, topic, code)
        )

    def say(self, post: Post) -> None:
        """Something of our own."""
        if self._is_echoed and any(matches(text, post.topic) for _, text in self._patterns):
            self._echoes.said(post.topic, post.payload)
        self.client.post(post)

    @property
    def _is_echoed(self) -> bool:
        return not self.client.v5 and self._bridge.echoes

    def _answered(self, delivery: Delivery, topic: str, code: int) -> None:
        self._unanswered.pop(delivery.id, None)
        self._suspects.cleared(delivery.id)
        self._settle(delivery, topic, code)
        self._post_waiting()

    def _settle(self, delivery: Delivery, topic: str, code: int) -> None:
        if code == _NOBODY and delivery.destination.kind == Kind.QUEUE:
            self._unread(delivery, topic)
            return
        if code == _NOBODY and self._discovery is not None:
            self._discovery.nobody(delivery, topic)
        if code < FAILURE and delivery.retained:
            self._unsaved.append(delivery.id)  # or a crash forgets that this is from the tree
            self._bridge.save_soon()
        elif code < FAILURE:
            self._desk.confirm([delivery.id])
        elif code == UNSPEAKABLE:
            self._desk.refuse(delivery.id, f"UNROUTABLE: MQTT cannot say this, for {topic[:200]}")
        else:
            name = REASONS.get(code, "REFUSED")
            self._desk.refuse(
                delivery.id, f"{name}: reason code {code} of the site's broker for {topic[:200]}"
            )

    def _unread(self, delivery: Delivery, topic: str) -> None:
        """The broker threw a queue's message away; after a start it knows of no shared subscription until
        its client is back. Settled once it is known who reads: the message goes back to its queue."""
        if self._discovery is None:
            self._thrown_away.append((delivery, topic))
        elif not self._discovery.nobody(delivery, topic):
            text = f"NO_CONSUMER: nobody reads {topic[:200]} at the site's broker now"
            self._desk.refuse(delivery.id, text)

    # --- for people

    def status(self) -> dict[str, Any]:
        return {
            "filters": len(self._filters),
            "taking": sorted(self._granted_filters)[:100],
            "denied": dict(list(self._denied.items())[:100]),
            "left_aside": self._aside,
            "not_taken": dict(self._unspeakable),
            "echoes": self._echoes.count,
            "retained_from_tree": len(self._memory.retained),
        }
