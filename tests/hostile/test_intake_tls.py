"""Encrypted connections that break in the handshake or in the middle of much: their memory goes with them."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from intake_peers import (
    ALLOWED,
    AT_ONCE,
    MIB,
    MUCH,
    OF_EACH,
    Kind,
    Raw,
    Sealed,
    Target,
    begin_to_send,
    break_off_many,
    expect_resident,
    running_over_tls,
)

_SOME = memoryview(bytes(MIB // 4))
_MOST = memoryview(bytes(14 * MIB))


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with running_over_tls(tmp_path) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log


def hello(target: Target) -> bytes:
    """The first words of a real handshake."""
    said = ssl.MemoryBIO()
    assert target.context is not None
    beginning = target.context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        beginning.do_handshake()
    return said.read()


async def half_a_hello(target: Target) -> Raw:
    raw = await Raw.to(target.port)
    said = hello(target)
    await raw.say(said[: len(said) // 2])
    return raw


async def no_end_of_a_handshake(target: Target) -> Raw:
    """It has heard the node's certificate, and says no more."""
    raw = await Raw.to(target.port)
    await raw.say(hello(target))
    assert await raw.hear()
    return raw


async def handshake_with_mqtt(target: Target) -> Raw:
    raw = await Raw.to(target.mqtt)
    await raw.say(hello(target))
    assert await raw.hear()
    return raw


async def body_of_a_stranger(target: Target) -> Raw:
    raw = await Sealed.to_target(target)
    await raw.say(b"POST /enrol/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % MUCH)
    with contextlib.suppress(ConnectionError):
        await raw.say(_SOME)
    return raw


async def some_of_a_send(target: Target) -> Raw:
    raw = await Sealed.to_target(target)
    await begin_to_send(raw)
    await raw.say(_SOME)
    return raw


async def most_of_a_send(target: Target) -> Raw:
    raw = await Sealed.to_target(target)
    await begin_to_send(raw)
    await raw.say(_MOST)
    return raw


KINDS: list[tuple[Kind, int]] = [
    (half_a_hello, OF_EACH),
    (no_end_of_a_handshake, OF_EACH),
    (handshake_with_mqtt, OF_EACH),
    (body_of_a_stranger, OF_EACH),
    (some_of_a_send, OF_EACH),
    (most_of_a_send, OF_EACH // 10),
]


@pytest.mark.parametrize(("kind", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
async def test_what_was_read_goes_with_its_encrypted_connection(
    target: Target, kind: Kind, count: int
) -> None:
    await break_off_many(target, kind, 2 * AT_ONCE)
    before = target.resident
    await break_off_many(target, kind, count)
    await expect_resident(target, before + ALLOWED)
    assert (await target.status())["ready"]
