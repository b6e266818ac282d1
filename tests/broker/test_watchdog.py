"""A process that stands still is ended with a last word; one that is only slow is not."""

import asyncio
import subprocess
import sys
import time

from broker.watchdog import Watchdog


async def test_a_loop_that_stands_still_is_noticed_and_one_that_goes_on_is_not():
    words: list[bytes] = []
    dog = Watchdog(lambda: True, patience=20, every=0.01, end=lambda word, _: words.append(word))
    for _ in range(30):
        await asyncio.sleep(0.01)
    assert words == []
    assert "of 20" in repr(dog)
    while not words:
        time.sleep(0.1)  # the loop does nothing else
    dog.stop()
    assert b"it has stood still for 20 s" in words[0]
    assert b"Nothing that was acknowledged is lost" in words[0]


async def test_a_loop_that_stands_is_said_once_and_one_that_waits_for_a_commit_is_not():
    said: list[bytes] = []
    dog = Watchdog(lambda: False, patience=100_000, every=0.01, say=said.append)
    for _ in range(30):
        await asyncio.sleep(0.01)
    said.clear()  # a busy machine may have stopped it
    dog._silent = 0  # and stop it here, so that it has said so already
    while not said or dog._silent < 20:
        time.sleep(0.1)  # the loop does nothing else
    dog.stop()
    assert len(said) == 1
    assert b"has stood still for 10 s, and answers nobody" in said[0]


async def test_a_commit_that_never_ends_is_noticed_though_the_loop_goes_on():
    words: list[bytes] = []
    dog = Watchdog(lambda: False, patience=3, every=0.01, end=lambda word, _: words.append(word))
    async with asyncio.timeout(60):
        while not words:
            await asyncio.sleep(0.01)
    dog.stop()


async def test_once_the_node_has_stopped_the_process_has_a_shorter_time():
    words: list[bytes] = []
    dog = Watchdog(lambda: False, patience=100_000, every=0.01, end=lambda word, _: words.append(word))
    dog.hurry(3, 1)
    async with asyncio.timeout(60):
        while not words:
            await asyncio.sleep(0.01)
    dog.stop()
    assert b"its process did not end by itself" in words[0]


async def test_a_node_that_has_stopped_well_ends_without_a_word_and_with_0():
    """Such as with the system's resolver waiting for a server that does not answer."""
    ends: list[tuple[bytes, int]] = []
    dog = Watchdog(lambda: False, patience=100_000, every=0.01, end=lambda *said: ends.append(said))
    dog.hurry(3, 0)
    async with asyncio.timeout(60):
        while not ends:
            await asyncio.sleep(0.01)
    dog.stop()
    assert ends[0] == (b"", 0)


async def test_the_shorter_time_begins_when_the_node_has_stopped():
    dog = Watchdog(lambda: False, patience=100_000, every=0.05, end=lambda *_: None)
    await asyncio.sleep(0.5)
    assert "still for 0 " not in repr(dog)
    dog.hurry(100_000, 0)
    assert "still for 0 " in repr(dog)
    dog.stop()


STANDS = """
import asyncio, time
from broker.watchdog import Watchdog

async def stand():
    Watchdog(lambda: True, patience=3, every=0.05)
    time.sleep(600)

asyncio.run(stand())
"""


def test_its_word_is_the_last():
    done = subprocess.run([sys.executable, "-c", STANDS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("! the node ends at once: it has stood still for 3 s.")
