"""The bridge to a Mosquitto, or to another MQTT broker with fewer talents.

It has three connections. The *door* has a name of its own, and meets whoever else claims this broker. The
*ear* hears the broker's log and counts: a flood of events fills no queue that messages wait in. The *session*
takes and delivers. The broker keeps what is for ear and session while they are away.

Law: what the broker gives is answered after our commit, what it is given counts when it has answered. Where a
message comes twice because two of our filters match (Mosquitto sends one each), only the one of the lowest
filter id is taken.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from paho.mqtt.enums import MQTTProtocolVersion

from bridges.mqtt.bulk import FAILURE
from bridges.properties import MqttProperties
from bridges.site_brokers.base import (
    BrokerConsumer,
    BrokerDelivery,
    Desk,
    Finding,
    Setup,
    SiteBrokerError,
    SiteBrokerRefused,
)
from bridges.site_brokers.mosquitto.connection import Filter, MqttConnection, Post, Received
from bridges.site_brokers.mosquitto.discovery import VERSION, LogDiscovery
from bridges.site_brokers.mosquitto.filters import OwnFilters
from bridges.site_brokers.mosquitto.given import GIVEN, Given
from bridges.site_brokers.mosquitto.inspection import inspect
from bridges.site_brokers.mosquitto.login import NO_MOUNT, ONE_ID, MqttAccess, Unsupported
from bridges.site_brokers.mosquitto.loop_detection import LoopDetection
from bridges.site_brokers.mosquitto.memory import Memory
from bridges.site_brokers.mosquitto.names import OURS, Names
from bridges.site_brokers.mosquitto.ownership import HOLDER, WHO, Ownership
from bridges.site_brokers.mosquitto.poison_messages import PoisonMessages
from bridges.site_brokers.mosquitto.publishing import Poster
from bridges.site_brokers.mosquitto.session_takeover import FILTERS
from bridges.site_brokers.mosquitto.taking import Subscriber
from bridges.site_brokers.mosquitto.withdrawal import ROUND, Withdrawal
from config.uris import address
from sapwood.protocol.destinations import Destination

_log = logging.getLogger("sapwood.site")
AT_MOST: Final = 1000
_EAR: Final = 3600
_SESSION: Final = 7 * 86_400
_SAVE_AFTER: Final = 0.5
_GATHERS: Final = 0.02
"""Seconds after a change that comes alone: the broker has answered what was given with it, in most cases."""
_LAST_WORDS: Final = 0.1
VERSIONS: Final = (MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311)


class _Session(NamedTuple):
    """The connection that takes and delivers, and who does it."""

    client: MqttConnection
    taking: Subscriber
    publishing: Poster


class MosquittoBridge:
    """The bridge. `versions`: of MQTT, in the order in which to try them."""

    def __init__(self, setup: Setup, versions: Sequence[MQTTProtocolVersion] = VERSIONS) -> None:
        self._setup = setup
        self._names = Names(setup.settings, setup.node)
        self._memory: Memory | None = None
        self.wanted: frozenset[Destination] = frozenset()
        self._poison = PoisonMessages()
        self._versions = versions
        self._ownership = Ownership(setup.store, setup.node, setup.tree)
        self._discovery: LogDiscovery | None = None
        self._session: _Session | None = None
        self._withdrawal: Withdrawal | None = None
        self._saving: asyncio.TimerHandle | None = None
        self._saved_at = float("-inf")
        self._version = ""
        self._inherited = self._given = b""
        self._leaving = False

    def __repr__(self) -> str:
        return f"<MosquittoBridge to {self._setup.settings.uri}>"

    @property
    def _access(self) -> MqttAccess:
        setup = self._setup
        where = address(setup.settings.uri)
        return MqttAccess(where, setup.settings.user, setup.secret(), setup.context(), setup.timeout)

    # --- a connection

    async def run(self, desk: Desk) -> None:
        """Connect and work until the connection is lost; raises `SiteBrokerError` then, always."""
        memory = self._memory
        if memory is None:
            memory = self._memory = Memory(self._setup.directory)
        self._leaving = False
        lost: asyncio.Future[SiteBrokerError] = asyncio.get_running_loop().create_future()

        def end(error: SiteBrokerError) -> None:
            if not lost.done():
                lost.set_result(error)

        clients: list[MqttConnection] = []
        discovery = LogDiscovery(self._setup, self._names, memory, desk, self._save_soon)
        try:
            version = await self._knock(clients, discovery, end)
            await self._own(clients[0], lost, end)
            self._discovery = discovery
            session = self._session = self._make_session(version, memory, desk, end)
            ear = self._client(self._client_id("ear-"), version, _EAR, discovery.heard, end)
            clients.append(ear)
            discovery.table.own = {ear.id, session.client.id, clients[0].id}
            await ear.open()
            await session.taking.open()
            if lost.done():
                raise SiteBrokerError(f"the broker at {self._setup.settings.uri}: {ONE_ID}")
            self._withdrawal = Withdrawal(clients[0], session.publishing.say, memory, desk, self._save_soon)
            desk.connected(discovery.broker or f"an MQTT broker ({self._version})")
            await discovery.begin(ear, session.client.id)
            session.publishing.begin(discovery)
            session.taking.begin(discovery)
            error = await lost
            await asyncio.sleep(_LAST_WORDS)
            self._poison.reason = discovery.last_words
            raise error
        finally:
            await self._close(clients)

    def _client_id(self, part: str = "") -> str:
        """The same for a machine that takes this one's place: what the broker keeps for it is its own."""
        setup = self._setup
        name = f"{setup.node}@{setup.tree}"
        return f"sapwood-{part}{self._memory.name(name, setup.store[:16]) if self._memory else name}"

    def _make_session(
        self, version: MQTTProtocolVersion, memory: Memory, desk: Desk, end: Callable[[SiteBrokerError], None]
    ) -> _Session:
        client = MqttConnection(
            self._access,
            self._client_id(),
            version,
            session=_SESSION,
            at_most=AT_MOST,
            on_message=lambda received: taking.came(received),
            on_lost=end,
        )
        filters, loops = OwnFilters(memory.filters), LoopDetection(memory.retained)
        publishing = Poster(
            client,
            self._names,
            filters,
            desk,
            loops,
            self._ownership,
            self._poison,
            self._save_soon,
            Given(self._given),
        )
        taking = Subscriber(
            client,
            self._names,
            filters,
            memory,
            desk,
            loops,
            publishing,
            self._save_soon,
            end,
            self.wanted,
            self._inherited,
        )
        return _Session(client, taking, publishing)

    def _client(
        self,
        name: str,
        version: MQTTProtocolVersion,
        session: int,
        on_message: Callable[[Received], None],
        end: Callable[[SiteBrokerError], None],
    ) -> MqttConnection:
        def heard(received: Received) -> None:
            client.answer(received)  # or the broker says nothing more after `AT_MOST`
            on_message(received)

        client = MqttConnection(
            self._access, name, version, session=session, at_most=AT_MOST, on_message=heard, on_lost=end
        )
        return client

    async def _knock(
        self, clients: list[MqttConnection], discovery: LogDiscovery, end: Callable[[SiteBrokerError], None]
    ) -> MQTTProtocolVersion:
        """Open the door, in the highest version that the broker speaks."""
        name = f"sapwood-door-{self._setup.store[:8]}-{self._ownership.run}"
        for version in self._versions:
            door = self._client(name, version, 0, lambda said: self._met(discovery, said), end)
            try:
                await door.open()
            except Unsupported as error:
                _log.info("= %s; trying an older version of MQTT", error)
                continue
            clients.append(door)
            self._version = "MQTT 5" if door.v5 else "MQTT 3.1.1"
            return version
        raise SiteBrokerRefused(
            f"the broker at {self._setup.settings.uri} speaks neither MQTT 5 nor MQTT 3.1.1: what is it?"
        )

    def _met(self, discovery: LogDiscovery, received: Received) -> None:
        if received.topic in (HOLDER, WHO):
            self._ownership.heard(received.topic, received.payload, received.retained)
        elif received.topic == FILTERS:
            self._inherited = received.payload if received.retained else self._inherited
        elif received.topic == GIVEN:
            self._given = received.payload if received.retained else self._given
        elif self._withdrawal is None or not self._withdrawal.heard(received):
            discovery.heard(received)

    async def _own(self, door: MqttConnection, lost: "asyncio.Future[SiteBrokerError]", end: Any) -> None:
        """Ask whether another node has this broker; raise `SiteBrokerRefused` if one has."""

        def say(topic: str, payload: bytes, retained: bool) -> None:
            door.post(Post(topic, payload, 1, retained, MqttProperties(), lambda code: None))

        self._inherited = self._given = b""
        own = [Filter(each, 1, own=True) for each in (HOLDER, WHO, FILTERS, GIVEN)]
        holder, who, *_ = await door.subscribe([*own, Filter(VERSION, 0), Filter(ROUND, 1)])
        self._ownership.ask(say, lambda text: end(SiteBrokerRefused(text)))
        await asyncio.sleep(0.05)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._ownership.patience):
                raise await asyncio.shield(lost)
        if max(holder, who) >= FAILURE or (door.v5 and not self._ownership.echoed):
            raise SiteBrokerRefused(
                f"the broker at {self._setup.settings.uri} does not let us write and read {OURS}#: give"
                f" site_broker's user the permissions that `sapwood node check` prints{NO_MOUNT}"
            )
        await door.unsubscribe([FILTERS, GIVEN])
        self._ownership.hold()

    async def _close(self, clients: list[MqttConnection]) -> None:
        session, self._session = self._session, None
        if self._discovery is not None:
            self._discovery.end()
        withdrawal, self._withdrawal = self._withdrawal, None
        if withdrawal is not None:
            withdrawal.end()
        self._ownership.leave()
        if session is not None:
            session.taking.end()
            session.publishing.end()
            await session.client.close()
        for client in clients:
            await client.close()
        if self._leaving and session is not None:
            await self._end_sessions(session.client.version)
        self._save()

    async def _end_sessions(self, version: MQTTProtocolVersion) -> None:
        """By connecting anew: a goodbye can be lost behind what the broker still sends, this is answered."""
        for name, command in zip(self._sessions(), self.farewell(), strict=True):
            client = self._client(name, version, 0, lambda received: None, lambda error: None)
            try:
                await client.open()
            except SiteBrokerError as error:
                _log.warning("! the site's broker keeps %s for us: %s; say there: %s", name, error, command)
            await client.close()

    # --- what the desk says

    def want(self, wanted: frozenset[Destination]) -> None:
        self.wanted = wanted
        if self._session is not None:
            self._session.taking.want(wanted)

    def deliver(self, batch: Sequence[BrokerDelivery]) -> None:
        if self._session is not None:
            self._session.publishing.deliver(batch)

    def greets(self, consumer: BrokerConsumer) -> bool:
        return False

    @property
    def retains(self) -> bool:
        return True

    def review(self, pattern: str) -> None:
        if self._withdrawal is not None:
            self._withdrawal.review(pattern)

    async def leave(self) -> None:
        session, withdrawal = self._session, self._withdrawal
        if session is None or withdrawal is None:
            raise SiteBrokerError(f"the broker at {self._setup.settings.uri} is not there")
        withdrawal.end()
        await session.taking.leave(withdrawal.door)
        self._leaving = True

    def farewell(self) -> list[str]:
        where = address(self._setup.settings.uri)
        user = f" -u {self._setup.settings.user} -P PASSWORD" if self._setup.settings.user else ""
        start = f"mosquitto_sub -h {where.host} -p {where.port}{user}"
        return [f"{start} -i {name} -E -t x" for name in self._sessions()]

    def _sessions(self) -> tuple[str, str]:
        """The client ids for which the broker keeps something while this node is away."""
        return self._client_id(), self._client_id("ear-")

    # --- memory

    def _save_soon(self) -> None:
        """At most once in `_SAVE_AFTER`."""
        if self._saving is None:
            loop = asyncio.get_running_loop()
            due = max(self._saved_at + _SAVE_AFTER, loop.time() + _GATHERS)
            self._saving = loop.call_at(due, self._save)

    def _save(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        if self._memory is not None:
            self._saved_at = asyncio.get_running_loop().time()
            if self._discovery is not None and self._discovery.tells:
                self._memory.clients = self._discovery.table.keep()
            self._memory.save_consumers()
        if self._session is not None and not self._leaving:
            given = self._session.publishing.saved()
            self._session.taking.saved()
            if self._withdrawal is not None:
                self._withdrawal.given(given)

    # --- for people

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = {"protocol": self._version}
        found |= self._discovery.status() if self._discovery is not None else {"discovery": ""}
        if self._session is None:
            return found
        ways = {"other_ways": dict(self._session.publishing.other_ways.reasons)}
        return found | self._session.taking.status() | ways

    async def inspect(self) -> list[Finding]:
        """Find what the broker lacks, with the lines for mosquitto.conf."""
        return await inspect(self._setup, self._access, self._names, self._versions)
