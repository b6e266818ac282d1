"""A line of so many bits a second: `python -m benchmarks.limited_line MBIT LISTEN:TARGET`.

Each way has the rate for itself, and little is under way: the system's buffers are small, so that whoever
sends too much waits soon. Says `{"ready": true}` when it listens.
"""

import asyncio
import json
import socket
import sys
import time
from typing import Final

_LEAST: Final = 1024
_AT_ONCE: Final = 0.001
"""Seconds of the line that are read at once."""
_SEGMENT: Final = 1400
"""Wrinkle: between processes of one machine a segment has 64 KiB, more than the buffers here; then the sender
waits for a timer at times, which is no property of a line."""
_BUFFER: Final = 16 * 1024


async def _way(reader: socket.socket, writer: socket.socket, seconds_a_byte: float) -> None:
    loop = asyncio.get_running_loop()
    free_at = 0.0
    piece = max(int(_AT_ONCE / seconds_a_byte), _LEAST)
    try:
        while data := await loop.sock_recv(reader, piece):
            now = time.monotonic()
            free_at = max(free_at, now - 0.002) + len(data) * seconds_a_byte
            if free_at > now:
                await asyncio.sleep(free_at - now)
            await loop.sock_sendall(writer, data)
    except OSError:
        pass
    for line in (reader, writer):
        line.close()


def _small(line: socket.socket) -> None:
    line.setblocking(False)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT)


async def serve(mbit: float, port: int, target: int) -> None:
    seconds_a_byte = 8 / (mbit * 1e6)
    with socket.create_server(("127.0.0.1", port)) as listener:
        _small(listener)
        print(json.dumps({"ready": True}), flush=True)
        ways: set[asyncio.Task[None]] = set()
        while True:
            near, _ = await asyncio.get_running_loop().sock_accept(listener)
            far = socket.socket()
            for line in (near, far):
                _small(line)
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                await asyncio.get_running_loop().sock_connect(far, ("127.0.0.1", target))
            except OSError:  # as before the node there listens: whoever dialled tries again
                near.close()
                far.close()
                continue
            for pair in ((near, far), (far, near)):
                way = asyncio.create_task(_way(*pair, seconds_a_byte))
                ways.add(way)
                way.add_done_callback(ways.discard)


def main() -> None:
    port, _, target = sys.argv[2].partition(":")
    asyncio.run(serve(float(sys.argv[1]), int(port), int(target)))


if __name__ == "__main__":
    main()
