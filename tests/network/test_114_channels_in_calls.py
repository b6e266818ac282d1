"""An interface whose functions pass channels, in Python and OCaml, as caller and server, across three nodes.

hq <- north <- shop
"""

import asyncio
import importlib
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from harness import PATIENCE, Network
from test_111_channels_are_handed_over import start
from test_113_channels_in_ocaml import closed, ends, says
from workspace import ROOT, STREAMS

from sapwood import Client, Rpc, ServiceError, channels, connect
from sapwood.channels import AppChannel, ChannelUrls
from sapwood.stub_samples import CHANNEL, sample

sys.path.insert(0, str(ROOT / "tests" / "interfaces"))
from every import package

pytestmark = pytest.mark.usefixtures("forked_channels")
Program = asyncio.subprocess.Process
KINDS = pytest.mark.parametrize("kind", ["unix", "lwt"])
SIZE = 3_000_000


def streams(ocaml: Path, *words: str) -> AbstractAsyncContextManager[Program]:
    return ends(ocaml, *words, name="streams")


@pytest.fixture
def v1(tmp_path: Path) -> Any:
    """The generated Python."""
    made = package(tmp_path, STREAMS, "streams_in_two_languages")
    return importlib.import_module(f"{made.__name__}.streams_v1")


def server(v1: Any, client: Client, writing: set[asyncio.Task[None]]) -> list[Any]:
    """In Python; its channels are made and taken by a client of its node."""

    class All(v1.StreamsAll_skeleton):  # type: ignore[misc]
        async def echo(self, *, parts: list[Any], from_: Any, **rest: Any) -> Any:
            if from_ == v1.SourceText("busy"):
                raise v1.Busy(parts[0])
            return v1.AllEchoOut(parts=parts, from_=from_, **rest)

    class Streams(v1.Streams_skeleton):  # type: ignore[misc]
        def __init__(self) -> None:
            self.all = All()

        async def fetch(self, *, name: str, times: int) -> Any:
            made, given = await channels.make(client)
            writing.add(asyncio.create_task(_written(made, name.encode() * times)))
            return v1.FetchOut(bytes=given)

        async def keep(self, *, bytes: ChannelUrls) -> Any:
            taken = await channels.take(client, bytes)
            reader, writer = await taken.stream()
            found = await reader.read()
            await closed(writer)
            return v1.KeepOut(size=len(found), way=taken.way)

    return [v1.Streams_server_dispatcher(Streams())]


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
async def test_ocaml_asks_python(kind: str, network: Network, ocaml: Path, v1: Any) -> None:
    await start(network)
    writing: set[asyncio.Task[None]] = set()
    async with (
        connect(network.url("shop")) as client,
        Rpc(client) as rpc,
        rpc.serve("streams", server(v1, client, writing)),
    ):
        await network.until_known("hq", "queue:streams")
        assert await lines(ocaml, kind, "ask", network.url("hq")) == asked("unix")
        await asyncio.wait_for(asyncio.gather(*writing), PATIENCE)


@KINDS
async def test_ocaml_asks_ocaml(kind: str, network: Network, ocaml: Path) -> None:
    await start(network)
    other = {"unix": "lwt", "lwt": "unix"}[kind]
    async with streams(ocaml, other, "serve", network.url("shop")) as server:
        assert await says(server) == "serving"
        await network.until_known("hq", "queue:streams")
        assert await lines(ocaml, kind, "ask", network.url("hq")) == asked("unix")


@KINDS
async def test_python_asks_ocaml(kind: str, network: Network, ocaml: Path, v1: Any) -> None:
    await start(network)
    async with (
        streams(ocaml, kind, "serve", network.url("shop")) as serving,
        connect(network.url("hq")) as client,
        Rpc(client, timeout=PATIENCE) as rpc,
        asyncio.timeout(PATIENCE),
    ):
        assert await says(serving) == "serving"
        await network.until_known("hq", "queue:streams")
        asking = v1.StreamsClient(rpc)
        answer = await asking.fetch(name="a picture", times=100_000)
        taken = await channels.take(client, answer.bytes, ways=("tree",))
        reader, writer = await taken.stream()
        assert await reader.read() == b"a picture" * 100_000
        await closed(writer)
        made, given = await channels.make(client)
        writing = asyncio.create_task(_written(made, bytes(SIZE)))
        assert await asking.keep(bytes=given) == v1.KeepOut(size=SIZE, way="unix")
        await writing
        part = v1.Part(name="x", bytes=CHANNEL)
        value = {"parts": [part], "named": {"ü": (1, CHANNEL)}, "maybe": CHANNEL}
        source = v1.SourceStream(CHANNEL)
        assert await asking.all.echo(**value, from_=source) == v1.AllEchoOut(**value, from_=source)
        empty = {"parts": [], "named": {}, "maybe": None, "from_": v1.SourceNowhere()}
        assert await asking.all.echo(**empty) == v1.AllEchoOut(**empty)
        with pytest.raises(v1.Busy) as busy:
            await asking.all.echo(**value, from_=v1.SourceText("busy"))
        assert busy.value.value == part
        form = msgspec.to_builtins(CHANNEL)
        for wrong in ("x", form | {"urls": []}, form | {"secret": "short"}, None):
            parameters = {"bytes": wrong}
            with pytest.raises(ServiceError, match="BAD_PARAMETERS"):
                await rpc.request("streams", "keep", parameters, interface="streams", version="1.0")


async def test_the_test_server_answers_with_a_channel_that_nobody_has(
    network: Network, ocaml: Path, v1: Any
) -> None:
    await start(network)
    async with (
        streams(ocaml, "unix", "test", network.url("shop")) as serving,
        connect(network.url("hq")) as client,
        Rpc(client, timeout=PATIENCE) as rpc,
    ):
        assert await says(serving) == "serving"
        await network.until_known("hq", "queue:streams")
        assert await v1.StreamsClient(rpc).fetch(name="", times=1) == sample(v1.FetchOut)
        with pytest.raises(channels.ChannelFailed):
            await channels.take(client, CHANNEL)
