"""The page that every answer links to: what this port is, and how to talk to it."""

from typing import Final

from aiohttp import web

from broker.http.encoding import LINK

_PAGE: Final = """\
Sapwood node

This is the port of a message switch: applications write to queues by name, and read them, wherever in the
tree of nodes the other side is. There are two ways to use it.

1. The client library (Python, package `sapwood`); it connects again by itself, and numbers its sends:

     from sapwood import connect
     async with connect("http://HOST:7600", session="till-7") as client:
         await client.send("queue:sales", b"...")
         async for delivery in client.subscribe("queue:prices"):
             delivery.ack()

2. The link-level protocol, with any HTTP/1.1 client that keeps its connection. A connection is bound to a
   session by login; several may share one, and subscriptions, transfers and acks belong to the session.

     GET  /login/TOKEN                  bind this connection to a session
     GET  /create                       make a transient queue, which ends with the session; answers its name
     GET  /create/QUEUE                 make a persistent queue, or find it made; answers its name
     GET  /destroy/QUEUE                delete a queue with all its messages
     GET  /list/PREFIX                  names of the queues made here that begin so
     GET  /subscribe/QUEUE              read it
     GET  /transfer/ACK_TO/SECONDS      messages with ids above ACK_TO (-1: all), as JSON:
                                        {"messages": [[id, {"payload": ..., "correlation_id": ...,
                                        "reply_to": ...}], ...]}; waits up to SECONDS for the first
     GET  /ack/ID                       a message is dealt with
     GET  /trace/ACK_TO/SECONDS         what happens here, as {"events": [[id, {...}], ...]}
     POST /send/NAME/CORRELATION_ID     the body is the payload
     POST /send/NAME/CORRELATION_ID/REPLY_TO

   With the header 'Sapwood-Tell: yes' a send is 404 QUEUE_DOES_NOT_EXIST where nobody has the queue, or is
   answered so at REPLY_TO. With 'Sapwood-Expires-In: SECONDS' nobody is given the message after that time.
   An ack with 'Sapwood-Reject: REASON' makes it a dead letter. After a subscribe with 'Sapwood-Credit: N'
   the session has N messages of that queue at most that are not acknowledged.

   200 = done, with an empty body where there is no result; 400 = not understood; 403 = log in first;
   404 = no such queue or message here; 413 = too large; 429 QUEUE_FULL = too many of your messages wait
   in that queue: try again later. A payload that is not UTF-8 comes as base64 with "encoding": "base64".

   A message stays until it is acknowledged. If its reader's session ends first it is given again, with the
   same id, whatever ACK_TO is. What was answered with 200 is on disk. A queue that nobody has created may
   be written to: the message finds its way to where it is read. A transient queue goes with its session,
   and a session with its last connection; an idle connection is not closed.

   Names stand in paths percent-encoded or as they are. Log in with the header 'Authorization: Basic ...'
   (name and password of an account), with 'Authorization: Bearer SECRET' (the node's session secret), or with
   a client certificate; without proof from this machine only, where the node has neither secret nor accounts.

For people: /dashboard. For programs: /api/openapi.json, /api/status, /metrics, /healthz, /readyz.
"""


async def documentation(_request: web.Request) -> web.StreamResponse:
    """Handler of `GET /docs`."""
    return web.Response(text=_PAGE)


async def add_link(_request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Every answer says where the protocol is described."""
    response.headers.setdefault("Link", LINK)
    response.headers["Server"] = "sapwood"
