"""A producer or consumer at a node: `python -m benchmarks.sapwood_worker produce TASK` (or `consume`)."""

import asyncio
import sys
import time

import sapwood
from benchmarks import payloads, worker
from benchmarks.worker import Tally, Task

_CREDIT = 40_000
_MANY = 16


async def produce(task: Task) -> None:
    async with sapwood.connect(task.url, session="producer", timeout=60.0) as client:
        if task.rate:
            await _produce_paced(task, client)
            return
        made = worker.batches(task, payloads.make(task.kind, task.count))
        named = [(f"queue:{name}", messages) for name, messages in made]
        worker.say(ready=True)
        worker.wait_for_go()
        start, cpu = time.monotonic(), worker.cpu()
        for name, messages in named:
            if len(messages) < _MANY:
                for message in messages:
                    await client.publish(name, message)
            else:
                await client.send_many(name, messages, wait=False)
        await client.flush()
        worker.say(start=start, end=time.monotonic(), cpu=worker.cpu() - cpu)


async def _produce_paced(task: Task, client: "sapwood.Client") -> None:
    names = [f"queue:{name}" for name in worker.destinations(task)]
    worker.say(ready=True)
    worker.wait_for_go()
    queue = await worker.paced(task)
    start, cpu = time.monotonic(), worker.cpu()
    for index in range(task.count):
        await client.publish(names[index % len(names)], await queue.get())
    await client.flush()
    worker.say(start=start, end=time.monotonic(), cpu=worker.cpu() - cpu)


async def consume(task: Task) -> None:
    tally = Tally(task)
    async with sapwood.connect(task.url, session="consumer", timeout=60.0) as client:
        names = worker.destinations(task)
        for name in names:
            await client.create(name)
        credit = _CREDIT if len(names) == 1 else 1000
        subscriptions = [client.subscribe(f"queue:{name}", credit=credit) for name in names]
        for subscription in subscriptions:
            await subscription.ready()
        worker.say(ready=True)
        readers = [asyncio.create_task(_read(subscription, tally)) for subscription in subscriptions]
        await tally.wait()
        worker.say(**tally.report())
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def _read(subscription: "sapwood.Subscription", tally: Tally) -> None:
    async for batch in subscription.batches():
        tally.take(batch.payloads)
        batch.ack()


if __name__ == "__main__":
    what, given = worker.task_of(sys.argv)
    worker.run(produce(given) if what == "produce" else consume(given))
