"""What an MQTT client may say before it is let in, and which wills are none."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))

from intake_peers import Raw, Target, running
from mqtt_wire import length, text

ACCEPTED = b"\x20\x02\x00\x00"


def connect(*, will: bytes = b"", padding: int = 0, name: bytes = b"till") -> bytes:
    flags = 0x06 if will else 0x02
    body = text(b"MQTT") + bytes((4, flags, 0, 0)) + text(name)
    if will:
        body += text(will) + text(b"x" * padding)
    return b"\x10" + length(len(body)) + body


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with running(tmp_path) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log


@pytest.mark.parametrize("will", [b"a/#", b"+/b", b"$SYS/x"])
async def test_a_will_that_could_never_be_published_is_refused(target: Target, will: bytes) -> None:
    raw = await Raw.to(target.mqtt)
    await raw.say(connect(will=will))
    assert await raw.closed() == b""
    await target.until(lambda _: "its will goes nowhere" in target.log, "saying why")
    raw.break_off()
    good = await Raw.to(target.mqtt)
    await good.say(connect(will=b"a/b", padding=10))
    assert await good.hear() == ACCEPTED
    good.break_off()


async def test_a_long_connect_is_refused_by_its_length(target: Target) -> None:
    raw = await Raw.to(target.mqtt)
    await raw.say(b"\x10" + length(64 * 1024 + 1))
    assert await raw.closed() == b""
    await target.until(lambda _: "a packet of 65537 bytes: this node takes 65536" in target.log, "saying why")
    raw.break_off()


async def test_who_does_not_wait_for_the_answer_is_heard_all_the_same(target: Target) -> None:
    raw = await Raw.to(target.mqtt)
    publish = b"\x32" + length(60_005) + text(b"t") + b"\x00\x01" + bytes(60_000)
    await raw.say(connect() + publish + b"\xc0\x00")
    heard = await raw.until(b"\x40\x02\x00\x01")
    assert heard.startswith(ACCEPTED)
    raw.break_off()
