"""The client library: what an application uses to talk to its site's node.

    from sapwood import connect

    async with connect("http://127.0.0.1:7600", session="till-7") as client:
        await client.send("queue:sales", b"...")

It imports nothing of the node, and aiohttp only when a connection is opened.
"""

from sapwood.client import Client, connect
from sapwood.errors import (
    ClientClosed,
    ClientError,
    ConnectFailed,
    Rejection,
    RequestFailed,
    SendRejected,
    SessionRefused,
    Unconfirmed,
)
from sapwood.inbox import Batch, Delivery
from sapwood.subscription import Subscription

__all__ = [
    "Batch",
    "Client",
    "ClientClosed",
    "ClientError",
    "ConnectFailed",
    "Delivery",
    "Rejection",
    "RequestFailed",
    "SendRejected",
    "SessionRefused",
    "Subscription",
    "Unconfirmed",
    "connect",
]
