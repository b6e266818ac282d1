"""Where a node's CPU time goes: run the node in a process that keeps accounts, and ask it in between.

`python -m benchmarks.shares FILE` is `sapwood node run FILE`; for each line on standard input it answers with
a line of JSON: CPU seconds so far, by part, and commits with their wall time.

The parts: `http` reads requests and writes answers, `line` reads, decodes and writes the frames of links,
`core` decides, `sqlite` writes and commits. A part is charged for what runs in its functions and in no other
part's that they call. What is in no part is the rest: the event loop, system calls of sockets, and for
WebSockets the coroutines between the parts.
Keeping accounts costs about a microsecond a call, which is charged to nobody's favour: it is in the figures.
"""

import functools
import inspect
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bridges.carriers.websocket_line import WebSocketLine
from broker.core.clients.switch import Switch
from broker.core.node import NodeCore
from broker.core_driver import CoreDriver
from broker.http.front import Front
from broker.http.polling import Poll
from broker.http.session_endpoint import StreamingSession
from broker.http.verbs import Verbs
from broker.link_driver import LinkDriver
from broker.process import run_node
from broker.store.commit import GroupCommit
from broker.store.store import Store
from config.load import load
from treeconnector.link import Link

REST: Final = "rest"
PARTS: Final[dict[str, list[tuple[Any, str]]]] = {
    "http": [
        (Front, "data_received"),
        (Front, "_go_on"),
        (Front, "_answered"),
        (Verbs, "perform"),
        (Poll, "_look"),
        (StreamingSession, "_send"),
        (StreamingSession, "_flush"),
    ],
    "line": [
        (WebSocketLine, "buffer_updated"),
        (Link, "receive"),
        (LinkDriver, "_pull"),
    ],
    "core": [
        *((Switch, name) for name in ("send", "acknowledge", "transfer", "wait", "cancel", "receive")),
        *((NodeCore, name) for name in ("advance", "hear", "take", "is_urgent", "committed", "handle_timer")),
        (CoreDriver, "_turn"),
        (CoreDriver, "_committed"),
        (CoreDriver, "_tick"),
        (GroupCommit, "_begin"),
    ],
    "sqlite": [(Store, "write"), (Store, "commit"), (Store, "bodies")],
}


class Accounts:
    """CPU seconds by part, of the main thread; commits may also run in another, whose time is added."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*PARTS, REST), 0.0)
        self.commits = 0
        self.commit_wall = 0.0
        self._main = threading.get_ident()
        self._stack = [REST]
        self._since = time.thread_time()

    def wrap(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        seconds, stack, clock = self.seconds, self._stack, time.thread_time
        if inspect.isgeneratorfunction(call):
            return self._wrap_steps(part, call)

        @functools.wraps(call)
        def charged(*arguments: Any, **named: Any) -> Any:
            if threading.get_ident() != self._main:
                began = clock()
                try:
                    return call(*arguments, **named)
                finally:
                    seconds[part] += clock() - began
            now = clock()
            seconds[stack[-1]] += now - self._since
            self._since = now
            stack.append(part)
            try:
                return call(*arguments, **named)
            finally:
                now = clock()
                seconds[stack.pop()] += now - self._since
                self._since = now

        return charged

    def _wrap_steps(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Each step of a generator is charged, not what others do between two of them."""

        @functools.wraps(call)
        def stepping(*arguments: Any, **named: Any) -> Iterator[Any]:
            step, end = self.wrap(part, functools.partial(next, call(*arguments, **named))), object()
            while (found := step(end)) is not end:
                yield found

        return stepping

    def timed(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return commit(*arguments)
            finally:
                self.commits += 1
                self.commit_wall += time.perf_counter() - began

        return timed

    def say(self) -> dict[str, Any]:
        parts = {part: spent for part, spent in self.seconds.items() if part != REST}
        cpu = time.process_time()
        return {
            "cpu": cpu,
            "wall": time.monotonic(),
            "parts": parts,
            "commits": self.commits,
            "commit_wall": self.commit_wall,
        }


def keep(accounts: Accounts) -> None:
    """From here on every call of a part's functions is charged to it."""
    Store.commit = accounts.timed(Store.commit)  # type: ignore[method-assign]
    for part, functions in PARTS.items():
        for owner, name in functions:
            setattr(owner, name, accounts.wrap(part, getattr(owner, name)))


def _answer(accounts: Accounts) -> None:
    for _ in sys.stdin:
        print(json.dumps(accounts.say()), flush=True)


def main() -> int:
    accounts = Accounts()
    keep(accounts)
    threading.Thread(target=_answer, args=(accounts,), daemon=True).start()
    return run_node(load(Path(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
