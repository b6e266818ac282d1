"""Threads that are there from the start, and answer every call or end the process."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from broker import threads
from broker.threads import NoThread, Threads


def test_calls_are_answered_in_order_by_the_thread_that_was_there():
    one = Threads("test")
    answers = [one.submit(lambda number=number: (number, threading.get_ident())) for number in range(100)]
    found = [answer.result(60) for answer in answers]
    assert [number for number, _ in found] == list(range(100))
    assert len({thread for _, thread in found}) == 1
    assert "test count=1 waiting=0" in repr(one)
    one.shutdown()


def test_an_error_is_the_answer_and_the_thread_goes_on():
    one = Threads("test")
    for error in (ValueError, MemoryError, KeyboardInterrupt):

        def fail(error: type[BaseException] = error) -> None:
            raise error

        assert isinstance(one.submit(fail).exception(60), error)
    assert one.submit(str, 7).result(60) == "7"
    one.shutdown()


def test_shutdown_waits_for_what_was_taken_and_takes_no_more():
    one = Threads("test", 2)
    answers = [one.submit(int, "5") for _ in range(50)]
    one.shutdown()
    one.shutdown()
    assert all(answer.done() for answer in answers)
    with pytest.raises(RuntimeError, match="the thread test has been closed"):
        one.submit(int)


def test_calls_that_have_not_begun_are_cancelled_where_that_is_asked_for():
    one, begun, go_on = Threads("test"), threading.Event(), threading.Event()

    def hold() -> bool:
        begun.set()
        return go_on.wait(60)

    held, waiting = one.submit(hold), one.submit(int)
    begun.wait(60)
    one.shutdown(wait=False, cancel_futures=True)
    assert waiting.cancelled()
    go_on.set()
    assert held.result(60)
    one.shutdown()


def test_they_end():
    def running() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    before = running()
    several = [Threads("test", 3) for _ in range(3)]
    ours = running() - before
    assert len(ours) >= 9
    for one in several:
        one.shutdown()
    for _ in range(1000):
        if not running() & ours:
            break
        threading.Event().wait(0.01)
    assert not running() & ours


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_one_that_cannot_begin_is_said(monkeypatch, error):
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(threads._thread, "start_new_thread", refuse)
    with pytest.raises(NoThread, match="the thread test cannot begin: give the process more memory"):
        Threads("test")


def test_one_that_dies_in_its_first_step_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(threads._thread, "start_new_thread", lambda *_: 0)
    monkeypatch.setattr(threads, "_PATIENCE", 0.05)
    with pytest.raises(NoThread):
        Threads("test")


UNHEARD = """
import asyncio
from broker.threads import Threads

class Deaf(Exception):
    pass

one = Threads("deaf")
answer = one.submit(lambda: None)

def hear(_):
    raise MemoryError

held = one.submit(__import__("time").sleep, 0.2)
held.add_done_callback(hear)
one.submit(print, "went on", flush=True).result(60)
"""
DEAD = """
from broker import threads

one = threads.Threads("dead")

def no_memory(*_):
    raise MemoryError

threads._perform = no_memory
one.submit(print, "went on", flush=True).result(60)
"""


UNTOLD = """
from broker.threads import Threads

class Full:
    def is_closed(self):
        return False

    def call_soon_threadsafe(self, *_):
        raise MemoryError

one = Threads("untold")
one.call(Full(), int, print)
one.submit(print, "went on", flush=True).result(60)
"""


async def test_a_call_is_answered_on_the_loop_with_its_result_or_its_error():
    one, loop = Threads("test"), asyncio.get_running_loop()
    answers = asyncio.Queue[tuple[object, BaseException | None, int]]()

    def then(result: object, error: BaseException | None) -> None:
        answers.put_nowait((result, error, threading.get_ident()))

    one.call(loop, threading.get_ident, then)
    thread, error, told_in = await answers.get()
    assert error is None
    assert told_in == threading.get_ident() != thread
    one.call(loop, lambda: 1 // 0, then)
    result, error, _ = await answers.get()
    assert result is None
    assert isinstance(error, ZeroDivisionError)
    one.shutdown()
    with pytest.raises(RuntimeError, match="has been closed"):
        one.call(loop, int, then)


async def test_where_the_loop_has_ended_nobody_is_told_and_the_thread_goes_on():
    one, ended = Threads("test"), asyncio.new_event_loop()
    ended.close()
    one.call(ended, int, print)
    assert await asyncio.wrap_future(one.submit(int)) == 0
    one.shutdown()


@pytest.mark.parametrize("program", [UNHEARD, DEAD, UNTOLD], ids=["unheard", "dead", "untold"])
def test_an_answer_that_cannot_be_told_ends_the_process_with_a_last_word(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "found no memory to go on. Nothing that was acknowledged is lost" in done.stderr
    assert "went on" not in done.stdout


async def test_a_loop_has_enough_threads_for_all_that_waits(monkeypatch):
    loop = asyncio.get_running_loop()
    await threads.prepare(loop)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(threads._thread, "start_new_thread", fail)
    monkeypatch.setattr(threading.Thread, "start", fail)
    assert await asyncio.gather(*(asyncio.to_thread(int, "3") for _ in range(50))) == [3] * 50
    assert await loop.getaddrinfo("localhost", 80)
    monkeypatch.undo()


def test_the_last_word_leaves_a_full_pipe_as_others_use_it():
    end, pipe = os.pipe()
    os.set_blocking(pipe, False)
    try:
        while True:
            os.write(pipe, bytes(4096))
    except BlockingIOError:
        os.set_blocking(pipe, True)
    program = "from broker.threads import end_process; end_process(b'x' * 4096)"
    try:
        ran = subprocess.run([sys.executable, "-P", "-c", program], stderr=pipe, timeout=180)
        assert (ran.returncode, os.get_blocking(pipe)) == (1, True)
    finally:
        os.close(end)
        os.close(pipe)
