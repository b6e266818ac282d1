"""The client library: what an application uses to talk to its site's node.

    from sapwood import connect

    async with connect("http://127.0.0.1:7600", session="till-7") as client:
        await client.send("queue:sales", b"...")

    async with Rpc(client) as rpc:
        level = await rpc.call("stock", "level", article=4711)

`sapwood.sync` is the same for programs without asyncio. The library imports nothing of the node, and
aiohttp only when a connection is opened. A name is imported when it is first asked for: the node, which needs
`protocol` alone, does not wait for asyncio.

| module | |
|---|---|
| `address` | the address of a node, as an application writes it, and the session's WebSocket behind it |
| `background` | an event loop in a thread of its own, for programs without asyncio |
| `channels` | channels between applications, which are handed over by message |
| `client` | the client of a streaming session: sends with confirmation, subscriptions with credit |
| `connection_watch` | tells of a connection that comes and goes, and how long to rest |
| `deduplication` | telling what was handled before, so that what comes twice is done once |
| `errors` | what a client can be told |
| `inbox` | what a client receives: batches, deliveries, acknowledgements in ranges |
| `interfaces` | what a service can do: methods by name, in one version of an interface |
| `journal` | a producer's journal: write locally first, publish when the node can be reached |
| `options` | options of messages and of clients: types for editors, and checks at the call |
| `outbox` | what a client has sent and the node has not confirmed: numbers, frames, window, rejections |
| `protocol` | what a client and its node both need: names, destinations, messages, session frames |
| `rpc` | calls: a request on a service's queue, its reply on the caller's own |
| `rpc_messages` | requests and replies on the wire: JSON in the payload |
| `serving` | a server: takes requests from a queue, lets handlers work, replies, and only then acknowledges |
| `session` | the session behind a client: one connection after the other |
| `socket` | the client's connection: WebSocket packets with aiohttp |
| `stub_channels` | the channels of a generated command line: files that are sent and written |
| `stub_commands` | the command line of a generated module |
| `stub_completion` | completion of that command line by bash |
| `stub_samples` | a value of each type that an interface can have, for tests of callers |
| `stubs` | the ground on which generated modules stand: typed functions, calls, dispatch, errors |
| `subscription` | a subscription: an async iterator of deliveries, or of batches |
| `sync` | the same client for programs without asyncio: every call waits for its end |
| `sync_subscription` | a subscription for programs without asyncio |
| `tasks` | tasks: what belongs together, from the outermost call down to the last message that it causes |
| `traffic` | whether bytes get through on a connection, as its system tells |
| `waits` | waits that end when the caller says so |
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sapwood.client import Client, connect
    from sapwood.errors import (
        BadReply,
        CallTimeout,
        ClientClosed,
        ClientError,
        ConnectFailed,
        NobodyServes,
        NotKnown,
        Rejection,
        ReplyLost,
        RequestFailed,
        RequestTimeout,
        RpcError,
        SendRejected,
        SendTimeout,
        ServiceError,
        SessionRefused,
        Unconfirmed,
    )
    from sapwood.inbox import Batch, Delivery
    from sapwood.interfaces import Interface
    from sapwood.options import Reach
    from sapwood.rpc import Rpc
    from sapwood.serving import Server, current_request
    from sapwood.subscription import Subscription
    from sapwood.tasks import current_task, task

__all__ = [
    "BadReply",
    "Batch",
    "CallTimeout",
    "Client",
    "ClientClosed",
    "ClientError",
    "ConnectFailed",
    "Delivery",
    "Interface",
    "NobodyServes",
    "NotKnown",
    "Reach",
    "Rejection",
    "ReplyLost",
    "RequestFailed",
    "RequestTimeout",
    "Rpc",
    "RpcError",
    "SendRejected",
    "SendTimeout",
    "Server",
    "ServiceError",
    "SessionRefused",
    "Subscription",
    "Unconfirmed",
    "connect",
    "current_request",
    "current_task",
    "task",
]

_HOMES: Final = {
    "Client": "sapwood.client",
    "connect": "sapwood.client",
    "BadReply": "sapwood.errors",
    "CallTimeout": "sapwood.errors",
    "ClientClosed": "sapwood.errors",
    "ClientError": "sapwood.errors",
    "ConnectFailed": "sapwood.errors",
    "NobodyServes": "sapwood.errors",
    "NotKnown": "sapwood.errors",
    "Rejection": "sapwood.errors",
    "ReplyLost": "sapwood.errors",
    "RequestFailed": "sapwood.errors",
    "RequestTimeout": "sapwood.errors",
    "RpcError": "sapwood.errors",
    "SendRejected": "sapwood.errors",
    "SendTimeout": "sapwood.errors",
    "ServiceError": "sapwood.errors",
    "SessionRefused": "sapwood.errors",
    "Unconfirmed": "sapwood.errors",
    "Batch": "sapwood.inbox",
    "Delivery": "sapwood.inbox",
    "Interface": "sapwood.interfaces",
    "Reach": "sapwood.options",
    "Rpc": "sapwood.rpc",
    "Server": "sapwood.serving",
    "current_request": "sapwood.serving",
    "Subscription": "sapwood.subscription",
    "current_task": "sapwood.tasks",
    "task": "sapwood.tasks",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sapwood' has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
