"""A reader of a tutorial: a folder, and a terminal for each command that goes on."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from pages import Step, ready

PORTS = re.compile(r"\b(?:7600|7601|1883)\b")
PATIENCE = 120.0
SOURCES = Path(__file__).parents[2]


class Reader:
    """Does as a tutorial says, but on other ports, so that tests run beside each other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        self._ports: dict[str, str] = {}
        self._terminals: list[tuple[str, subprocess.Popen[bytes], Path]] = []
        bin = Path(sys.executable).parent
        self._environment = os.environ | {
            "PATH": f"{bin}:{os.environ['PATH']}",
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        self._environment["DUNE_CACHE"] = "disabled"
        self._environment["SAPWOOD_URL"] = f"http://127.0.0.1:{self._port('7600')}"

    def does(self, step: Step) -> None:
        if step.kind == "start":
            self._start(step.command)
        elif step.kind == "stop":
            self._stop(step.command)
        elif step.kind == "look":
            self._until(
                lambda: missing(step.shows, self._shown(step.command)),
                step,
                lambda: self._shown(step.command),
            )
        else:
            self._run(step)

    def leave(self) -> None:
        for _, process, _ in reversed(self._terminals):
            end(process)

    def _run(self, step: Step) -> None:
        outputs: list[str] = []

        def lacks() -> list[str]:
            code, said = self._output(step.command)
            outputs.append(said)
            assert step.again or code == 0, f"{step.command}\n{said}"
            return missing(step.shows, said) or ["success"][: int(code != 0)]

        if step.again:
            self._until(lacks, step, lambda: outputs[-1])
        else:
            assert lacks() == [], f"{step.command}\n{outputs[-1]}"

    def _output(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self._own(command)],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=480,
        )
        return done.returncode, done.stdout

    def _start(self, command: str) -> None:
        self._count += 1
        log = self.folder / f"terminal-{self._count}.log"
        if command.startswith("mosquitto -c") and os.geteuid() == 0:
            # As root it would become another user, who may not write into a test's folder.
            with (self.folder / "mosquitto.conf").open("a") as file:
                file.write("user root\n")
        with log.open("wb") as shown:
            # A line at once, as a terminal shows it.
            words = ["stdbuf", "-oL", "-eL", "bash", "-c", f"exec {self._own(command)}"]
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self._environment,
                stdout=shown,
                stderr=shown,
                start_new_session=True,
            )
        self._terminals.append((command, process, log))
        waits = ready(command) or ""

        def lacks() -> list[str]:
            assert process.poll() is None, f"{command} has ended\n{read(log)}"
            return missing((waits,), read(log))

        self._until(lacks, Step("start", command, (waits,)), lambda: read(log))

    def _stop(self, command: str) -> None:
        for index in reversed(range(len(self._terminals))):
            begun, process, _ = self._terminals[index]
            if begun == command:
                del self._terminals[index]
                end(process)
                return
        raise AssertionError(f"{command!r} does not run")

    def _shown(self, command: str) -> str:
        return "\n".join(read(log) for begun, _, log in self._terminals if begun.startswith(command))

    def _until(self, lacks: Callable[[], object], step: Step, said: Callable[[], str]) -> None:
        limit = time.monotonic() + PATIENCE
        while lacks():
            assert time.monotonic() < limit, f"{step.command}: expected {step.shows}\n{said()}"
            time.sleep(0.2)

    def _own(self, command: str) -> str:
        return PORTS.sub(lambda match: self._port(match[0]), command)

    def _port(self, named: str) -> str:
        if named not in self._ports:
            with socket.create_server(("127.0.0.1", 0)) as server:
                self._ports[named] = str(server.getsockname()[1])
        return self._ports[named]


def missing(shows: tuple[str, ...], said: str) -> list[str]:
    """Lines that should be there and are not, whatever stands around them."""
    return [line for line in shows if " ".join(line.split()) not in " ".join(said.split())]


def read(log: Path) -> str:
    return log.read_text(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    (tmp_path / "sapwood").symlink_to(SOURCES)
    (tmp_path / "empty").mkdir()
    reader = Reader(tmp_path / "empty")
    yield reader
    reader.leave()
