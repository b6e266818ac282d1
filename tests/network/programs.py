"""Plain programs of a site, with paho-mqtt and pika and nothing of ours, that outlive any broker.

Each connects again by itself and goes on with what was not answered, as a careful application does. A
producer knows what it had to send twice; a consumer writes down what it was given, and what that said of
itself.

Law: `acknowledged` has what the site's broker has answered for, and nothing else.
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from typing import Any, NamedTuple, Self

import paho.mqtt.client as paho
import pika
from mosquitto_server import MosquittoServer
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from rabbitmq_server import RabbitServer

PATIENCE = 180.0
AGAIN = "sapwood-again"
_ALL = 20
_DAY = 86_400


class Copy(NamedTuple):
    """One message as an application got it. `redelivered`: its broker said so; `again`: the node did.

    `at`: on the clock of `time.monotonic`.
    """

    body: str
    redelivered: bool
    again: bool
    at: float


class Consumer:
    """Receives and acknowledges, in a thread of its own. `kills`: when the node of its site was killed.

    `hears_doubts`: its protocol has a place where the node says that this may be a repetition.
    """

    hears_doubts = True

    def __init__(self) -> None:
        self.copies: list[Copy] = []
        self.kills: list[float] = []

    @property
    def bodies(self) -> list[str]:
        return [copy.body for copy in self.copies]

    def was_killed_between(self, body: str) -> bool:
        """Was the node killed between two copies of this? What it gave may come a moment after its end."""
        times = [copy.at for copy in self.copies if copy.body == body]
        return any(min(times) - 1 < kill < max(times) for kill in self.kills) if times else False


class Producer:
    """Sends one message after the other. `repeated`: sent again for want of an answer."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.repeated: set[str] = set()


# --- MQTT


class _Mqtt:
    def __init__(self, server: MosquittoServer, name: str, version: MQTTProtocolVersion) -> None:
        self._v5 = version == MQTTProtocolVersion.MQTTv5
        clean = None if self._v5 else False
        self._paho = paho.Client(CallbackAPIVersion.VERSION2, name, clean_session=clean, protocol=version)
        self._paho.reconnect_delay_set(1, 1)
        self._server = server
        self._there = threading.Event()

    def __enter__(self) -> Self:
        kept: Any = {}
        if self._v5:
            session = Properties(PacketTypes.CONNECT)
            session.SessionExpiryInterval = _DAY
            kept = {"clean_start": False, "properties": session}
        self._paho.connect_async("127.0.0.1", self._server.port, keepalive=10, **kept)  # which tries again
        self._paho.loop_start()
        assert self._there.wait(PATIENCE), "the broker does not answer"
        return self

    def __exit__(self, *exception: object) -> None:
        self._paho.disconnect()
        self._paho.loop_stop()


class MqttConsumer(_Mqtt, Consumer):
    """Reads filters at QoS 1, in a session that the broker keeps."""

    def __init__(
        self,
        server: MosquittoServer,
        name: str,
        *filters: str,
        version: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5,
    ) -> None:
        Consumer.__init__(self)
        _Mqtt.__init__(self, server, name, version)
        self.hears_doubts = self._v5
        self._filters = filters
        self._paho.on_connect = lambda client, *_: client.subscribe([(text, 1) for text in self._filters])
        self._paho.on_subscribe = lambda *_: self._there.set()
        self._paho.on_message = self._came

    def _came(self, _client: object, _data: object, message: paho.MQTTMessage) -> None:
        said = getattr(message.properties, "UserProperty", ()) if message.properties else ()
        self.copies.append(Copy(message.payload.decode(), message.dup, AGAIN in dict(said), time.monotonic()))


class MqttProducer(_Mqtt, Producer):
    """Publishes to one topic at QoS 1. paho repeats by itself what has no answer when a connection ends."""

    def __init__(self, server: MosquittoServer, name: str, topic: str) -> None:
        Producer.__init__(self)
        _Mqtt.__init__(self, server, name, MQTTProtocolVersion.MQTTv5)
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, str] = {}
        self._paho.max_inflight_messages_set(_ALL)
        self._paho.on_connect = lambda *_: self._there.set()
        self._paho.on_publish = lambda _client, _data, number, *_: self._say(self._answered, number)
        self._paho.on_disconnect = lambda *_: self._say(self._lost)

    def _say(self, call: Any, *arguments: Any) -> None:
        """Wrinkle: paho holds a lock in its callbacks that `publish` wants too."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _answered(self, number: int) -> None:
        self.acknowledged.append(self._open.pop(number))

    def _lost(self) -> None:
        self.repeated.update(self._open.values())

    async def send(self, body: str) -> None:
        """Hand it to paho, once fewer than `_ALL` have no answer."""
        await _until(lambda: len(self._open) < _ALL, "answered by the broker")
        self._open[self._paho.publish(self._topic, body, qos=1).mid] = body

    async def finish(self) -> None:
        await _until(lambda: not self._open, "answered by the broker")


# --- AMQP


class AmqpConsumer(Consumer):
    """Reads a durable queue, which may be bound to `amq.topic`, with manual acknowledgements."""

    def __init__(self, server: RabbitServer, queue: str, *keys: str) -> None:
        super().__init__()
        self._server, self._queue, self._keys = server, queue, keys
        self._over, self._there = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._there.wait(PATIENCE), "the broker does not answer"
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(pika.exceptions.AMQPError, OSError):
                self._read()
            self._over.wait(0.1)

    def _read(self) -> None:
        with self._server.connect() as connection:
            channel = connection.channel()
            channel.queue_declare(self._queue, durable=True)
            for key in self._keys:
                channel.queue_bind(self._queue, "amq.topic", key)
            channel.basic_consume(self._queue, self._came)
            self._there.set()
            while not self._over.is_set():
                connection.process_data_events(0.05)

    def _came(self, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        again = AGAIN in (properties.headers or {})
        self.copies.append(Copy(body.decode(), method.redelivered, again, time.monotonic()))
        channel.basic_ack(method.delivery_tag)


class AmqpProducer(Producer):
    """Publishes persistent messages with ids to one queue, each when the one before it is confirmed."""

    def __init__(self, server: RabbitServer, queue: str) -> None:
        super().__init__()
        self._server, self._queue = server, queue
        self._connection: pika.BlockingConnection | None = None
        self._channel: Any = None

    def __enter__(self) -> Self:
        with contextlib.suppress(pika.exceptions.AMQPError, OSError):  # killed now: a message tries again
            self._connect()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._connection is not None:
            with contextlib.suppress(pika.exceptions.AMQPError):
                self._connection.close()

    def _connect(self) -> None:
        self._connection = self._server.connect()
        self._channel = self._connection.channel()
        self._channel.queue_declare(self._queue, durable=True)
        self._channel.confirm_delivery()

    async def send(self, body: str) -> None:
        await asyncio.to_thread(self._send, body)

    def _send(self, body: str) -> None:
        said = pika.BasicProperties(delivery_mode=2, message_id=f"{self._queue} {body}")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if self._channel is None:
                    self._connect()
                self._channel.basic_publish("", self._queue, body.encode(), said)
                self.acknowledged.append(body)
                return
            except (pika.exceptions.AMQPError, OSError):
                assert time.monotonic() < deadline, f"{self._server} does not take {body}"
                self._channel = None
                self.repeated.add(body)
                time.sleep(0.1)

    async def finish(self) -> None:
        """Each has its answer already."""


# --- what came of it


class Account(NamedTuple):
    """What became of one producer's messages at one consumer, or at several that share them.

    `twice`: copies beyond the first. Of these, `sent_again` by the producer; `flagged`: their broker or
    the node said that they may be repetitions; `unheard`: the consumer's own node was killed between them,
    and MQTT 3.1.1 has no place for what it says then; `unexplained`: nothing of these.
    """

    sent: int
    lost: list[str]
    twice: int
    sent_again: int
    flagged: int
    unheard: int
    unexplained: list[str]

    @classmethod
    def of(cls, producer: Producer, *consumers: Consumer) -> Self:
        copies = [copy for consumer in consumers for copy in consumer.copies]
        came = Counter(copy.body for copy in copies)
        flags = Counter(copy.body for copy in copies if copy.redelivered or copy.again)
        sent_again = flagged = unheard = 0
        deaf = [consumer for consumer in consumers if not consumer.hears_doubts]
        unexplained = []
        for body, count in came.items():
            beyond = count - 1
            by_flag = min(beyond, flags[body])
            by_producer = min(beyond - by_flag, body in producer.repeated)
            flagged, sent_again = flagged + by_flag, sent_again + by_producer
            rest = beyond - by_flag - by_producer
            if rest and any(consumer.was_killed_between(body) for consumer in deaf):
                unheard, rest = unheard + rest, 0
            unexplained += [body] * rest
        lost = [body for body in producer.acknowledged if not came[body]]
        twice = came.total() - len(came)
        return cls(len(producer.acknowledged), lost, twice, sent_again, flagged, unheard, unexplained)

    def __str__(self) -> str:
        words = f"{self.sent} acknowledged, {len(self.lost)} lost, {self.twice} came twice"
        causes = f"{self.flagged} flagged, {self.unheard} where MQTT 3.1.1 has no flag"
        return f"{words} ({causes}, {self.sent_again} sent twice)"


async def until_came(producer: Producer, *consumers: Consumer) -> None:
    """Wait until consumers together have all that was acknowledged."""

    def missing() -> set[str]:
        return set(producer.acknowledged) - {body for consumer in consumers for body in consumer.bodies}

    deadline = time.monotonic() + PATIENCE
    while missing():
        assert time.monotonic() < deadline, f"{len(missing())} never came: {sorted(missing())[:10]}"
        await asyncio.sleep(0.05)


async def _until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not {what} in time"
        await asyncio.sleep(0.005)
