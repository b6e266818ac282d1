"""An event loop in a thread of its own, for programs without asyncio."""

import asyncio
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from sapwood.errors import ClientClosed

_log = logging.getLogger("sapwood.session")
Result = TypeVar("Result")
_STOP_TIME: Final = 5.0
_CANCEL_TIME: Final = 1.0


class Background:
    """An event loop in a thread. `run` waits for a coroutine there, `do` for a plain call."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._thread.start()
        self._process = os.getpid()
        self._waiting: set[Future[Any]] = set()

    def _run_loop(self) -> None:
        """Until `stop`. A coroutine of the application that calls `sys.exit` ends itself, and nobody else."""
        while True:
            try:
                return self._loop.run_forever()
            except BaseException:
                _log.exception("! this ends what raised it; the client goes on")

    @property
    def is_here(self) -> bool:
        """Not in a process that was forked: the thread stayed in the one that began it."""
        return os.getpid() == self._process

    def _check_process(self) -> None:
        if not self.is_here:
            raise ClientClosed("this client is of the process that forked: connect anew in this one")

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The coroutine's result; if the wait is interrupted, it is cancelled. Keeps the caller's context."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this is the client's own thread: handlers that are coroutines use `await`")
        if self._loop.is_closed() or not self.is_here:
            work.close()
            self._check_process()
            raise ClientClosed("this client was closed")
        result: Future[Result] = Future()
        self._waiting.add(result)
        context = contextvars.copy_context()
        tasks: list[asyncio.Task[None]] = []

        async def settle() -> None:
            try:
                result.set_result(await work)
            except asyncio.CancelledError:
                result.set_exception(ClientClosed("this client was closed"))
                raise
            except BaseException as error:
                result.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(
                lambda: tasks.append(self._loop.create_task(settle(), context=context))
            )
        except RuntimeError:
            work.close()
            raise ClientClosed("this client was closed") from None
        try:
            return result.result()
        except BaseException:
            if not result.done():
                self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
                wait([result], _CANCEL_TIME)
            raise
        finally:
            self._waiting.discard(result)

    def do(self, call: Callable[[], Result]) -> Result:
        """The result of a call that is made on the loop."""

        async def once() -> Result:
            return call()

        return self.run(once())

    def soon(self, call: Callable[[], object]) -> None:
        """Have a call made on the loop, without waiting for it."""
        self._check_process()
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """Cancel what still runs, and end the thread. Idempotent."""
        if self._loop.is_closed():
            return
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_TIME)
        self._loop.close()
        for result in list(self._waiting):  # was cancelled before its first step, or came too late
            if not result.done():
                result.set_exception(ClientClosed("this client was closed"))


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
