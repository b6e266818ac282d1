"""One application of a site, as a process of its own: it sends or receives, and writes down what it was told.

    python application.py JOURNAL '{"url": "http://127.0.0.1:7600", "role": "producer", …}'

It uses the client library as any application does and knows nothing of nodes. SIGTERM ends it: a producer
finishes what it has begun first. Started again after SIGKILL it goes on under its names: a producer with the
number after the last that its node has. The journal has a line for each event, `checker` reads it:

    begun AT                      the process has started, maybe again
    sent FLOW FIRST LAST AT       these numbers are about to be handed to the node
    confirmed FLOW FIRST LAST AT  the node has confirmed them
    refused FLOW FIRST LAST AT    the node has refused some of them
    got FLOW NUMBER AT MARKED     one came; MARKED is 1 where it may be a repetition
    asked FLOW NUMBER AT          a call has begun
    answered FLOW NUMBER AT TEXT  it has ended, `ok` or the error's name
    ready AT, end AT

Law: a receipt is in the journal before it is acknowledged; times are those of the machine's monotonic clock.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from sapwood import Client, Rpc, connect, current_request
from sapwood.errors import ClientError, SendRejected

PATIENCE = 300.0
LONGEST_CALL = 240.0


class Journal:
    """Lines that outlive this process: each is handed to the system at once."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def next_number(file: Path, word: str, flow: str, field: int) -> int:
    """The number after the last one of a flow that stands in a journal in lines of this word."""
    number = 0
    for line in file.read_text().splitlines():
        words = line.split(" ")
        if words[:2] == [word, flow]:
            number = max(number, int(words[field]) + 1)
    return number


class Application:
    """What one process does. `told`: its flows and how it goes about them, see `chain`."""

    def __init__(self, file: Path, told: dict[str, Any]) -> None:
        self.file = file
        self.journal = Journal(file)
        self.told = told
        self.enough = asyncio.Event()

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.enough.set)
        self.journal.write("begun", time.monotonic())
        async with AsyncExitStack() as clients, asyncio.TaskGroup() as group:
            await {"producer": self.produce, "consumer": self.consume}[self.told["role"]](clients, group)
            self.journal.write("ready", time.monotonic())
            await self.enough.wait()
        self.journal.write("end", time.monotonic())

    async def _client(self, clients: AsyncExitStack, *names: str) -> Client:
        """A session and a stream of sends that go on after a restart."""
        name = "-".join((self.told["name"], *names))
        client = connect(self.told["url"], session=name, producer=name, timeout=PATIENCE)
        return await clients.enter_async_context(client)

    # --- sending

    async def produce(self, clients: AsyncExitStack, group: asyncio.TaskGroup) -> None:
        for flow, destination in self.told.get("sends", {}).items():
            group.create_task(self._send(await self._client(clients, flow), flow, destination))
        calls = self.told.get("calls", {})
        if calls:
            group.create_task(self._call_all(await self._client(clients), calls))

    def _chance(self, flow: str, number: int) -> random.Random:
        return random.Random(f"{self.told['seed']} {flow} {number}")

    async def _send(self, client: Client, flow: str, destination: str) -> None:
        """A flow is a producer of its own, so its numbers are the producer's, less one: what was under way
        when this process was killed is known to the node, or is sent under the same numbers.
        """
        number, rate = client.committed, self.told["rate"]
        chance = self._chance(flow, number)
        while not self.enough.is_set():
            count = chance.randint(1, 20)
            first, last = number, number + count - 1
            payloads = [f"{flow} {each}".encode() for each in range(first, last + 1)]
            self.journal.write("sent", flow, first, last, time.monotonic())
            try:
                await client.send_many(destination, payloads)
                self.journal.write("confirmed", flow, first, last, time.monotonic())
            except SendRejected:
                self.journal.write("refused", flow, first, last, time.monotonic())
            number += count
            await asyncio.sleep(chance.uniform(0, 2 * count / rate))

    async def _call_all(self, client: Client, calls: dict[str, str]) -> None:
        async with Rpc(client, timeout=LONGEST_CALL) as rpc, asyncio.TaskGroup() as group:
            for flow, queue in calls.items():
                group.create_task(self._call(rpc, flow, queue))

    async def _call(self, rpc: Rpc, flow: str, queue: str) -> None:
        """One call after the other, in a few lines at once, so that one which waits does not hold up all."""
        number = next_number(self.file, "asked", flow, 2)
        chance = self._chance(flow, number)
        running: set[asyncio.Task[None]] = set()
        while not self.enough.is_set():
            if len(running) < 50:
                task = asyncio.create_task(self._one_call(rpc, flow, queue, number))
                running.add(task)
                task.add_done_callback(running.discard)
                number += 1
            await asyncio.sleep(chance.uniform(0, 0.4))
        await asyncio.gather(*running)

    async def _one_call(self, rpc: Rpc, flow: str, queue: str, number: int) -> None:
        self.journal.write("asked", flow, number, time.monotonic())
        try:
            result = await rpc.call(queue, "double", number=number)
            said = "ok" if result == 2 * number else f"wrong:{result}"
        except (ClientError, SendRejected) as error:
            said = type(error).__name__
        self.journal.write("answered", flow, number, time.monotonic(), said)

    # --- receiving

    async def consume(self, clients: AsyncExitStack, group: asyncio.TaskGroup) -> None:
        client, tasks = await self._client(clients), []
        for destination, durable in self.told.get("reads", {}).items():
            if destination.startswith("queue:"):
                await client.create(destination.removeprefix("queue:"))
            subscription = await client.subscribe(destination, durable=durable).ready()
            tasks.append(group.create_task(self._read(subscription)))
        for queue in self.told.get("serves", ()):
            server = Rpc(client).serve(queue, {"double": self._double})
            await server.open()
            tasks.append(group.create_task(self._serve(server)))
        group.create_task(self._until_enough(tasks))

    async def _until_enough(self, tasks: list[asyncio.Task[None]]) -> None:
        await self.enough.wait()
        for task in tasks:
            task.cancel()

    async def _serve(self, server: Any) -> None:
        try:
            await server.run()
        finally:
            await server.close()

    async def _read(self, subscription: Any) -> None:
        async for delivery in subscription:
            flow, number = delivery.payload.decode().split()
            self.journal.write("got", flow, number, time.monotonic(), int(delivery.redelivered))
            delivery.ack()

    async def _double(self, number: int) -> int:
        request = current_request()
        self.journal.write("handled", request.key, number, time.monotonic(), int(request.redelivered))
        return 2 * number


if __name__ == "__main__":
    asyncio.run(Application(Path(sys.argv[1]), json.loads(sys.argv[2])).run())
