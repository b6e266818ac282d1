"""A plain program at a site's own broker, with paho-mqtt or pika and nothing of ours; see `application`.

    python site_application.py JOURNAL '{"server": {"kind": "mosquitto", "port": 1883}, "sends": …}'

A third event stands in its journal: `repeated FLOW NUMBER AT`, the broker did not answer and the message was
sent again: what comes twice then was made at the entry. SIGUSR1 ends the sending, `end AT` says when. Started
again after SIGKILL it goes on after what it sent last: the fate of what had no answer is unknown.
"""

import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "network"))
sys.path.insert(0, str(HERE.parent / "brokers"))

import pika
import programs
from application import Journal, next_number
from programs import AmqpConsumer, AmqpProducer, Consumer, MqttConsumer, MqttProducer, Producer

programs.PATIENCE = 300.0


class Server(SimpleNamespace):
    """As much of a broker as its applications need."""

    port: int

    def connect(self, vhost: str = "/") -> pika.BlockingConnection:
        credentials = pika.PlainCredentials("guest", "guest")
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, vhost, credentials, heartbeat=0)
        )


def watch(consumer: Consumer, journal: Journal) -> None:
    """Write each receipt down where the program notes it, which is before it answers the broker."""

    class Copies(list[Any]):
        def append(self, copy: Any) -> None:
            journal.write("got", *copy.body.split(), copy.at, int(copy.redelivered or copy.again))

    consumer.copies = Copies()


def note_repetitions(producer: Producer, journal: Journal) -> None:
    """Write down what has no answer before it is sent again: this process may be killed in between."""

    class Repeated(set[str]):
        def add(self, body: str) -> None:
            journal.write("repeated", *body.split(), time.monotonic())
            super().add(body)

        def update(self, *bodies: Iterable[str]) -> None:
            for body in chain.from_iterable(bodies):
                self.add(body)

    producer.repeated = Repeated()


async def send(
    producer: Producer, flow: str, number: int, journal: Journal, told: dict[str, Any], enough: asyncio.Event
) -> None:
    chance = random.Random(f"{told['seed']} {flow} {number}")
    confirmed = 0

    def note() -> None:
        nonlocal confirmed
        for body in producer.acknowledged[confirmed:]:
            journal.write("confirmed", flow, body.split()[1], body.split()[1], time.monotonic())
        confirmed = len(producer.acknowledged)

    while not enough.is_set():
        journal.write("sent", flow, number, number, time.monotonic())
        await producer.send(f"{flow} {number}")
        note()
        number += 1
        await asyncio.sleep(chance.uniform(0, 2 / told["rate"]))
    await producer.finish()
    note()


async def main(file: Path, told: dict[str, Any]) -> None:
    journal = Journal(file)
    journal.write("begun", time.monotonic())
    enough, over = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, enough.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    server: Any = Server(**told["server"])
    mosquitto = server.kind == "mosquitto"
    consumers: list[Any] = []
    for number, (filters, queue) in enumerate(told.get("reads", {}).items()):
        if mosquitto:
            consumers.append(MqttConsumer(server, f"{told['name']}-{number}", filters))
        else:
            consumers.append(AmqpConsumer(server, queue))
        watch(consumers[-1], journal)
        consumers[-1].__enter__()
    producers = {}
    for flow, where in told.get("sends", {}).items():
        if mosquitto:
            producers[flow] = MqttProducer(server, f"{told['name']}-{flow}", where)
        else:
            producers[flow] = AmqpProducer(server, where)
        note_repetitions(producers[flow], journal)
        producers[flow].__enter__()
    journal.write("ready", time.monotonic())
    async with asyncio.TaskGroup() as group:
        for flow, producer in producers.items():
            number = next_number(file, "sent", flow, 3)
            group.create_task(send(producer, flow, number, journal, told, enough))
    journal.write("end", time.monotonic())
    await over.wait()
    for program in (*consumers, *producers.values()):
        program.__exit__()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
