"""Links of children that have proved themselves break in the middle of a bundle: its memory goes, too."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from intake_links import SECRET, Child, say_some
from intake_peers import ALLOWED, MIB, Target, expect_resident, running

NAMES = [f"till-{number}" for number in range(20)]
OF_ALL = 1000


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "secret").chmod(0o600)
    children = [{"name": name, "role": "leaf", "secret_file": "secret"} for name in NAMES]
    async with running(tmp_path, children=children) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log


async def break_off_links(target: Target, children: list[Child], count: int) -> None:
    """Every tenth has said nearly all of it; the lines end in both ways."""

    async def one(child: Child, own: int) -> None:
        for number in range(own):
            raw = await child.up(target.port)
            await say_some(raw, child, 14 * MIB if number % 10 == 0 else MIB // 4)
            raw.break_off(hard=number % 2 == 0)

    await asyncio.gather(*(one(child, count // len(children)) for child in children))
    await target.until(
        lambda status: all(link["state"] == "down" for link in status["children"]), "left by all"
    )


async def test_half_a_bundle_goes_with_its_link(target: Target) -> None:
    children = [Child(name) for name in NAMES]
    await break_off_links(target, children, 3 * len(children))
    before = target.resident
    await break_off_links(target, children, OF_ALL)
    await expect_resident(target, before + ALLOWED)
    status = await target.status()
    assert status["ready"]
    assert {link["name"] for link in status["children"]} == set(NAMES)
    assert not status["queues"]
    assert target.log.count("is up") >= OF_ALL
