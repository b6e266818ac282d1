"""The line between a node and its RabbitMQ breaks while messages flow in both directions."""

import asyncio

import pika
import pytest
from rabbitmq_chain import Chain

from broker.cli.demo.line import CutLine
from broker.cli.demo.plan import free_ports

COUNT = 300
KEPT = pika.BasicProperties(delivery_mode=2)


@pytest.mark.parametrize("trouble", ["cut", "stalled"])
async def test_a_broken_line_loses_nothing_and_is_made_again(chain: Chain, trouble: str) -> None:
    """Stalled: both ends learn of it by missed heartbeats; until then the old connection holds the claim."""
    network = chain.network
    (port,) = free_ports(1)
    line = CutLine(port, chain.server.port)
    await line.restore()
    network.configure(
        "york", "north", site_broker={"uri": f"amqp://127.0.0.1:{port}/{chain.at['york'].vhost}"}
    )
    await chain.start()
    try:
        till = chain.reader("york", "till", durable=True)
        orders = chain.reader("hq", "orders", durable=True)
        down, up = chain.at["hq"].channel(), chain.at["york"].channel()
        for channel, queue, site in ((down, "till", "hq"), (up, "orders", "york")):
            channel.queue_declare(queue, durable=True)
            channel.confirm_delivery()
            await chain.until_wanted(site, f"queue:{queue}")
        for number in range(COUNT):
            down.basic_publish("", "till", b"%d" % number, KEPT)
            up.basic_publish("", "orders", b"%d" % number, KEPT)
            if number == COUNT // 3:
                await line.cut() if trouble == "cut" else line.stall()
                await network.until(
                    "york", lambda status: status["site_broker"]["state"] != "running", "cut off"
                )
            if number == 2 * COUNT // 3:
                await line.restore()
            await asyncio.sleep(0)
        await network.until(
            "york", lambda status: status["site_broker"]["state"] == "running", "with its broker again"
        )
        everything = {b"%d" % number for number in range(COUNT)}
        assert set(await till.until(COUNT)) == everything
        assert set(await orders.until(COUNT)) == everything
        twice = len(till.bodies) + len(orders.bodies) - 2 * COUNT
        print(f"line {trouble}: {twice} of {2 * COUNT} messages came twice")
    finally:
        await line.cut()
