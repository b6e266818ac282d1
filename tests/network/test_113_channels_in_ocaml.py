"""Channels in OCaml, blocking and with Lwt, against Python: each way, both directions, their ends.

hq <- north <- shop
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import md5
from pathlib import Path

import pytest
from harness import PATIENCE, Network
from test_111_channels_are_handed_over import WAYS, start

from sapwood import Client, channels, connect
from sapwood.channels import AppChannel, ChannelUrls
from sapwood.channels.urls import parts_of

pytestmark = pytest.mark.usefixtures("forked_channels")
Program = asyncio.subprocess.Process
KINDS = pytest.mark.parametrize("kind", ["unix", "lwt"])
LARGE = 3_000_000
MUCH = 20_000
"""More than an answer to its session."""
RESET = "reset"
BESIDE = {"SAPWOOD_CHANNEL": str(Path(sys.executable).with_name("sapwood-channel"))}


@asynccontextmanager
async def ends(ocaml: Path, *words: str, name: str = "ends") -> AsyncIterator[Program]:
    path = ocaml / "_build" / "default" / "programs" / f"{name}.exe"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        path, *words, stdin=pipe, stdout=pipe, env=os.environ | BESIDE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def says(process: Program) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return (await process.stdout.readline()).decode().rstrip("\n")


async def told(process: Program, *lines: str) -> list[str]:
    assert process.stdin is not None
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())
    await process.stdin.drain()
    return [await says(process) for _ in lines]


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close it, and wait until the loop holds it no more: a reset is known by then."""
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def unread(program: Program) -> int:
    """Bytes that lie in the program's TCP sockets, unread."""
    own = Path(f"/proc/{program.pid}")
    sockets = {file.readlink().name for file in (own / "fd").iterdir()}
    lines = (own / "net" / "tcp").read_text().splitlines()[1:]
    cells = (line.split() for line in lines)
    return sum(int(each[4].partition(":")[2], 16) for each in cells if f"socket:[{each[9]}]" in sockets)


def pattern(size: int) -> bytes:
    return bytes(place * 7 % 251 for place in range(size))


async def given_by(client: Client) -> ChannelUrls:
    await client.create("pictures")
    delivery = await asyncio.wait_for(client.subscribe("queue:pictures").next(), PATIENCE)
    assert delivery is not None
    delivery.ack()
    return ChannelUrls.from_json(delivery.payload)


@asynccontextmanager
async def ocaml_makes(
    network: Network, ocaml: Path, kind: str, way: str
) -> AsyncIterator[tuple[Program, AppChannel]]:
    async with connect(network.url("hq")) as hq:
        await hq.create("pictures")
        async with ends(ocaml, kind, "make", network.url("shop"), "queue:pictures@hq", "60") as maker:
            assert await says(maker) == "made"
            with await channels.take(hq, await given_by(hq), ways=(way,)) as taken:
                yield maker, taken


@asynccontextmanager
async def ocaml_takes(
    network: Network, ocaml: Path, kind: str, way: str
) -> AsyncIterator[tuple[Program, AppChannel]]:
    async with (
        connect(network.url("shop")) as shop,
        ends(ocaml, kind, "take", network.url("hq"), "pictures", way) as taker,
    ):
        assert await says(taker) == "subscribed"
        made, given = await channels.make(shop)
        with made:
            await shop.send("queue:pictures@hq", given.to_json())
            assert await says(taker) == way
            yield taker, made


Side = Callable[[Network, Path, str, str], AbstractAsyncContextManager[tuple[Program, AppChannel]]]
SIDES = pytest.mark.parametrize("side", [ocaml_makes, ocaml_takes])


@KINDS
@SIDES
async def test_bytes_go_both_ways_and_each_direction_ends_by_itself(
    side: Side, kind: str, network: Network, ocaml: Path
) -> None:
    await start(network)
    large = pattern(LARGE)
    for way in WAYS:
        async with side(network, ocaml, kind, way) as (program, channel), asyncio.timeout(PATIENCE):
            reader, writer = await channel.stream()
            writing = asyncio.create_task(told(program, f"write {LARGE}", "finish"))
            assert await reader.read() == large
            assert await writing == ["written", "finished"]
            writer.write(large[::-1])
            writer.write_eof()
            assert await told(program, "all") == [f"{LARGE} {md5(large[::-1]).hexdigest()}"]
            assert await told(program, "close") == ["closed"]
            await closed(writer)


@KINDS
@SIDES
async def test_a_program_that_is_killed_is_an_error_at_the_other_end(
    side: Side, kind: str, network: Network, ocaml: Path
) -> None:
    await start(network)
    for way in WAYS:
        async with side(network, ocaml, kind, way) as (program, channel), asyncio.timeout(PATIENCE):
            reader, writer = await channel.stream()
            assert await told(program, "write 5") == ["written"]
            assert await reader.readexactly(5) == pattern(5)
            writer.write(bytes(LARGE))  # more than the program reads
            assert (await told(program, "read 1"))[0].startswith("read")
            while unread(program) < MUCH:  # one that has read all that came ends, as TCP does
                await asyncio.sleep(0.01)
            program.send_signal(signal.SIGKILL)
            with pytest.raises(ConnectionError):
                assert await reader.read() == b"an error"
            await closed(writer)


@KINDS
@SIDES
async def test_a_reset_at_the_other_end_is_an_error_in_ocaml(
    side: Side, kind: str, network: Network, ocaml: Path
) -> None:
    await start(network)
    for way in WAYS:
        async with side(network, ocaml, kind, way) as (program, channel), asyncio.timeout(PATIENCE):
            await asyncio.to_thread(channel.socket.sendall, b"first")
            assert await told(program, "read 5") == ["read, and 0 more"]
            channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            channel.close()
            assert await told(program, "all") == [RESET]


@KINDS
async def test_a_node_on_the_way_that_is_killed_is_an_error_at_both_ends(
    kind: str, network: Network, ocaml: Path
) -> None:
    await start(network)
    async with ocaml_makes(network, ocaml, kind, "tree") as (program, channel), asyncio.timeout(PATIENCE):
        reader, writer = await channel.stream()
        assert await told(program, "write 5") == ["written"]
        assert await reader.readexactly(5) == pattern(5)
        network.kill("north")
        assert await told(program, "all") == [RESET]
        with pytest.raises(ConnectionError):
            assert await reader.read() == b"an error"
        await closed(writer)


@KINDS
async def test_the_best_way_is_taken_between_two_programs_in_ocaml(
    kind: str, network: Network, ocaml: Path
) -> None:
    await start(network)
    other = {"unix": "lwt", "lwt": "unix"}[kind]
    async with ends(ocaml, kind, "take", network.url("hq"), "pictures", "tree,tcp,unix") as taker:
        assert await says(taker) == "subscribed"
        async with ends(ocaml, other, "make", network.url("shop"), "queue:pictures@hq", "60") as maker:
            assert [await says(maker), await says(taker)] == ["made", "unix"]
            assert await told(maker, "write 9", "finish") == ["written", "finished"]
            assert await told(taker, "all") == [f"9 {md5(pattern(9)).hexdigest()}"]


@KINDS
async def test_it_says_why_there_is_no_channel(kind: str, network: Network, ocaml: Path) -> None:
    await start(network, permits={})
    async with connect(network.url("shop")) as shop:
        made, given = await channels.make(shop)
        wrong = ChannelUrls(urls=given.urls, secret="A" * 43)
        for ways, sent, why in (
            ("unix,tcp", wrong, ("/socket: ", "tcp://")),
            ("tree", given, ("PERMIT",)),
            ("tree", ChannelUrls(urls=["http://x"], secret="A" * 43), ("no way is known to http://x: tree",)),
        ):
            async with ends(ocaml, kind, "take", network.url("hq"), "pictures", ways) as taker:
                assert await says(taker) == "subscribed"
                await shop.send("queue:pictures@hq", sent.to_json())
                said = await says(taker)
            assert said.startswith("failed: "), said
            assert all(each in said for each in why), said
        made.close()


@KINDS
async def test_nobody_takes_it_in_time(kind: str, network: Network, ocaml: Path) -> None:
    await start(network)
    async with connect(network.url("hq")) as hq:
        await hq.create("pictures")
        async with ends(ocaml, kind, "make", network.url("shop"), "queue:pictures@hq", "0.2") as maker:
            assert await says(maker) == "made"
            assert await told(maker, "all") == [RESET]


async def test_without_the_process_beside_it_says_what_to_install(network: Network, ocaml: Path) -> None:
    await start(network)
    path = ocaml / "_build" / "default" / "programs" / "ends.exe"
    process = await asyncio.create_subprocess_exec(
        *(path, "unix", "make", network.url("shop"), "pictures", "60"),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"SAPWOOD_CHANNEL": "/no/such/program"},
    )
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert output.decode().startswith("failed: /no/such/program does not start: No such file")


URLS = [
    "unix:/tmp/sapwood-channel-k2x9q0ab/socket",
    "unix://sapwood-channel-k2x9/socket",
    "unix:/sapwood-channel-k2x9q0ab/socket",
    "unix:/run/other.sock",
    "unix:/tmp/../sapwood-channel-k2x9q0ab/socket",
    "unix:/tmp/sapwood-channel-k2x/socket",
    "unix:/tmp/sapwood-channel-k2x9q0ab/socket\n",
    f"unix:/{'a' * 61}/sapwood-channel-k2x9q0ab/socket",
    f"unix:/{'a' * 60}/sapwood-channel-k2x9q0ab/socket",
    "tcp://10.1.2.3:65535",
    "tcp://127.0.0.1:65536",
    "tcp://127.0.0.1:080",
    "tcp://1.2.3.4.5:80",
    "tcp://127.1.1:80",
    "tcp://127.0.0.01:80",
    "tcp://0.0.0.0:80",
    "tcp://[::]:80",
    "tcp://[1:2]:80",
    "tcp://[fd00::1]:80",
    "tcp://[10.1.2.3]:80",
    "tcp://localhost:80",
    f"sapwood://shop/channel-{'0' * 32}",
    f"sapwood://shop/channel-{'0' * 31}g",
    f"sapwood:///channel-{'0' * 32}",
    "sapwood://shop/till",
    "http://10.1.2.3:80",
]


async def test_urls_are_understood_as_in_python(ocaml: Path) -> None:
    def understood(url: str) -> str:
        found = parts_of(url)
        return "none" if found is None else " ".join((found[0], *found[1]))

    payloads = [ChannelUrls(urls=[url], secret="A" * 43).to_json().decode() for url in URLS]
    async with ends(ocaml, "read") as reader:
        assert await told(reader, *payloads) == [understood(url) for url in URLS]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"secret": "A" * 43}, "urls is missing"),
        ([], "expected an object"),
        ({"urls": [], "secret": "A" * 43}, "expected 1 to 16"),
        ({"urls": ["x"] * 17, "secret": "A" * 43}, "expected 1 to 16"),
        ({"urls": ["x" * 201], "secret": "A" * 43}, "200 characters"),
        ({"urls": ["x"], "secret": "A" * 42}, "secret: "),
        ({"urls": ["x"], "secret": "A" * 42 + "\n"}, "secret: "),
        ({"urls": [1], "secret": "A" * 43}, "urls: [0]: expected a text"),
    ],
)
async def test_what_is_no_channel_is_a_mistake_in_a_value(value: object, why: str, ocaml: Path) -> None:
    async with ends(ocaml, "read") as reader:
        [said] = await told(reader, json.dumps(value))
    assert said.startswith("wrong: ")
    assert why in said
