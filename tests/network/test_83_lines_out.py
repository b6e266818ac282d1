"""A store with two lines out, each behind a NAT: it fails over, goes back, stays who it is, loses nothing."""

import asyncio
import contextlib
from typing import Any

import pytest
from harness import Network, receiving, until_count

from broker.cli.demo.plan import free_ports

PATIENCE = 180.0
LAN, LTE = "127.0.0.21", "127.0.0.22"
SEEN_AS = {LAN: "127.0.0.31", LTE: "127.0.0.32"}
"""Under which address HQ sees who calls over a line."""


class Street:
    """HQ's address, reached over either line; each is behind a NAT of its own and can be unplugged."""

    def __init__(self, target: int) -> None:
        (self.port,) = free_ports(1)
        self.unplugged: set[str] = set()
        self._target = target
        self._tasks: dict[asyncio.Task[None], str] = {}

    async def __aenter__(self) -> "Street":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._end(list(self._tasks))

    async def unplug(self, line: str) -> None:
        self.unplugged.add(line)
        await self._end([task for task, over in self._tasks.items() if over == line])

    def plug(self, line: str) -> None:
        self.unplugged.discard(line)

    @staticmethod
    async def _end(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = writer.get_extra_info("peername")[0]
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = line
        try:
            if line in SEEN_AS and line not in self.unplugged:
                await self._join(line, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # either end went away, or the line was unplugged
        finally:
            writer.transport.abort()
            del self._tasks[task]

    async def _join(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen_as = (SEEN_AS[line], 0)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target, local_addr=seen_as)
        pipes = [
            asyncio.create_task(_pipe(reader, far_writer)),
            asyncio.create_task(_pipe(far_reader, writer)),
        ]
        try:
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            far_writer.transport.abort()
            await self._end(pipes)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def connector(port: int, **settings: Any) -> dict[str, Any]:
    uri = f"ws://127.0.0.1:{port}/link"
    return {"tree_connectors": [{"nodetype": "leaf", "uri": uri, "local_addresses": [LAN, LTE], **settings}]}


async def until_over(network: Network, line: str) -> None:
    def runs(status: dict[str, Any]) -> bool:
        parent = status["parent"]
        return bool(parent["state"] == "running" and parent["dialling"]["local"] == line)

    await network.until("york", runs, f"linked over {line}", PATIENCE)


async def test_a_store_fails_over_and_goes_back_and_loses_nothing(network: Network) -> None:
    network.add("hq")
    async with Street(network.ports["hq"]) as street:
        network.add("york", "hq", **connector(street.port, go_back="300ms"))
        await network.start("hq")
        await network.launch("york")
        await until_over(network, LAN)
        incarnation = (await network.status("york"))["incarnation"]
        sent = [b"%d" % number for number in range(400)]
        async with (
            network.client("york") as reader,
            network.client("hq") as sender,
            receiving(reader, "queue:prices") as got,
        ):
            await sender.send_many("queue:prices@york", sent[:100])
            await street.unplug(LAN)
            await sender.send_many("queue:prices@york", sent[100:200])
            await until_over(network, LTE)
            await sender.send_many("queue:prices@york", sent[200:300])
            street.plug(LAN)
            await until_over(network, LAN)
            await sender.send_many("queue:prices@york", sent[300:])
            await until_count(got, 400, PATIENCE)
        assert [each.payload for each in got] == sent
        assert (await network.status("york"))["incarnation"] == incarnation
        children = (await network.status("hq"))["children"]
        assert [(link["name"], link["gaps"]) for link in children] == [("york", 0)]
        await network.stop("york")


@pytest.mark.parametrize("strategy", ["random", "least-latency", "load-shared"])
async def test_every_strategy_finds_the_line_that_works(network: Network, strategy: str) -> None:
    network.add("hq")
    async with Street(network.ports["hq"]) as street:
        await street.unplug(LAN)
        network.add("york", "hq", **connector(street.port, strategy=strategy))
        await network.start("hq")
        await network.launch("york")
        await until_over(network, LTE)
        await network.send("hq", "queue:prices@york", [b"42"])
        assert await network.collect("york", "queue:prices", 1, PATIENCE) == [b"42"]
        await network.stop("york")
