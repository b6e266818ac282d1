"""A node as the whole work of a process: from its start to SIGTERM, SIGINT or its failure."""

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Callable
from typing import Final

from broker import memory, threads
from broker.core.errors import SwitchError
from broker.loops import quick_loop
from broker.naming import MOST_DRAWN, named, renamed
from broker.node import Node
from broker.watchdog import Watchdog
from config.model import Site

_log = logging.getLogger("sapwood.node")
_SWITCH: Final = 0.001
"""Seconds that a thread waits for the interpreter while another has it. A commit on a slow disk asks for it
twice, in a thread, and all messages wait meanwhile: Python's own 5 ms would be 10 for each of them while one
child keeps the loop busy."""
_TO_EXIT: Final = 3
"""Seconds that the process has to end, once its node has stopped."""


async def _run(site: Site, read: Callable[[], Site] | None) -> int:
    """Under another name again, as long as the one that was drawn turns out to be taken."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    await threads.prepare(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    draws, site = None if site.name else MOST_DRAWN, named(site)
    while (code := await _run_once(Node(site, draws=draws, read=read), stop)) is None:
        taken, site, draws = site.name, renamed(site), (draws or 1) - 1
        last = "" if draws else ", whatever its parent says: it has refused them all. Is it the right one?"
        _log.warning("! the name %s is taken: this node is %s from now on%s", taken, site.name, last)
    return code


async def _run_once(node: Node, stop: asyncio.Event) -> int | None:
    """The exit code; None if the node has to have another name."""
    await node.start()
    watchdog = Watchdog(node.driver.committer.moves)
    gc.freeze()  # what is there now stays: the collector need not look at it again and again
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _read_again, node)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # one that came during the start counts now
    waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(node.driver.stopped.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    await node.stop()
    if node.driver.failure is not None:
        watchdog.hurry(_TO_EXIT, 1)
        return 1
    if not node.naming.taken or stop.is_set():
        watchdog.hurry(_TO_EXIT, 0)
        return 0
    watchdog.stop()
    return None


def _read_again(node: Node) -> None:
    with contextlib.suppress(SwitchError):  # is in the log
        node.report.access.read_again()


def run_node(site: Site, read: Callable[[], Site] | None = None) -> int:
    """Run one node until SIGTERM or SIGINT; return the exit code. `read`: reads its file again, at SIGHUP."""
    from broker.logs import set_up

    set_up(site)
    memory.set_up()
    sys.setswitchinterval(_SWITCH)
    try:
        with asyncio.Runner(loop_factory=quick_loop()) as runner:
            return runner.run(_run(site, read))
    except MemoryError:
        _log.error("! the node stops: %s", memory.OUT_OF_MEMORY)
        return 1
