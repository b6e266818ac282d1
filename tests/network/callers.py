"""Plain programs that ask and answer, with paho-mqtt and pika and nothing of ours.

A responder answers each request where the request says, as its protocol has it, in a thread of its own. A
requester asks and waits for the answer, one request after the other, and tells how long it took.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import paho.mqtt.client as paho
import pika
from mosquitto_server import MosquittoServer
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from rabbitmq_site import Applications

PATIENCE = 180.0
DIRECT = "amq.rabbitmq.reply-to"


# --- MQTT 5


class MqttProgram:
    """One connection, its callbacks in paho's thread. A context manager."""

    def __init__(self, server: MosquittoServer, name: str) -> None:
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
        self._port = server.port
        self._subscribed = threading.Event()
        self.paho.on_subscribe = lambda *_: self._subscribed.set()

    def __enter__(self) -> Self:
        self.paho.connect("127.0.0.1", self._port)
        self.paho.loop_start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def read(self, text: str) -> None:
        """Subscribe; returns when the broker has granted it."""
        self._subscribed.clear()
        self.paho.subscribe(text, 1)
        assert self._subscribed.wait(PATIENCE), f"{text} is not granted"


class MqttResponder(MqttProgram):
    """Answers what comes for a filter. `unanswerable`: requests that name no response topic."""

    def __init__(self, server: MosquittoServer, name: str, text: str) -> None:
        super().__init__(server, name)
        self._text = text
        self.unanswerable: list[bytes] = []
        self.paho.on_message = self._came

    def __enter__(self) -> Self:
        super().__enter__()
        self.read(self._text)
        return self

    def _came(self, _client: object, _data: object, message: paho.MQTTMessage) -> None:
        said: Any = message.properties
        topic = getattr(said, "ResponseTopic", "")
        if not topic:
            self.unanswerable.append(message.payload)
            return
        given = Properties(PacketTypes.PUBLISH)
        if hasattr(said, "CorrelationData"):
            given.CorrelationData = said.CorrelationData
        self.paho.publish(topic, b"answer to " + message.payload, qos=1, properties=given)


class MqttRequester(MqttProgram):
    """Asks at a topic. `place(number)`: where it wants to be answered; `reads(place)`: by which filter."""

    def __init__(
        self,
        server: MosquittoServer,
        name: str,
        place: Callable[[int], str],
        reads: Callable[[str], str] = lambda place: place,
    ) -> None:
        super().__init__(server, name)
        self._place, self._reads = place, reads
        self._answers: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.paho.on_message = lambda _client, _data, message: self._answers.put(
            (message.topic, bytes(message.payload))
        )

    def ask(self, topic: str, number: int) -> float:
        """One request; returns how long the answer took. Raises `AssertionError` if there is none."""
        place, body = self._place(number), b"%d" % number
        self.read(self._reads(place))
        given = Properties(PacketTypes.PUBLISH)
        given.ResponseTopic, given.CorrelationData = place, body
        began = time.monotonic()
        self.paho.publish(topic, body, qos=1, properties=given)
        try:
            answered = self._answers.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"request {number} to {topic} is not answered at {place}") from None
        assert answered == (place, b"answer to " + body)
        took = time.monotonic() - began
        self.paho.unsubscribe(self._reads(place))
        return took


# --- AMQP


class AmqpResponder:
    """Answers what comes into a queue, which may be bound to `amq.topic`. A context manager."""

    def __init__(self, site: Applications, name: str, *keys: str) -> None:
        self._site, self._name, self._keys = site, name, keys
        self.unanswerable: list[bytes] = []
        self._over, self._there = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._there.wait(PATIENCE)
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        channel = self._site.channel()
        channel.queue_declare(self._name, durable=True)
        for key in self._keys:
            channel.queue_bind(self._name, "amq.topic", key)
        channel.basic_consume(self._name, self._came)
        self._there.set()
        while not self._over.is_set():
            channel.connection.process_data_events(0.05)

    def _came(self, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        if properties.reply_to:
            said = pika.BasicProperties(correlation_id=properties.correlation_id, delivery_mode=2)
            channel.basic_publish("", properties.reply_to, b"answer to " + body, said)
        else:
            self.unanswerable.append(body)
        channel.basic_ack(method.delivery_tag)


class AmqpRequester:
    """Asks with each form of `reply_to`. It runs in the caller's thread, on a connection of its own.

    `form`: `own` (a named durable queue), `polled` (likewise, with `basic_get`), `exclusive` (a queue that
    the broker names, for each request), or `direct` (`amq.rabbitmq.reply-to`, on a channel for each request).
    """

    def __init__(self, site: Applications, form: str) -> None:
        self._connection = site.channel().connection
        self._form = form
        self._answers: list[bytes] = []
        self._name = f"answers-{form}"
        self._channel = self._connection.channel()
        if form in ("own", "polled"):
            self._channel.queue_declare(self._name, durable=True)
        if form == "own":
            self._consume(self._channel, self._name)

    def _consume(self, channel: Any, name: str) -> None:
        channel.basic_consume(name, lambda _channel, _method, _said, body: self._came(body), auto_ack=True)

    def _came(self, body: bytes) -> None:
        self._answers.append(body)

    def ask(self, name: str, number: int, exchange: str = "") -> float:
        """One request to a queue, or to a key of an exchange; returns how long the answer took."""
        body = b"%d" % number
        channel, reply_to = self._channel, self._name
        if self._form == "exclusive":
            channel = self._connection.channel()
            reply_to = channel.queue_declare("", exclusive=True).method.queue
            self._consume(channel, reply_to)
        elif self._form == "direct":
            channel, reply_to = self._connection.channel(), DIRECT
            self._consume(channel, reply_to)
        began = time.monotonic()
        said = pika.BasicProperties(reply_to=reply_to, correlation_id=str(number), delivery_mode=2)
        channel.basic_publish(exchange, name, body, said)
        while not self._answers:
            over = time.monotonic() > began + PATIENCE
            assert not over, f"request {number} to {name} is not answered ({self._form})"
            self._connection.process_data_events(0.005)
            if self._form == "polled" and (got := channel.basic_get(reply_to, auto_ack=True))[0]:
                self._came(got[2])
        assert self._answers == [b"answer to " + body]
        self._answers.clear()
        if channel is not self._channel:
            channel.close()
        return time.monotonic() - began
