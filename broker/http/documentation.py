"""The page that every answer links to: what this port is, and how to talk to it."""

from typing import Final

from aiohttp import web

LINK: Final = '</docs>; rel="help"'

_PAGE: Final = """\
Sapwood node

This is the port of a message switch. Applications use it in one of two ways.

1. The client library (Python, package `sapwood`):

     from sapwood import connect
     async with connect("http://HOST:7600", session="till-7") as client:
         await client.send("queue:sales", b"...")
         async for delivery in client.subscribe("queue:prices"):
             delivery.ack()

2. Plain HTTP/1.1 with keep-alive. A connection is bound to its session by login.

     GET  /login/TOKEN                  bind this connection to a session
     GET  /create                       make a transient queue; answers its name
     GET  /create/QUEUE                 make a persistent queue; answers its name
     GET  /subscribe/QUEUE              read it
     GET  /transfer/ACK_TO/SECONDS      messages with ids above ACK_TO (-1: all), as JSON:
                                        {"messages": [[id, {"payload": ..., "correlation_id": ...,
                                        "reply_to": ...}], ...]}; waits up to SECONDS for the first
     GET  /ack/ID                       a message is dealt with
     POST /send/NAME/CORRELATION_ID     the body is the payload
     POST /send/NAME/CORRELATION_ID/REPLY_TO

   200 = done; 403 = log in first; 404 = no such queue or message here; 429 QUEUE_FULL = too many of
   your messages wait in that queue: try again later. A payload that is not UTF-8 comes as base64 with
   "encoding": "base64". A message stays until it is acknowledged.

Status: GET /api/status, /healthz, /readyz.
"""


async def documentation(_request: web.Request) -> web.StreamResponse:
    """Handler of `GET /docs`."""
    return web.Response(text=_PAGE)


async def add_link(_request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Every answer says where the protocol is described."""
    response.headers.setdefault("Link", LINK)
    response.headers["Server"] = "sapwood"
