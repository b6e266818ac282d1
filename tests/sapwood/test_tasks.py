"""A task goes where its code goes, and nowhere else."""

import asyncio

from sapwood import current_task, task


async def test_tasks_of_different_coroutines_are_apart() -> None:
    async def work(name: str) -> str:
        with task(name):
            await asyncio.sleep(0)
            return current_task()

    assert await asyncio.gather(work("a"), work("b")) == ["a", "b"]
    assert current_task() == ""


def test_a_task_within_a_task_ends_with_its_block() -> None:
    with task() as outer:
        with task("inner") as inner:
            assert current_task() == inner == "inner"
        assert current_task() == outer
        assert len(outer) == 32
