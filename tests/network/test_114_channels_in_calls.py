"""An interface whose functions pass channels, in Python and OCaml, as caller and server, across three nodes.

hq <- north <- shop
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from harness import PATIENCE, Network
from test_111_channels_are_handed_over import start
from test_113_channels_in_ocaml import closed, ends, says

from sapwood import Client, Rpc, ServiceError, channels, connect
from sapwood.channels import AppChannel, ChannelUrls

Program = asyncio.subprocess.Process
KINDS = pytest.mark.parametrize("kind", ["unix", "lwt"])
SIZE = 3_000_000
GIVEN = ChannelUrls(urls=[f"sapwood://nowhere/channel-{'0' * 32}"], secret="A" * 43)


def streams(ocaml: Path, *words: str) -> AbstractAsyncContextManager[Program]:
    return ends(ocaml, *words, name="streams")


class Served:
    """The functions, by a client of their node."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._writing: set[asyncio.Task[None]] = set()

    async def fetch(self, name: str, times: int) -> dict[str, ChannelUrls]:
        made, given = await channels.make(self._client)
        self._writing.add(asyncio.create_task(_written(made, name.encode() * times)))
        return {"bytes": given}

    async def keep(self, bytes: ChannelUrls) -> dict[str, Any]:
        taken = await channels.take(self._client, bytes)
        reader, writer = await taken.stream()
        found = await reader.read()
        await closed(writer)
        return {"size": len(found), "way": taken.way}

    async def echo(
        self, parts: list[Any], named: dict[str, Any], maybe: Any = None, **rest: Any
    ) -> dict[str, Any]:
        if rest["from"] == {"case": "text", "value": "busy"}:
            raise ServiceError("BUSY", "somebody has that one", parts[0])
        return {"parts": parts, "named": named, "maybe": maybe, **rest}

    async def done(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._writing)


async def _written(made: AppChannel, found: bytes) -> None:
    reader, writer = await made.stream()
    writer.write(found)
    writer.write_eof()
    assert await reader.read() == b""
    await closed(writer)


def asked(way: str) -> list[str]:
    """The lines that the caller in OCaml prints."""
    return [
        f"fetched 900000 {way}",
        f"kept {SIZE} {way}",
        "same",
        "same",
        "busy, the same",
        "wrong: bytes: secret: expected 43 letters, digits, _ and -",
    ]


async def lines(ocaml: Path, *words: str) -> list[str]:
    async with streams(ocaml, *words) as process, asyncio.timeout(PATIENCE):
        output, _ = await process.communicate()
    return output.decode().splitlines()


@KINDS
async def test_ocaml_asks_python(kind: str, network: Network, ocaml: Path) -> None:
    await start(network)
    async with connect(network.url("shop")) as client, Rpc(client) as rpc:
        served = Served(client)
        methods = {"fetch": served.fetch, "keep": served.keep, "all.echo": served.echo}
        async with rpc.serve("streams", methods):
            await network.until_known("hq", "queue:streams")
            assert await lines(ocaml, kind, "ask", network.url("hq")) == asked("unix")
            await served.done()


@KINDS
async def test_ocaml_asks_ocaml(kind: str, network: Network, ocaml: Path) -> None:
    await start(network)
    other = {"unix": "lwt", "lwt": "unix"}[kind]
    async with streams(ocaml, other, "serve", network.url("shop")) as server:
        assert await says(server) == "serving"
        await network.until_known("hq", "queue:streams")
        assert await lines(ocaml, kind, "ask", network.url("hq")) == asked("unix")


@KINDS
async def test_python_asks_ocaml(kind: str, network: Network, ocaml: Path) -> None:
    await start(network)
    async with (
        streams(ocaml, kind, "serve", network.url("shop")) as server,
        connect(network.url("hq")) as client,
        Rpc(client, timeout=PATIENCE) as rpc,
        asyncio.timeout(PATIENCE),
    ):
        assert await says(server) == "serving"
        await network.until_known("hq", "queue:streams")

        async def ask(method: str, **parameters: Any) -> Any:
            return await rpc.request("streams", method, parameters, interface="streams", version="1.0")

        answer = await ask("fetch", name="a picture", times=100_000)
        taken = await channels.take(client, msgspec.convert(answer["bytes"], ChannelUrls), ways=("tree",))
        reader, writer = await taken.stream()
        assert await reader.read() == b"a picture" * 100_000
        await closed(writer)
        made, given = await channels.make(client)
        writing = asyncio.create_task(_written(made, bytes(SIZE)))
        assert await ask("keep", bytes=msgspec.to_builtins(given)) == {"size": SIZE, "way": "unix"}
        await writing
        given = msgspec.to_builtins(GIVEN)
        value = {"parts": [{"name": "x", "bytes": given}], "named": {"ü": [1, given]}, "maybe": given}
        source = {"case": "stream", "value": given}
        assert await ask("all.echo", **value, **{"from": source}) == value | {"from": source}
        with pytest.raises(ServiceError, match="BUSY") as busy:
            await ask("all.echo", **value, **{"from": {"case": "text", "value": "busy"}})
        assert busy.value.data == value["parts"][0]
        for wrong in ("x", {"urls": [], "secret": "A" * 43}, given | {"secret": "short"}, None):
            with pytest.raises(ServiceError, match="BAD_PARAMETERS"):
                await ask("keep", bytes=wrong)


async def test_the_test_server_answers_with_a_channel_that_nobody_has(network: Network, ocaml: Path) -> None:
    await start(network)
    async with (
        streams(ocaml, "unix", "test", network.url("shop")) as server,
        connect(network.url("hq")) as client,
        Rpc(client, timeout=PATIENCE) as rpc,
    ):
        assert await says(server) == "serving"
        await network.until_known("hq", "queue:streams")
        asking = {"name": "", "times": 1}
        answer = await rpc.request("streams", "fetch", asking, interface="streams", version="1.0")
        assert msgspec.convert(answer["bytes"], ChannelUrls) == GIVEN
