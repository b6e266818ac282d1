"""One MQTT client as a session of the switch, from its first byte to its last.

The session is `mqtt/` and the client's id. So MQTT is promised what every session is: what was acknowledged
to it is on disk, and what was given to it stays until it acknowledges.

Law: before its CONNECT is accepted a client makes the node keep `_MOST_OF_A_STRANGER` bytes at most, and
nothing of it is read that comes behind its CONNECT. Whatever was read goes with its connection. Between its
packets it gives way to all others, as a link does between frames (`broker.shares`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from bridges.tls import shown_by
from broker.core.clients.kept_sessions import NEVER
from broker.core.errors import TOO_MANY, NotLoggedIn, SwitchError
from broker.core.node import NodeCore
from broker.core.sessions.rights import Rights
from broker.core.sessions.sessions import Connection
from broker.entrance.entrance import Caller
from broker.entrance.near import is_near
from broker.intake import Guest
from broker.mqtt import packets
from broker.mqtt.packet_ids import ReceivedIds
from broker.mqtt.packets import (
    Connect,
    Disconnect,
    Packet,
    PacketAnswer,
    PacketError,
    Publish,
    Subscribe,
    Unsubscribe,
)
from broker.mqtt.ports import Clients
from broker.mqtt.publishing import Publishing
from broker.mqtt.reading import MqttReading
from broker.mqtt.unread import Outlet
from broker.shares import LoopShare
from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.session_frames import (
    VERSION,
    ClientFrame,
    Confirm,
    Deliver,
    Done,
    Failed,
    Login,
    NodeFrame,
    Reject,
    Welcome,
)

_log = logging.getLogger("sapwood.mqtt")
_CONNECT_TIMEOUT: Final = 10.0
_MOST_OF_A_STRANGER: Final = 64 * 1024
_LAST_WORDS: Final = 10.0
_MAX_ID: Final = 250
PREFIX: Final = "mqtt/"
"""Begins the names of MQTT clients' sessions."""
_CODES: Final = {NotLoggedIn.code: packets.WRONG_PASSWORD, SwitchError.code: packets.NOT_ALLOWED}


class MqttConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, port: Clients, guest: Guest) -> None:
        self._port = port
        self._host = port.host
        self._guest = guest
        self._switch = port.host.core.switch
        port.host.core.advance(port.host.now())
        self._loop = asyncio.get_running_loop()
        self._reader = packets.PacketReader(_MOST_OF_A_STRANGER)
        self._publishing = Publishing(self)
        self._reading = MqttReading(self)
        self._connect: Connect | None = None
        self._running = self._over = False
        self._rests = False
        self._share = LoopShare(port.host.shares, port.host.wake)
        self._requests = self._failures = 0
        self._heard = 0.0
        self.entered_as = ""

    def __repr__(self) -> str:
        return f"<MqttConnection {self.client_id!r} at {self._connection.address} {self._reading!r}>"

    @property
    def client_id(self) -> str:
        return self._connect.client_id if self._connect else ""

    @property
    def queue_prefix(self) -> str:
        return self._port.queue_prefix

    @property
    def session(self) -> str:
        """The name of its session, '' before it has one: of two accounts each has its own client ids."""
        session = self._connection.session
        return session.token if session is not None else ""

    # --- the line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none of asyncio's classes
        peer = transport.get_extra_info("peername") or ("?", 0)
        shown = f"{peer[0]}:{peer[1]}"
        self._connection = Connection(self._said, shown, "mqtt", rights=None, end=self._sent_away)
        self._outlet = Outlet(self._host, self._transport, self._connection, self._flooded)
        self._port.arrived(self)
        self._timer = self._loop.call_later(_CONNECT_TIMEOUT, self.end, "it did not log in in time")

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._heard = self._loop.time()
        self._connection.bytes_in += len(data)
        if self._rests:
            self._reader.add(data)  # a line that is not read any more may have had something already
            return
        self._share.begin()
        self._read(data)
        self._wake()

    def _read(self, data: bytes) -> None:
        """Take the packets that are whole; behind a CONNECT none before that is accepted."""
        try:
            if self._is_asked:
                self._reader.keep(data)
                return
            for packet in self._reader.feed(data):
                self._take(packet)
                if self._is_asked or self._over:
                    break
                if self._share.is_over:
                    self._rest()
                    break
            self._flush()
        except packets.WrongLevel as error:
            self._transport.write(error.answer)
            self.end(str(error))
        except SapwoodError as error:
            self.end(str(error))

    def _rest(self) -> None:
        """It has had its slice: others have their turns before the next of its packets."""
        self._rests = True
        self._transport.pause_reading()
        self._host.spawn(self._go_on())

    async def _go_on(self) -> None:
        host = self._host
        await self._share.give_way()
        self._rests = False
        if self._over:
            host.wake()
            return
        host.core.advance(host.now())
        self._heard = self._loop.time()
        try:
            self._read(b"")
        except Exception:
            _log.exception("! an MQTT packet was not understood and not refused: please report this")
            self.end("not understood")
        self._read_on()
        self._wake()

    def _wake(self) -> None:
        """Ask for a commit, unless its work goes on after a slice of the others: its share asks then."""
        if not self._rests:
            self._host.wake()

    @property
    def _is_asked(self) -> bool:
        """Is the switch being asked whether it may log in?"""
        return self._connect is not None and not self._running

    def connection_lost(self, error: Exception | None) -> None:
        self.end(f"the line broke: {error}" if error else "it went without a DISCONNECT")

    def end(self, reason: str) -> None:
        """End it for a reason that the client has not chosen: its will is published. Once."""
        if self._over:
            return
        _log.info("- MQTT client %r at %s: %s", self.client_id, self._connection.address, reason)
        will = self._connect.will if self._connect and self._running else None
        if will is not None:
            try:
                self._publishing.take(Publish(will.topic, will.payload, will.qos, will.retain, False, 0))
                self._publishing.flush()
            except SapwoodError as error:
                _log.warning("! MQTT client %r: its will could not be sent: %s", self.client_id, error)
        self.leave()

    def _sent_away(self, reason: str) -> None:
        _log.info("- MQTT client %r at %s: %s", self.client_id, self._connection.address, reason)
        self.leave()

    def _flooded(self) -> None:
        self.end("it leaves its messages unread")

    def leave(self) -> None:
        """End it without a will. Once."""
        if self._over:
            return
        self._over = True
        self._outlet.close()
        self._timer.cancel()
        self._guest.leave()
        self._reader.forget()
        self._switch.close(self._connection)
        self._port.left(self)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(_LAST_WORDS, self._transport.abort)
        self._host.wake()

    def write(self, data: bytes) -> None:
        self._outlet.write(data)

    def _look(self) -> None:
        """Has it been silent for half as long again as it said it would be?"""
        assert self._connect is not None
        patience = 1.5 * self._connect.keep_alive
        left = self._heard + patience - self._loop.time()
        if left <= 0:
            self.end(f"it was silent for longer than {patience:g} s")
        else:
            self._timer = self._loop.call_later(left, self._look)

    # --- packets

    def _take(self, packet: Packet) -> None:
        if self._over:
            return
        if self._connect is None:
            if not isinstance(packet, Connect):
                raise PacketError("the first packet is not CONNECT")
            self._open(packet)
        elif isinstance(packet, Publish):
            self._publishing.take(packet)
        else:
            self._publishing.flush()
            self._take_other(packet)

    def _take_other(self, packet: Packet) -> None:
        match packet:
            case PacketAnswer(kind=packets.PUBACK, packet_id=number):
                self._reading.acknowledged(number)
            case PacketAnswer(kind=packets.PUBREC, packet_id=number):
                self._reading.received(number)
            case PacketAnswer(kind=packets.PUBCOMP, packet_id=number):
                self._reading.completed(number)
            case PacketAnswer(packet_id=number):
                self._publishing.received.discard(number)
                self._answer_after_commit(packets.answer(packets.PUBCOMP, number))
            case Subscribe(packet_id=number, filters=filters):
                codes = [self._reading.subscribe(each, qos) for each, qos in filters]
                self._reading.write_committed(packets.suback(number, codes))
            case Unsubscribe(packet_id=number, filters=filters):
                for each in filters:
                    self._reading.unsubscribe(each)
                self._answer_after_commit(packets.unsuback(number))
            case packets.PingRequest():
                self.write(packets.PINGRESP)
            case Disconnect():
                self.leave()
            case _:
                raise PacketError("a second CONNECT")

    def _answer_after_commit(self, answer: bytes) -> None:
        self.after_commit(lambda: self.write(answer))

    def _flush(self) -> None:
        if self._over:
            return
        self._publishing.flush()
        self._reading.flush()
        if self._publishing.crowded:
            self._transport.pause_reading()

    # --- connecting

    def _open(self, connect: Connect) -> None:
        client_id = connect.client_id or (self._port.new_id() if connect.clean else "")
        self._connect = connect._replace(client_id=client_id)
        self._transport.pause_reading()
        if not client_id or len(client_id) > _MAX_ID or not client_id.isprintable():
            self._refuse(packets.WRONG_ID, "it has no client id that can be kept")
            return
        if not self._guest.may_log_in:
            self._refuse(packets.UNAVAILABLE, TOO_MANY)
            return
        if connect.will is not None:
            self._publishing.check(connect.will.topic)
        transport, password = self._transport, (connect.password or b"").decode(errors="replace")
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        shown = shown_by(transport.get_extra_info("peercert"))
        caller = Caller(
            "mqtt", self._connection.address, is_near(peer, local), connect.user or "", password, shown
        )
        self._port.entrance.admit(caller, self._admitted)

    def _admitted(self, found: Rights | SwitchError) -> None:
        """It is known now who it is, and whether it may come in."""
        if self._over:
            return
        if isinstance(found, SwitchError):
            self._refuse(_CODES.get(found.code, packets.UNAVAILABLE), str(found))
            return
        self._connection.rights = found
        will = self._connect.will if self._connect else None
        if will is not None and (why := self._publishing.why_not(will.topic, found)):
            self._refuse(packets.NOT_ALLOWED, f"its will: {why}")
            return
        self.ask(Login(VERSION, PREFIX + self.client_id))
        self._host.wake()

    def _refuse(self, code: int, reason: str) -> None:
        self._transport.write(packets.connack(present=False, code=code))
        self.end(reason)

    def _begin(self) -> None:
        """It is logged in: what it read before goes on, or ends with a clean session."""
        if self._over or self._running:
            return
        connect = self._connect
        assert connect is not None
        self._port.entered(self)
        self._running = True
        self._guest.prove()
        self._reader.most = self._port.max_packet
        self._reader.cuts = True
        before = self._port.resume(self.session)
        present = before is not None and not connect.clean
        self.write(packets.connack(present=present, code=packets.ACCEPTED))
        self._timer.cancel()
        if connect.keep_alive:
            self._look()
        try:
            self._keep(connect)
        except SapwoodError as error:
            self.end(str(error))
            return
        self._read(b"")
        self._read_on()
        self._host.wake()

    def _keep(self, connect: Connect) -> None:
        """A clean session: nothing of the one before remains. Else it goes on, or one begins that is kept."""
        kept_sessions = self.core.kept_sessions
        if connect.clean:
            kept_sessions.end(self.session)
            return
        kept = kept_sessions.keep(self.session, NEVER)
        self._publishing.received = ReceivedIds(kept)
        self._reading.go_on(kept)

    def _read_on(self) -> None:
        if not self._over and not self._rests and not self._publishing.crowded:
            self._transport.resume_reading()

    # --- the switch

    def ask(self, *frames: ClientFrame) -> bool:
        """Whether the switch did all of it. What it answers comes while this runs, or later."""
        failures = self._failures
        self._switch.receive(self._connection, list(frames))
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
        if self._over:
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
                    self._loop.call_soon(self.end, why)
            case Welcome():
                self._loop.call_soon(self._begin)
            case Failed(request=0) if self._running:
                self._loop.call_soon(self.end, frame.text)
            case Failed(request=0):
                code = _CODES.get(frame.code, packets.UNAVAILABLE)
                self._loop.call_soon(self._refuse, code, frame.text)
            case Failed():
                self._failures += 1
                _log.info("! MQTT client %r: %s", self.client_id, frame.text)
            case Done():
                pass
            case _:
                _log.info("= MQTT client %r: %s", self.client_id, getattr(frame, "text", frame))

    def _deliver(self, frame: Deliver) -> None:
        try:
            self._reading.deliver(frame)
            self._outlet.wait_for_reader(self._reading)
        except SapwoodError as error:
            self._loop.call_soon(self.end, str(error))
        self._loop.call_soon(self._acknowledge)

    def _acknowledge(self) -> None:
        """What was written with QoS 0 is dealt with."""
        if not self._over:
            self._reading.flush()
            self._host.wake()
