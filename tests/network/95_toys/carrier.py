"""A whole carrier through a broker, as small as one can be: `toybox.py` is what it speaks with."""

import asyncio
import json

from bridges.carriers.base import CarrierBroken
from bridges.carriers.brokered.line import Broker, BrokerAccess, BrokerLine, Ear
from bridges.carriers.brokered.names import Topics


class ToyLinks(Broker):
    def __init__(self, access: BrokerAccess, tree: str, max_packet: int) -> None:
        self.uri = f"toy://{access.host}:{access.port}"
        self._access = access
        self._topics = Topics(tree)

    async def knock(self, child: str, half: str, knock: bytes, last_words: bytes, ear: Ear) -> BrokerLine:
        line = await self._open(self._topics.down(child), self._topics.up(child), ear)
        line.publish(self._topics.knock(child), knock)
        return line

    async def answer(self, child: str, half: str, last_words: bytes, ear: Ear) -> BrokerLine:
        return await self._open(self._topics.up(child), self._topics.down(child), ear)

    async def listen(self, ear: Ear) -> BrokerLine:
        return await self._open(self._topics.knocks, "", ear)

    async def _open(self, hears: str, says_on: str, ear: Ear) -> "ToyLine":
        line = ToyLine(self._topics, says_on, ear)
        try:
            await line.open(self._access, hears)
        except OSError as error:
            raise CarrierBroken(f"no Toybox at {self.uri}: {error}") from None
        return line


broker = ToyLinks


class ToyLine(BrokerLine):
    max_message = 1 << 20

    def __init__(self, topics: Topics, says_on: str, ear: Ear) -> None:
        self._topics = topics
        self._says_on = says_on
        self._ear = ear

    async def open(self, access: BrokerAccess, hears: str) -> None:
        reader, self._writer = await asyncio.open_connection(access.host, access.port, limit=1 << 24)
        self._write({"read": hears})
        while "reads" not in json.loads(await reader.readline() or b'{"reads": ""}'):
            pass
        self._hearing = asyncio.create_task(self._hear(reader))

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            said = json.loads(line)
            if "topic" in said:
                self._ear.heard(self._topics.child_of(said["topic"]), bytes.fromhex(said["body"]))
        self._ear.lost(CarrierBroken("the Toybox has gone"))

    def say(self, message: bytes) -> None:
        self.publish(self._says_on, message)

    def publish(self, topic: str, message: bytes) -> None:
        self._write({"say": topic, "body": message.hex(), "number": 0})

    def _write(self, said: dict[str, object]) -> None:
        self._writer.write(json.dumps(said).encode() + b"\n")

    async def close(self) -> None:
        self._hearing.cancel()
        self._writer.close()
