"""A producer or consumer at an unmodified Mosquitto: `python -m benchmarks.mqtt_worker produce TASK`.

QoS 1 both ways, one topic, at most `_WINDOW` unacknowledged.
"""

import sys
import time

from benchmarks import payloads, worker
from benchmarks.raw_mqtt import RawMqtt
from benchmarks.worker import Tally, Task

TOPIC = "sales/all"
_WINDOW = 1000
_TOGETHER = 50


async def produce(task: Task) -> None:
    client = await RawMqtt.open(int(task.url), "producer")
    made = [] if task.rate else payloads.make(task.kind, task.count)
    worker.say(ready=True)
    worker.wait_for_go()
    queue = await worker.paced(task) if task.rate else None
    start, cpu = time.monotonic(), worker.cpu()
    topic = TOPIC.encode()
    if queue is not None:
        for _ in range(task.count):
            client.write(client.publish(topic, await queue.get()))
            await client.drain(_WINDOW)
    for first in range(0, len(made), _TOGETHER):
        part = made[first : first + _TOGETHER]
        client.write(b"".join(client.publish(topic, payload) for payload in part))
        await client.drain(_WINDOW)
    await client.drain(0)
    worker.say(start=start, end=time.monotonic(), cpu=worker.cpu() - cpu)
    client.close()


async def consume(task: Task) -> None:
    tally = Tally(task)
    client = await RawMqtt.open(int(task.url), "consumer", tally.take)
    await client.subscribe("sales/#")
    worker.say(ready=True)
    await tally.wait()
    worker.say(**tally.report())
    client.close()


if __name__ == "__main__":
    what, given = worker.task_of(sys.argv)
    worker.run(produce(given) if what == "produce" else consume(given))
