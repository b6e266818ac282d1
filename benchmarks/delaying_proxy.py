"""A long line on one machine: `python -m benchmarks.delaying_proxy MS LISTEN:TARGET [LISTEN:TARGET …]`.

Whatever arrives at a port leaves towards its target so many milliseconds later, and the same on the way
back. Bytes keep their order; nothing is limited but the time. Says `{"ready": true}` when it listens.
"""

import asyncio
import json
import sys
from collections import deque
from functools import partial


class _Way(asyncio.Protocol):
    """One side of a connection; what it reads is written to `other`, later."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._loop = asyncio.get_running_loop()
        self._pending: deque[bytes | None] = deque()
        self._transport: asyncio.Transport | None = None
        self.other: _Way | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._later(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._later(None)

    def _later(self, data: bytes | None) -> None:
        self._pending.append(data)
        self._loop.call_later(self._delay, self._pass_on)

    def _pass_on(self) -> None:
        """Timers of one time may fire in any order; the bytes leave in theirs."""
        data = self._pending.popleft()
        if self.other is None or self.other._transport is None:
            if data is not None:
                self._pending.appendleft(data)
                self._loop.call_later(self._delay, self._pass_on)
            return
        if data is None:
            self.other._transport.close()
        elif not self.other._transport.is_closing():
            self.other._transport.write(data)


class _Front(_Way):
    """The accepted side: dials the target."""

    def __init__(self, delay: float, target: int) -> None:
        super().__init__(delay)
        self._target = target

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._dialling = self._loop.create_task(self._dial(transport))

    async def _dial(self, transport: asyncio.BaseTransport) -> None:
        await asyncio.sleep(self._delay)
        try:
            _, back = await self._loop.create_connection(lambda: _Way(self._delay), "127.0.0.1", self._target)
        except OSError:
            transport.close()
            return
        back.other, self.other = self, back


async def _run(delay: float, pairs: list[tuple[int, int]]) -> None:
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(partial(_Front, delay, target), "127.0.0.1", port, backlog=2048)
        for port, target in pairs
    ]
    print(json.dumps({"ready": True}), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    delay = float(sys.argv[1]) / 1000
    pairs = [(int(pair.split(":")[0]), int(pair.split(":")[1])) for pair in sys.argv[2:]]
    try:
        import uvloop
    except ImportError:
        asyncio.run(_run(delay, pairs))
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(delay, pairs))


if __name__ == "__main__":
    main()
