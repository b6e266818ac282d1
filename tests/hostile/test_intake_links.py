"""Links of children that have proved themselves break in the middle of a bundle: its memory goes, too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest_asyncio
from intake_links import SECRET, Child, say_some
from intake_peers import ALLOWED, MIB, OF_ALL, Target, expect_resident, most_resident, running

NAMES = [f"till-{number}" for number in range(20)]
TIMES = 1000


@asynccontextmanager
async def parent(folder: Path, names: list[str]) -> AsyncIterator[Target]:
    """A node with children of these names."""
    (folder / "secret").write_bytes(SECRET)
    (folder / "secret").chmod(0o600)
    children = [{"name": name, "role": "leaf", "secret_file": "secret"} for name in names]
    async with running(folder, children=children) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with parent(tmp_path, NAMES) as made:
        yield made


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
    await break_off_links(target, children, TIMES)
    await expect_resident(target, before + ALLOWED)
    status = await target.status()
    assert status["ready"]
    assert {link["name"] for link in status["children"]} == set(NAMES)
    assert not status["queues"]
    assert target.log.count("is up") >= TIMES


async def test_many_in_the_middle_of_a_bundle_cost_no_more_together(tmp_path: Path) -> None:
    """Each of 60 has sent nearly all of one of 15 MiB. Some links end; a child that comes again is taken."""
    names = [f"till-{number}" for number in range(60)]
    async with parent(tmp_path, names) as target:
        before, children = most_resident(target), [Child(name) for name in names]
        raws = [await child.up(target.port) for child in children]
        for child, raw in zip(children, raws, strict=True):
            await say_some(raw, child, 14 * MIB)
        await target.until(lambda status: status["intake"]["turned_away"].get("buffers", 0) > 0, "full")
        assert most_resident(target) <= before + 2 * OF_ALL
        for raw in raws:
            raw.break_off()
        (await children[0].up(target.port)).break_off()
        assert "no more room" in target.log
