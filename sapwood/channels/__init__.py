"""Channels that are handed over by message: bytes in both directions between two applications.

    channel, given = await channels.make(client)         # one application
    await client.send("queue:pictures", given.to_json())

    given = ChannelUrls.from_json(delivery.payload)      # the other one
    channel = await channels.take(client, given)
    print(channel.way, channel.fileno())

`make_now` and `take_now` are the same for programs without asyncio, with a client of `sapwood.sync`.

| module | |
|---|---|
| `callers` | callers where a channel waits, which have not said the secret yet |
| `ends` | an application's end of a channel: how it is made and taken |
| `pipes` | pipes: bytes in both directions, each of which ends by itself; a TCP connection is one |
| `probes` | dead connections: who has gone without a word |
| `proxy` | the process beside an application that waits for whoever takes its channel, and passes bytes on |
| `socket_folder` | a folder for a Unix socket, which is removed after a process that was killed |
| `urls` | a channel in a message: where it is taken, and the secret that is shown there |
| `websocket_pipe` | a WebSocket as a pipe |

The node uses `pipes`, `probes` and `websocket_pipe`, too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sapwood.channels.ends import AppChannel, ChannelFailed, make, make_now, take, take_now
    from sapwood.channels.urls import ChannelUrls

__all__ = ["AppChannel", "ChannelFailed", "ChannelUrls", "make", "make_now", "take", "take_now"]

_HOMES: Final = dict.fromkeys(__all__, "sapwood.channels.ends") | {"ChannelUrls": "sapwood.channels.urls"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sapwood.channels' has no attribute {name!r}")
    return getattr(import_module(home), name)
