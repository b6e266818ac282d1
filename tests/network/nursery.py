"""Processes that begin with the program loaded: forks of a process that did nothing but load it.

To load the program costs a Python most of a second of CPU, and the tests start nodes and commands many
hundred times. A nursery loads it once. A child of a nursery is a process like any other, with an id, files,
memory and an end of its own, and runs all that `sapwood` runs.

Law: the nursery has one thread and no event loop, so that a fork of it is whole. It ends with the process
that started it, and its children end with it.
"""

import asyncio
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import IO, Any, NoReturn

NODES = (
    *("broker.process", "broker.cli.run", "broker.http.app", "broker.http.front", "broker.http.port"),
    *("broker.location.lan", "broker.mqtt.door", "bridges.carriers.amqp", "bridges.carriers.mqtt"),
    *("bridges.carriers.websocket", "bridges.dns.lookup", "bridges.site_brokers.mosquitto.bridge"),
    *("bridges.site_brokers.rabbitmq.bridge", "config.yaml", "encodings.idna", "encodings.utf_8_sig"),
    *("uvloop", "websockets.client"),
)
COMMANDS = (
    *("broker.cli.app", "broker.cli.contexts", "broker.cli.messages", "broker.cli.node_api"),
    *("broker.cli.status", "broker.cli.trace", "broker.cli.views"),
    *("aiohttp.web", "pydantic.fields", "pydantic.type_adapter", "sapwood.client"),
    *("csv", "encodings.idna", "importlib.metadata", "importlib.resources"),
)
CHANNELS = (
    *("aiohttp", "encodings.idna", "hmac", "sapwood.channels.callers", "sapwood.channels.pipes"),
    *("sapwood.channels.probes", "sapwood.channels.socket_folder", "sapwood.channels.urls"),
    *("sapwood.channels.websocket_pipe", "sapwood.options"),
)
_LONGEST = 1 << 20


class NurseryChild:
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

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit code: minus the number of a signal that ended it.

        `timeout`: seconds; then `subprocess.TimeoutExpired`.
        """
        if self.returncode is None:
            if timeout is not None and not self._ended.poll(timeout * 1000):
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = int(os.read(self._end, 64) or b"-9")  # nothing comes from a nursery that ended
            os.close(self._end)
        return self.returncode

    async def ended(self) -> int:
        """As `wait`, beside other work."""
        if self.returncode is not None:
            return self.returncode
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._end, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(self._end)
        return self.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Nursery:
    """The process that others are forks of, as this process sees it. `modules`: they are loaded."""

    def __init__(self, modules: Sequence[str], environment: dict[str, str]) -> None:
        self._one_at_a_time = threading.Lock()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(os.getpid()), str(theirs.fileno()), *modules],
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )

    def start(
        self, words: Sequence[str], folder: Path, files: Sequence[int], environment: dict[str, str]
    ) -> NurseryChild:
        """Run a command line of `sapwood` in a folder, or one of Python that begins with '-m'.

        `files`: the numbers of its output, its errors and, if it has them, its input and what it has as 3.
        """
        order = json.dumps([*words, str(folder), os.environ | environment])
        end, told = os.pipe()
        try:
            with self._one_at_a_time:
                socket.send_fds(self._orders, [order.encode()], [told, *files])
                pid = self._orders.recv(_LONGEST)
        finally:
            os.close(told)
        assert pid, "the nursery has ended"
        return NurseryChild(int(pid), end)

    def end(self) -> None:
        """End, and with it its children."""
        self._orders.close()
        self._process.wait()


@contextlib.contextmanager
def command(
    words: Sequence[object],
    given: bytes = b"",
    *,
    folder: Path | None = None,
    together: bool = False,
    **environment: str,
) -> Iterator[tuple[NurseryChild, IO[bytes], IO[bytes]]]:
    """A command while it runs, with the files of its output and its errors. `given`: its input.

    `together`: its errors stand in its output. `environment`: variables beside those of this process.
    """
    strict = {"PYTHONWARNINGS": "error"}
    with TemporaryFile() as asked, TemporaryFile() as output, TemporaryFile() as errors:
        asked.write(given)
        asked.seek(0)
        files = [output.fileno(), output.fileno() if together else errors.fileno(), asked.fileno()]
        texts = [str(word) for word in words]
        child = nursery(*COMMANDS, **strict).start(texts, folder or Path.cwd(), files, strict | environment)
        try:
            yield child, output, errors
        finally:
            child.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def beside(
    words: Sequence[str], *, pass_fds: Sequence[int], env: dict[str, str], **_: object
) -> Iterator[SimpleNamespace]:
    """The process beside a channel, see `forked`."""
    *_, module, deed, _ = words
    (given, asked), (heard, told) = os.pipe(), os.pipe()
    with open(asked, "wb", buffering=0) as stdin, open(heard, "rb", buffering=0) as stdout:
        try:
            files = [told, sys.__stderr__.fileno(), given, *pass_fds]
            child = nursery(*CHANNELS).start(["-m", module, deed, "3"], Path.cwd(), files, env)
        finally:
            os.close(given)
            os.close(told)
        yield SimpleNamespace(stdin=stdin, stdout=stdout)
    child.wait()


def forked() -> SimpleNamespace:
    """In place of the module `subprocess` of `sapwood.channels.ends`, whose threads come and go."""
    nursery(*CHANNELS)
    return SimpleNamespace(Popen=beside, PIPE=subprocess.PIPE)


def ran(*words: object, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that has ended, and all that it said."""
    with command(words, folder=folder, **environment) as (child, *files):
        code = child.wait()
        return subprocess.CompletedProcess(words, code, *(content(file).decode() for file in files))


def content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@functools.cache
def nursery(*modules: str, **environment: str) -> Nursery:
    """The nursery of this process with these modules, whose Python was started with these variables.

    Wrinkle: it ends with the thread that asks for it first.
    """
    made = Nursery(modules, environment)
    atexit.register(made.end)
    return made


def _serve(door: socket.socket) -> list[Any]:
    """Fork for each order, and tell how each fork ends. Returns in the forks, each with its order."""
    with door, selectors.DefaultSelector() as watched:
        watched.register(door, selectors.EVENT_READ)
        while True:
            for key, _ in watched.select():
                if key.fileobj is not door:
                    _tell_end(watched, key)
                elif order := _fork(watched, door):
                    return order


def _fork(watched: selectors.BaseSelector, door: socket.socket) -> list[Any] | None:
    """The order, in the fork that is to do it; None in the nursery."""
    data, numbers, _, _ = socket.recv_fds(door, _LONGEST, 5)
    if not data:
        raise SystemExit
    told, *files = numbers
    pid = os.fork()
    if not pid:
        for own, file in zip((1, 2, 0), files, strict=False):
            os.dup2(file, own)
        order: list[Any] = [*json.loads(data), files[3:]]
        return order
    for file in files:
        os.close(file)
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


def _become(words: list[str], folder: str, environment: dict[str, str], more: list[int]) -> None:
    """Be like a new process: nothing is open but its own files, and it heads a group."""
    for own, file in enumerate(more, 3):
        os.dup2(file, own)
    os.closerange(3 + len(more), os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[1:] = words


def _build_once(app: object) -> None:
    """Typer makes all commands anew each time: that is most of what a command takes that says its version."""
    typer = importlib.import_module("typer.main")
    typer.get_command = functools.cache(typer.get_command)  # type: ignore[attr-defined]
    typer.get_command(app)


def _run_module() -> None:
    """As Python runs a module. It must not be loaded yet; all that it imports may be."""
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _end(main: Callable[[], object]) -> NoReturn:
    """Run it to its end, but do not take apart, object by object, all that was loaded: that copies the pages
    which it shares with the nursery.
    """
    code: object = None
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    for name in sys.argv[3:]:
        importlib.import_module(name)
    if app := sys.modules.get("broker.cli.app"):
        _build_once(app.app)
    from broker.cli.demo.tied import tie
    from broker.cli.program import main

    tie(int(sys.argv[1]))
    here = os.getpid()
    gc.freeze()
    *ordered, place, variables, more = _serve(socket.socket(fileno=int(sys.argv[2])))
    tie(here)
    _become(ordered, place, variables, more)
    _end(_run_module if ordered[:1] == ["-m"] else main)
