"""A gate before a broker: it answers a CONNECT of MQTT 5 as older brokers do, and may lose each goodbye."""

import asyncio

OLD_ANSWER = bytes.fromhex("20020001")
"""CONNACK of MQTT 3.1.1: unacceptable protocol version."""
NEW_ANSWER = bytes.fromhex("2003008400")
"""CONNACK of MQTT 5: unsupported protocol version."""
GOODBYE = 0xE0
"""The first byte of a DISCONNECT."""
LEVEL = 8
"""Where the protocol's level stands in a CONNECT of less than 128 bytes: after type, length and `MQTT`."""


class Gate:
    """Lets everything through to a port but MQTT 5, if there is an answer to that. `refused`: how often.

    `rude`: a goodbye does not arrive, as it happens behind a reset.
    """

    def __init__(self, target: int, answer: bytes, *, rude: bool = False) -> None:
        self._target, self._answer, self._rude = target, answer, rude
        self.refused = 0

    async def open(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(LEVEL + 1)
            if first[LEVEL] == 5 and self._answer:
                self.refused += 1
                writer.write(self._answer)
                await writer.drain()
                return
            there, onward = await asyncio.open_connection("127.0.0.1", self._target)
            onward.write(first)
            async with asyncio.TaskGroup() as pumping:
                pumping.create_task(_pump(reader, onward, rude=self._rude))
                pumping.create_task(_pump(there, writer))
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, rude: bool = False) -> None:
    try:
        while data := await reader.read(65536):
            if rude and data[0] == GOODBYE:
                return
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
