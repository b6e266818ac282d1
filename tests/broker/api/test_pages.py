"""Long lists: every item once, in order, and others have their turn in between."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from waiting import counting_turns

from broker.api import asking, cells, pages, queues, routes, sessions, status, tree
from broker.api.pages import CHUNK, Cut, cursor, key_of, page_of
from broker.core.errors import BadRequest, SwitchError
from broker.shares import LoopShare, Shares
from simulation.forest import Forest


async def test_pages_hold_every_item_once_and_in_order() -> None:
    items = [(number * 7919) % 10_007 for number in range(10_007)]
    found: list[int] = []
    after = ""
    while True:
        page = await page_of(items, lambda item: (item,), Cut(1000, after))
        found += page.items
        assert page.more == len(items) - len(found)
        if page.next is None:
            break
        after = page.next
    assert found == list(range(10_007))


async def test_only_wanted_items_are_counted() -> None:
    page = await page_of(range(100), lambda item: (-item,), Cut(10), lambda item: item % 2 == 0)
    assert page.items == list(range(98, 78, -2))
    assert page.more == 40


async def test_the_last_page_has_no_next_and_an_empty_list_none_either() -> None:
    assert await page_of([], lambda item: (0,), Cut(10)) == ([], 0, None)
    assert (await page_of([1, 2], lambda item: (item,), Cut(2))).next is None


async def test_others_have_their_turn() -> None:
    async with counting_turns() as turns:
        await page_of(range(20 * CHUNK), lambda item: (item,), Cut(1))
    assert turns() >= 20


@pytest.mark.parametrize("key", [("a",), (0.5, "ü/x"), (1, -1), ("", 10**18)])
def test_a_cursor_is_a_key_for_a_url(key: tuple[str | int | float, ...]) -> None:
    assert key_of(cursor(key)) == key
    assert cursor(key).replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize("text", ["x", "!!!!", "bnVsbA", "W10x", "W1tdXQ", "ü"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="after"):
        key_of(text)


async def test_a_cursor_of_another_order_is_refused() -> None:
    with pytest.raises(BadRequest, match="order"):
        await page_of([1, 2], lambda item: (item,), Cut(1, cursor(("a",))))


async def turns_of(call: Awaitable[object]) -> int:
    """How often others have their turn while this is made."""
    async with counting_turns() as turns:
        await asyncio.sleep(0)
        before = turns()
        await call
        return turns() - before


async def test_no_list_of_what_others_make_many_is_made_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells and consumers: others have a turn after every `CHUNK`, and each is shown once."""
    monkeypatch.setattr(pages, "CHUNK", 20)
    forest = Forest()
    hq = forest.add("hq")
    for number in range(100):
        forest.consumer("hq", f"queue:q{number}", name=f"reader {number}")
    forest.settle()
    node = cast("Any", SimpleNamespace(core=hq.core, name="hq", cells=SimpleNamespace(cells={})))
    assert await turns_of(cells.cells(node, Cut(1000))) >= 5
    found = await cells.cells(node, Cut(1000))
    assert len({each.name for each in found.cells}) == len(found.cells) >= 100
    assert await turns_of(sessions.consumers(node, "", Cut(1000))) >= 5
    shown = await sessions.consumers(node, "q1", Cut(5))
    assert ([each.destination for each in shown.consumers][:2], shown.more) == (["queue:q1", "queue:q10"], 6)


def test_the_largest_of_many_are_counted_and_the_others_are_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "_MOST_COUNTS", 2)
    counts = [(("queue", "york"), 5), (("topic", "york"), 9), (("domain", "york"), 1)]
    assert routes.most_routes(counts) == {"topic/york": 9, "queue/york": 5}


async def test_places_in_the_tree_and_queues_in_the_status_are_gathered_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nodes below a child, and queues: both are as many as others make them."""
    monkeypatch.setattr(pages, "CHUNK", 20)
    forest = Forest()
    hq = forest.add("hq")
    for name, parent in (("north", "hq"), *((f"s{number}", "north") for number in range(60))):
        forest.add(name, parent, "branch" if name == "north" else "")
    forest.heal(5)
    node = cast("Any", SimpleNamespace(core=hq.core, name="hq"))
    north = hq.core.neighbours["north"]
    assert await turns_of(tree._child(node, north, 50)) >= 3
    shown = await tree._child(node, north, 50)
    assert ([each.name for each in shown.below[:2]], len(shown.below), shown.below_more) == (
        ["s0", "s1"],
        50,
        10,
    )
    for number in range(100):
        forest.consumer("hq", f"queue:q{number}", name=f"reader {number}")
    forest.settle()
    assert await turns_of(queues.listed(node, "", "messages", Cut(10))) >= 5
    assert await turns_of(status._connections(hq.core)) >= 5
    assert await status._connections(hq.core) == 100


async def test_other_nodes_are_answered_in_slices_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.shares.SLICE", 0.0)

    async def work(*waits: object) -> int:
        for each in waits:
            await (asyncio.sleep(0) if each is None else asyncio.sleep(1))
        return len(waits)

    share = LoopShare(Shares())
    assert await turns_of(asking._in_slices(partial(work, *[None] * 30), share)) >= 30
    assert await asking._in_slices(partial(work, None, None), share) == 2
    with pytest.raises(SwitchError, match="it waits for something"):
        await asking._in_slices(partial(work, None, 1), share)


async def test_an_answer_that_is_not_wanted_is_never_begun() -> None:
    """Python tells of each coroutine that was made and not run."""
    node: Any = SimpleNamespace(driver=SimpleNamespace(shares=Shares()))
    commands = {(cell, verb): command for cell, verb, command in asking.commands(node)}
    work = commands["System", "tree"].handler("hq", {})
    assert asyncio.iscoroutine(work)
    work.close()
