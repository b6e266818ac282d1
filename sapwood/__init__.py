"""The client library: what an application uses to talk to its site's node.

    from sapwood import connect

    async with connect("http://127.0.0.1:7600", session="till-7") as client:
        await client.send("queue:sales", b"...")

    async with Rpc(client) as rpc:
        level = await rpc.call("stock", "level", article=4711)

`sapwood.sync` is the same for programs without asyncio. The library imports nothing of the node, and
aiohttp only when a connection is opened.
"""

from sapwood.client import Client, connect
from sapwood.errors import (
    BadReply,
    CallTimeout,
    ClientClosed,
    ClientError,
    ConnectFailed,
    NobodyServes,
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
