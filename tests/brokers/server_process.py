"""A process of its own, which takes connections: the real servers of the tests have it in common."""

import signal
import socket
import subprocess
import time
from pathlib import Path

PATIENCE = 180.0


def answers(port: int) -> bool:
    """Does anybody take connections there, on this machine?"""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


class ServerProcess:
    """A server with its files in `folder`, which says there what it has to say. `process`: while it runs."""

    name = ""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} port={self.port} running={self.process is not None}>"

    def run(self, *command: str, **options: int) -> None:
        """Start it, and wait until it takes connections."""
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, **options)
        deadline = time.monotonic() + PATIENCE
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"{self.name} does not start: {self.last_words()}")
            time.sleep(0.02)

    def last_words(self) -> str:
        return (self.folder / "output").read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """SIGKILL, and wait until it has gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait until it has gone."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            process.wait()
