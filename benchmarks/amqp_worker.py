"""A producer or consumer at an unmodified RabbitMQ: `python -m benchmarks.amqp_worker produce TASK`.

Persistent messages to a durable queue, confirmed, at most `_WINDOW` unconfirmed; acknowledged together.
"""

import asyncio
import sys
import time
from typing import Any

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.spec import Basic

from benchmarks import payloads, worker
from benchmarks.worker import Tally, Task

QUEUE = "sales"
_WINDOW = 1000
_TOGETHER = 50
_PREFETCH = 2000


class Client:
    """One connection with one channel."""

    def __init__(self, exchange: str = "") -> None:
        self._exchange = exchange
        self.channel: Any = None
        self.confirmed = self.sent = 0
        self._moved = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Client sent={self.sent} confirmed={self.confirmed}>"

    async def open(self, url: str) -> None:
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Any] = loop.create_future()

        def failed(_connection: Any, error: Any) -> None:
            if not opened.done():
                opened.set_exception(RuntimeError(str(error)))

        parameters = pika.URLParameters(url)
        self.connection = AsyncioConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=opened.set_result),
            on_open_error_callback=failed,
            on_close_callback=failed,
            custom_ioloop=loop,
        )
        self.channel = await opened

    async def call(self, method: str, **arguments: Any) -> None:
        done = asyncio.get_running_loop().create_future()
        getattr(self.channel, method)(**arguments, callback=done.set_result)
        await done

    async def confirm(self) -> None:
        done = asyncio.get_running_loop().create_future()
        self.channel.confirm_delivery(self._confirmed, callback=done.set_result)
        await done

    def _confirmed(self, frame: Any) -> None:
        if not isinstance(frame.method, Basic.Ack):
            raise RuntimeError("RabbitMQ refused a message")
        self.confirmed = frame.method.delivery_tag if frame.method.multiple else self.confirmed + 1
        self._moved.set()

    def publish(self, payload: bytes) -> None:
        self.sent += 1
        self.channel.basic_publish(self._exchange, QUEUE, payload, _PERSISTENT)

    async def drain(self, unconfirmed: int) -> None:
        await asyncio.sleep(0)
        while self.sent - self.confirmed > unconfirmed:
            self._moved.clear()
            await self._moved.wait()


_PERSISTENT = pika.BasicProperties(delivery_mode=2)


async def produce(task: Task) -> None:
    client = Client(task.options.get("exchange", ""))
    await client.open(task.url)
    await client.call("queue_declare", queue=QUEUE, durable=True)
    await client.confirm()
    made = [] if task.rate else payloads.make(task.kind, task.count)
    worker.say(ready=True)
    worker.wait_for_go()
    queue = await worker.paced(task) if task.rate else None
    start, cpu = time.monotonic(), worker.cpu()
    if queue is not None:
        for _ in range(task.count):
            client.publish(await queue.get())
            await client.drain(_WINDOW)
    for first in range(0, len(made), _TOGETHER):
        for payload in made[first : first + _TOGETHER]:
            client.publish(payload)
        await client.drain(_WINDOW)
    await client.drain(0)
    worker.say(start=start, end=time.monotonic(), cpu=worker.cpu() - cpu)


async def consume(task: Task) -> None:
    client, tally, gathered = Client(), Tally(task), []
    await client.open(task.url)
    await client.call("queue_declare", queue=QUEUE, durable=True)
    await client.call("basic_qos", prefetch_count=_PREFETCH)
    loop = asyncio.get_running_loop()

    def flush() -> None:
        tally.take([payload for _, payload in gathered])
        client.channel.basic_ack(gathered[-1][0], multiple=True)
        gathered.clear()

    def message(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        if not gathered:
            loop.call_soon(flush)
        gathered.append((method.delivery_tag, body))

    await client.call("basic_consume", queue=QUEUE, on_message_callback=message)
    worker.say(ready=True)
    await tally.wait()
    worker.say(**tally.report())


def _run(main: Any) -> None:
    """pika's adapter wants asyncio's own loop."""
    asyncio.run(main)


if __name__ == "__main__":
    what, given = worker.task_of(sys.argv)
    _run(produce(given) if what == "produce" else consume(given))
