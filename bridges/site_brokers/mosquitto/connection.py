"""One MQTT connection on an asyncio loop: paho-mqtt, driven by its socket, without a thread of its own, and
its messages past paho (`bridges.mqtt.bulk`).

MQTT 5 where the broker has it, else 3.1.1 as a bridge (so that the broker sends nothing back that came from
here, and keeps the retain flag). Law: nothing that is taken is answered before `answer`, QoS 2 included; an
exception of paho or of the network becomes a `SiteBrokerError`.

Wrinkle: only dialling (names, TCP, TLS) blocks in paho, so that runs in a thread. More messages than the
broker takes unanswered wait here.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple

import msgspec
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from bridges.dialling import why_not
from bridges.mqtt.bulk import LARGEST, MOST_UNANSWERED, PahoInBulk
from bridges.mqtt.library import paho
from bridges.mqtt.packets import Publish
from bridges.mqtt.properties import Name
from bridges.mqtt.watch import PahoWatch
from bridges.properties import NO_PROPERTIES, MqttProperties
from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.mosquitto.login import MqttAccess, refusal
from bridges.site_brokers.mosquitto.messages import publish_properties, read_properties
from bridges.tls import CERTIFICATE

KEEP_ALIVE: Final = 10
UNSPEAKABLE: Final = 0x100
_ROW: Final = 64
"""Messages that are written as one."""


class Received(msgspec.Struct, frozen=True, gc=False):
    """A message from the broker. `number`: of its packet; `filters`: the ids of our filters it came for."""

    topic: str
    payload: bytes
    qos: int
    retained: bool
    again: bool
    number: int
    properties: MqttProperties
    filters: Sequence[int]


class Post(NamedTuple):
    """A message for the broker. `done` gets the broker's reason code; 0 at once for QoS 0.

    `UNSPEAKABLE`: MQTT cannot say this; the broker has not heard of it.
    """

    topic: str
    payload: bytes
    qos: int
    retained: bool
    properties: MqttProperties
    done: Callable[[int], None]


class Filter(NamedTuple):
    """A topic filter to subscribe to. `id`: comes with each message (MQTT 5)."""

    text: str
    qos: int
    id: int = 0
    own: bool = False
    """Whether our own messages come as well; retained is then only what came because it is."""
    greeted: bool = False
    """Whether what is retained comes even if we are subscribed already."""


class MqttConnection:
    """One connection. `on_message(received)`, `on_lost(error)`: called on the loop, never after `close`.

    `session`: seconds for which the broker keeps it while it is away; 0 = not at all. `at_most`: messages
    that the broker may send unanswered. `max_packet`, `max_qos`, `retains`: what the broker takes.
    """

    def __init__(
        self,
        access: MqttAccess,
        client_id: str,
        version: MQTTProtocolVersion,
        *,
        session: int,
        at_most: int,
        on_message: Callable[[Received], None],
        on_lost: Callable[[SiteBrokerError], None],
    ) -> None:
        self._access = access
        self.id = client_id
        self.version = version
        self.v5 = version == MQTTProtocolVersion.MQTTv5
        self._session = session
        self._at_most = at_most
        self._on_message = on_message
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._over = False
        self._posts: deque[Post] = deque()
        self._unanswered: dict[int, Post] = {}
        self._in_flight = MOST_UNANSWERED
        self._answers: dict[int, asyncio.Future[list[int]]] = {}
        self._connected: asyncio.Future[bool] = self._loop.create_future()
        self.max_packet = LARGEST
        self.max_qos = 2
        self.retains = True
        self._paho = self._make(version)
        self._watch = PahoWatch(self._paho, self._was_lost)

    def __repr__(self) -> str:
        return f"<MqttConnection {self.id} unanswered={len(self._unanswered)} waiting={len(self._posts)}>"

    def _make(self, version: MQTTProtocolVersion) -> PahoInBulk:
        clean = None if self.v5 else not self._session
        client = PahoInBulk(
            CallbackAPIVersion.VERSION2,
            client_id=self.id,
            clean_session=clean,
            protocol=version,
        )
        if not self.v5:
            client.enable_bridge_mode()
        if self._access.user:
            client.username_pw_set(self._access.user, self._access.password)
        if self._access.tls is not None:
            client.tls_set_context(self._access.tls)
            client.tls_insecure_set(not self._access.tls.check_hostname)
        client.on_connect = self._was_connected
        client.on_disconnect = self._was_disconnected
        client.given = self._was_given
        client.answered = self._was_answered
        client.on_subscribe = self._was_subscribed
        client.on_unsubscribe = self._was_unsubscribed
        return client

    # --- opening

    async def open(self) -> bool:
        """Connect and log in; return whether the broker had kept the session. Raises `SiteBrokerError`."""
        try:
            async with asyncio.timeout(self._access.timeout):
                await self._loop.run_in_executor(None, self._dial)
                opened = self._paho.socket()
                if opened is None:
                    raise OSError("the broker closed the connection")
                self._watch.begin(opened)
                return await self._connected
        except (OSError, ValueError) as error:
            self._drop()
            where, seconds = f"the broker at {self._access.address.uri}", self._access.timeout
            raise SiteBrokerError(why_not(error, where, seconds=seconds)) from None
        except BaseException:
            self._drop()
            raise

    def _dial(self) -> None:
        """In a thread."""
        if not self.v5:
            self._paho.connect(self._access.address.host, self._access.address.port, keepalive=KEEP_ALIVE)
            return
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._session
        properties.ReceiveMaximum = self._at_most
        self._paho.connect(
            self._access.address.host,
            self._access.address.port,
            keepalive=KEEP_ALIVE,
            clean_start=not self._session,
            properties=properties,
        )

    def _was_connected(
        self, _client: object, _data: object, flags: Any, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if self._connected.done():
            return
        if reason.is_failure:
            self._connected.set_exception(refusal(reason, self._access))
            return
        said = properties.json() if properties is not None else {}  # type: ignore[no-untyped-call]
        self.max_packet = int(said.get("MaximumPacketSize", LARGEST))
        self.max_qos = int(said.get("MaximumQoS", 2))
        self.retains = bool(said.get("RetainAvailable", 1))
        self._in_flight = min(int(said.get("ReceiveMaximum", MOST_UNANSWERED)), MOST_UNANSWERED)
        self._connected.set_result(bool(flags.session_present))

    # --- subscriptions

    async def subscribe(self, filters: Sequence[Filter]) -> list[int]:
        """Subscribe; return the broker's reason code for each. Raises `SiteBrokerError`.

        Whoever awaits this goes on before what came behind the last answer is heard: `gather` would be later.
        """
        asked = [self._subscribe(each) for each in filters]
        return [code for answer in asked for code in await answer]

    def _subscribe(self, wanted: Filter) -> "asyncio.Future[list[int]]":
        if not self.v5:
            return self._asked(*self._paho.subscribe(wanted.text, wanted.qos))
        options = SubscribeOptions(
            qos=wanted.qos,
            noLocal=not wanted.own,
            retainAsPublished=not wanted.own,
            retainHandling=0 if wanted.greeted else 1,
        )
        properties = None
        if wanted.id:
            properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
            properties.SubscriptionIdentifier = wanted.id
        return self._asked(*self._paho.subscribe([(wanted.text, options)], properties=properties))

    async def unsubscribe(self, texts: Sequence[str]) -> None:
        for answer in [self._asked(*self._paho.unsubscribe(text)) for text in texts]:
            await answer

    def _asked(self, result: MQTTErrorCode, number: int | None) -> "asyncio.Future[list[int]]":
        if result != MQTTErrorCode.MQTT_ERR_SUCCESS or number is None:
            raise SiteBrokerError(f"the connection to {self._access.address.uri} was lost")
        answer = self._answers[number] = self._loop.create_future()
        return answer

    def _was_subscribed(
        self, _client: object, _data: object, number: int, reasons: list[ReasonCode], _properties: object
    ) -> None:
        answer = self._answers.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result([reason.value for reason in reasons])

    def _was_unsubscribed(self, _client: object, _data: object, number: int, *_rest: object) -> None:
        self._was_subscribed(_client, _data, number, [], None)

    # --- messages

    def post(self, *posts: Post) -> None:
        """Publish, in order, as many at once as the broker takes; in no better quality than it has."""
        self._posts += map(self._as_taken, posts) if self.max_qos < 2 or not self.retains else posts
        self._post_waiting()

    def _as_taken(self, post: Post) -> Post:
        return post._replace(qos=min(post.qos, self.max_qos), retained=post.retained and self.retains)

    def _post_waiting(self) -> None:
        while self._posts and not self._over and (room := self._in_flight - len(self._unanswered)) > 0:
            row = self._next(room)
            try:
                numbers = self._publish(row)
            except (ValueError, OverflowError):
                for post in row:
                    self._loop.call_soon(self._done, post, UNSPEAKABLE)
                continue
            if row[0].qos:
                self._unanswered.update(zip(numbers, row, strict=True))
            else:
                self._loop.call_soon(self._done, row[0], 0)

    def _next(self, most: int) -> list[Post]:
        """The next one, with those behind it that differ by nothing but the payload, if they are plain."""
        first = self._posts[0]
        plain = (first.topic, 1, False, NO_PROPERTIES)
        alike = takewhile(lambda post: (post[0], *post[2:5]) == plain, islice(self._posts, min(most, _ROW)))
        return [self._posts.popleft() for _ in range(sum(1 for _ in alike) or 1)]

    def _done(self, post: Post, code: int) -> None:
        if not self._over:
            post.done(code)

    def _publish(self, row: Sequence[Post]) -> Sequence[int]:
        topic, payload, qos, retained, properties, _ = row[0]
        said = publish_properties(properties) if self.v5 else b""
        if len(row) > 1:
            return self._paho.publish_row(topic, [post.payload for post in row], said)
        return (self._paho.publish_in_bulk(topic, payload, qos, retained, said),)

    def _was_answered(self, numbers: Sequence[int], code: int) -> None:
        posts = [self._unanswered.pop(number, None) for number in numbers]
        for post in posts:  # what is said upon one may have the number of another
            if post:
                self._done(post, code)
        self._post_waiting()

    def _was_given(self, message: Publish) -> None:
        if self._over:
            return
        self._on_message(
            Received(
                message.topic,
                message.payload,
                message.qos,
                message.retain,
                message.again,
                message.packet_id,
                read_properties(message.properties),
                message.properties.get(Name.SUBSCRIPTION_IDENTIFIER, ()),
            )
        )

    def answer(self, *several: Received) -> None:
        """They are in our custody: the broker may forget them."""
        if self._over:
            return
        self._paho.answer_row([received.number for received in several if received.qos == 1])
        for received in several:
            if received.qos == 2:
                self._paho.answer(received.number, 2)

    # --- the end

    def _was_disconnected(
        self, _client: object, _data: object, flags: paho.DisconnectFlags, reason: ReasonCode, _: object
    ) -> None:
        uri = self._access.address.uri
        if flags.is_disconnect_packet_from_server:
            self._end(SiteBrokerError(f"the broker at {uri} ended the connection: {reason}"))
        else:
            self._was_lost()

    def _was_lost(self) -> None:
        hint = "" if self._connected.done() or not self._access.tls else f" before it answered; {CERTIFICATE}"
        text = f"the connection to the broker at {self._access.address.uri} was lost{hint}"
        self._end(SiteBrokerError(text))

    def _end(self, error: SiteBrokerError) -> None:
        if self._over:
            return
        is_open = self._connected.done() and self._connected.exception() is None
        for waiting in self._waiting():
            if not waiting.done():
                waiting.set_exception(error)
        self._drop()
        if is_open:  # else `open` says so, or says why the broker refused
            self._on_lost(error)

    def _waiting(self) -> "list[asyncio.Future[Any]]":
        return [self._connected, *self._answers.values()]

    def _drop(self) -> None:
        self._over = True
        self._watch.end()
        for waiting in self._waiting():
            if waiting.done() and not waiting.cancelled():
                waiting.exception()

    async def close(self) -> None:
        """Say goodbye."""
        if self._over:
            return
        self._over = True
        self._paho.disconnect()
        with contextlib.suppress(OSError):
            self._paho.loop_write()
        self._drop()
