"""The process beside an application: `sapwood-channel make FD` and `take FD`.

FD is one of two connected sockets, of which the application has the other. One line of JSON on standard input
says what is asked, and one on standard output what came of it; then bytes are passed on until the channel
ends, and the process with it. It goes on alone, so nobody has to wait for its end.

`make` waits on a Unix socket in a folder of its own, on the addresses that the node allows, and at the node.
Law: one of those who come gets the channel, the first with the secret. A Unix socket hands over FD itself,
and the process ends at once.
"""

import asyncio
import contextlib
import hmac
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Final, NoReturn
from urllib.parse import urlsplit, urlunsplit

import msgspec

from sapwood.channels.callers import MOST as _AT_ONCE
from sapwood.channels.callers import Callers, host_of
from sapwood.channels.pipes import PipeBroken, TcpPipe, join, reset_when_closed, until_first
from sapwood.channels.probes import probe
from sapwood.channels.socket_folder import SocketFolder
from sapwood.channels.urls import MOST, ChannelUrls, new_secret, parts_of
from sapwood.channels.websocket_pipe import OPEN, TAKES, WIDE_MESSAGE, WebSocketPipe
from sapwood.options import NodePlace, context_of

_SECRET: Final = 44
"""Bytes of a secret, with the end of its line."""
_PROOF: Final = 5.0
"""Seconds in which the secret comes."""
_ANSWER: Final = 35.0
_LAST_WORDS: Final = 24 * 3600.0
"""Seconds until a node has taken the last bytes; nobody else keeps them when this process ends."""
_ACCEPTED: Final = b"+"


class Make(msgspec.Struct):
    place: NodePlace
    wait: float


class Take(msgspec.Struct):
    place: NodePlace
    node: str
    name: str
    secret: str


class Offered(msgspec.Struct):
    """The node lets an application have so much. `name`: '' = nothing through the tree."""

    node: str
    name: str = ""
    listen: list[str] = []


class _Taken(Exception):
    """It was handed over: nothing is left to do."""


# --- the node


def _uri(place: NodePlace, *path: str) -> str:
    parts = urlsplit(place.uri)
    return urlunsplit((parts.scheme, parts.netloc, "/".join(("/channel", *path)), "", ""))


@contextlib.asynccontextmanager
async def _while_wanted(near: socket.socket) -> AsyncIterator[None]:
    """So long as the application waits, and `_ANSWER` at most: it says nothing before it has its channel, so
    that whatever comes is its end. Raises `PipeBroken`.
    """
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(near)
        limit.reschedule(loop.time())

    try:
        async with asyncio.timeout(_ANSWER) as limit:
            loop.add_reader(near, gone)
            try:
                yield
            finally:
                loop.remove_reader(near)
    except TimeoutError:
        raise PipeBroken(f"no answer within {_ANSWER:g} s") from None


@contextlib.asynccontextmanager
async def _node(near: socket.socket, place: NodePlace, *path: str) -> AsyncIterator[WebSocketPipe]:
    """The node's WebSocket. Raises `PipeBroken`: why there is none."""
    import aiohttp

    try:
        context = context_of(place.ca, place.certificate, place.key)
        auth = aiohttp.BasicAuth(place.account, place.secret, "utf-8") if place.account else None
        bearer = {"Authorization": f"Bearer {place.secret}"} if place.secret and not place.account else {}
    except (OSError, ssl.SSLError, ValueError) as error:
        raise PipeBroken(str(error)) from None
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context or True),
        headers={"User-Agent": "sapwood", TAKES: str(WIDE_MESSAGE)} | bearer,
        auth=auth,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
    )
    async with session:
        try:
            async with _while_wanted(near):
                opened = await session.ws_connect(
                    _uri(place, *path),
                    max_msg_size=WIDE_MESSAGE + 1,
                    compress=0,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_LAST_WORDS),
                )
        except aiohttp.WSServerHandshakeError as error:
            raise PipeBroken(f"the node answered HTTP {error.status}") from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise PipeBroken(f"the node does not answer: {error}") from None
        probe(opened.get_extra_info("socket"))
        yield WebSocketPipe(opened, _LAST_WORDS)


# --- make


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _tcp_url(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


class Waiting:
    """A channel that somebody may take."""

    def __init__(self, near: socket.socket, asked: Make) -> None:
        self._near = near
        self._asked = asked
        self._secret = new_secret()
        self._taken = False
        self._lines: list[socket.socket] = []
        self._node: WebSocketPipe | None = None
        self._folder = SocketFolder()

    def __repr__(self) -> str:
        return f"<Waiting in {self._folder} taken={self._taken}>"

    async def run(self) -> None:
        """Until it was taken and is over, or nobody has taken it in time."""
        try:
            async with _node(self._near, self._asked.place) as node:
                async with _while_wanted(self._near):
                    said = await node.hear()
                offered = msgspec.json.decode(said, type=Offered)
                self._node = node
                await self._until_over(offered)
        except (PipeBroken, msgspec.DecodeError) as error:
            _say({"error": str(error)})
        except _Taken:
            pass
        finally:
            self._folder.remove()

    async def _until_over(self, offered: Offered) -> None:
        with contextlib.ExitStack() as stack:
            lines = dict(self._listeners(offered.listen, stack))
            self._lines = list(lines.values())
            works = [self._accept(line) for line in self._lines]
            urls = list(lines)
            if offered.name and self._node is not None:
                urls.append(f"sapwood://{offered.node}/{offered.name}")
                works.append(self._at_the_node(self._node))
            if not urls:
                raise PipeBroken(
                    "it could be taken nowhere: no socket can be in the folder for temporary files"
                )
            _say(msgspec.to_builtins(ChannelUrls(urls=urls, secret=self._secret)))
            await until_first(*works, self._nobody_came())

    def _listeners(
        self, hosts: list[str], stack: contextlib.ExitStack
    ) -> Iterator[tuple[str, socket.socket]]:
        """Those that can be here and are taken by their URL: an address may be none of this machine
        today, and a folder's path too long for a socket.
        """
        path = self._folder.path
        places: list[tuple[socket.AddressFamily, str | tuple[str, int]]] = [(socket.AF_UNIX, path)]
        places += [(_family(host), (host, 0)) for host in hosts[: MOST - 2]]
        for family, place in places:
            line = stack.enter_context(socket.socket(family))
            with contextlib.suppress(OSError):
                line.bind(place)
                line.listen(_AT_ONCE)
                line.setblocking(False)
                url = f"unix:{path}" if isinstance(place, str) else _tcp_url(*line.getsockname()[:2])
                if parts_of(url) is not None:
                    yield url, line

    async def _nobody_came(self) -> None:
        await asyncio.sleep(self._asked.wait)
        if self._taken:
            await asyncio.Event().wait()
        self._folder.remove()  # whoever hears of the end finds nothing left of it
        await TcpPipe(self._near).abort("nobody took it in time")

    def _is_first(self, said: bytes) -> bool:
        """Does whoever says that get the channel?"""
        well = not self._taken and hmac.compare_digest(said, f"{self._secret}\n".encode())
        if well:
            self._taken = True
            self._folder.remove()
            for line in self._lines:
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)  # nobody else is let in, as long as the channel lasts
        return well

    async def _at_the_node(self, node: WebSocketPipe) -> None:
        """Another application may come through the tree; a node that goes leaves the other ways."""
        try:
            if await node.hear() != OPEN:
                raise PipeBroken("not understood")
            said = b""
            async with asyncio.timeout(_PROOF):
                while len(said) < _SECRET and (part := await node.read(_SECRET - len(said))):
                    said += part
        except (PipeBroken, TimeoutError):
            said = b""
        if not self._is_first(said):
            await node.abort("the channel was taken already, or the secret is another one")
            await asyncio.Event().wait()
        await node.write(_ACCEPTED)
        await join(TcpPipe(self._near), node)

    async def _accept(self, listener: socket.socket) -> None:
        loop, callers = asyncio.get_running_loop(), Callers()
        async with asyncio.TaskGroup() as group:
            while not self._taken:
                try:
                    line, place = await loop.sock_accept(listener)
                except OSError:
                    if self._taken:
                        break
                    raise
                if self._taken:
                    line.close()
                    break
                callers.add(host_of(place), group.create_task(self._prove(line, callers)))
                await asyncio.sleep(0)  # it reads what is there already, before others are let in
            await asyncio.Event().wait()

    async def _prove(self, line: socket.socket, callers: Callers) -> None:
        pipe, said, well = TcpPipe(line), b"", False
        try:
            with contextlib.suppress(PipeBroken, TimeoutError):
                async with asyncio.timeout(_PROOF):
                    while len(said) < _SECRET and (part := await pipe.read(_SECRET - len(said))):
                        said += part
            well = self._is_first(said)
        finally:
            if not well:
                await pipe.abort("no")
        if not well:
            return
        task = asyncio.current_task()
        if task is not None:
            callers.discard(task)  # nobody whom it has to make room for
        if line.family == socket.AF_UNIX:
            socket.send_fds(line, [_ACCEPTED], [self._near.fileno()])
            raise _Taken
        if self._node is not None:
            await self._node.close()  # nobody comes that way any more
        await pipe.write(_ACCEPTED)
        await join(TcpPipe(self._near), pipe)
        raise _Taken


# --- take


async def _take(near: socket.socket, asked: Take) -> None:
    try:
        async with _node(near, asked.place, asked.node, asked.name) as node:
            async with _while_wanted(near):
                if await node.hear() != OPEN:
                    raise PipeBroken("not understood")
                await node.write(f"{asked.secret}\n".encode())
                said = await node.read(1)
            if said != _ACCEPTED:
                raise PipeBroken("it was taken already, or the secret is another one")
            _say({"way": "tree"})
            await join(TcpPipe(near), node)
    except PipeBroken as error:
        _say({"error": str(error)})


# --- the process


def _say(what: object) -> None:
    """One line, once: nobody listens after it. Then nothing of the application's is held any more: a shell's
    pipe ends with all who may write into it.
    """
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
        sys.stdout.buffer.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)
    os.close(nothing)
    os.chdir("/")


async def _serve(deed: str, near: socket.socket, line: bytes) -> None:
    reset_when_closed(near)
    try:
        if deed == "make":
            await Waiting(near, msgspec.json.decode(line, type=Make)).run()
        else:
            await _take(near, msgspec.json.decode(line, type=Take))
    except* (PipeBroken, _Taken):
        pass
    except* (
        OSError,
        msgspec.DecodeError,
    ) as errors:  # as for want of descriptors, or of a folder for temporary files
        _say({"error": str(errors.exceptions[0])})


def main() -> NoReturn:
    """Go on alone, and end with the channel."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "take") or not sys.argv[2].isdecimal():
        raise SystemExit("usage: sapwood-channel make FD | take FD, started by the library")
    deed, descriptor = sys.argv[1:]
    line = sys.stdin.buffer.readline(64 * 1024)
    if os.fork():
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_serve(deed, socket.socket(fileno=int(descriptor)), line))
    raise SystemExit(0)


if __name__ == "__main__":
    main()
