"""One node at a virtual host: the second refuses, because both would take and deliver everything twice.

The claim is an exclusive queue, which goes with its connection. A node that cannot have it asks, through that
queue, who holds it. An answer means another node. Silence means a connection that nobody is at the other end
of any more; the broker will notice, and until then the newcomer tries again.

Wrinkle: a RabbitMQ in want of memory or disk reads nothing from connections that publish, not even their
end. So the claim is held on one that does not, and answers go out on another: a node that starts again
meanwhile finds it free.
"""

import asyncio
import json
from typing import Any, Final

import pika

from bridges.amqp.connection import Channel, Connection, Returned
from bridges.amqp.errors import RESOURCE_LOCKED, ChannelLost
from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import SiteBrokerError, SiteBrokerRefused
from bridges.site_brokers.rabbitmq.consumers import OURS

CLAIM: Final = f"{OURS}claim"
_ANSWERS: Final = "amq.rabbitmq.reply-to"
_PATIENCE: Final = 2.0
_LONGEST: Final = 1000


async def claim(connection: Connection, answering: Connection, tree: str, node: str, store: str) -> None:
    """Hold the virtual host as long as `connection` lives, on which nobody publishes.

    Raises `SiteBrokerRefused` if another node holds it, `SiteBrokerError` if nobody answers for it.
    """
    channel, answers = await connection.channel(), await answering.channel()
    try:
        await channel.declare(CLAIM, exclusive=True, arguments={"x-max-length": 100})
    except ChannelLost as error:
        if error.code != RESOURCE_LOCKED:
            raise
        raise await _who_holds(answering, store) from None
    answer = json.dumps({"tree": tree, "node": node, "store": store}).encode()

    def tell(question: Incoming) -> None:
        if question.properties.reply_to and answers.is_open:
            answers.publish("", question.properties.reply_to, answer, pika.BasicProperties())

    await channel.consume(CLAIM, tell, acknowledged=False, tag=f"{OURS}claim")


async def holder(connection: Connection) -> dict[str, Any] | None:
    """The holder of the virtual host, as it says; None if nobody answers, or if we may not ask."""
    channel = await connection.channel()
    try:
        return await _ask(channel)
    except ChannelLost as error:
        if error.code == 0:
            raise
        return None
    finally:
        await channel.close()


async def _who_holds(connection: Connection, store: str) -> SiteBrokerError:
    server = connection.server
    where = f"{server.host}:{server.port}, virtual host {server.vhost!r},"
    found = await holder(connection)
    if found is None:
        return SiteBrokerError(
            f"{where} is held by a node's connection that does not answer; it ends when RabbitMQ notices"
        )
    name = f"node {str(found.get('node'))[:80]!r} of tree {str(found.get('tree'))[:80]!r}"
    if found.get("store") == store:
        name = f"another process of this very node, with a copy of its store ({name}),"
    return SiteBrokerRefused(
        f"{where} belongs to {name} already: one virtual host has one node. Stop one of the two, or give this"
        " one another virtual host (site_broker, uri)"
    )


async def _ask(channel: Channel) -> dict[str, Any] | None:
    """None: no answer. Where nobody holds it, the question is returned."""
    answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def take(message: Incoming) -> None:
        if not answered.done():
            answered.set_result(message.body)

    def nobody(_returned: Returned) -> None:
        if not answered.done():
            answered.set_result(None)

    channel.on_return = nobody
    await channel.consume(_ANSWERS, take, acknowledged=False)
    channel.publish("", CLAIM, b"who?", pika.BasicProperties(reply_to=_ANSWERS), mandatory=True)
    try:
        async with asyncio.timeout(_PATIENCE):
            body = await channel.reply(answered)
    except TimeoutError:
        return None
    if body is None:
        return None
    try:
        found = json.loads(body[:_LONGEST])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
