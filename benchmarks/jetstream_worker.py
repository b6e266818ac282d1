"""A producer or consumer on NATS JetStream: `python -m benchmarks.jetstream_worker produce TASK`.

The consumer makes the streams first (with nats-py): the entry's takes the subjects, each further one sources
the one before it. It reads with a pull consumer and acknowledges everything that one read brought with the
last of it. Messages themselves go through `raw_nats`. The producer has at most `_PENDING` unconfirmed.
"""

import asyncio
import sys
import time

import nats
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import AckPolicy, ConsumerConfig, ExternalStream, StreamConfig, StreamSource
from nats.js.errors import APIError

from benchmarks import payloads, worker
from benchmarks.jetstream_chain import NAMES, SUBJECTS, stream_name
from benchmarks.raw_nats import RawNats
from benchmarks.worker import Tally, Task

_PENDING = 16_384
_PULL = 10_000
_WRITE = 64
_FIRST_PATIENCE = 20.0
_CONFIRM_TIME = 300.0


class Producer:
    """Sends with a window of confirmations; each confirmation is looked at for an error."""

    def __init__(self) -> None:
        self._connection = RawNats(self._confirmed)
        self._moved = asyncio.Event()
        self.sent = self.confirmed = 0
        self.refused = b""

    def __repr__(self) -> str:
        return f"<Producer sent={self.sent} confirmed={self.confirmed}>"

    async def open(self, url: str) -> None:
        await self._connection.open(url)
        self._connection.write(b"SUB _CONFIRM 1\r\n")

    def _confirmed(self, found: list[tuple[bytes, bytes]]) -> None:
        for payload, _ in found:
            if b'"error"' in payload:
                self.refused = payload
        self.confirmed += len(found)
        self._moved.set()

    async def send(self, commands: list[bytes]) -> None:
        self._connection.write(b"".join(commands))
        self.sent += len(commands)
        await self._connection.drain()
        await self._until(self.sent - _PENDING)

    async def finish(self) -> None:
        async with asyncio.timeout(_CONFIRM_TIME):
            await self._until(self.sent)
        self._connection.close()

    async def _until(self, confirmed: int) -> None:
        await asyncio.sleep(0)
        while self.confirmed < confirmed:
            self._moved.clear()
            await self._moved.wait()
        if self.refused or self._connection.error:
            raise RuntimeError(f"refused: {self.refused!r} {self._connection.error}")


def _publish(name: str, payload: bytes) -> bytes:
    return b"PUB sales.%s _CONFIRM %d\r\n%s\r\n" % (name.encode(), len(payload), payload)


async def produce(task: Task) -> None:
    producer = Producer()
    await producer.open(task.url)
    if task.rate:
        await _produce_paced(task, producer)
        return
    made = worker.batches(task, payloads.make(task.kind, task.count))
    messages = [(name, message) for name, part in made for message in part]
    worker.say(ready=True)
    worker.wait_for_go()
    start, cpu = time.monotonic(), worker.cpu()
    for first in range(0, len(messages), _WRITE):
        await producer.send([_publish(*message) for message in messages[first : first + _WRITE]])
    await producer.finish()
    worker.say(start=start, end=time.monotonic(), cpu=worker.cpu() - cpu)


async def _produce_paced(task: Task, producer: Producer) -> None:
    names = worker.destinations(task)
    worker.say(ready=True)
    worker.wait_for_go()
    queue = await worker.paced(task)
    start, cpu = time.monotonic(), worker.cpu()
    for index in range(task.count):
        await producer.send([_publish(names[index % len(names)], await queue.get())])
    await producer.finish()
    worker.say(start=start, end=time.monotonic(), cpu=worker.cpu() - cpu)


class Consumer:
    """Pulls, tallies, acknowledges."""

    def __init__(self, stream: str, tally: Tally) -> None:
        self._connection = RawNats(self._arrived)
        self._pull = (
            f"PUB $JS.API.CONSUMER.MSG.NEXT.{stream}.consumer _DELIVER ".encode()
            + b'%d\r\n{"batch":%d,"expires":600000000000}\r\n' % (len(str(_PULL)) + 33, _PULL)
        )
        self._tally = tally
        self._asked = 0

    def __repr__(self) -> str:
        return f"<Consumer {self._tally!r}>"

    async def open(self, url: str) -> None:
        await self._connection.open(url)
        self._connection.write(b"SUB _DELIVER 1\r\n")
        self._ask()

    def _ask(self) -> None:
        while self._asked <= _PULL:
            self._connection.write(self._pull)
            self._asked += _PULL

    def _arrived(self, found: list[tuple[bytes, bytes]]) -> None:
        self._tally.take([payload for payload, _ in found])
        self._asked -= len(found)
        self._connection.write(b"PUB %s 4\r\n+ACK\r\n" % found[-1][1])
        self._ask()

    def close(self) -> None:
        self._connection.close()


async def consume(task: Task) -> None:
    way = NAMES if task.options["at"] == NAMES[-1] else NAMES[::-1]
    await _make_streams(task, way)
    await _make_consumer(task, stream_name(way[-1]))
    tally = Tally(task)
    consumer = Consumer(stream_name(way[-1]), tally)
    await consumer.open(task.url)
    worker.say(ready=True)
    await tally.wait()
    worker.say(**tally.report())
    consumer.close()


async def _make_consumer(task: Task, stream: str) -> None:
    connection = await nats.connect(task.url)
    settings = ConsumerConfig(durable_name="consumer", ack_policy=AckPolicy.ALL, max_ack_pending=4 * _PULL)
    await connection.jetstream(timeout=10).add_consumer(stream, settings)
    await connection.close()


async def _make_streams(task: Task, way: tuple[str, ...]) -> None:
    """`way`: nodes from the entry to the exit."""
    for index, node in enumerate(way):
        connection = await nats.connect(task.options[node])
        stream = connection.jetstream(timeout=10)
        settings = StreamConfig(name=stream_name(node))
        if index:
            before = way[index - 1]
            external = ExternalStream(api=f"$JS.{before}.API", deliver=f"deliver.{node}")
            settings.sources = [StreamSource(name=stream_name(before), external=external)]
        else:
            settings.subjects = [SUBJECTS]
        await _patiently(stream, settings)
        await connection.close()


async def _patiently(stream: "nats.js.JetStreamContext", settings: StreamConfig) -> None:
    """A server that has just started may not have its JetStream yet."""
    end = time.monotonic() + _FIRST_PATIENCE
    while True:
        try:
            await stream.add_stream(settings)
        except (APIError, NatsTimeout, NoRespondersError):
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)
        else:
            return


if __name__ == "__main__":
    what, given = worker.task_of(sys.argv)
    worker.run(produce(given) if what == "produce" else consume(given))
