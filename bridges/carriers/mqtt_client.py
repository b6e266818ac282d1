"""paho-mqtt on an asyncio loop, through its socket callbacks and without a thread of its own.

Law: an error of paho or of the broker becomes a `CarrierError` here. The connection is made once: who wants
another one makes another client.

Wrinkle: connecting (name look-up, TCP, TLS) would block, and leave a socket behind when TLS fails. So the
socket is made here, in a thread, and paho is given it.
More messages than the broker takes unconfirmed wait here.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from bridges.carriers.base import CLOSE_TIMEOUT, CarrierAbsent, CarrierBroken, CarrierBusy, CarrierError
from bridges.carriers.brokered.line import BrokerAccess
from bridges.dialling import why_not
from bridges.mqtt.bulk import FAILURE, LARGEST, MOST_UNANSWERED, PahoInBulk
from bridges.mqtt.library import paho
from bridges.mqtt.packets import Publish
from bridges.mqtt.properties import WITHOUT
from bridges.mqtt.watch import PahoWatch
from bridges.tls import client_context

KEEP_ALIVE: Final = 20
_DIAL_TIMEOUT: Final = 30.0
_BUSY: Final = frozenset({0x89, 0x97})
_NOBODY: Final = 0x10


class LinkClient:
    """One MQTT 5 connection. `on_message(topic, payload)`, `on_lost(error)`: called on the loop.

    `receive_at_most`: bytes of a packet that the broker may send us. `will`: topic and payload.
    `ends_when_refused`: also when nobody hears what we publish; else that is nothing.
    """

    def __init__(
        self,
        access: BrokerAccess,
        uri: str,
        client_id: str,
        *,
        on_message: Callable[[str, bytes], None],
        on_lost: Callable[[CarrierError], None],
        receive_at_most: int = LARGEST,
        will: tuple[str, bytes] | None = None,
    ) -> None:
        self.max_packet = LARGEST
        self.ends_when_refused = True
        self._access = access
        self._uri = uri
        self._on_message = on_message
        self._on_lost = on_lost
        self._receive_at_most = receive_at_most
        self._error: CarrierError | None = None
        self._over = False
        self._loop = asyncio.get_running_loop()
        self._in_flight = MOST_UNANSWERED
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._unconfirmed: set[int] = set()
        self._settled = asyncio.Event()
        self._settled.set()
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._subscribed: dict[int, asyncio.Future[None]] = {}
        self._context = client_context(access.tls) if access.tls is not None else None
        self._client = self._make(client_id, will)
        self._watch = PahoWatch(self._client, self._was_lost)

    def __repr__(self) -> str:
        state = "over" if self._over else "open" if self._watch.is_open else "new"
        return (
            f"<LinkClient to {self._uri} {state}, {len(self._waiting) + len(self._unconfirmed)} unconfirmed>"
        )

    def _make(self, client_id: str, will: tuple[str, bytes] | None) -> "_LinkPaho":
        client = _LinkPaho(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
        access = self._access
        if access.user:
            client.username_pw_set(access.user, access.password)
        if will is not None:
            client.will_set(will[0], will[1], qos=1)
        client.on_socket_open = lambda _client, _data, opened: self._watch.begin(opened)
        client.on_connect = self._was_connected
        client.on_disconnect = self._was_disconnected
        client.given = self._was_told
        client.answered = self._was_published
        client.on_subscribe = self._was_subscribed
        return client

    # --- opening

    async def open(self) -> None:
        """Connect and log in, with a clean start. Raises `CarrierError`. No time limit of its own."""
        work = self._loop.run_in_executor(None, _dial, self._access, self._context)
        try:
            self._client.made = await asyncio.shield(work)
            self._log_in()
            await self._connected
        except asyncio.CancelledError:
            work.add_done_callback(_abandon)
            self._drop()
            raise
        except CarrierError:
            self._drop()
            raise
        except (OSError, ValueError) as error:
            self._drop()
            tls = "; it may speak no TLS there, or ask for a client certificate" if self._access.tls else ""
            kind = CarrierAbsent if isinstance(error, ConnectionRefusedError) else CarrierBroken
            raise kind(why_not(error, self._uri, hint=tls)) from None

    def _log_in(self) -> None:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 0
        properties.MaximumPacketSize = self._receive_at_most
        self._client.connect(
            self._access.host,
            self._access.port,
            keepalive=KEEP_ALIVE,
            clean_start=True,
            properties=properties,
        )

    def _was_connected(
        self,
        _client: object,
        _data: object,
        _flags: object,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if self._connected.done():
            return
        if reason.is_failure:
            kind = CarrierBusy if reason.value in _BUSY else CarrierBroken
            self._connected.set_exception(kind(_explain_refusal(reason, self._uri, self._access)))
            return
        said = properties.json() if properties is not None else {}  # type: ignore[no-untyped-call]
        self.max_packet = int(said.get("MaximumPacketSize", LARGEST))
        self._in_flight = min(int(said.get("ReceiveMaximum", MOST_UNANSWERED)), MOST_UNANSWERED)
        self._connected.set_result(None)

    # --- saying and hearing

    async def subscribe(self, topic: str) -> None:
        """Subscribe at QoS 1. Raises `CarrierError` if the broker does not let us."""
        result, number = self._client.subscribe(topic, qos=1)
        if result != MQTTErrorCode.MQTT_ERR_SUCCESS or number is None:
            raise self._error or CarrierBroken(f"the connection to {self._uri} was lost")
        granted = self._subscribed[number] = self._loop.create_future()
        try:
            await granted
        finally:
            self._subscribed.pop(number, None)

    def _was_subscribed(
        self, _client: object, _data: object, number: int, reasons: list[ReasonCode], _properties: object
    ) -> None:
        granted = self._subscribed.get(number)
        if granted is None or granted.done():
            return
        if any(reason.is_failure for reason in reasons):
            text = f"{self._uri} does not let {self._who} read its topic ({reasons[0]}): {_SEE_PERMISSIONS}"
            granted.set_exception(CarrierBroken(text))
        else:
            granted.set_result(None)

    def publish(self, topic: str, payload: bytes) -> None:
        """At QoS 1. A message that the broker refuses, or that nobody hears, ends the connection."""
        if self._over:
            return
        self._waiting.append((topic, payload))
        self._settled.clear()
        self._publish_waiting()

    def _publish_waiting(self) -> None:
        while self._waiting and len(self._unconfirmed) < self._in_flight:
            topic, payload = self._waiting.popleft()
            number = self._client.publish_in_bulk(topic, payload, 1, False, WITHOUT)
            self._unconfirmed.add(number)

    def _was_published(self, numbers: Sequence[int], code: int) -> None:
        if code >= FAILURE:
            self._was_refused(code)
            return
        self._unconfirmed.difference_update(numbers)
        self._publish_waiting()
        if not self._unconfirmed:
            self._settled.set()
        if code == _NOBODY and self.ends_when_refused:
            self._end(CarrierBroken(f"the broker at {self._uri} is there, but no node listens behind it"))

    def _was_refused(self, code: int) -> None:
        if not self.ends_when_refused:
            self._unconfirmed.clear()
            self._settled.set()
            return
        match code:
            case 0x87:
                text = f"does not let {self._who} publish to its topic (Not authorized): {_SEE_PERMISSIONS}"
            case 0x95:
                text = (
                    "refuses a message as too large: raise its message_size_limit, or lower max_frame in the"
                    " limits of the node"
                )
            case _:
                text = f"refuses what we publish, with reason 0x{code:02X} of MQTT 5: look at its log"
        self._end(CarrierBroken(f"the broker at {self._uri} {text}"))

    def _was_told(self, message: Publish) -> None:
        if not self._over:
            self._on_message(message.topic, message.payload)
            if message.qos:
                self._client.answer(message.packet_id, message.qos)

    @property
    def _who(self) -> str:
        return repr(self._access.user) if self._access.user else "a nameless client"

    # --- the end

    def _was_disconnected(
        self,
        _client: object,
        _data: object,
        flags: paho.DisconnectFlags,
        reason: ReasonCode,
        _properties: object,
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._end(CarrierBroken(f"the broker at {self._uri} ended the connection: {reason}"))
        else:
            self._was_lost()

    def _was_lost(self) -> None:
        self._end(CarrierBroken(f"the connection to the broker at {self._uri} was lost"))

    def _end(self, error: CarrierError) -> None:
        if self._over:
            return
        self._error = error
        self._drop()
        for waiting in (self._connected, *self._subscribed.values()):
            if not waiting.done():
                waiting.set_exception(error)
        self._on_lost(error)

    def _drop(self) -> None:
        self._over = True
        self._settled.set()
        self._watch.end()
        if self._connected.done() and not self._connected.cancelled():
            self._connected.exception()

    async def close(self) -> None:
        """Wait until the broker has what was published, then disconnect."""
        if self._over:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._settled.wait()
        if not self._over:
            self._over = True
            self._client.disconnect()
            self._client.loop_write()
            self._drop()


class _LinkPaho(PahoInBulk):
    """Uses the socket that was `made` for it."""

    made: socket.socket | None = None

    def _create_socket(self) -> Any:
        if self.made is None:
            raise ConnectionError("a connection is made once")
        made, self.made = self.made, None
        return made


def _dial(access: BrokerAccess, context: ssl.SSLContext | None) -> socket.socket:
    """In a thread: a connection, encrypted if there is a context."""
    bound = (access.local, 0) if access.local else None
    made = socket.create_connection((access.host, access.port), _DIAL_TIMEOUT, bound)
    if context is None:
        return made
    try:
        return context.wrap_socket(made, server_hostname=access.host)
    except BaseException:
        made.close()
        raise


def _abandon(work: asyncio.Future[socket.socket]) -> None:
    """Nobody waits any more for a connection that has been made, or not."""
    if not work.cancelled() and work.exception() is None:
        work.result().close()


_SEE_PERMISSIONS: Final = "sapwood config acl prints the permissions that a link needs"


def _explain_refusal(reason: ReasonCode, uri: str, access: BrokerAccess) -> str:
    who = repr(access.user) if access.user else "a client without a user name"
    hint = {
        0x84: "links need MQTT 5: Mosquitto 1.6 or later",
        0x86: "look at user and password",
        0x87: "look at user and password, and at allow_anonymous of the broker",
    }.get(reason.value, "look at the broker's log")
    return f"the broker at {uri} does not take {who} ({reason}): {hint}"
