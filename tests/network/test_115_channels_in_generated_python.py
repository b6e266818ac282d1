"""Channels as inputs and outputs of generated Python, from program to program, across three nodes.

hq <- north <- shop
"""

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from harness import PATIENCE, Network
from test_111_channels_are_handed_over import start

from interfaces.load import load
from interfaces.python.modules import write_modules
from sapwood import Rpc, ServiceError, channels, connect
from sapwood.channels import ChannelUrls
from sapwood.stub_samples import CHANNEL

pytestmark = pytest.mark.usefixtures("forked_channels")
ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "interfaces" / "python"
PICTURE = b"\x89PNG\r\n" + bytes(range(256)) * 4096
TILLS = (sys.executable, "-m", "chain.tills_v1", "--url")
LARGE = """
import asyncio, sys, till_server
till_server.PICTURE = bytes(64_000_000)
asyncio.run(till_server.main(sys.argv[1]))
"""
STREAMS = """
interface streams 1.0 "Channels wherever a type may stand." {
  owners "Tests"
  struct part "One of several." { name: string "n" bytes: channel "b" }
  variant source "Where bytes come from." { stream: channel "s" text: string "t" nothing "n" }
  error busy: part "Somebody has that one."
  namespace all "A block in it." {
    function echo "Back." {
      in parts: array<part> "p" in named: dict<string, pair<int64, channel>> "n"
      in from: source "f" in maybe: option<channel> "m"
      out parts: array<part> "p" out named: dict<string, pair<int64, channel>> "n"
      out from: source "f" out maybe: option<channel> "m"
      raises busy
    }
  }
}
"""


@asynccontextmanager
async def program(*words: str, **more: int) -> AsyncIterator[asyncio.subprocess.Process]:
    path = os.pathsep.join((str(ROOT), str(PROGRAMS)))
    pipe = asyncio.subprocess.PIPE
    pipes = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
    env = os.environ | {"PYTHONPATH": path}
    process = await asyncio.create_subprocess_exec(*words, cwd=PROGRAMS, env=env, **pipes | more)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def serving(
    network: Network, node: str = "shop", *, words: tuple[str, ...] = ("till_server.py",)
) -> AsyncIterator[asyncio.subprocess.Process]:
    async with program(sys.executable, *words, network.url(node)) as server:
        assert server.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await server.stdout.readline() == b"serving tills\n"
        await network.until_known("hq", "queue:tills")
        yield server


async def told(*words: str, given: bytes = b"") -> tuple[int | None, bytes, str]:
    async with program(*words) as process, asyncio.timeout(PATIENCE):
        output, errors = await process.communicate(given)
    return process.returncode, output, errors.decode()


async def test_programs_pass_channels_in_both_directions(network: Network) -> None:
    await start(network)
    async with serving(network):
        assert await told(sys.executable, "till_caller.py", network.url("hq")) == (
            0,
            b"a picture of 1048582 bytes came by unix\nthe till has 900000 bytes\nthere is no till 1\n",
            "",
        )


async def test_the_command_line_writes_and_sends_files(network: Network, tmp_path: Path) -> None:
    await start(network)
    tills, file = (*TILLS, network.url("hq")), tmp_path / "file"
    picture, install = (*tills, "screen.picture", "--till"), (*tills, "--json", "install", "--till")
    async with serving(network):
        said = (0, b"png: 1048582 bytes (unix)\n", "")
        assert await told(*picture, "3", "--save-png", str(file)) == said
        assert file.read_bytes() == PICTURE
        assert await told(*picture, "3", "--save-png", "-") == (0, PICTURE, said[1].decode())
        assert await told(*install, "3", "--program", str(file)) == (0, b'{"size":1048582}\n', "")
        assert await told(*install, "3", "--program", "-", given=PICTURE) == (0, b'{"size":1048582}\n', "")
        code, output, _ = await told(*tills, "--json", "screen.picture", "--till", "3")
        assert (code, ChannelUrls(**json.loads(output)["png"]).urls[0][:5]) == (0, "unix:")
        code, output, errors = await told(*install, "1", "--program", str(file))
        assert (code, output, errors) == (1, b"", "The store has no till of this number: 1 [NO_SUCH_TILL]\n")
        code, _, errors = await told(*install, "3", "--program", str(tmp_path / "none"))
        assert (code, "No such file" in errors) == (1, True)


async def test_a_server_that_is_killed_ends_its_channel_and_a_successor_answers(network: Network) -> None:
    await start(network)
    async with AsyncExitStack() as stack:
        hq = await stack.enter_async_context(connect(network.url("hq")))
        rpc = await stack.enter_async_context(Rpc(hq, timeout=PATIENCE))
        tills = chain().TillsClient(rpc)
        async with asyncio.timeout(PATIENCE), serving(network, words=("-c", LARGE)) as server:
            answer = await tills.screen.picture(till=3)
            taken = await channels.take(hq, answer.png, ways=("tree",))
            reader, writer = await taken.stream()
            await reader.readexactly(6)
            server.kill()
            rest = b""
            with suppress(ConnectionError):  # it had read all that came, or not
                rest = await reader.read()
            assert len(rest) < 64_000_000 - 6
            writer.close()
            async with serving(network, "north"):
                answer = await tills.screen.picture(till=3)
                taken = await channels.take(hq, answer.png, ways=("tree",))
                reader, writer = await taken.stream()
                assert await reader.read() == PICTURE
                writer.close()


async def test_what_is_no_channel_is_refused_on_both_sides(network: Network) -> None:
    await start(network)
    good = {"urls": CHANNEL.urls, "secret": CHANNEL.secret}
    wrong: list[Any] = [
        None,
        "x",
        [],
        {},
        good | {"urls": []},
        good | {"urls": [1]},
        good | {"secret": "short"},
    ]
    wrong.append(good | {"urls": ["unix:/tmp/x"] * 17})
    async with connect(network.url("hq")) as hq, Rpc(hq, timeout=PATIENCE) as rpc, serving(network):
        for each in wrong:
            asked = {"till": 3, "program": each}
            with pytest.raises(ServiceError, match="BAD_PARAMETERS"):
                await rpc.request("tills", "install", asked, interface="tills", version="1.1")
        with pytest.raises(ValueError, match="install: Expected"):
            await chain().TillsClient(rpc).install(till=3, program="x")
        # It has its form, and leads nowhere: whoever takes it says so.
        with pytest.raises(ServiceError, match=r"FAILED.*ChannelFailed|ChannelFailed.*FAILED"):
            await chain().TillsClient(rpc).install(till=3, program=CHANNEL)


async def test_a_channel_may_stand_wherever_a_type_may(network: Network, tmp_path: Path) -> None:
    (tmp_path / "streams.idl").write_text(STREAMS)
    for path, text in write_modules(load(tmp_path)).items():
        (tmp_path / path).write_text(text)
    streams = module("streams_v1", tmp_path / "streams_v1.py")
    await start(network)

    class Streams(streams.StreamsAll_skeleton):  # type: ignore[name-defined, misc]
        async def echo(self, *, parts: Any, **rest: Any) -> Any:
            if rest["from_"] == streams.SourceNothing():
                raise streams.Busy(parts[0])
            return streams.AllEchoOut(parts=parts, **rest)

    async with AsyncExitStack() as stack:
        shop = await stack.enter_async_context(connect(network.url("shop")))
        hq = await stack.enter_async_context(connect(network.url("hq")))
        served = [streams.StreamsAll_server_dispatcher(Streams())]
        await stack.enter_async_context(Rpc(shop).serve("streams", served))
        await network.until_known("hq", "queue:streams")
        rpc = await stack.enter_async_context(Rpc(hq, timeout=PATIENCE))
        part = streams.Part(name="ü", bytes=CHANNEL)
        value = {"parts": [part, part], "named": {"": (-1, CHANNEL)}, "maybe": CHANNEL}
        client = streams.StreamsClient(rpc)
        source = streams.SourceStream(CHANNEL)
        answer = await client.all.echo(**value, from_=source)
        assert answer == streams.AllEchoOut(**value, from_=source)
        with pytest.raises(streams.Busy) as busy:
            await client.all.echo(**value, from_=streams.SourceNothing())
        assert busy.value.value == part
        assert CHANNEL.secret not in str(busy.value)
        tested = [streams.Streams_server_dispatcher(streams.Streams_test())]
        await stack.enter_async_context(Rpc(shop).serve("tested", tested))
        await network.until_known("hq", "queue:tested")
        answer = await streams.StreamsClient(rpc, "tested").all.echo(**value, from_=source)
        assert answer.from_ == source


def chain() -> Any:
    sys.path[:0] = [] if str(PROGRAMS) in sys.path else [str(PROGRAMS)]
    return importlib.import_module("chain.tills_v1")


def module(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
