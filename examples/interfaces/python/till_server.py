"""Serves the interface `tills` at a store: python till_server.py [URL]

A picture goes out through a channel, and a program comes in through one, whatever their sizes.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chain.tills_v1 import (
    InstallOut,
    NoSuchTill,
    ScreenPictureOut,
    Tills_server_dispatcher,
    Tills_skeleton,
    TillsScreen_skeleton,
)

from sapwood import Client, Rpc, channels, connect
from sapwood.channels import AppChannel, ChannelUrls

TILL = 3
PICTURE = b"\x89PNG\r\n" + bytes(range(256)) * 4096


class Screen(TillsScreen_skeleton):
    def __init__(self, client: Client, sending: asyncio.TaskGroup) -> None:
        self._client = client
        self._sending = sending

    async def picture(self, *, till: int) -> ScreenPictureOut:
        """The answer says where the channel is taken. The bytes follow while the caller reads."""
        if till != TILL:
            raise NoSuchTill(till)
        made, given = await channels.make(self._client)
        self._sending.create_task(_send(made, PICTURE))
        return ScreenPictureOut(png=given)


class Tills(Tills_skeleton):
    def __init__(self, client: Client, sending: asyncio.TaskGroup) -> None:
        super().__init__()
        self.screen = Screen(client, sending)
        self._client = client

    async def install(self, *, till: int, program: ChannelUrls) -> InstallOut:
        if till != TILL:
            raise NoSuchTill(till)
        size = 0
        async with _stream(await channels.take(self._client, program)) as (reader, _):
            while part := await reader.read(65536):
                size += len(part)
        return InstallOut(size=size)


async def _send(made: AppChannel, content: bytes) -> None:
    """Somebody who takes no picture, or breaks off, ends only this channel."""
    try:
        async with _stream(made) as (reader, writer):
            writer.write(content)
            writer.write_eof()
            await reader.read()  # until the other side has ended, too
    except ConnectionError as error:
        print(f"a picture was not taken: {error}", file=sys.stderr)


@asynccontextmanager
async def _stream(end: AppChannel) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await end.stream()
    try:
        yield reader, writer
    finally:
        writer.close()


async def main(url: str) -> None:
    async with connect(url) as client, asyncio.TaskGroup() as sending:
        served = [Tills_server_dispatcher(Tills(client, sending))]
        async with Rpc(client).serve("tills", served) as server:
            print("serving tills", flush=True)
            await server.run()


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["http://127.0.0.1:7600"])))
