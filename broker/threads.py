"""The threads of a node: they are there before it needs them, and each call gets its answer.

Law: no thread begins while a loop waits for it. A thread that cannot go on, or cannot tell an answer, ends
the process with a last word: nobody would ever be answered, and all that was acknowledged is on disk.
Wrinkle: `threading.Thread.start` waits until the thread has taken its first step. One that finds no memory
for that step dies unheard, and whoever started it waits for ever; so threads begin here, and patience ends.
Wrinkle: asyncio takes a `ThreadPoolExecutor` only for its own, and that one begins threads when it likes.
"""

import _thread
import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from sapwood.protocol.errors import SapwoodError

Given = ParamSpec("Given")
Result = TypeVar("Result")
_Call = tuple[Future[Any] | None, Callable[[], None]]
"""Who is cancelled where it is not begun, and what a thread runs."""
Then = Callable[[Any, BaseException | None], object]
_PATIENCE: Final = 10.0
_STANDARD_ERROR: Final = 2
_FOR_ALL_ELSE: Final = 8


class NoThread(SapwoodError):
    """A thread could not begin."""


def end_process(words: bytes, code: int = 1) -> None:
    """The last resort: nothing is closed.

    Wrinkle: without memory no line of a log can be made, and its lock may be another's.
    """
    try:
        say(words)
    finally:
        os._exit(code)


def say(words: bytes) -> None:
    """On standard error, whatever else stands still. Raises OSError."""
    os.set_blocking(_STANDARD_ERROR, False)  # a pipe that nobody reads would keep the process
    try:
        os.write(_STANDARD_ERROR, words)
    finally:
        os.set_blocking(_STANDARD_ERROR, True)  # others may share it


def last_word(why: str) -> bytes:
    """To be made while there is memory."""
    text = f"! the node ends at once: {why}. Nothing that was acknowledged is lost: start it again\n"
    return text.encode()


def begin(work: Callable[[], None], name: str) -> None:
    """Begin a thread that lives until `work` ends, or the process does. Raises `NoThread`."""
    begun = threading.Event()
    try:
        _thread.start_new_thread(_run, (begun, work))
        if begun.wait(_PATIENCE):
            return
    except (RuntimeError, MemoryError):
        pass
    raise NoThread(f"the thread {name} cannot begin: give the process more memory, or more threads")


def _run(begun: threading.Event, work: Callable[[], None]) -> None:
    begun.set()
    work()


class _Outcome(Future[Any]):
    """Of one call. Wrinkle: `Future` says no more than a line of a log about somebody who was not told."""

    def __init__(self, lost: bytes) -> None:
        super().__init__()
        self._lost = lost

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        super().add_done_callback(partial(_tell, fn, self._lost))


def _tell(listener: Callable[[Future[Any]], object], lost: bytes, answer: Future[Any]) -> None:
    try:
        listener(answer)
    except MemoryError:
        end_process(lost)


class Threads(ThreadPoolExecutor):
    """`count` threads that take calls in order, begun at once. Raises `NoThread`."""

    def __init__(self, name: str, count: int = 1) -> None:
        super().__init__(count, name)
        self.name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lost = last_word(f"the thread {name} found no memory to go on")
        self._ends = [threading.Event() for _ in range(count)]
        self._closed = False
        for end in self._ends:
            begin(partial(self._work, end), name)

    def __repr__(self) -> str:
        return f"<Threads {self.name} count={len(self._ends)} waiting={self._calls.qsize()}>"

    def submit(
        self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Result]:
        answer = _Outcome(self._lost)
        self._take(answer, partial(_perform, answer, partial(fn, *args, **kwargs)))
        return answer

    def call(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Any], then: Then) -> None:
        """Run `work`; afterwards the loop calls `then(result, error)`, of which one is None.

        For what happens all the time: a `Future` and the loop's own beside it cost three times as much.
        """
        self._take(None, partial(_perform_for, loop, work, then))

    def _take(self, answer: Future[Any] | None, call: Callable[[], None]) -> None:
        if self._closed:
            raise RuntimeError(f"the thread {self.name} has been closed")
        self._calls.put((answer, call))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. `wait`: until those that were taken have been answered. Idempotent."""
        if cancel_futures:
            self._cancel()
        if not self._closed:
            self._closed = True
            for _ in self._ends:
                self._calls.put(None)
        if wait:
            for end in self._ends:
                end.wait()

    def _cancel(self) -> None:
        with contextlib.suppress(Empty):
            while (call := self._calls.get_nowait()) is not None:
                if call[0] is not None:
                    call[0].cancel()
            self._calls.put(None)

    def _work(self, end: threading.Event) -> None:
        try:
            while (call := self._calls.get()) is not None:
                call[1]()
                del call  # an answer does not wait for the next call to be forgotten
            end.set()
        except BaseException:
            end_process(self._lost)


def _perform(answer: Future[Any], call: Callable[[], Any]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        answer.set_exception(error)
    else:
        answer.set_result(result)


def _perform_for(loop: asyncio.AbstractEventLoop, work: Callable[[], Any], then: Then) -> None:
    result, failure = None, None
    try:
        result = work()
    except BaseException as error:
        failure = error
    if not loop.is_closed():  # else nobody is left to be told
        loop.call_soon_threadsafe(then, result, failure)


async def prepare(loop: asyncio.AbstractEventLoop) -> None:
    """Begin the threads for all that only waits: dialling by a client library, names, files of pages.

    Wrinkle: uvloop looks for names in threads of its C library, and ends the process where they cannot begin.
    """
    loop.set_default_executor(Threads("sapwood-waiting", _FOR_ALL_ELSE))
    with contextlib.suppress(OSError):
        await loop.getaddrinfo("localhost", 0)
