"""Giving messages to the broker, over the session's connection.

Law: what the broker is given counts when it has answered; what is retained only once it is on our disk that
this came from the tree. A request goes no sooner than we are subscribed to the place of its answer;
what is behind it waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from bridges.mqtt.bulk import FAILURE
from bridges.properties import FROM_TREE, size_of, to_mqtt
from bridges.site_brokers.base import BrokerDelivery, Desk, NotTaken, unanswerable
from bridges.site_brokers.mosquitto.connection import UNSPEAKABLE, MqttConnection, Post
from bridges.site_brokers.mosquitto.discovery import Fate, LogDiscovery, bridged
from bridges.site_brokers.mosquitto.filters import OwnFilters
from bridges.site_brokers.mosquitto.given import GIVEN, Given
from bridges.site_brokers.mosquitto.loop_detection import OFTEN, LoopDetection, Rounds, digest
from bridges.site_brokers.mosquitto.messages import REASONS
from bridges.site_brokers.mosquitto.names import Names, Unspellable
from bridges.site_brokers.mosquitto.ownership import Ownership
from bridges.site_brokers.mosquitto.poison_messages import PoisonMessages
from sapwood.protocol.destinations import Destination, Kind

ENVELOPE: Final = 64
"""Bytes of a packet beside its topic, properties and payload, at the most."""
_NOBODY: Final = 0x10
_LISTED: Final = 100


class Poster:
    """Of one connection. `changed`: the memory is to be saved."""

    def __init__(
        self,
        client: MqttConnection,
        names: Names,
        filters: OwnFilters,
        desk: Desk,
        loops: LoopDetection,
        ownership: Ownership,
        poison: PoisonMessages,
        changed: Callable[[], None],
        given: Given,
    ) -> None:
        self._client = client
        self._names = names
        self._filters = filters
        self._desk = desk
        self._loops = loops
        self._ownership = ownership
        self._poison = poison
        self._changed = changed
        self._given = given
        self._discovery: LogDiscovery | None = None
        self._rounds = Rounds()
        self.other_ways = NotTaken(_LISTED, "comes another way than the tree's, too")
        self._posts: deque[tuple[BrokerDelivery, Post]] = deque()
        self._unanswered: dict[int, None] = {}
        self._unsaved: dict[int, tuple[str, bytes]] = {}
        self._thrown_away: list[tuple[BrokerDelivery, str, int]] = []
        self._spelled: Destination | None = None
        self._topic, self._size = "", ENVELOPE

    def __repr__(self) -> str:
        return f"<Poster waiting={len(self._posts)} unanswered={len(self._unanswered)}>"

    def begin(self, discovery: LogDiscovery) -> None:
        """From now on it is known who reads what."""
        self._discovery = discovery
        thrown_away, self._thrown_away = self._thrown_away, []
        for each in thrown_away:
            self._unread(*each)

    def end(self) -> None:
        self._poison.lost(list(self._unanswered))

    def saved(self) -> Collection[str]:
        """The memory is on disk: what was given to be retained is known as the tree's from now on.

        Returns its topics.
        """
        unsaved, self._unsaved = self._unsaved, {}
        self._desk.confirm(list(unsaved))
        if self._given.confirmed([name for _, name in unsaved.values()]):
            self._say_given()
        if unsaved:
            self._changed()
        return [topic for topic, _ in unsaved.values()]

    def deliver(self, batch: Sequence[BrokerDelivery]) -> None:
        for delivery in batch:
            if self._discovery is not None and self._discovery.bridges:
                self._look_for_rounds(delivery, self._discovery.bridges)
            if self._poison.guilty(delivery.id):
                text = "REFUSED: the site's broker ended the connection whenever it was given this message"
                self._desk.refuse(delivery.id, f"{text} {self._poison.reason}".strip())
                continue
            try:
                post = self._post(delivery)
            except Unspellable as error:
                self._desk.refuse(delivery.id, str(error))
                continue
            if post is not None and self._given.has(delivery):
                self._unsaved[delivery.id] = post.topic, delivery.name
            elif post is not None:
                self._posts.append((delivery, post))
        self.go_on()

    def go_on(self) -> None:
        """As far as it may; the broker has answered. One by one while one of them may be what it ended the
        connection for.
        """
        is_noted, row = False, []
        while self._posts and not (self._poison.any and self._unanswered):
            delivery, post = self._posts[0]
            if self._filters.awaits(post.properties.response_topic):
                break
            self._posts.popleft()
            self._unanswered[delivery.id] = None
            row.append(post)
            is_noted |= self._given.note(delivery)
        self._client.post(*row)
        if is_noted:
            self._say_given()

    def _post(self, delivery: BrokerDelivery) -> Post | None:
        properties, payload = delivery.message.properties, delivery.message.payload
        if delivery.destination is not self._spelled:  # those of a bundle have the same
            self._topic, self._spelled = self._names.topic(delivery.destination), delivery.destination
            self._size = len(self._topic.encode()) + ENVELOPE
        topic = self._topic
        said = to_mqtt(properties, self._names.reply_to, delivery.again)
        if properties.reply_to and self._client.v5 and not said.response_topic:
            self._desk.refuse(delivery.id, unanswerable(properties.reply_to))
            return None
        size = len(payload) + self._size + size_of(said)
        if size > self._client.max_packet:
            text = f"TOO_LARGE: about {size} bytes, of {self._client.max_packet} that the site's broker takes"
            self._desk.refuse(delivery.id, text)
            return None
        qos = 0 if not delivery.persistent else 2 if properties.foreign and properties.foreign.qos == 2 else 1
        if delivery.retained:
            known = digest(topic, payload) if payload else ""
            said = said._replace(user=(*said.user, *([(FROM_TREE, known)] if known else ())))
            self._loops.retained(topic, known)
            self._changed()
        else:
            self._remember(topic, payload)
        since = self._discovery.table.moment if self._discovery is not None else 0
        done = partial(self._answered, delivery, topic, since)
        return Post(topic, payload, qos, delivery.retained, said, done)

    def _look_for_rounds(self, delivery: BrokerDelivery, bridges: Collection[str]) -> None:
        name, now = str(delivery.destination), asyncio.get_running_loop().time()
        if self._rounds.given(name, delivery.message.payload, now):
            self.other_ways.note(
                name,
                f"{bridged(bridges)}, and the same message was given to this one {OFTEN}"
                " times within a minute: where it is always one, it goes round through the bridge and the"
                " tree; end the bridge, or leave this out of the tree (rules)",
            )

    def _say_given(self) -> None:
        self._client.post(self._given.post(self._client.max_packet - len(GIVEN) - ENVELOPE))

    def say(self, post: Post) -> None:
        """Something of our own."""
        self._remember(post.topic, post.payload)
        self._client.post(post)

    def _remember(self, topic: str, payload: bytes) -> None:
        """Where the broker knows no *no local*, it sends this back to us if a filter of ours matches."""
        if not self._client.v5 and self._ownership.echoed and any(self._filters.matching(topic)):
            self._loops.said(topic, payload)

    # --- answers

    def _answered(self, delivery: BrokerDelivery, topic: str, since: int, code: int) -> None:
        self._unanswered.pop(delivery.id, None)
        self._poison.cleared(delivery.id)
        self._settle(delivery, topic, since, code)
        if self._posts:
            self.go_on()

    def _settle(self, delivery: BrokerDelivery, topic: str, since: int, code: int) -> None:
        if not (code or delivery.retained):  # as most
            self._desk.confirm((delivery.id,))
            return
        if code >= FAILURE:
            self._given.refused(delivery)
        if code == _NOBODY and delivery.destination.kind == Kind.QUEUE:
            self._unread(delivery, topic, since)
            return
        if code == _NOBODY and self._discovery is not None:
            self._discovery.nobody(delivery, topic, since)
        if code < FAILURE and delivery.retained:
            self._unsaved[delivery.id] = topic, delivery.name  # or a crash forgets that this is from the tree
            self._changed()
        elif code < FAILURE:
            self._desk.confirm([delivery.id])
        elif code == UNSPEAKABLE:
            self._desk.refuse(delivery.id, f"UNROUTABLE: MQTT cannot say this, for {topic[:200]}")
        else:
            name = REASONS.get(code, "REFUSED")
            self._desk.refuse(
                delivery.id, f"{name}: reason code {code} of the site's broker for {topic[:200]}"
            )

    def _unread(self, delivery: BrokerDelivery, topic: str, since: int) -> None:
        """The broker threw a queue's message away; after a start it knows of no shared subscription until
        its client is back. Settled once it is known who reads: the message goes back to its queue."""
        if self._discovery is None:
            self._thrown_away.append((delivery, topic, since))
            return
        fate = self._discovery.nobody(delivery, topic, since)
        if fate == Fate.AGAIN:
            self._desk.again(delivery)
        elif fate == Fate.UNREAD:
            text = f"NO_CONSUMER: nobody reads {topic[:200]} at the site's broker now"
            self._desk.refuse(delivery.id, text)
