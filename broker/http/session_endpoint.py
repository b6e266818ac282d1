"""The streaming client session: packets of `session_frames` on a WebSocket at /session.

What a client sends goes to the switch as it arrives; what the switch says to it within one turn of the
event loop leaves as one packet.

Bounds: a client that has more than `max_unconfirmed` bytes under way is read no further until its sends
are confirmed; one that leaves more than `max_unread` bytes unread is cut off, and its messages are given
again. One that does not log in within 10 s is sent away.
"""

import asyncio
import logging
from collections import deque
from typing import Final

from aiohttp import web

from bridges.carriers.base import BUFFER_BYTES, Carrier, CarrierBroken, CarrierError, CarrierFlooded
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
from broker.unread import LOOKS, SESSIONS, UnreadBytes
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
_UNREAD: Final = "you do not read what you asked for"


class SessionEndpoint(Endpoint):
    """`GET /session`."""

    def __init__(self, node: NodePort, settings: HttpSettings, guests: Guests) -> None:
        super().__init__(node, settings, guests)
        self._open: set[Carrier] = set()
        self._throttle = LogThrottle()
        self._unread = UnreadBytes(SESSIONS)

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
            await StreamingSession(
                self._node, self._settings, carrier, caller, guest, self._throttle, self._unread
            ).serve()
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
        unread: UnreadBytes | None = None,
    ) -> None:
        self._node = node
        self._throttle = throttle or LogThrottle()
        self._together = unread or UnreadBytes(SESSIONS)
        self._looked = 0
        self._settings = settings
        self._carrier = carrier
        self._guest = guest
        self._caller = caller
        self._connection = Connection(self._send, caller.address, rights=None, end=self._end)
        self._loop = asyncio.get_running_loop()
        self._outgoing: list[NodeFrame] = []
        self._gathered = 0
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
            self._together.gone(self)
            self._node.switch.close(self._connection)
            self._node.wake()
            await self._carrier.close()

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
            while self._unconfirmed > self._settings.max_unconfirmed and not self._is_cut_off:
                self._confirmed.clear()
                await self._confirmed.wait()

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

        Whoever asked for too much to be kept for it is cut off before that is put together: all that waits
        may come in one turn.
        """
        if type(frame) is Confirm:
            self._count_confirmed(frame.through)
        elif type(frame) is Reject:
            self._log_refusal("a message is not taken", frame.text, frame.code)
        if self._is_cut_off:
            return
        if type(frame) is Deliver:
            self._gathered += len(frame.body)
            if self.unread > self._settings.max_unread:
                self.cut_off()
            elif self._gathered - self._looked > LOOKS:
                self._looked = self._gathered
                self._together.look(self)
            if self._is_cut_off:
                return
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
        if self.unread > self._settings.max_unread:
            self.cut_off()
        else:
            self._together.look(self)

    @property
    def unread(self) -> int:
        """Bytes that wait for this client."""
        return self._gathered + BUFFER_BYTES - self._carrier.room

    def cut_off(self) -> None:
        """It is given nothing more, and the connection ends. Once."""
        if self._is_cut_off:
            return
        self._is_cut_off = True
        self._together.gone(self)
        self._outgoing, self._gathered = [], 0
        for consumer in self._connection.consumers:
            consumer.credit = 0
        address = self._connection.address
        _log.warning("! %s leaves its messages unread: cut off", address, extra={"address": address})
        self._confirmed.set()
        self._ending = self._loop.create_task(self._carrier.close(_UNREAD))
