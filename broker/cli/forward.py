"""`sapwood forward`: a port of this machine that leads to a service of a node in the tree, until Ctrl-C."""

import asyncio
import contextlib
import socket
from typing import Final

from broker.cli.channel_door import ChannelDoor
from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.node_api import NodeApi
from broker.cli.output import note, print_json
from broker.loops import quick_loop
from sapwood.channels.pipes import PipeBroken, TcpPipe, join

HOST: Final = "127.0.0.1"
MOST: Final = 1024
"""Connections at a time."""
_AGAIN: Final = 1.0
_LARGEST: Final = 8 * 1024 * 1024
"""Smaller blocks that were freed are kept for what comes next, where glibc is the system's library."""


def forward(api: NodeApi, port: int, target: str, *, as_json: bool) -> None:
    """Listen until Ctrl-C. Raises `CommandError`."""
    node, colon, name = target.partition(":")
    if not colon:
        raise CommandError(f"{target[:80]!r}: expected NODE:NAME, such as york:till-web", WRONG_USE)
    door = ChannelDoor(api, node, name)
    bytes(_LARGEST)  # freed at once; from now on the system is not asked for memory for each message
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=quick_loop()) as runner:
        runner.run(_Forward(door, as_json=as_json).run(port))


class _Forward:
    def __init__(self, door: ChannelDoor, *, as_json: bool) -> None:
        self._door = door
        self._json = as_json
        self._open = 0

    async def run(self, port: int) -> None:
        try:
            listener = socket.create_server((HOST, port), backlog=MOST)
        except OSError as error:
            raise CommandError(f"cannot listen on {HOST}:{port}: {error.strerror or error}") from None
        with listener:
            self._say(listener.getsockname()[1])
            await self._accept(listener)

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    line, _ = await asyncio.get_running_loop().sock_accept(listener)
                except OSError as error:  # such as too many open files
                    note(f"! no connection is taken: {error.strerror or error}")
                    await asyncio.sleep(_AGAIN)
                else:
                    group.create_task(self._serve(TcpPipe(line)))

    def _say(self, port: int) -> None:
        if self._json:
            print_json({"host": HOST, "port": port, "node": self._door.node, "name": self._door.name})
        else:
            print(
                f"{HOST}:{port} leads to {self._door.name} of {self._door.node}, Ctrl-C ends it", flush=True
            )

    async def _serve(self, near: TcpPipe) -> None:
        """One connection. Whatever goes wrong ends it with a reset, and is said."""
        if self._open >= MOST:
            note(f"! {MOST} connections are open: none more now")
            await near.abort("busy")
            return
        self._open += 1
        try:
            await join(near, await self._door.reach())
        except PipeBroken as error:
            note(f"! {self._door}: {error}")
            await near.abort(str(error))
        finally:
            self._open -= 1
