"""A pika connection that writes what was said in one turn of the event loop as one, not frame by frame.

A message is three frames, and pika makes a system call and a packet of each; gathered, as many as came
together go out as one.
"""

from asyncio import get_running_loop
from typing import Any

from pika.adapters.asyncio_connection import AsyncioConnection


class GatheringConnection(AsyncioConnection):  # type: ignore[misc]
    """As pika's own, but for when it writes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._gathered: list[bytes] = []
        super().__init__(*arguments, **options)

    def _adapter_emit_data(self, data: bytes) -> None:
        if not self._gathered:
            get_running_loop().call_soon(self._emit_gathered)
        self._gathered.append(data)

    def _emit_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if self._transport is not None:
            super()._adapter_emit_data(b"".join(gathered))
