"""MQTT over WebSocket: the node's MQTT door at `GET /mqtt` of its HTTP port, with the subprotocol `mqtt`.

Source: MQTT Version 3.1.1 and 5.0, section 6. Packets and WebSocket frames need not begin together.

Law: a page in a browser is near to nothing: its application proves itself also on this very machine, whatever
page it is. Before its login it has no more bytes than any stranger of this port.
"""

import asyncio
from typing import Any, Final

from aiohttp import web

from bridges.carriers.base import BUFFER_BYTES, Carrier, CarrierBroken, CarrierError
from broker.http.guard import extra, from_a_web_page, is_here
from broker.http.link_endpoint import Guests, accepted, not_upgraded, parting
from broker.http.ports import NodePort

PROTOCOL: Final = "mqtt"
_PIECE: Final = 1024 * 1024
_NEAR: Final = ("peername", "sockname")


class MqttEndpoint:
    """Handler of `GET /mqtt`."""

    def __init__(self, node: NodePort, guests: Guests) -> None:
        self._node = node
        self._guests = guests

    async def handle(self, request: web.Request) -> web.StreamResponse:
        door, guest = self._node.report.door, self._guests(request)
        if door is None or guest is None:
            text = "this node has no door for MQTT: its file says nothing of mqtt: port\n"
            return parting(request, web.Response(status=404, text=text))
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        if PROTOCOL not in [each.strip() for each in offered.split(",")]:
            text = f"a WebSocket for MQTT has the subprotocol {PROTOCOL}\n"
            return parting(request, web.Response(status=400, text=text))
        try:
            most = door.max_packet + _PIECE
            carrier = await accepted(request, most, guest, is_link=False, protocols=(PROTOCOL,))
        except CarrierBroken as error:
            return not_upgraded(request, error)
        line = _Line(carrier, request, near=is_here(request) and not from_a_web_page(request))
        await line.serve(door.connection(guest))
        return carrier.response


class _Line(asyncio.Transport):
    """A WebSocket as the line of an MQTT connection. `near`: does this very machine ask, and no page?"""

    def __init__(self, carrier: Carrier, request: web.BaseRequest, *, near: bool) -> None:
        super().__init__()
        self._carrier = carrier
        self._known = {name: extra(request, name) for name in (*_NEAR, "peercert")}
        self._known["kept"] = lambda: carrier.kept
        if not near:
            self._known["sockname"] = None
        self._reads = asyncio.Event()
        self._reads.set()
        self._ending: asyncio.Task[None] | None = None

    async def serve(self, protocol: asyncio.Protocol) -> None:
        """Until either side ends it."""
        protocol.connection_made(self)
        self._carrier.when_kept = lambda: protocol.data_received(b"")
        lost: Exception | None = None
        try:
            while self._ending is None:
                await self._reads.wait()
                protocol.data_received(b"".join(await self._carrier.receive()))
        except CarrierError as error:
            lost = error
        finally:
            self._carrier.when_kept = None
            protocol.connection_lost(lost)
            await self._carrier.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._known.get(name, default)

    def is_closing(self) -> bool:
        return self._ending is not None

    def write(self, data: Any) -> None:
        try:
            self._carrier.send([bytes(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE)])
        except CarrierError:
            self.close()

    def get_write_buffer_size(self) -> int:
        return BUFFER_BYTES - self._carrier.room if self._ending is None else 0

    def pause_reading(self) -> None:
        self._reads.clear()

    def resume_reading(self) -> None:
        self._reads.set()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._carrier.close())
            self._reads.set()

    def abort(self) -> None:
        self.close()
