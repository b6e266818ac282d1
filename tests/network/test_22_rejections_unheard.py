"""A node does not take a message, and is killed before its client has heard so: the client hears it then."""

import asyncio
import contextlib

import pytest
from harness import Network

from broker.cli.demo.line import CutLine
from sapwood.client import connect
from sapwood.errors import SendRejected


class HalfLine(CutLine):
    """A line whose answers can be held up: what goes there passes, nothing comes back until it is cut."""

    def __init__(self, port: int, target_port: int) -> None:
        super().__init__(port, target_port)
        self.answers = asyncio.Event()
        self.answers.set()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        self._writers.add(far_writer)
        there = asyncio.create_task(self._pipe(reader, far_writer))
        try:
            while data := await far_reader.read(65536):
                await self.answers.wait()
                writer.write(data)
        finally:
            there.cancel()
            await asyncio.gather(there, return_exceptions=True)
            with contextlib.suppress(OSError):
                far_writer.close()


async def test_a_client_hears_after_a_kill_what_was_not_taken_before(network: Network) -> None:
    network.add("hq", delivery={"destinations": [{"pattern": "queue:full", "max_messages": 3}]})
    await network.start()
    (port,) = network._fresh_ports(1)
    async with HalfLine(port, network.ports["hq"]) as line, connect(f"http://127.0.0.1:{port}") as client:
        await client.send_many("queue:full", [b"1", b"2", b"3"])
        line.answers.clear()
        refused = asyncio.create_task(client.send_many("queue:full", [b"4", b"5"]))
        taken = asyncio.create_task(client.send_many("queue:other", [b"6"]))
        names = {"queue:full", "queue:other"}
        await network.until(
            "hq", lambda status: names <= {queue["name"] for queue in status["queues"]}, "given all"
        )
        await network.send("hq", "queue:later", [b"committed after them"])
        network.kill("hq")
        await line.cut()
        await network.start("hq")
        line.answers.set()
        await line.restore()
        with pytest.raises(SendRejected) as rejected:
            await asyncio.wait_for(refused, 60)
        await asyncio.wait_for(taken, 60)
        assert [(each.code, each.messages) for each in rejected.value.rejections] == [("QUEUE_FULL", 2)]
        await client.send("queue:other", b"7")
    assert await network.collect("hq", "queue:full", 3) == [b"1", b"2", b"3"]
    assert await network.collect("hq", "queue:other", 2) == [b"6", b"7"]


async def test_a_message_that_is_rejected_while_its_node_is_away_comes_again(network: Network) -> None:
    network.add("hq")
    await network.start()
    async with network.client("hq", session="reader") as client:
        await client.create("orders")
        await client.send_many("queue:orders", [b"wrong", b"right"])
        reading = client.subscribe("queue:orders", credit=1)
        wrong = await reading.next(60)
        assert wrong is not None
        network.kill("hq")
        while client.state != "not connected":
            await asyncio.sleep(0.02)
        wrong.reject("not today")
        await network.start("hq")
        again = await reading.next(60)
        assert again is not None
        assert (again.payload, again.redelivered) == (b"wrong", True)
        again.reject("not today")
        last = await reading.next(60)
        assert last is not None
        assert last.payload == b"right"
        last.ack()
    status = await network.until("hq", lambda status: status["dead"]["messages"] == 1, "left with a letter")
    assert list(status["dead"]["reasons"]) == ["REJECTED: not today"]
