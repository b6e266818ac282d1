"""Finds what a Mosquitto lacks for a node beside it, by trying: each kind of log line is provoked and
listened for.

Leaves nothing at the broker, and disturbs no node that works there.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Final

from paho.mqtt.enums import MQTTProtocolVersion

from bridges.mqtt.bulk import FAILURE
from bridges.properties import MqttProperties
from bridges.site_brokers.base import Finding, Setup, SiteBrokerError
from bridges.site_brokers.mosquitto.connection import Filter, MqttConnection, Post, Received
from bridges.site_brokers.mosquitto.discovery import (
    BRIDGES,
    CONNECTION,
    COUNT,
    LOGS,
    SHARED,
    bridge_of,
    bridged,
)
from bridges.site_brokers.mosquitto.log_lines import LOG, SUBSCRIBE, UNSUBSCRIBE, Came, Went, read
from bridges.site_brokers.mosquitto.login import NO_MOUNT, ONE_ID, MqttAccess, Unsupported
from bridges.site_brokers.mosquitto.names import OURS, Names
from bridges.site_brokers.mosquitto.ownership import HOLDER, WHO
from treeconnector.wording import counted

_PATIENCE: Final = 3.0
_SAVES: Final = 0.5
_SAVED: Final = b"Saving in-memory database"
_PROBE: Final = OURS + "probe"
_INFORMATION: Final = LOG + "I"
KEPT: Final = (
    "persistence true",
    "autosave_on_changes true",
    "autosave_interval 1",
    "log_type information",
    "max_queued_messages 100000",
)
"""They let the broker keep what waits for the node while that is restarted, or while the broker is killed.
The last cannot be seen from outside; where no other is, it is not either."""
LOG_LINES: Final = {
    "subscribe": ("log_type subscribe",),
    "unsubscribe": ("log_type unsubscribe",),
    "connections": ("log_type notice", "connection_messages true"),
    "taken-over ids": ("log_type error",),
}


class _Ears:
    """The lines of the log that were heard. `missing`: kinds of lines that were not.

    `there`: subscriptions that there were before us. `held`: a node works here, or did. `bridges`: of the
    broker's own, or of another to it, that are connected.
    """

    def __init__(self, client_id: str) -> None:
        self._id = client_id
        self.missing = set(LOG_LINES)
        self.counts: set[str] = set()
        self.there = 0
        self.held = False
        self.bridges: set[str] = set()
        self.complete = asyncio.Event()
        self.pushed_out = False
        self.echoed = asyncio.Event()
        self.saved = asyncio.Event()

    def lost(self, error: SiteBrokerError) -> None:
        self.pushed_out = True

    def heard(self, received: Received) -> None:
        topic, payload = received.topic, received.payload
        if topic == _PROBE:
            self.echoed.set()
        elif topic == HOLDER:
            self.held = True
        elif topic.startswith(CONNECTION):
            if payload == b"1":
                self.bridges.add(bridge_of(topic))
        elif topic == _INFORMATION:
            if _SAVED in payload:
                self.saved.set()
        elif topic in (COUNT, SHARED):
            self.there += int(payload) if topic not in self.counts and payload.isdigit() else 0
            self.counts.add(topic)
        elif self._id.encode() in payload:
            event = read(topic, payload, (self._id,))
            found = {
                "subscribe": topic == SUBSCRIBE,
                "unsubscribe": topic == UNSUBSCRIBE,
                "connections": isinstance(event, Came),
                "taken-over ids": isinstance(event, Went) and b"already connected" in payload,
            }
            self.missing -= {name for name, true in found.items() if true}
        if not self.missing:
            self.complete.set()


async def inspect(
    setup: Setup, access: MqttAccess, names: Names, versions: Sequence[MQTTProtocolVersion]
) -> list[Finding]:
    """Raises `SiteBrokerError` if the broker is not there."""
    probe = f"sapwood-check-{secrets.token_hex(4)}"
    ears = _Ears(probe)
    ear = await _open(access, f"{probe}-ear", versions, ears)
    try:
        # First, or the count that is heard may have our own subscriptions in it.
        await ear.subscribe([Filter(text, 0) for text in (COUNT, SHARED, BRIDGES)])
        found = [*_protocol(setup, ear), *await _permissions(ear, names, ears), *_bridges(ears)]
        codes = await ear.subscribe([Filter(text, 0) for text in LOGS])
        if setup.settings.discovery == "automatic":
            await _provoke(access, probe, versions)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await ears.complete.wait()
            if ears.pushed_out:
                lines = ("per_listener_settings true", "listener PORT ADDRESS")
                return [*found, Finding(True, f"the site's broker: {ONE_ID}", lines)]
            found += _log(ears, max(codes) >= FAILURE)
            found += _before(setup, ears)
        if ear.retains and len(ears.missing) < len(LOG_LINES):
            found += await _saves(ear, ears)
        return found
    finally:
        await ear.close()


async def _open(
    access: MqttAccess, client_id: str, versions: Sequence[MQTTProtocolVersion], ears: _Ears
) -> MqttConnection:
    for version in versions:
        client = MqttConnection(
            access,
            client_id,
            version,
            session=0,
            at_most=1000,
            on_message=ears.heard,
            on_lost=ears.lost,
        )
        with contextlib.suppress(Unsupported):
            await client.open()
            return client
    raise SiteBrokerError(f"the broker at {access.address.uri} speaks neither MQTT 5 nor MQTT 3.1.1")


def _protocol(setup: Setup, ear: MqttConnection) -> list[Finding]:
    found = []
    if not ear.v5:
        text = (
            "the broker speaks MQTT 3.1.1 only: properties (content type, response topic, user properties,"
            " expiry) have no place there, and what it refuses cannot be told from what it takes"
        )
        found.append(Finding(False, text))
    if ear.max_qos < 2:
        text = f"the broker has no quality of service above {ear.max_qos}: messages are given to it with that"
        text += (
            "; with 0 it answers none, and they count as given when they are sent" if not ear.max_qos else ""
        )
        found.append(Finding(False, text, ("max_qos 2",)))
    if not ear.retains:
        text = "the broker retains nothing: what is retained in the tree is given to it as any other message"
        found.append(Finding(False, text, ("retain_available true",)))
    if ear.max_packet < setup.max_message:
        text = (
            f"the broker takes packets of at most {ear.max_packet} bytes, the tree messages of up to"
            f" {setup.max_message}: larger ones become dead letters here"
        )
        found.append(Finding(False, text, (f"max_packet_size {setup.max_message + 65_536}",)))
    return found


async def _permissions(ear: MqttConnection, names: Names, ears: _Ears) -> list[Finding]:
    """Tried by saying something that we hear: a Mosquitto with an acl_file grants every subscription."""
    filters = [Filter(HOLDER, 1), Filter(WHO, 1), Filter(names.to_nodes, 1), Filter(_PROBE, 1, own=True)]
    codes = await ear.subscribe(filters)
    ear.post(Post(_PROBE, b"?", 1, False, MqttProperties(), lambda code: None))
    if ear.v5:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await ears.echoed.wait()
    if max(codes) < FAILURE and (ears.echoed.is_set() or not ear.v5):
        return []
    lines = (
        "user THE_USER_OF_SITE_BROKER",
        f"topic readwrite {OURS}#",
        "topic read $SYS/#",
        f"topic read {names.to_nodes}",
        "topic readwrite # (or the topics and queues that may pass)",
    )
    text = f"the broker does not let us read what a node needs{NO_MOUNT}; lines for its acl_file:"
    return [Finding(True, text, lines)]


async def _saves(ear: MqttConnection, ears: _Ears) -> list[Finding]:
    """Two changes, each of which is to be saved at once: saves by the clock have a second between them."""
    await ear.subscribe([Filter(_INFORMATION, 0)])
    saved = []
    for payload in (b"?", b""):
        ears.saved.clear()
        ear.post(Post(_PROBE, payload, 1, True, MqttProperties(), lambda code: None))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SAVES):
                await ears.saved.wait()
        saved.append(ears.saved.is_set())
    if all(saved):
        return []
    text = (
        "the broker does not show that it saves at once what it confirms: killed, it comes back as it was"
        " up to half an hour ago, and what it confirmed since is lost; add the lines that lack, and restart"
        " Mosquitto: it loses what it answered in the last round of its loop then, and nothing before"
    )
    return [Finding(False, text, KEPT[:4])]


async def _provoke(access: MqttAccess, probe: str, versions: Sequence[MQTTProtocolVersion]) -> None:
    """A client that comes, subscribes, unsubscribes, and is pushed out by another one of its id."""
    first = await _open(access, probe, versions, _Ears(""))
    await first.subscribe([Filter(_PROBE, 0)])
    await first.unsubscribe([_PROBE])
    second = await _open(access, probe, versions, _Ears(""))
    await first.close()
    await second.close()


def _log(ears: _Ears, denied: bool) -> list[Finding]:
    found = []
    if ears.missing:
        missing = [name for name in LOG_LINES if name in ears.missing]
        lines = [line for name in missing for line in LOG_LINES[name]]
        if len(missing) == len(LOG_LINES):
            lines = ["log_dest topic", *lines, *KEPT]
        why = "we may not read it" if denied else "mosquitto.conf lacks lines; add them and restart Mosquitto"
        text = f"consumers are not found: the broker's log does not show {', '.join(missing)}: {why}"
        found.append(Finding(False, text, tuple(lines)))
    if COUNT not in ears.counts:
        text = "the broker does not count its subscriptions: what was missed is not noticed"
        found.append(Finding(False, text, ("sys_interval 10",)))
    return found


def _bridges(ears: _Ears) -> list[Finding]:
    if not ears.bridges:
        return []
    text = (
        f"{bridged(ears.bridges)}: where nodes of one tree are at both, a topic that goes both"
        " ways through the bridge and through the tree goes round without end; end the bridge (sapwood config"
        " convert reads its lines), or keep its topics out of the tree with `rules`"
    )
    return [Finding(False, text)]


def _before(setup: Setup, ears: _Ears) -> list[Finding]:
    """Tell of subscriptions from before a node was here to hear of them."""
    if ears.held or not ears.there or setup.settings.persistence_file is not None:
        return []
    text = (
        f"the broker has {counted(ears.there, 'subscription')} already, and no list of them: start the node,"
        " then restart the broker once: its applications subscribe again, and are found. Else name what they"
        " read under site_broker's `consumers`; of sessions that are kept, its `persistence_file` tells"
    )
    return [Finding(False, text)]
