"""One message to thousands of filters: all are given it, and others are answered meanwhile."""

from collections.abc import Iterator

import pytest
from intake_peers import Raw, Target, answers_meanwhile
from mqtt_wire import length

pytestmark = pytest.mark.asyncio(loop_scope="module")
LEVELS = 13
FILTERS = 2**LEVELS
IN_A_PACKET = 4096
ANSWERED = 10
"""Requests of somebody else meanwhile. One was, when all copies were made and given at one go."""
TOPIC = b"/".join([b"l"] * LEVELS)


def filters() -> list[bytes]:
    """All that match the topic and have no `#`."""
    return [
        b"/".join(b"+" if number >> level & 1 else b"l" for level in range(LEVELS))
        for number in range(FILTERS)
    ]


async def client(target: Target, name: bytes) -> Raw:
    raw = await Raw.to(target.mqtt)
    await raw.say(b"\x10" + length(12 + len(name)) + b"\x00\x04MQTT\x04\x02\x00\x00\x00")
    await raw.say(bytes((len(name),)) + name)
    assert await raw.hear() == b"\x20\x02\x00\x00"
    return raw


async def subscribe(raw: Raw, wanted: list[bytes], qos: int) -> None:
    body = b"\x00\x01" + b"".join(len(each).to_bytes(2) + each + bytes((qos,)) for each in wanted)
    await raw.say(b"\x82" + length(len(body)) + body)
    suback = b"\x90" + length(2 + len(wanted)) + b"\x00\x01" + bytes((qos,)) * len(wanted)
    assert await raw.until(suback) == suback


def identifiers(heard: bytearray) -> Iterator[bytes]:
    """Of the PUBLISH packets that are whole, which are taken out; b'' of those without."""
    at, behind = 0, 4 + len(TOPIC)
    while len(heard) >= at + 2 and len(heard) >= at + 2 + heard[at + 1]:
        assert heard[at] >> 4 == 3
        yield bytes(heard[at + behind : at + behind + 2]) if heard[at] & 6 else b""
        at += 2 + heard[at + 1]
    del heard[:at]


async def take_all(raw: Raw) -> None:
    """One message for each filter, acknowledged as it comes."""
    count, heard = 0, bytearray()
    while count < FILTERS:
        more = await raw.hear()
        assert more
        heard += more
        found = list(identifiers(heard))
        count += len(found)
        await raw.say(b"".join(b"\x40\x02" + each for each in found if each))
    assert (count, heard) == (FILTERS, b"")


@pytest.mark.parametrize("qos", [0, 1])
async def test_others_are_answered_while_one_message_goes_to_thousands_of_filters(
    target: Target, qos: int
) -> None:
    reader, writer = await client(target, b"reader"), await client(target, b"writer")
    for first in range(0, FILTERS, IN_A_PACKET):
        await subscribe(reader, filters()[first : first + IN_A_PACKET], qos)
    said = len(TOPIC).to_bytes(2) + TOPIC + (b"\x00\x01" if qos else b"") + b"x"

    async def publishing() -> None:
        await writer.say(bytes((0x30 | qos << 1,)) + length(len(said)) + said)
        await take_all(reader)

    assert await answers_meanwhile(target, publishing()) >= ANSWERED
    for each in (reader, writer):
        each.break_off()
