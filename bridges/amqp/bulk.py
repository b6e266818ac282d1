"""pika's connection in asyncio, with messages past it.

pika keeps the connection: it logs in, opens channels, declares, binds, consumes, keeps alive and closes. A
message is three frames, and pika makes several objects and a system call of each. So deliveries and confirms
are read here, as many as have come, and messages and acknowledgements written, as one for all that was said
in one turn of the event loop.

Law: frames leave in the order in which they were said, pika's among them; what came is told in its order,
to pika too. Bytes that are no AMQP end the connection.
"""

import os
from asyncio import get_running_loop
from collections.abc import Callable
from errno import ECONNRESET
from typing import Any, Final

from pika.adapters.asyncio_connection import AsyncioConnection
from pika.frame import decode_frame

from bridges.amqp import frames
from bridges.amqp.frames import Confirmed, ContentReader, Delivered
from bridges.resets import was_reset

_AT_ONCE: Final = 64 * 1024
"""Bytes that are read by one system call; pika's own 4,096 are a few messages."""

OnConfirm = Callable[[int, bool, bool], None]


class BulkConnection(AsyncioConnection):  # type: ignore[misc]
    """As pika's own, but that a consumer's callback is given an `Incoming`.

    `confirms`: by the number of a channel, who is told of confirms there.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._gathered: list[bytes] = []
        self._reader: ContentReader | None = None
        self.confirms: dict[int, OnConfirm] = {}
        super().__init__(*arguments, **options)

    # --- writing

    def publish(
        self, channel: int, exchange: str, key: str, properties: bytes, body: bytes, mandatory: bool
    ) -> None:
        """`properties`: see `said_properties`."""
        said = frames.publish(channel, exchange, key, properties, body, mandatory, self.params.frame_max)
        self._output_marshaled_frames([said])

    @property
    def most_properties(self) -> int:
        """Bytes of a message's properties: they are one frame, and a larger one ends the connection."""
        return int(self.params.frame_max) - frames.AROUND - frames.CONTENT_SIZE

    def acknowledge(self, channel: int, tag: int, multiple: bool) -> None:
        self._output_marshaled_frames([frames.ack(channel, tag, multiple)])

    def _adapter_emit_data(self, data: bytes) -> None:
        if not self._gathered:
            get_running_loop().call_soon(self._emit_gathered)
        self._gathered.append(data)

    def _emit_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if self._transport is None:
            return
        try:
            super()._adapter_emit_data(b"".join(gathered))
        except RuntimeError as error:
            self._end_line(error)

    # --- reading

    def _proto_connection_made(self, transport: Any) -> None:
        transport._MAX_RECV_BYTES = _AT_ONCE
        if self.params.ssl_options is None:
            transport._MAX_CONSUME_BYTES = 1  # the loop says when there is more; pika would ask each time
        super()._proto_connection_made(transport)

    def _on_data_available(self, data_in: bytes) -> None:
        """Until the connection is open, all of it is pika's."""
        if self._reader is None:
            if not self.is_open:
                super()._on_data_available(data_in)
                return
            self._reader = ContentReader(self.params.frame_max)
            data_in = self._frame_buffer + data_in
            self._frame_buffer: bytes = b""
        self.bytes_received += len(data_in)
        for found in self._reader.feed(data_in):
            if isinstance(found, Delivered):
                self._delivered(found)
            elif isinstance(found, Confirmed):
                if (told := self.confirms.get(found.channel)) is not None:
                    told(found.tag, found.multiple, found.good)
            else:
                _, frame = decode_frame(found)
                self._process_frame(frame)
        self._look_whether_broken()

    def _look_whether_broken(self) -> None:
        transport = self._transport
        if transport is not None and transport._sock is not None and was_reset(transport._sock):
            self._end_line(ConnectionResetError(ECONNRESET, os.strerror(ECONNRESET)))

    def _end_line(self, error: Exception) -> None:
        """Wrinkle: of a line that is reset uvloop says once that it can be read, and closes its watch. Where
        more waits there than is read at once, pika would not hear of the end; and to write raises.
        """
        transport = self._transport
        if transport._state == transport._STATE_ACTIVE:
            transport._initiate_abort(error)

    def _delivered(self, found: Delivered) -> None:
        """Wrinkle: a message may still come for a consumer that is being cancelled; it goes back at once."""
        channel = self._channels.get(found.channel)
        if channel is None:
            return
        if found.consumer in channel._cancelled:
            if channel.is_open and found.consumer not in channel._consumers_with_noack:
                channel.basic_reject(found.message.tag)
            return
        given = channel._consumers.get(found.consumer)
        if given is not None:
            given(found.message)
