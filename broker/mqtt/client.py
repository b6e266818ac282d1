"""One MQTT client as a session of the switch, from its first byte to its last.

The session is `mqtt/` and the client's id. So MQTT is promised what every session is: what was acknowledged
to it is on disk, and what was given to it stays until it acknowledges.

Law: before its CONNECT is accepted a client makes the node keep `_MOST_OF_A_STRANGER` bytes at most, and
nothing of it is read that comes behind its CONNECT. Whatever was read goes with its connection. Between its
packets it gives way to all others, as a link does between frames (`broker.shares`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final, cast

from bridges.mqtt import packets, readers
from bridges.mqtt.fields import PacketError
from bridges.mqtt.packets import (
    Connect,
    Disconnect,
    Packet,
    PacketAnswer,
    Publish,
    Subscribe,
    Unsubscribe,
)
from bridges.mqtt.readers import Acknowledged, Alike
from bridges.resets import rest_of
from broker.core.node import NodeCore
from broker.core.sessions.sessions import Connection, Window
from broker.intake import Guest
from broker.intake.addresses import shown
from broker.mqtt.connecting import Connecting
from broker.mqtt.names import DoorNames
from broker.mqtt.packet_ids import ReceivedIds
from broker.mqtt.ports import Clients
from broker.mqtt.publishing import Publishing
from broker.mqtt.reading import MqttReading
from broker.mqtt.reasons import Reason
from broker.mqtt.subscribing import Returning, Subscribing
from broker.mqtt.unread import Outlet
from broker.shares import LoopShare
from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.session_frames import (
    ClientFrame,
    Confirm,
    Deliver,
    Done,
    Failed,
    NodeFrame,
    Reject,
    Welcome,
)

_log = logging.getLogger("sapwood.mqtt")
_CONNECT_TIMEOUT: Final = 10.0
_MOST_OF_A_STRANGER: Final = 64 * 1024
_LONGEST_WHY: Final = 200


class MqttConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, port: Clients, guest: Guest) -> None:
        self._port = port
        self._host = port.host
        self._guest = guest
        self._switch = port.host.core.switch
        port.host.core.advance(port.host.now())
        self._loop = asyncio.get_running_loop()
        self._reader = readers.PacketReader(_MOST_OF_A_STRANGER)
        self._publishing = Publishing(self)
        self._reading = MqttReading(self)
        self._connecting = Connecting(self, port, guest)
        self._running = self.over = self._told = False
        self._rests = False
        self._subscribing: Subscribing | Returning | None = None
        self._share = LoopShare(port.host.shares, port.host.wake)
        self._requests = self._failures = 0
        self.is_5, self.is_explained, self.most_packet = False, True, 0
        self.failure = self.entered_as = self._lost = ""
        self._heard = 0.0

    def __repr__(self) -> str:
        return f"<MqttConnection {self.client_id!r} at {self.connection.address} {self._reading!r}>"

    @property
    def client_id(self) -> str:
        return self._connecting.client_id

    @property
    def names(self) -> DoorNames:
        return self._port.names

    @property
    def session(self) -> str:
        """The name of its session, '' before it has one: of two accounts each has its own client ids."""
        session = self.connection.session
        return session.token if session is not None else ""

    # --- the line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none of asyncio's classes
        address = shown(transport.get_extra_info("peername"))
        self.connection = Connection(self._said, address, "mqtt", rights=None, end=self._sent_away)
        beside = transport.get_extra_info("kept", int)  # what has come of a WebSocket's frame
        self._outlet = Outlet(
            self._host,
            self.transport,
            self.connection,
            lambda: len(self._reader) + beside() + self._publishing.unconfirmed,
            self._flooded,
        )
        self._port.arrived(self)
        self._timer = self._loop.call_later(
            _CONNECT_TIMEOUT, self.end, "it did not log in in time", Reason.SILENT
        )

    def data_received(self, data: bytes) -> None:
        if self.over:
            return
        self._heard = self._loop.time()
        self.connection.bytes_in += len(data)
        if self._rests:
            self._reader.add(data)  # a line that is not read any more may have had something already
            self._outlet.look()
            return
        self._share.begin()
        self._read(data)
        self._outlet.look()
        self._wake()

    def _read(self, data: bytes) -> None:
        """Take the packets that are whole; behind a CONNECT none before that is accepted."""
        try:
            if self._is_asked:
                self._reader.keep(data)
                return
            self._subscribe_on()
            for packet in self._reader.feed(data) if self._subscribing is None else ():
                self._take(packet)
                if not self._running or self.over or self._subscribing is not None:
                    break
                if self._share.is_over:
                    self._rest()
                    break
            if self._subscribing is not None and not self.over:
                self._rest()
            self._flush()
        except packets.WrongLevel as error:
            self.write(error.answer)
            self.end(str(error))
        except PacketError as error:
            self.write(error.answer)
            self.end(str(error), error.reason)
        except SapwoodError as error:
            self.end(str(error))

    def _rest(self) -> None:
        """It has had its slice: others have their turns before the next of its packets."""
        self._rests = True
        self._outlet.pause_reading()
        self._host.spawn(self._go_on())

    async def _go_on(self) -> None:
        host = self._host
        await self._share.give_way()
        self._rests = False
        if self.over:
            host.wake()
            return
        host.core.advance(host.now())
        self._heard = self._loop.time()
        try:
            self._read(b"")
        except Exception:
            _log.exception("! an MQTT packet was not understood and not refused: please report this")
            self.end("not understood")
        if self._lost and not self._rests:
            self.end(self._lost)
        self._read_on()
        self._wake()

    def _wake(self) -> None:
        """Ask for a commit, unless its work goes on after a slice of the others: its share asks then."""
        if not self._rests:
            self._host.wake()

    @property
    def _is_asked(self) -> bool:
        """Is the switch being asked whether it may log in?"""
        return self._connecting.asked and not self._running

    def connection_lost(self, error: Exception | None) -> None:
        self._guest.leave()
        self._outlet.gone()
        self._lost = f"the line broke: {error}" if error else "it went without a DISCONNECT"
        try:
            self.data_received(rest_of(self.transport) if error else b"")
        finally:  # a fault of ours, for which the line was closed, may come once more
            if not self._rests:
                self.end(self._lost)

    def end(self, why: str, reason: int = Reason.UNSPECIFIED, seldom: bool = False) -> None:
        """End it for a reason that the client has not chosen: its will is published. Once.

        `seldom`: it comes back at once with the same, so that is said now and then only.
        """
        if self.over:
            return
        address, probes = self.connection.address, not self._connecting.asked
        if not (seldom or probes) or self._port.throttle.is_new(address, f"{self.client_id} {why}"):
            _log.info("- MQTT client %r at %s: %s", self.client_id, address, why)
        self.connection.replaced = reason == Reason.TAKEN_OVER
        if self._running:
            self._publishing.flush()  # its QoS 2 identifiers are kept, so the messages must be
            self._last_words(why, reason)
            self._connecting.leave_will(self._publishing)
        self.leave()

    def _last_words(self, why: str, reason: int) -> None:
        """A client of MQTT 5 is told why its connection ends."""
        if self._running and self.is_5:
            said = packets.disconnect(reason, why[:_LONGEST_WHY])
            self.write(said if len(said) <= self.most_packet else packets.disconnect(reason, ""))
            self._told = True

    def _sent_away(self, reason: str) -> None:
        _log.info("- MQTT client %r at %s: %s", self.client_id, self.connection.address, reason)
        self._last_words(reason, Reason.BY_OPERATOR)
        self.leave()

    def _flooded(self) -> None:
        self.end("it leaves its messages unread, or is in the middle of much", Reason.QUOTA_EXCEEDED)
        self._guest.cut()

    def stop(self) -> None:
        """The node stops, which is no reason for a will."""
        self._last_words("the node stops", Reason.SHUTTING_DOWN)
        self._told = False  # nobody is there to pass over what it still writes
        self.leave()

    def leave(self) -> None:
        """End it without a will. Once."""
        if self.over:
            return
        self.over = self.connection.behind = True
        self._reading.flush()  # what it acknowledged just before
        self._timer.cancel()
        self._reader.forget()
        self._switch.close(self.connection)
        self._port.left(self)
        self._outlet.close(told=self._told)
        self._host.wake()

    def write(self, data: bytes) -> None:
        self._outlet.write(data)

    def _look(self) -> None:
        """Has it been silent for half as long again as it said? One that is not read cannot tell."""
        patience = 1.5 * self._connecting.keep_alive
        is_read = not self._publishing.is_crowded(self._host.buffers.share)
        left = self._heard + patience - self._loop.time() if is_read else patience
        if left <= 0:
            self.end(f"it was silent for longer than {patience:g} s", Reason.SILENT)
        else:
            self._timer = self._loop.call_later(left, self._look)

    # --- packets

    def _take(self, packet: Packet | Alike | Acknowledged) -> None:
        if self.over:
            return
        if not self._running:
            if not isinstance(packet, Connect):
                raise PacketError("the first packet is not CONNECT")
            self._outlet.pause_reading()
            self._connecting.open(packet, self._publishing)
        elif isinstance(packet, Publish):
            self._publishing.take(packet)
        elif isinstance(packet, Alike):
            self._publishing.take_alike(packet.publishes)
        elif isinstance(packet, Acknowledged):
            self._reading.acknowledged(packet.packet_ids)
        elif isinstance(packet, PacketAnswer) and packet.kind == packets.PUBACK:
            self._reading.acknowledged((packet.packet_id,))
        else:
            self._publishing.flush()
            self._take_other(packet)

    def _take_other(self, packet: Packet) -> None:
        match packet:
            case PacketAnswer(kind=packets.PUBREC, packet_id=number, reason=reason):
                self._reading.received(number, reason)
            case PacketAnswer(kind=packets.PUBCOMP, packet_id=number):
                self._reading.completed(number)
            case PacketAnswer(packet_id=number):
                self._release(number)
            case Subscribe():
                self._reading.hold_back()
                self._subscribe(packet)
            case Unsubscribe():
                self._subscribe(packet)
            case packets.PingRequest():
                self.write(packets.PINGRESP)
            case Disconnect():
                self._disconnected(packet)
            case packets.Auth():
                raise PacketError("AUTH, and no method of authentication was agreed", Reason.PROTOCOL_ERROR)
            case _:
                raise PacketError("a second CONNECT", Reason.PROTOCOL_ERROR)

    def _release(self, number: int) -> None:
        """PUBREL: its identifier may be used again."""
        known = number in self._publishing.received
        self._publishing.received.discard(number)
        reason = 0 if known or not self.is_5 else Reason.UNKNOWN_IDENTIFIER
        self.answer_after_commit(packets.answer(packets.PUBCOMP, number, reason))

    def _subscribe(self, packet: Subscribe | Unsubscribe) -> None:
        self._subscribing = Subscribing(self._reading, packet, self.most_packet)
        self._subscribe_on()

    def _subscribe_on(self) -> None:
        """Go on with its return, or a SUBSCRIBE or UNSUBSCRIBE packet, and answer that once all is done."""
        under_way = self._subscribing
        if under_way is None or not under_way.go_on(lambda: self._share.is_over):
            return
        self._subscribing = None
        under_way.answer(self)

    def _disconnected(self, packet: Disconnect) -> None:
        self._connecting.disconnected(packet.expires_in)
        if packet.reason:  # only a normal end takes the will back: section 3.1.2.5
            self._connecting.leave_will(self._publishing)
        self.leave()

    def answer_after_commit(self, answer: bytes) -> None:
        self.after_commit(lambda: self.write(answer))

    def _flush(self) -> None:
        if self.over:
            return
        self._publishing.flush()
        self._reading.flush()
        if self._publishing.is_crowded(self._host.buffers.share):
            self._outlet.pause_reading()

    # --- connecting

    def _begin(self) -> None:
        """It is logged in: what it read before goes on, or ends with a clean session."""
        if self.over or self._running:
            return
        wishes = self._connecting.wishes
        self.is_5, self.is_explained = self._connecting.is_5, wishes.is_explained
        self.most_packet = wishes.most_packet
        self._port.entered(self)
        self._running = True
        self._guest.prove()
        self._reader.most = self._port.max_packet
        self._reader.cuts = not self.is_5
        self.connection.window = Window(wishes.window)
        self._reading.begin(wishes.aliases)
        self._timer.cancel()
        if self._connecting.keep_alive:
            self._look()
        self._subscribing = Returning(self._return())
        self._share.begin()
        self._read(b"")
        self._read_on()
        self._host.wake()

    def _return(self) -> Iterator[None]:
        """Its kept session goes on, or the one before has ended, before it is welcome."""
        try:
            yield from self._connecting.make_room()
            kept = self._connecting.welcome()
            if kept is not None:
                self._publishing.received = ReceivedIds(kept)
                yield from self._reading.go_on(kept)
        except SapwoodError as error:
            raise PacketError(str(error), Reason.QUOTA_EXCEEDED) from None

    def _read_on(self) -> None:
        if not (self.over or self._rests or self._publishing.is_crowded(self._host.buffers.share)):
            self._outlet.resume_reading()

    # --- the switch

    def ask(self, *frames: ClientFrame) -> bool:
        """Whether the switch did all of it. What it answers comes while this runs, or later."""
        failures = self._failures
        self._switch.receive(self.connection, list(frames))
        return self._failures == failures

    @property
    def core(self) -> NodeCore:
        return self._host.core

    def after_commit(self, call: Callable[[], None]) -> None:
        self._switch.when_committed(call)

    def new_request(self) -> int:
        self._requests += 1
        return self._requests

    def _said(self, frame: NodeFrame) -> None:
        """The switch's answers and deliveries. It must not be asked anything from here."""
        if self.over:
            return
        match frame:
            case Deliver():
                self._deliver(frame)
            case Confirm(through=through):
                self._publishing.confirmed(through)
                self._read_on()
            case Reject():
                why = self._publishing.rejected(frame)
                if why:
                    self._loop.call_soon(self.end, why, Reason.QUOTA_EXCEEDED, True)
            case Welcome():
                self._loop.call_soon(self._begin)
            case Failed(request=0) if self._running:
                self._loop.call_soon(self.end, frame.text)
            case Failed(request=0):
                self._loop.call_soon(self._connecting.refuse_login, frame.code, frame.text)
            case Failed():
                self._failures += 1
                self.failure = frame.code
                _log.info("! MQTT client %r: %s", self.client_id, frame.text)
            case Done():
                pass
            case _:
                _log.info("= MQTT client %r: %s", self.client_id, getattr(frame, "text", frame))

    def _deliver(self, frame: Deliver) -> None:
        try:
            self._reading.deliver(frame)
            self._outlet.wait_for_reader()
        except SapwoodError as error:
            self._loop.call_soon(self.end, str(error))
        self._loop.call_soon(self._acknowledge)

    def _acknowledge(self) -> None:
        """What was written with QoS 0 is dealt with."""
        if not self.over:
            self._reading.flush()
            self._host.wake()
