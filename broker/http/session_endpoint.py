"""The streaming client session: packets of `session_frames` on a WebSocket at /session.

What a client sends goes to the switch as it arrives; what the switch says to it within one turn of the
event loop leaves as one packet.

Bounds: a client that has more than `max_unconfirmed` bytes under way, or its share of the node's buffers
(`broker.buffers`), is read no further until its sends are confirmed; one that has its share unread is given
nothing more until it reads. One that does not log in within 10 s is sent away.
"""

import asyncio
import logging
from collections import deque
from typing import Final

from aiohttp import web

from bridges.carriers.base import Carrier, CarrierBroken, CarrierError, CarrierFlooded
from broker.buffers import LOOKS, Behind
from broker.core.errors import TOO_MANY, SwitchError
from broker.core.sessions.parts import in_parts
from broker.core.sessions.sessions import Connection
from broker.entrance.entrance import Caller
from broker.http.guard import address, from_a_web_page, is_here
from broker.http.link_endpoint import Endpoint, Guests, accepted, not_upgraded, parting
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings
from broker.intake import Guest
from broker.log_throttle import LogThrottle
from broker.shares import LoopShare
from sapwood.protocol.errors import FrameError
from sapwood.protocol.packets import packets, pieces
from sapwood.protocol.session_frames import (
    MAX_PACKET,
    VERSION,
    Acknowledge,
    ClientFrame,
    Confirm,
    Deliver,
    Failed,
    Login,
    NodeFrame,
    Reject,
    Send,
    Welcome,
    decode_client_packet,
    encode,
)

_log = logging.getLogger("sapwood.http")
_PACKET_BYTES: Final = 1024 * 1024
_LOGIN_TIMEOUT: Final = 10.0
_MOST_SAID: Final = 300
_UNREAD: Final = "does not read what it asked for, or is in the middle of much"


class SessionEndpoint(Endpoint):
    """`GET /session`."""

    def __init__(self, node: NodePort, settings: HttpSettings, guests: Guests) -> None:
        super().__init__(node, settings, guests)
        self._open: set[Carrier] = set()
        self._throttle = LogThrottle()

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/session", self.handle, allow_head=False)
        app.on_shutdown.append(self._end)

    async def _end(self, _app: web.Application) -> None:
        """The node stops: tell the clients, rather than wait for them to go by themselves."""
        await asyncio.gather(*(carrier.close("the node stops") for carrier in list(self._open)))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if from_a_web_page(request):
            refusal = web.Response(status=403, text="sessions are for programs, not for web pages\n")
            return parting(request, refusal)
        guest = self._guests(request)
        try:
            carrier = await accepted(request, MAX_PACKET, guest, is_link=False)
        except CarrierBroken as error:
            return not_upgraded(request, error)
        self._open.add(carrier)
        try:
            caller = Caller("session", address(request), is_here(request), shown=carrier.shown)
            session = StreamingSession(self._node, self._settings, carrier, caller, guest, self._throttle)
            await session.serve()
        finally:
            self._open.discard(carrier)
        return carrier.response


class _Refused(Exception):
    """The session is ended with a Failed frame."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamingSession:
    """One client's connection, from its first packet to its last."""

    def __init__(
        self,
        node: NodePort,
        settings: HttpSettings,
        carrier: Carrier,
        caller: Caller,
        guest: Guest | None = None,
        throttle: LogThrottle | None = None,
    ) -> None:
        self._node = node
        self._throttle = throttle or LogThrottle()
        self._settings = settings
        self._carrier = carrier
        self._guest = guest
        self._caller = caller
        self._connection = Connection(self._send, caller.address, rights=None, end=self._end)
        self._loop = asyncio.get_running_loop()
        self._buffers = node.buffers
        self._behind = Behind(node.buffers, self._unread, self._go_on)
        self._outgoing: list[NodeFrame] = []
        self._gathered = self._looked = 0
        self._is_cut_off = False
        self._logged_in = False
        self._ending: asyncio.Task[None] | None = None
        self._under_way: deque[tuple[int, int]] = deque()
        self._unconfirmed = 0
        self._confirmed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<StreamingSession {self._connection.address}, {self._unconfirmed} bytes unconfirmed>"

    async def serve(self) -> None:
        """Run until either side ends it. Never raises for what the client does."""
        self._carrier.when_kept = self._look
        try:
            await self._serve()
        except CarrierFlooded as error:
            await self.refuse("BAD_REQUEST", str(error))
        except CarrierError as error:
            _log.debug("- session of %s ended: %s", self._connection.address, error)
        except _Refused as error:
            await self.refuse(error.code, str(error))
        except FrameError as error:
            await self.refuse("BAD_REQUEST", str(error))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            _log.exception("! a session's packet was not understood and not refused: please report this")
            await self.refuse("BAD_REQUEST", f"not understood: {error}")
        finally:
            self._carrier.when_kept = None
            self._behind.close()
            self._node.switch.close(self._connection)
            self._node.wake()
            try:
                await self._carrier.close()
            finally:
                self._buffers.gone(self)

    async def _serve(self) -> None:
        node, connection, share = self._node, self._connection, LoopShare(self._node.shares, self._node.wake)
        while True:
            arrived = await self._packets()
            share.begin()
            waits = False
            for packet in arrived:
                connection.bytes_in += len(packet)
                for piece in pieces(packet):
                    waits = await self._hear(piece, share) or waits
            if waits:
                node.wake()
            else:
                node.nudge()
            if self._unconfirmed > LOOKS:
                self._look()
            while self._unconfirmed > self._most_unconfirmed and not self._is_cut_off:
                self._confirmed.clear()
                await self._confirmed.wait()

    @property
    def _most_unconfirmed(self) -> int:
        return min(self._settings.max_unconfirmed, self._buffers.share)

    async def _hear(self, packet: bytes, share: LoopShare) -> bool:
        """Tell the switch what is in a packet; all others have their turns in between.

        Returns whether somebody may wait for what it changed: for what an acknowledgement ends nobody does.
        """
        if self._is_cut_off:
            raise CarrierBroken(_UNREAD)
        arrived = decode_client_packet(packet)
        if not self._logged_in:
            await self._check_login(arrived)
        self._count(arrived, len(packet))
        waits = False
        for frame in arrived:
            waits = waits or type(frame) is not Acknowledge
            for part in in_parts(self._connection.session, frame):
                self._node.switch.receive(self._connection, [part])
                if share.is_over:
                    waits = True
                    await share.give_way()
        return waits

    async def _packets(self) -> list[bytes]:
        """What has arrived next. Raises `_Refused` if nothing comes from a client that has not logged in."""
        if self._logged_in:
            return await self._carrier.receive()
        try:
            async with asyncio.timeout(_LOGIN_TIMEOUT):
                return await self._carrier.receive()
        except TimeoutError:
            raise _Refused("NOT_LOGGED_IN", f"no Login within {_LOGIN_TIMEOUT:g} s") from None

    async def _check_login(self, arrived: list[ClientFrame]) -> None:
        first = arrived[0] if arrived else None
        if not isinstance(first, Login):
            raise _Refused("NOT_LOGGED_IN", "the first frame of a session is Login")
        if first.version != VERSION:
            raise _Refused("BAD_REQUEST", f"session version {first.version}: this node speaks {VERSION}")
        if self._guest is not None and not self._guest.may_log_in:
            raise _Refused("BUSY", TOO_MANY)
        caller = self._caller._replace(account=first.account, secret=first.secret)
        try:
            self._connection.rights = await self._node.entrance.admitted(caller)
        except SwitchError as error:
            raise _Refused(error.code, str(error)) from None
        self._connection.plain = first.plain
        self._logged_in = True

    def _end(self, why: str) -> None:
        """The session is to end, for no mistake of the client's: it may come back."""
        self._node.switch.close(self._connection)
        self._ending = self._loop.create_task(self.refuse("ENDED", why))

    async def refuse(self, code: str, text: str) -> None:
        """Say why, there and in the log, and close."""
        if code == "BAD_REQUEST":
            self._log_refusal("its session ends", text, code)
        self._send(Failed(0, code, text))
        self._flush()
        await self._carrier.close(text)

    def _log_refusal(self, what: str, text: str, code: str) -> None:
        """Once in a while for each host and code."""
        address = self._connection.address
        if self._throttle.is_new(address, code):
            extra = {"address": address, "reason": text[:_MOST_SAID]}
            _log.warning("! %s: %s: %s [%s]", address, what, text[:_MOST_SAID], code, extra=extra)

    # --- bounds

    def _count(self, arrived: list[ClientFrame], size: int) -> None:
        """Remember what has to be confirmed before more may be read."""
        for frame in reversed(arrived):
            if isinstance(frame, Send):
                self._under_way.append((frame.first + frame.count - 1, size))
                self._unconfirmed += size
                return

    def _count_confirmed(self, through: int) -> None:
        under_way = self._under_way
        while under_way and under_way[0][0] <= through:
            self._unconfirmed -= under_way.popleft()[1]
        self._confirmed.set()

    # --- to the client

    def _send(self, frame: NodeFrame) -> None:
        """Called by the switch. Buffered; leaves at the end of this turn of the event loop.

        Whoever has much unread is behind from the next message on: all that waits may come in one turn.
        """
        if type(frame) is Confirm:
            self._count_confirmed(frame.through)
        elif type(frame) is Reject:
            self._log_refusal("a message is not taken", frame.text, frame.code)
        if self._is_cut_off:
            return
        if type(frame) is Deliver:
            self._gathered += len(frame.body)
            if self._gathered - self._looked > LOOKS:
                self._looked = self._gathered
                self._look()
                self._connection.behind = self._behind.is_now()
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(frame)
        if type(frame) is Welcome:
            self._carrier.proven()

    def _flush(self) -> None:
        outgoing, self._outgoing, self._gathered, self._looked = self._outgoing, [], 0, 0
        if not outgoing:
            return
        try:
            made = packets([encode(frame) for frame in outgoing], _PACKET_BYTES)
            self._connection.bytes_out += sum(map(len, made))
            self._carrier.send(made)
        except CarrierError:
            return
        if self._unread() > LOOKS:
            self._look()
            self._connection.behind = self._behind.is_now()

    def _look(self) -> None:
        if not self._is_cut_off:
            self._buffers.look(self)

    @property
    def held(self) -> int:
        return self._unread() + self._unconfirmed + self._carrier.kept

    def _unread(self) -> int:
        """Bytes that wait for this client."""
        return self._gathered + self._carrier.unsent

    def _go_on(self) -> None:
        """It has read."""
        self._connection.behind = False
        self._node.switch.go_on(self._connection)
        self._node.wake()

    def cut_off(self) -> None:
        """It is given nothing more, and the connection ends. Once."""
        if self._is_cut_off:
            return
        self._is_cut_off = self._connection.behind = True
        self._behind.close()
        self._outgoing, self._gathered = [], 0
        address = self._connection.address
        _log.warning("! %s %s: cut off", address, _UNREAD, extra={"address": address})
        self._confirmed.set()
        self._ending = self._loop.create_task(self._carrier.close(_UNREAD))
        if self._guest is not None:
            self._guest.cut()
