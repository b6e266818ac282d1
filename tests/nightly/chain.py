"""A small chain for the kill rounds, with the defaults that a user gets, and the programs of its sites.

    hq <- north <- york   (embedded)
                <- leeds  (Mosquitto)
       <- south <- bath   (embedded)
                <- exeter (RabbitMQ)

leeds and exeter are there with `brokers` only. Each site has a process that sends and one that receives.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from checker import Flow
from harness import Network
from mosquitto_server import DISCOVERY, MosquittoServer
from rabbitmq_server import RabbitServer
from shim import Shim, build

HERE = Path(__file__).parent
KEPT = ("autosave_on_changes true", "autosave_interval 1", "max_inflight_messages 1000")
"""With these a Mosquitto has on disk what it has acknowledged."""
LONG = 300.0
DEFAULTS: dict[str, Any] = {"tree": "test"}
Program = dict[str, Any]

FLOWS = {
    "york-sales": Flow(("hq-reads",)),
    "bath-sales": Flow(("hq-reads",)),
    "prices": Flow(("york-reads",)),
    "work": Flow(("york-reads", "bath-reads")),
    "transfers": Flow(("bath-reads",)),
    "offers": Flow(("york-reads", "bath-reads"), shared=False),
    "alarms": Flow(("hq-reads",)),
}
SITE_FLOWS = {
    "leeds-reports": Flow(("hq-reads",)),
    "labels": Flow(("leeds",)),
    "exeter-reports": Flow(("hq-reads",)),
    "orders": Flow(("exeter",)),
}
PROGRAMS: dict[str, Program] = {
    "hq-sends": {
        "sends": {"prices": "queue:york/prices", "work": "queue:work", "offers": "topic:offers/today"},
        "calls": {"stock-of-york": "york/stock"},
    },
    "york-sends": {
        "sends": {"york-sales": "queue:sales", "alarms": "topic:alarms/york", "transfers": "queue:transfers"},
        "calls": {"stock-of-hq": "stock"},
    },
    "bath-sends": {"sends": {"bath-sales": "queue:sales"}},
    "hq-reads": {"reads": {"queue:sales": "", "topic:alarms/#": "alarms"}, "serves": ["stock"]},
    "york-reads": {
        "reads": {"queue:york/prices": "", "queue:work": "", "topic:offers/#": "offers-york"},
        "serves": ["york/stock"],
    },
    "bath-reads": {"reads": {"queue:work": "", "queue:transfers": "", "topic:offers/#": "offers-bath"}},
}
SITE_PROGRAMS: dict[str, Program] = {
    "leeds": {
        "sends": {"leeds-reports": "queue/reports"},
        "reads": {"$share/tills/queue/labels": "labels"},
    },
    "exeter": {"sends": {"exeter-reports": "reports"}, "reads": {"orders": "orders"}},
}


class Chain:
    """Nodes, brokers and programs. An async context manager: all have gone when it ends.

    `rate`: messages a second of each flow. `shimmed`: clocks and disks fail on command. The
    journals are in `folder`/journals.
    """

    def __init__(self, folder: Path, *, brokers: bool, rate: float, seed: int, shimmed: bool = False) -> None:
        self.network = Network(folder, DEFAULTS)
        self.brokers: dict[str, MosquittoServer | RabbitServer] = {}
        self.flows = dict(FLOWS)
        self.programs: dict[str, subprocess.Popen[bytes]] = {}
        self.journals = folder / "journals"
        self.shims: dict[str, Shim] = {}
        self._with_brokers = brokers
        self._shimmed = shimmed
        self._rate = rate
        self._seed = seed

    def __repr__(self) -> str:
        return f"<Chain {self.network!r} {len(self.programs)} programs>"

    async def __aenter__(self) -> Self:
        self.journals.mkdir(parents=True)
        await self.network.__aenter__()
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        for program in self.programs.values():
            program.kill()
            program.wait()
        await self.network.__aexit__(*exception)
        for server in self.brokers.values():
            await asyncio.to_thread(server.stop)

    async def _start(self) -> None:
        sites: dict[str, dict[str, Any]] = {"leeds": {}, "exeter": {}}
        if self._with_brokers:
            self.flows |= SITE_FLOWS
            mosquitto = MosquittoServer(self.network.folder / "mosquitto", *DISCOVERY, *KEPT)
            rabbit = RabbitServer(
                self.network.folder / "rabbitmq", ("rabbitmq_management", "rabbitmq_event_exchange")
            )
            self.brokers = {"mosquitto": mosquitto, "rabbitmq": rabbit}
            await asyncio.gather(*(asyncio.to_thread(server.start) for server in self.brokers.values()))
            sites["leeds"] = {"site_broker": {"uri": mosquitto.uri}}
            sites["exeter"] = {"site_broker": {"uri": rabbit.uri(), "management": rabbit.management_uri}}
        self.network.add("hq")
        for region, store in (("north", "york"), ("south", "bath")):
            self.network.add(region, "hq", role="branch")
            self.network.add(store, region)
        if self._with_brokers:
            self.network.add("leeds", "north", **sites["leeds"])
            self.network.add("exeter", "south", **sites["exeter"])
        if self._shimmed:
            self._preload()
        await self.network.start()
        await self._start_programs()

    def _preload(self) -> None:
        library = build(self.network.folder)
        for name in self.network.nodes.by_name:
            data = self.network.data(name).resolve()
            self.shims[name] = Shim(library, self.network.folder / f"{name}.shim", data)
            self.network.environments[name] = self.shims[name].environment

    async def _start_programs(self) -> None:
        """Who reads comes first, and is known at hq before anybody sends."""
        names = sorted(PROGRAMS, key=lambda name: name.endswith("-sends"))
        readers = [name for name in names if name.endswith("-reads")]
        for name in readers:
            self._run(name, PROGRAMS[name])
        for name in readers:
            await self.until_said(name, "ready")
        for known in ("queue:york/prices", "queue:transfers", "queue:york/stock", "topic:offers/#"):
            await self.network.until_known("hq", known)
        await self.network.until_known("york", "topic:alarms/#")
        if self._with_brokers:
            for name, told in SITE_PROGRAMS.items():
                self._run_at_broker(name, told)
            for name in SITE_PROGRAMS:
                await self.until_said(name, "ready")
        for name in names:
            if name not in readers:
                self._run(name, self._with_sites(name))
                await self.until_said(name, "ready")

    def _with_sites(self, name: str) -> Program:
        told = dict(PROGRAMS[name])
        if self._with_brokers and name == "hq-sends":
            told["sends"] = told["sends"] | {"labels": "queue:labels", "orders": "queue:orders"}
        return told

    def _run(self, name: str, told: Program) -> None:
        site, _, role = name.partition("-")
        if self._with_brokers and name == "hq-reads":
            told = told | {"reads": told["reads"] | {"queue:reports": ""}}
        role = {"sends": "producer", "reads": "consumer"}[role]
        self._spawn("application.py", name, {"url": self.network.url(site), "role": role} | told)

    def _run_at_broker(self, name: str, told: Program) -> None:
        kind = {"leeds": "mosquitto", "exeter": "rabbitmq"}[name]
        self._spawn(
            "site_application.py", name, {"server": {"kind": kind, "port": self.brokers[kind].port}} | told
        )

    def _spawn(self, script: str, name: str, told: Program) -> None:
        told = told | {"name": name, "rate": self._rate, "seed": self._seed}
        with (self.network.folder / f"{name}.log").open("ab") as log:
            self.programs[name] = subprocess.Popen(
                [sys.executable, str(HERE / script), str(self.journal(name)), json.dumps(told)],
                cwd=HERE.parents[1],
                env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def journal(self, name: str) -> Path:
        return self.journals / f"{name}.journal"

    async def until_said(self, name: str, word: str) -> None:
        """Wait until a program has written a line that begins with this word."""
        deadline = time.monotonic() + LONG
        while True:
            file = self.journal(name)
            if file.exists() and f"\n{word} " in "\n" + file.read_text():
                return
            code = self.programs[name].poll()
            if code is not None or time.monotonic() > deadline:
                words = (self.network.folder / f"{name}.log").read_text()[-2000:]
                raise AssertionError(f"{name} does not say {word!r} (exit code {code}): {words}")
            await asyncio.sleep(0.05)

    def check_programs(self) -> None:
        """Raise `AssertionError` if one has ended that should run."""
        for name, program in self.programs.items():
            if program.poll() is not None:
                words = (self.network.folder / f"{name}.log").read_text()[-3000:]
                raise AssertionError(f"{name} has ended with {program.returncode}: {words}")

    async def end_senders(self) -> None:
        """Let all that send finish what they have begun."""
        names = [name for name in self.programs if not name.endswith("-reads")]
        for name in names:
            at_broker = name in SITE_PROGRAMS
            self.programs[name].send_signal(signal.SIGUSR1 if at_broker else signal.SIGTERM)
        for name in names:
            await self.until_said(name, "end")
            if name not in SITE_PROGRAMS:
                self.programs.pop(name).wait()
