"""Clients of one node's switch: `python -m benchmarks.switch_worker TASK`, told what to do line by line.

Over HTTP they are as cheap as Python allows: bytes written by hand, answers read by their Content-Length.
"""

import asyncio
import json
import sys
import time
from typing import Any, Final

import msgspec

import sapwood
from benchmarks import worker
from benchmarks.worker import percentile

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"Content-Length: "


class SwitchTask(msgspec.Struct):
    """`way`: http, general, pipelined, stream, flood or wake. `others`: blocked transfers beside the one that
    is woken; `same_queue`: whether they read the same queue.
    """

    port: int
    way: str
    clients: int = 1
    messages: int = 1000
    others: int = 0
    same_queue: bool = False


class Http(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._data = b""
        self._waiting: list[asyncio.Future[bytes]] = []
        self._transport: Any = None

    async def open(self, port: int, token: str) -> "Http":
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)
        await self.ask(f"/login/{token}")
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(_END)) >= 0:
            place = self._data.find(_LENGTH, 0, end) + len(_LENGTH)
            whole = end + 4 + int(self._data[place : self._data.find(b"\r", place)])
            if len(self._data) < whole:
                return
            head, body, self._data = self._data[:end], self._data[end + 4 : whole], self._data[whole:]
            future = self._waiting.pop(0)
            if head.startswith(b"HTTP/1.1 200"):
                future.set_result(body)
            else:
                future.set_exception(RuntimeError(f"{head!r} {body!r}"))

    def ask(self, path: str, body: bytes | None = None) -> "asyncio.Future[bytes]":
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if body is None:
            self._transport.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        else:
            head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
            self._transport.write(head.encode() + body)
        return future


class Times:
    """Nanoseconds of each step, over all clients."""

    def __init__(self) -> None:
        self.steps: dict[str, list[int]] = {}

    def add(self, step: str, since: int) -> int:
        now = time.perf_counter_ns()
        self.steps.setdefault(step, []).append(now - since)
        return now

    def report(self) -> dict[str, dict[str, float]]:
        return {
            step: {
                "p50_ms": percentile(sorted(times), 0.5) / 1e6,
                "p99_ms": percentile(sorted(times), 0.99) / 1e6,
            }
            for step, times in self.steps.items()
        }


PAYLOAD: Final = b"x" * 256


async def http_client(task: SwitchTask, number: int, times: Times) -> Any:
    """Send, transfer and acknowledge, one after the other, over and over."""
    link = await Http().open(task.port, f"client-{number}")
    if task.way == "general":
        await link.ask("/healthz")
    queue = (await link.ask("/create")).decode()
    await link.ask(f"/subscribe/{queue}")

    async def cycle(count: int) -> None:
        seen = -1
        for index in range(count):
            began = at = time.perf_counter_ns()
            await link.ask(f"/send/{queue}/{index}", PAYLOAD)
            at = times.add("send", at)
            ((seen, _),) = json.loads(await link.ask(f"/transfer/{seen}/30"))["messages"]
            at = times.add("transfer", at)
            await link.ask(f"/ack/{seen}")
            times.add("ack", at)
            times.add("all", began)

    return cycle


async def pipelined_client(task: SwitchTask, number: int, times: Times) -> Any:
    """64 sends are under way together, then 64 acknowledgements."""
    link = await Http().open(task.port, f"client-{number}")
    queue = (await link.ask("/create")).decode()
    await link.ask(f"/subscribe/{queue}")

    async def cycle(count: int) -> None:
        seen = -1
        for start in range(0, count, 64):
            began = time.perf_counter_ns()
            size = min(64, count - start)
            await asyncio.gather(*(link.ask(f"/send/{queue}/{index}", PAYLOAD) for index in range(size)))
            found: list[int] = []
            while len(found) < size:
                body = json.loads(await link.ask(f"/transfer/{seen}/30"))
                found += [got for got, _ in body["messages"]]
                seen = found[-1]
            await asyncio.gather(*(link.ask(f"/ack/{got}") for got in found))
            times.add("all", began)

    return cycle


async def stream_client(task: SwitchTask, number: int, times: Times) -> Any:
    """The same over the streaming session: confirmed send, delivery, acknowledgement."""
    client = await sapwood.connect(f"http://127.0.0.1:{task.port}", session=f"client-{number}").open()
    queue = f"queue:{await client.create()}"
    deliveries = await client.subscribe(queue).ready()

    async def cycle(count: int) -> None:
        for _ in range(count):
            began = at = time.perf_counter_ns()
            await client.send(queue, PAYLOAD)
            at = times.add("send", at)
            delivery = await anext(deliveries)
            times.add("transfer", at)
            delivery.ack()
            times.add("all", began)

    return cycle


async def flood_client(task: SwitchTask, number: int, times: Times) -> Any:
    """As fast as it goes: everything is sent at once, and taken in batches."""
    client = await sapwood.connect(f"http://127.0.0.1:{task.port}", session=f"client-{number}").open()
    queue = f"queue:{await client.create()}"
    deliveries = await client.subscribe(queue, credit=20_000).ready()

    async def cycle(count: int) -> None:
        began = time.perf_counter_ns()
        sending = asyncio.create_task(client.send_many(queue, [PAYLOAD] * count))
        got = 0
        async for batch in deliveries.batches():
            got += len(batch.payloads)
            batch.ack()
            if got >= count:
                break
        await sending
        times.add("all", began)

    return cycle


async def wake_client(task: SwitchTask, number: int, times: Times) -> Any:
    """One message wakes one blocked transfer; `others` more are blocked meanwhile."""
    links, queues = [], []
    for index in range(task.others + 1):
        link = await Http().open(task.port, f"waiting-{index}")
        queue = "common" if task.same_queue else f"own-{index}"
        await link.ask(f"/create/{queue}")
        await link.ask(f"/subscribe/{queue}")
        links.append(link)
        queues.append(queue)
    writer = await Http().open(task.port, "writer")
    woken: asyncio.Queue[tuple[Http, bytes]] = asyncio.Queue()

    def block(link: Http, seen: int) -> None:
        answer = link.ask(f"/transfer/{seen}/3600")
        answer.add_done_callback(lambda done: woken.put_nowait((link, done.result())))

    for link in links:
        block(link, -1)

    async def cycle(count: int) -> None:
        for index in range(count):
            began = time.perf_counter_ns()
            await writer.ask(f"/send/{queues[0]}/{index}", PAYLOAD)
            link, body = await woken.get()
            times.add("all", began)
            ((seen, _),) = json.loads(body)["messages"]
            await link.ask(f"/ack/{seen}")
            block(link, seen)

    return cycle


CLIENTS: Final = {
    "http": http_client,
    "general": http_client,
    "pipelined": pipelined_client,
    "stream": stream_client,
    "flood": flood_client,
    "wake": wake_client,
}


async def main(task: SwitchTask) -> None:
    times = Times()
    cycles = [await CLIENTS[task.way](task, number, times) for number in range(task.clients)]
    each = max(task.messages // task.clients, 1)
    await asyncio.gather(*(cycle(max(each // 10, 1)) for cycle in cycles))
    times.steps.clear()
    worker.say(ready=True)
    await asyncio.to_thread(worker.wait_for_go)
    began, cpu = time.monotonic(), worker.cpu()
    await asyncio.gather(*(cycle(each) for cycle in cycles))
    worker.say(
        messages=each * task.clients,
        seconds=time.monotonic() - began,
        client_cpu=worker.cpu() - cpu,
        steps=times.report(),
    )
    await asyncio.to_thread(worker.wait_for_go)


if __name__ == "__main__":
    worker.run(main(msgspec.json.decode(sys.argv[1], type=SwitchTask)))
