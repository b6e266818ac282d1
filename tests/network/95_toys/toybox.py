"""A toy broker: it says to each connection what others say on the topics that it reads, one JSON a line.

{"read": TOPIC} is answered by {"reads": TOPIC}; {"say": TOPIC, "body": TEXT, "number": N} by {"has": N}. Who
says {"watch": true} is told what the others read.
"""

import asyncio
import json
from typing import Any, Self

from treeconnector.patterns import matches


class Toybox:
    """An async context manager; `port` is there inside."""

    def __init__(self) -> None:
        self._reads: dict[asyncio.StreamWriter, set[str]] = {}
        self._watching: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        for writer in self._reads:
            writer.close()

    async def until_read(self, topic: str) -> None:
        """Until a connection reads this very topic."""
        while not any(topic in topics for topics in self._reads.values()):
            await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reads[writer] = set()
        try:
            while line := await reader.readline():
                self._heard(writer, json.loads(line))
        except ConnectionError:
            pass  # whoever was there has been stopped
        finally:
            del self._reads[writer]
            self._watching.discard(writer)
            writer.close()

    def _heard(self, writer: asyncio.StreamWriter, said: dict[str, Any]) -> None:
        match said:
            case {"watch": True}:
                self._watching.add(writer)
                for each in {topic for topics in self._reads.values() for topic in topics}:
                    _tell(writer, reads=each)
            case {"read": topic}:
                self._reads[writer].add(topic)
                for each in {writer} | (self._watching if writer not in self._watching else set()):
                    _tell(each, reads=topic)
            case {"say": topic, "body": body, "number": number}:
                for other, reads in self._reads.items():
                    if other is not writer and any(matches(pattern, topic) for pattern in reads):
                        _tell(other, topic=topic, body=body)
                _tell(writer, has=number)


def _tell(writer: asyncio.StreamWriter, **said: Any) -> None:
    writer.write(json.dumps(said).encode() + b"\n")
