"""`cell@UUID` reaches one start of a node and no other, over whatever line and address it comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import aiohttp
import pytest
from commands import refused, sapwood, told
from harness import PATIENCE, Network, collect, have, until_count
from quick import start_tree

from sapwood import NobodyServes, Rpc


class Nat:
    """A proxy that gives each connection another source address, and forgets all of them at once."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.sources: list[str] = []
        self.port = 0
        self._numbers = count(2)
        self._writers: set[asyncio.StreamWriter] = set()

    def forget(self) -> None:
        """The table is lost: every connection ends without a word."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = f"127.0.0.{next(self._numbers)}"
        try:
            up, down = await asyncio.open_connection("127.0.0.1", self.target, local_addr=(source, 0))
        except ConnectionError:  # the node behind it is just being started anew
            writer.close()
            return
        self.sources.append(source)
        self._writers |= {writer, down}
        await asyncio.gather(_copy(reader, down), _copy(up, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def natted(target: int) -> AsyncIterator[Nat]:
    nat = Nat(target)
    server = await asyncio.start_server(nat.accept, "127.0.0.1", 0)
    nat.port = server.sockets[0].getsockname()[1]
    try:
        yield nat
    finally:
        server.close()
        nat.forget()


async def incarnation(network: Network, name: str) -> str:
    return str((await network.status(name))["incarnation"])


async def asked(network: Network, node: str, path: str, **query: str) -> Any:
    url = f"{network.url(node)}/api/{path}"
    async with aiohttp.ClientSession() as session, session.get(url, params=query) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def until_known(network: Network, at: str, name: str, field: str, value: object) -> None:
    """Wait until a node knows this of another one."""
    async with asyncio.timeout(180):
        while True:
            known = (await asked(network, at, "addresses", search=name))["known"]
            if [each[field] for each in known if each["name"] == name] == [value]:
                return
            await asyncio.sleep(0.05)


async def until_hq_knows(network: Network, name: str) -> str:
    """Wait until the root knows the start of a node that runs now. Returns it."""
    own = await incarnation(network, name)
    await until_known(network, "hq", name, "incarnation", own)
    return own


async def test_one_start_of_a_store_is_reached_and_the_next_is_not(network: Network) -> None:
    await start_tree(network)
    first = await until_hq_knows(network, "york")
    async with network.client("york") as york:
        reading = asyncio.create_task(collect(york, "queue:till", 2))
        await network.send("south", f"queue:till@{first}", [b"1", b"2"])
        assert [each.payload for each in await reading] == [b"1", b"2"]
    found = await told(network, "south", "who-has", first)
    assert (found["name"], found["incarnation"]) == ("york", first)
    assert found["addresses"] == [f"ws://127.0.0.1:{network.ports['york']}/link"]
    assert (await asked(network, "south", "who-has", key="york"))["incarnation"] == first
    assert (await asked(network, "south", "ping", address=f"System@{first}"))["node"] == "york"
    route = await asked(network, "south", "traceroute", address=f"System@{first}")
    assert [hop["node"] for hop in route["hops"]] == ["south", "hq", "north", "york"]
    network.kill("york")
    await network.start("york")
    second = await until_hq_knows(network, "york")
    assert second != first
    async with network.client("york") as york:
        await have(york, "queue:till")
        await network.send("south", f"queue:till@{first}", [b"late"])
        async with asyncio.timeout(180):
            while not (letters := (await asked(network, "south", "dead"))["letters"]):
                await asyncio.sleep(0.05)
        assert [each["reason"] for each in letters] == ["UNKNOWN_INCARNATION"]
        await network.send("south", f"queue:till@{second}", [b"3"])
        assert [each.payload for each in await collect(york, "queue:till", 1)] == [b"3"]
    assert f"unknown incarnation {first}" in await refused(network, "south", "ping", f"System@{first}")
    assert "unknown node leeds" in await refused(network, "south", "who-has", "leeds")


async def test_a_start_that_has_ended_in_order_is_refused_at_once(network: Network) -> None:
    """Its node stays away; whoever asks does not wait for it, nor for a limit of time."""
    await start_tree(network)
    first = await until_hq_knows(network, "york")
    assert (await asked(network, "south", "ping", address=f"System@{first}"))["node"] == "york"
    await network.stop("york")
    async with network.client("south") as south, Rpc(south) as rpc:
        await network.until_child("north", "york", "down")
        with pytest.raises(NobodyServes):
            await rpc.call(f"till@{first}", "price", timeout=PATIENCE)
    for name in ("north", "hq"):
        known = (await asked(network, name, "addresses"))["known"]
        assert first not in {each["incarnation"] for each in known}


async def test_identity_does_not_come_from_a_socket_address(network: Network) -> None:
    network.add("hq")
    async with natted(network.ports["hq"]) as nat:
        connector = {"nodetype": "leaf", "uri": f"ws://127.0.0.1:{nat.port}/link"}
        network.add("york", tree_connectors=[connector])
        await network.start()
        own = await until_hq_knows(network, "york")
        async with network.client("york") as york, asyncio.timeout(180):
            subscription = await york.subscribe(f"queue:{await york.create('till')}").ready()
            got: list[bytes] = []

            async def read() -> None:
                async for delivery in subscription:
                    got.append(delivery.payload)
                    delivery.ack()

            reading = asyncio.create_task(read())
            for number in range(3):
                nat.forget()
                await network.send("hq", f"queue:till@{own}", [str(number).encode()])
                await until_count(got, number + 1)
            reading.cancel()
        assert sorted(got) == [b"0", b"1", b"2"]
        assert len(set(nat.sources)) == len(nat.sources) >= 3
        assert await incarnation(network, "york") == own
        known = (await asked(network, "hq", "addresses"))["known"]
        assert [(each["name"], each["incarnation"]) for each in known] == [("york", own)]
        assert known[0]["addresses"] == [f"ws://127.0.0.1:{network.ports['york']}/link"]


async def test_a_change_of_addresses_is_told_to_those_who_asked(network: Network) -> None:
    await start_tree(network)
    await until_hq_knows(network, "york")
    await asked(network, "south", "who-has", key="york")
    code, output, errors = await sapwood(
        *("announce", "wss://lte.york.example:7600/link"), "--url", network.url("york")
    )
    assert code == 0, errors
    assert "until it stops" in output
    for name in ("north", "hq", "south"):
        await until_known(network, name, "york", "addresses", ["wss://lte.york.example:7600/link"])
    errors = await refused(network, "york", "announce", "tcp://york:1", exit_code=2)
    assert "write ws://HOST:7600/link" in errors
    code, output, _ = await sapwood("addresses", "--node", "north", "--url", network.url("hq"))
    assert code == 0
    assert "york" in output
