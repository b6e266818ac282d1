"""A real Mosquitto of the tests' own: one process on a free port of 127.0.0.1, its files in one folder.

server = MosquittoServer(folder)
server.start()                       # returns when it takes connections
server.kill()                        # SIGKILL; start() again brings back what was kept
server.stop()
"""

import os
import shutil
import signal
import time
from pathlib import Path

from server_process import PATIENCE, ServerProcess

from broker.cli.demo.plan import free_ports

MISSING = (
    "these tests need a real Mosquitto: as root, apt-get update && apt-get install -y --no-install-recommends"
    " mosquitto mosquitto-clients"
)


class MosquittoServer(ServerProcess):
    """One Mosquitto. `lines`: of its configuration, beside the listener; without them all may do anything."""

    name = "Mosquitto"

    def __init__(self, folder: Path, *lines: str, port: int = 0) -> None:
        super().__init__(folder, port or free_ports(1)[0])
        self.lines = lines or ("allow_anonymous true",)

    @property
    def uri(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, if it does not run, and wait until it takes connections."""
        if self.process is not None:
            return
        program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
        assert program, MISSING
        user = ["user root"] if os.getuid() == 0 else []
        text = [f"listener {self.port} 127.0.0.1", "set_tcp_nodelay true", *user, *self.lines]
        if not any(line.startswith("persistence_location") for line in self.lines):
            text.append(f"persistence_location {self.folder}/")
        (self.folder / "mosquitto.conf").write_text("\n".join(text) + "\n")
        # Ctrl-C is for the test, which ends it
        self.run(program, "-c", str(self.folder / "mosquitto.conf"), process_group=0)

    def save(self) -> None:
        """Have it write down now what it keeps, as it does every half hour; returns when it has."""
        assert self.process is not None
        file = self.folder / "mosquitto.db"
        before = file.stat().st_mtime_ns if file.exists() else 0
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + PATIENCE
        while not file.exists() or file.stat().st_mtime_ns == before:
            assert time.monotonic() < deadline, f"Mosquitto does not save: {self.last_words()}"
            time.sleep(0.02)

    def read_again(self) -> None:
        """Have it read its files anew, as an administrator does; some milliseconds later it has."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)


DISCOVERY = (
    "allow_anonymous true",
    "persistence true",
    "max_queued_messages 100000",
    "sys_interval 1",
    "log_dest topic",
    "log_dest stdout",
    "log_type subscribe",
    "log_type unsubscribe",
    "log_type notice",
    "log_type error",
    "connection_messages true",
)
"""Lines of a Mosquitto that tells who its consumers are."""
