"""A real RabbitMQ of the tests' own: one process on free ports of 127.0.0.1, its files in one folder.

    server = RabbitServer(folder)
    server.start()                       # returns when it takes connections
    server.add_vhost("orders")
    connection = pika.BlockingConnection(server.parameters("orders"))
    server.kill()                        # SIGKILL; start() again brings back what was durable and on disk
    server.stop()                        # and its port mapper too

Wrinkle: the program in /usr/sbin changes the user; the one called here does not. Erlang's port mapper
(`epmd`) outlives its nodes; each server has one of its own, on a port of its own, and ends it.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pika
from server_process import answers

from broker.cli.demo.plan import free_ports

PROGRAM = Path(os.environ.get("RABBITMQ_SERVER", "/usr/lib/rabbitmq/bin/rabbitmq-server"))
PLUGINS = ("rabbitmq_management", "rabbitmq_event_exchange", "rabbitmq_mqtt", "rabbitmq_shovel")
MISSING = (
    "these tests need a real RabbitMQ: as root, apt-get update && apt-get install -y --no-install-recommends"
    f" rabbitmq-server ({PROGRAM} is not there)"
)
_PATIENCE = 300.0
_WRITTEN = 3.0
_ERLANG = "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"


class RabbitServer:
    """One RabbitMQ node. `plugins`: its plugins; MQTT and management listen only where they are named."""

    def __init__(self, folder: Path, plugins: tuple[str, ...] = PLUGINS) -> None:
        self.folder = folder
        self.plugins = plugins
        self.port, self._distribution, self.management, self.mqtt, self._epmd = free_ports(5)
        self.name = f"rabbit{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._prepare()

    def __repr__(self) -> str:
        return f"<RabbitServer {self.name} port={self.port} running={self._process is not None}>"

    # --- life

    def _prepare(self) -> None:
        folder = self.folder
        for part in ("home", "mnesia", "log", "gen"):
            (folder / part).mkdir(parents=True)
        cookie = folder / "home" / ".erlang.cookie"
        cookie.write_text("SAPWOODTESTS" + str(self.port))
        cookie.chmod(0o400)
        (folder / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "log.console = true", "log.file = false"]
        lines += ["disk_free_limit.absolute = 50MB", "heartbeat = 10", "collect_statistics_interval = 1000"]
        if "rabbitmq_management" in self.plugins:
            lines += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.management}"]
        if "rabbitmq_mqtt" in self.plugins:
            lines += [f"mqtt.listeners.tcp.1 = 127.0.0.1:{self.mqtt}", "mqtt.allow_anonymous = true"]
        (folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")

    @property
    def _environment(self) -> dict[str, str]:
        folder = self.folder
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder / "home"),
            "RABBITMQ_NODENAME": f"{self.name}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "ERL_EPMD_PORT": str(self._epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_MNESIA_DIR": str(folder / "mnesia" / self.name),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "gen"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
        }

    def start(self) -> None:
        """Start it, if it does not run, and wait until it takes connections."""
        if self._process is not None:
            return
        assert PROGRAM.exists(), MISSING
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [PROGRAM], env=self._environment, stdout=output, stderr=output, start_new_session=True
            )
        self._until_ready()

    def _until_ready(self) -> None:
        ports = [self.port]
        ports += [self.management] if "rabbitmq_management" in self.plugins else []
        ports += [self.mqtt] if "rabbitmq_mqtt" in self.plugins else []
        deadline = time.monotonic() + _PATIENCE
        while not all(map(answers, ports)):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"RabbitMQ does not start: {self.last_words()}")
            time.sleep(0.1)

    def until_on_disk(self) -> None:
        """Wait until what is durable would come back after a `kill`: RabbitMQ writes of new queues some two
        seconds late, and without a word, into its log as into the tables that it makes of that.
        """
        folder = self.folder / "mnesia" / self.name
        deadline = time.monotonic() + _PATIENCE
        while time.time() - max((file.stat().st_mtime for file in _tables(folder)), default=0.0) < _WRITTEN:
            assert time.monotonic() < deadline, "RabbitMQ does not stop writing of its queues"
            time.sleep(0.1)

    def last_words(self) -> str:
        text = (self.folder / "output").read_text(errors="replace")
        return text[-2000:]

    def kill(self) -> None:
        """SIGKILL to it and what it started; returns when it has gone."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + _PATIENCE
        while answers(self.port) and time.monotonic() < deadline:
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill it, and its port mapper."""
        self.kill()
        epmd = shutil.which("epmd")
        assert epmd is not None
        environment = {"ERL_EPMD_PORT": str(self._epmd), "PATH": os.environ["PATH"]}
        deadline = time.monotonic() + 10
        while answers(self._epmd) and time.monotonic() < deadline:
            subprocess.run([epmd, "-kill"], env=environment, capture_output=True, check=False)
            time.sleep(0.05)

    # --- use

    def uri(self, vhost: str = "/") -> str:
        """What a site's file says."""
        return f"amqp://127.0.0.1:{self.port}/{urllib.parse.quote(vhost, safe='')}"

    @property
    def management_uri(self) -> str:
        return f"http://127.0.0.1:{self.management}"

    def parameters(self, vhost: str = "/", user: str = "guest", password: str = "guest") -> Any:
        """How a plain pika program connects; without heartbeats, because tests do not read all the time."""
        return pika.ConnectionParameters(
            "127.0.0.1", self.port, vhost, pika.PlainCredentials(user, password), heartbeat=0
        )

    def connect(self, vhost: str = "/") -> pika.BlockingConnection:
        """A plain application's connection."""
        return pika.BlockingConnection(self.parameters(vhost))

    def add_vhost(self, vhost: str) -> None:
        self.api("PUT", f"/vhosts/{vhost}")
        self.permit(vhost, "guest")

    def delete_vhost(self, vhost: str) -> None:
        self.api("DELETE", f"/vhosts/{vhost}")

    def add_user(self, user: str, tags: str = "") -> None:
        """A user whose password is its name."""
        self.api("PUT", f"/users/{user}", {"password": user, "tags": tags})

    def permit(
        self, vhost: str, user: str, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        rights = {"configure": configure, "write": write, "read": read}
        self.api("PUT", f"/permissions/{urllib.parse.quote(vhost, safe='')}/{user}", rights)

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Ask the management API as an administrator; `AssertionError` on an error."""
        request = urllib.request.Request(
            f"{self.management_uri}/api{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Content-Type": "application/json",
                "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None
        return json.loads(text) if text else None

    def control(self, program: str, *arguments: str) -> str:
        """Run rabbitmqctl, rabbitmq-plugins or rabbitmq-diagnostics against it."""
        done = subprocess.run(
            [PROGRAM.parent / program, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout


def _tables(folder: Path) -> Iterable[Path]:
    """Of Mnesia; none with Khepri, which has on disk what it has answered."""
    return folder.glob("*.[DL][CO][DLG]")
