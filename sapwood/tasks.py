"""Tasks: what belongs together, from the outermost call down to the last message that it causes.

A task id travels with each message of a task (`Properties.task_id`). It is passed on by a context variable:
whatever a service's handler calls or sends belongs to the task of the request that it handles. The outermost
call makes a fresh id, unless the application has begun a task of its own:

    with task() as name:
        await rpc.call("stock", "reserve", article=4711)
        await client.send("queue:orders", order)

`sapwood trace --task NAME` then shows all of it as one timeline.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

current: Final[ContextVar[str]] = ContextVar("sapwood_task", default="")


def current_task() -> str:
    """Id of the task that this code runs for; '' = none."""
    return current.get()


def new_task() -> str:
    """A fresh id."""
    return uuid.uuid4().hex


@contextmanager
def task(name: str = "") -> Iterator[str]:
    """Everything that is called or sent within belongs to one task: `name`, or a fresh id. Yields the id."""
    name = name or new_task()
    token = current.set(name)
    try:
        yield name
    finally:
        current.reset(token)
