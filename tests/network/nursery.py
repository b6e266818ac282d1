"""Node processes that begin with the program loaded: forks of a process that did nothing but load it.

To load the program costs a Python most of a second of CPU, and the tests start nodes many hundred times. A
nursery loads it once. A node of a nursery is a process like any other, with an id, files, memory and an end
of its own, and runs all that `sapwood node run` runs.

Law: the nursery has one thread and no event loop, so that a fork of it is whole. It ends with the process
that started it, and its nodes end with it.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import selectors
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

_LONGEST = 1 << 20


class NurseryNode:
    """A process that a nursery started, with those methods of `subprocess.Popen` that nodes need."""

    def __init__(self, pid: int, end: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = end
        self._ended = select.poll()
        self._ended.register(end, select.POLLIN)

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self.returncode is None and self._ended.poll(0):
            return self.wait()
        return self.returncode

    def wait(self) -> int:
        """Wait for its end, and return its exit code: minus the number of a signal that ended it."""
        if self.returncode is None:
            self.returncode = int(os.read(self._end, 64) or b"-9")  # nothing comes from a nursery that ended
            os.close(self._end)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Nursery:
    """The process that nodes are forks of, as this process sees it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(os.getpid()), str(theirs.fileno())],
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )

    def start(self, file: Path, log: int, environment: dict[str, str]) -> NurseryNode:
        """Run the node of a site's file, in that file's folder. `log`: number of the file it writes to."""
        order = json.dumps({"file": str(file), "environment": os.environ | environment})
        end, told = os.pipe()
        try:
            socket.send_fds(self._orders, [order.encode()], [log, told])
        finally:
            os.close(told)
        pid = self._orders.recv(_LONGEST)
        assert pid, "the nursery has ended"
        return NurseryNode(int(pid), end)

    def end(self) -> None:
        """End, and with it its nodes."""
        self._orders.close()
        self._process.wait()


@functools.cache
def nursery(**environment: str) -> Nursery:
    """The nursery of this process whose Python was started with these variables."""
    made = Nursery(environment)
    atexit.register(made.end)
    return made


def _serve(door: socket.socket) -> dict[str, Any]:
    """Fork for each order, and tell how each fork ends. Returns in the forks, each with its order."""
    with door, selectors.DefaultSelector() as watched:
        watched.register(door, selectors.EVENT_READ)
        while True:
            for key, _ in watched.select():
                if key.fileobj is not door:
                    _tell_end(watched, key)
                elif order := _fork(watched, door):
                    return order


def _fork(watched: selectors.BaseSelector, door: socket.socket) -> dict[str, Any] | None:
    """The order, in the fork that is to do it; None in the nursery."""
    data, numbers, _, _ = socket.recv_fds(door, _LONGEST, 2)
    if not data:
        raise SystemExit
    log, told = numbers
    pid = os.fork()
    if not pid:
        os.dup2(log, 1)
        os.dup2(log, 2)
        order: dict[str, Any] = json.loads(data)
        return order
    os.close(log)
    watched.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))
    door.send(str(pid).encode())
    return None


def _tell_end(watched: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pid, told = key.data
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
    watched.unregister(key.fileobj)
    os.close(key.fd)
    os.close(told)


def _become(order: dict[str, Any]) -> None:
    """Be like a new process: nothing is open but its input and its log, and it heads a group."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(order["environment"])
    file = Path(order["file"])
    os.chdir(file.parent)
    sys.argv[1:] = ["node", "run", str(file)]


if __name__ == "__main__":
    for name in ("broker.process", "broker.http.app", "uvloop"):
        importlib.import_module(name)
    from broker.cli.demo.tied import tie
    from broker.cli.program import main

    tie(int(sys.argv[1]))
    here = os.getpid()
    gc.freeze()
    ordered = _serve(socket.socket(fileno=int(sys.argv[2])))
    tie(here)
    _become(ordered)
    main()
