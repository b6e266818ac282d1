"""An application's end of a channel.

Each end is a file descriptor, a stream socket. An end that has a process beside it is one of two connected
TCP sockets of this machine, and no Unix socket: only TCP lets the process end a channel with an error.

Law: a channel is taken once. The secret goes to the process beside an application by a pipe, where no list of
processes shows it.
"""

import asyncio
import os
import select
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Final, Protocol, Self, TypeAlias

import msgspec

from sapwood.channels.pipes import end_when_closed, reset_when_closed
from sapwood.channels.probes import probe
from sapwood.channels.urls import TCP, TREE, UNIX, WAYS, ChannelUrls, parts_of
from sapwood.errors import ClientError
from sapwood.options import NodePlace

Said: TypeAlias = dict[str, object]
WAIT: Final = 60.0
"""Seconds in which a channel is taken."""
OPENING: Final = 40.0
_CONNECT: Final = 3.0
_ACCEPTED: Final = b"+"
_MAX_SAID: Final = 64 * 1024


class ChannelFailed(ClientError):
    """There is no channel; the text says why, of each way that was tried."""


class Placed(Protocol):
    """A client, of either kind."""

    @property
    def place(self) -> NodePlace: ...


class AppChannel:
    """An end of a channel. `way`: how its bytes go, 'unix', 'tcp' or 'tree'; '' at the side that made it.

    Each direction ends by itself (`socket.shutdown`). A line that breaks, or another end that was killed with
    bytes unread, is an error here: `ConnectionResetError`.
    """

    def __init__(self, line: socket.socket, way: str = "") -> None:
        self.socket = line
        self.way = way

    def __repr__(self) -> str:
        return f"<AppChannel {self.fileno()} {self.way or 'made here'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor, to read and write as it is."""
        return self.socket.fileno()

    def detach(self) -> int:
        """The descriptor, which is the caller's to close from now on."""
        return self.socket.detach()

    async def stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Reader and writer of this loop, which own the descriptor from now on."""
        self.socket.setblocking(False)
        return await asyncio.open_connection(sock=self.socket)

    def close(self) -> None:
        self.socket.close()


async def make(client: Placed, *, wait: float = WAIT) -> tuple[AppChannel, ChannelUrls]:
    """A new channel: this application's end, and how another one takes the other, within `wait` seconds.

    Raises `ChannelFailed`.
    """
    return await asyncio.to_thread(make_now, client, wait=wait)


async def take(
    client: Placed, urls: ChannelUrls, *, ways: tuple[str, ...] = WAYS, timeout: float = OPENING
) -> AppChannel:
    """The channel that another application made, by the most efficient of these `ways` that works.

    Raises `ChannelFailed`.
    """
    return await asyncio.to_thread(take_now, client, urls, ways=ways, timeout=timeout)


def make_now(client: Placed, *, wait: float = WAIT) -> tuple[AppChannel, ChannelUrls]:
    """As `make`."""
    near, said = _beside("make", {"place": client.place, "wait": wait}, OPENING)
    try:
        return AppChannel(near), msgspec.convert(said, ChannelUrls)
    except msgspec.ValidationError as error:
        near.close()
        raise ChannelFailed(str(error)) from None


def take_now(
    client: Placed, urls: ChannelUrls, *, ways: tuple[str, ...] = WAYS, timeout: float = OPENING
) -> AppChannel:
    """As `take`."""
    end = time.monotonic() + timeout
    found = sorted(
        (WAYS.index(parts[0]), url, parts)
        for url in urls.urls
        if (parts := parts_of(url)) is not None and parts[0] in ways
    )
    failed = []
    for _, url, (way, place) in found:
        try:
            return AppChannel(_TAKING[way](place, urls.secret, client, end), way)
        except (OSError, ChannelFailed) as error:
            failed.append(f"{url}: {getattr(error, 'strerror', None) or error}")
    raise ChannelFailed("; ".join(failed) or f"no way is known to {urls}: {', '.join(ways)} are tried here")


# --- the ways


def _by_unix(place: tuple[str, ...], secret: str, _client: Placed, end: float) -> socket.socket:
    """The descriptor itself is handed over: nothing stands between the two applications."""
    _check_mine(place[0])
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_left(end, _CONNECT))
        line.connect(place[0])
        line.sendall(f"{secret}\n".encode())
        said, descriptors, *_ = socket.recv_fds(line, 1, 1)
    if said != _ACCEPTED or not descriptors:
        raise ChannelFailed("it was taken already, or the secret is another one")
    return _stream_of(descriptors[0])


def _check_mine(path: str) -> None:
    """Is it a socket of this user, in a folder of this user? A link would lead to another program."""
    for each, is_right in ((os.path.dirname(path), stat.S_ISDIR), (path, stat.S_ISSOCK)):
        found = os.lstat(each)
        if not is_right(found.st_mode) or found.st_uid != os.geteuid():
            raise ChannelFailed("it is no socket of this user")


def _stream_of(descriptor: int) -> socket.socket:
    """A descriptor that came. Its maker hears of a reset until it is here."""
    os.set_inheritable(descriptor, False)
    try:
        line = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise
    line.setblocking(True)
    end_when_closed(line)
    return line


def _by_tcp(place: tuple[str, ...], secret: str, _client: Placed, end: float) -> socket.socket:
    line = socket.create_connection((place[0], int(place[1])), timeout=_left(end, _CONNECT))
    try:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(f"{secret}\n".encode())
        if line.recv(1) != _ACCEPTED:
            raise ChannelFailed("it was taken already, or the secret is another one")
        line.settimeout(None)
        probe(line)
    except BaseException:
        reset_when_closed(line)  # the channel may be this one's by now: nobody takes that for its end
        line.close()
        raise
    return line


def _through_the_tree(place: tuple[str, ...], secret: str, client: Placed, end: float) -> socket.socket:
    asked = {"place": client.place, "node": place[0], "name": place[1], "secret": secret}
    return _beside("take", asked, _left(end, OPENING))[0]


_TAKING: Final = {UNIX: _by_unix, TCP: _by_tcp, TREE: _through_the_tree}


def _left(end: float, most: float) -> float:
    return max(min(end - time.monotonic(), most), 0.001)


# --- the process beside


def _beside(deed: str, asked: Mapping[str, object], seconds: float) -> tuple[socket.socket, Said]:
    """Start the process beside: this application's end, and what the process says when it is ready."""
    try:
        near, far = pair()
    except OSError as error:
        raise ChannelFailed(f"there are no sockets: {error.strerror}") from None
    try:
        with far:
            said = _said(deed, asked, far, seconds)
        if wrong := said.get("error"):
            raise ChannelFailed(str(wrong))
    except BaseException as failed:
        reset_when_closed(near)  # the process may have the channel by now: nobody takes that for its end
        near.close()
        if isinstance(failed, OSError):
            raise ChannelFailed(f"no process starts beside this one: {failed.strerror}") from None
        raise
    return near, said


def _said(deed: str, asked: Mapping[str, object], far: socket.socket, seconds: float) -> Said:
    """It finds the modules that this program has, and none of a current folder that others may write to."""
    words = (sys.executable, "-P", "-m", "sapwood.channels.proxy", deed, str(far.fileno()))
    found = os.pathsep.join(each for each in sys.path if os.path.isabs(each))
    pipe, lines = subprocess.PIPE, (far.fileno(),)
    with subprocess.Popen(  # noqa: S603 - our own program
        words, stdin=pipe, stdout=pipe, pass_fds=lines, env=os.environ | {"PYTHONPATH": found}
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(asked) + b"\n")
            process.stdin.close()
            return _line(process.stdout.fileno(), seconds)
        except BrokenPipeError:
            raise ChannelFailed("the process beside this one ended at once") from None


def _line(descriptor: int, seconds: float) -> Said:
    """The one line that the process says. Raises `ChannelFailed`."""
    end, said = time.monotonic() + seconds, b""
    poll = select.poll()  # `select` knows no descriptors above 1,023
    poll.register(descriptor, select.POLLIN)
    while not said.endswith(b"\n"):
        if not poll.poll(max(end - time.monotonic(), 0) * 1000):
            raise ChannelFailed(f"no answer within {seconds:g} s")
        part = os.read(descriptor, _MAX_SAID)
        if not part:
            raise ChannelFailed("the process beside this one ended")
        said += part
    return msgspec.json.decode(said, type=Said)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected TCP sockets of this machine, which nobody else has."""
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listener:
        near = socket.create_connection(listener.getsockname())
        while True:
            far, address = listener.accept()
            if address == near.getsockname():
                break
            far.close()
    for each in (near, far):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far
