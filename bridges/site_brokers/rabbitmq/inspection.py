"""Finds what a RabbitMQ lacks for the bridge, and the lines that its administrator runs to change that.

Nothing is changed to find out. A refusal is an answer, on a channel of its own. Whether queues may be made is
tried on one of ours, which goes with the connection. Whether messages may be published is tried with one that
has no valid expiry: RabbitMQ looks at the permission first, and then refuses the message.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pika

from bridges.amqp.connection import Channel, Connection
from bridges.amqp.errors import ACCESS_REFUSED, NOT_FOUND, AmqpUnreachable, ChannelLost, ManagementError
from bridges.amqp.server import Server
from bridges.site_brokers.base import Finding, Setup
from bridges.site_brokers.rabbitmq.connection import exchanges_of
from bridges.site_brokers.rabbitmq.consumers import OURS
from bridges.site_brokers.rabbitmq.discovery import EVENTS_VHOST, EXCHANGE
from bridges.site_brokers.rabbitmq.exchanges import Exchanges
from bridges.site_brokers.rabbitmq.management import Management
from bridges.site_brokers.rabbitmq.ownership import holder

_OUR_QUEUES: Final = r"^sapwood\..*"
_OTHER_WAYS: Final = ("Shovel ", "Federation link ")
"""How RabbitMQ names the connections of these."""
_SHOWN: Final = 5
_NOTHING_OLD: Final = "consumers that are there before the node starts are not found, but for configured ones"
_NOTHING_SOON: Final = "consumers that come and go are noticed within seconds instead of at once"


async def inspect(setup: Setup, server: Server, management: Management) -> list[Finding]:
    """All findings. Raises `AmqpError` if there is no connection at all."""
    look = _Look(setup, server)
    connection = await Connection.open(server)
    try:
        await look.at_all(connection)
    finally:
        await connection.close()
    await look.at_events()
    await look.at_management(management)
    return look.found


def all_lines(setup: Setup, server: Server) -> tuple[str, ...]:
    """The commands that an administrator runs at a broker that knows nothing of us yet."""
    user, vhost = server.user, server.vhost
    lines = ["rabbitmq-plugins enable rabbitmq_event_exchange rabbitmq_management"]
    lines += [f"rabbitmqctl add_vhost {vhost}"] if vhost != EVENTS_VHOST else []
    lines += [f"rabbitmqctl add_user {user} PASSWORD", _in_vhost(user, vhost, exchanges_of(setup))]
    lines += [_at_events(user)] if vhost != EVENTS_VHOST else []
    return (*lines, f"rabbitmqctl set_user_tags {user} monitoring")


def _in_vhost(user: str, vhost: str, exchanges: Exchanges) -> str:
    spelled = "|".join(name.replace(".", r"\.") for name in exchanges)
    write = rf"^(sapwood\..*|amq\.default|{spelled})$"
    return f"rabbitmqctl set_permissions -p {vhost} {user} '{_OUR_QUEUES}' '{write}' '.*'"


def _at_events(user: str) -> str:
    read = r"^(sapwood\..*|amq\.rabbitmq\.event)$"
    return f"rabbitmqctl set_permissions -p {EVENTS_VHOST} {user} '{_OUR_QUEUES}' '{_OUR_QUEUES}' '{read}'"


class _Look:
    def __init__(self, setup: Setup, server: Server) -> None:
        self.found: list[Finding] = []
        self._setup = setup
        self._server = server
        self._exchanges = exchanges_of(setup)

    def _say(self, text: str, *lines: str, fatal: bool = False) -> None:
        self.found.append(Finding(fatal, text, lines))

    async def at_all(self, connection: Connection) -> None:
        """All that takes a message to see. A broker that is short of memory or disk reads none, nor anything
        else on that line, and says so.
        """
        blocked: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        connection.on_blocked = lambda why: None if blocked.done() else blocked.set_result(why)
        looks = asyncio.ensure_future(self._at_all(connection))
        await asyncio.wait((looks, blocked), return_when=asyncio.FIRST_COMPLETED)
        if not blocked.done():
            await looks
            return
        looks.cancel()
        await asyncio.gather(looks, return_exceptions=True)
        self._say(
            f"the broker takes no messages now ({blocked.result()}), so those for it wait at the node, and"
            " whether its user may publish was not looked at: give it memory or disk, and check again",
            "rabbitmq-diagnostics alarms",
        )

    async def _at_all(self, connection: Connection) -> None:
        await self.at_exchanges(connection)
        await self.at_holder(connection)
        await self.at_permissions(connection)

    async def at_holder(self, connection: Connection) -> None:
        """Is another node at this virtual host?"""
        who = await holder(connection)
        if who is not None and who.get("store") != self._setup.store and who.get("node") != self._setup.node:
            self._say(
                f"the virtual host {self._server.vhost!r} belongs to node {str(who.get('node'))[:80]!r}: one"
                " virtual host has one node; stop one of the two, or give this one another virtual host",
                fatal=True,
            )

    async def at_exchanges(self, connection: Connection) -> None:
        for name in self._exchanges:
            error = await _refusal(connection, partial(_check_exchange, name))
            if error is not None and error.code == NOT_FOUND:
                declare = f"declare exchange name={name} type=topic durable=true"
                self._say(
                    f"there is no exchange {name!r} in {self._server.vhost!r}",
                    f"rabbitmqadmin -V {self._server.vhost} {declare}",
                    fatal=True,
                )

    async def at_permissions(self, connection: Connection) -> None:
        """May we make and read our queues, bind them, and publish?"""
        refused = await _refusal(connection, partial(_publish, ""))
        for name in self._exchanges:
            refused = refused or await _refusal(connection, partial(_use_queue, name))
            refused = refused or await _refusal(connection, partial(_publish, name))
        if refused is not None and refused.code == ACCESS_REFUSED:
            user, vhost = self._server.user, self._server.vhost
            self._say(
                f"user {user!r} lacks rights in the virtual host {vhost!r}: {refused.text}",
                _in_vhost(user, vhost, self._exchanges),
                fatal=True,
            )

    async def at_events(self) -> None:
        """May we hear the event exchange?"""
        user = self._server.user
        permit = _at_events(user)
        if self._server.vhost == EVENTS_VHOST:
            permit = f"rabbitmqctl set_permissions -p {EVENTS_VHOST} {user} '{_OUR_QUEUES}' '.*' '.*'"
        try:
            connection = await Connection.open(self._server.at(EVENTS_VHOST))
        except AmqpUnreachable as error:
            self._say(f"no events, so {_NOTHING_SOON}: {error}", permit)
            return
        try:
            refused = await _refusal(connection, partial(_check_exchange, EXCHANGE))
            refused = refused or await _refusal(connection, partial(_use_queue, EXCHANGE))
        finally:
            await connection.close()
        if refused is not None and refused.code == NOT_FOUND:
            self._say(
                f"no event exchange, so {_NOTHING_SOON}", "rabbitmq-plugins enable rabbitmq_event_exchange"
            )
        elif refused is not None:
            self._say(f"no events, so {_NOTHING_SOON}: {refused.text}", permit)

    async def at_management(self, management: Management) -> None:
        try:
            await management.queues(self._server.vhost)
            for name in self._exchanges:
                await self._at_kind(management, name)
                await self._at_sources(management, name)
            await self._at_policies(management)
            await self._at_other_ways(management)
        except ManagementError as error:
            line = "rabbitmq-plugins enable rabbitmq_management"
            if error.status in (401, 403):
                line = f"rabbitmqctl set_user_tags {self._server.user} monitoring"
            self._say(f"no lists, so {_NOTHING_OLD}: {error}", line)

    async def _at_kind(self, management: Management, name: str) -> None:
        """Are topics what the exchange knows? AMQP does not tell."""
        vhost = self._server.vhost
        await management.bindings(vhost, name)
        kind = await management.kind_of_exchange(vhost, name)
        if kind not in ("topic", None):
            self._say(
                f"exchange {name!r} in {vhost!r} is of type {kind}: expected topic, for others give messages"
                " to more, or fewer, than their topics say; name another one",
                fatal=True,
            )

    async def _at_sources(self, management: Management, name: str) -> None:
        """A message tells the exchange that it was published to, and not those that it came through."""
        for source in sorted(await management.sources(self._server.vhost, name)):
            if self._exchanges.differ(source, name):
                self._say(
                    f"exchange {name!r} is bound to exchange {source!r}: a message that comes so tells only"
                    f" that it was published to {source!r}, whose topics are other ones; list {source!r}"
                    " under exchanges, and take the binding between the two away, or let both have no prefix",
                    f"rabbitmqadmin -V {self._server.vhost} delete binding source={source}"
                    f" destination_type=exchange destination={name} properties_key=KEY",
                    fatal=True,
                )

    async def _at_policies(self, management: Management) -> None:
        harm = await management.harm(self._server.vhost)
        if harm is not None:
            self._say(harm.text, *harm.lines)

    async def _at_other_ways(self, management: Management) -> None:
        """Shovels and federation, of this broker or of others, which name their connections so."""
        found = sorted(
            name for name in await management.connections(self._server.vhost) if name.startswith(_OTHER_WAYS)
        )
        if found:
            shown = ", ".join(repr(name[:80]) for name in found[:_SHOWN])
            self._say(
                f"messages go other ways here too ({shown}): what goes by one of these and through the tree"
                " comes twice, and goes round without end where a queue that one fills is read at its other"
                " end only; end it (sapwood config convert reads its lines), or leave its queues and topics"
                " out of the tree (rules)"
            )


async def _refusal(connection: Connection, what: Callable[[Channel], Awaitable[Any]]) -> ChannelLost | None:
    """How the broker refuses something; None if it does not. `ChannelLost` is the connection's loss."""
    channel = await connection.channel(confirms=True)
    try:
        await what(channel)
    except ChannelLost as error:
        if error.code == 0:
            raise
        return error
    await channel.close()
    return None


async def _check_exchange(exchange: str, channel: Channel) -> None:
    await channel.check_exchange(exchange)


async def _use_queue(exchange: str, channel: Channel) -> None:
    name = f"{OURS}check.{secrets.token_hex(8)}"
    await channel.declare(name, exclusive=True)
    await channel.bind(name, exchange, name)
    await channel.consume(name, lambda message: None, acknowledged=False)


async def _publish(exchange: str, channel: Channel) -> None:
    """Returns if we may; the broker refuses the message itself in any case."""
    channel.publish(exchange, f"{OURS}check", b"", pika.BasicProperties(expiration="never"))
    error = await channel.ended
    if error.code in (0, ACCESS_REFUSED):
        raise error
