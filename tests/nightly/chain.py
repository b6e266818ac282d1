"""A small chain for the kill rounds, with the defaults that a user gets, and the programs of its sites.

`sites` says who is in it. With brokers leeds has a Mosquitto and exeter a RabbitMQ, and the links of york and
bath ride on brokers: on a Mosquitto of north's, and on a virtual host of the RabbitMQ. Without them york and
bath are alone below their regions. Each site has a process that sends and one that receives.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from harness import Network
from mosquitto_server import DISCOVERY, MosquittoServer
from rabbitmq_server import RabbitServer
from shim import Shim, build
from sites import (
    AT_BROKERS,
    CORES,
    FLOWS,
    PROGRAMS,
    REGIONS,
    SITE_FLOWS,
    SITE_PROGRAMS,
    Program,
    children_of_region,
    children_of_root,
)

from broker.cli.demo.processes import Status

HERE = Path(__file__).parent
KEPT = ("autosave_on_changes true", "autosave_interval 1", "max_inflight_messages 1000")
"""With these a Mosquitto has on disk what it has acknowledged."""
LINKS, MESH_SECRET = "links", "mesh-secret"
LONG = 300.0
DEFAULTS: dict[str, Any] = {"tree": "test"}
Server = MosquittoServer | RabbitServer


class Chain:
    """Nodes, brokers and programs. An async context manager: all have gone when it ends.

    `rate`: messages a second of each flow. `shimmed`: clocks and disks fail on command. The
    journals are in `folder`/journals.
    """

    def __init__(self, folder: Path, *, brokers: bool, rate: float, seed: int, shimmed: bool = False) -> None:
        self.network = Network(folder, DEFAULTS)
        self.brokers: dict[str, Server] = {}
        self.flows = dict(FLOWS)
        self.commands: dict[str, tuple[str, Program]] = {}
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
        for name in list(self.programs):
            self.kill_program(name)
        await self.network.__aexit__(*exception)
        for server in self.brokers.values():
            await asyncio.to_thread(server.stop)

    async def _start(self) -> None:
        if self._with_brokers:
            self.flows |= SITE_FLOWS
            await self._start_brokers()
        self._add_nodes()
        if self._shimmed:
            self._preload()
        await self.network.start()
        for name, shim in self.shims.items():
            assert shim.is_loaded(self.network.nodes[name].pid), f"{shim} does nothing"
        await self.until_whole(LONG)
        await self._start_programs()

    # --- brokers and nodes

    async def _start_brokers(self) -> None:
        folder = self.network.folder
        rabbit = RabbitServer(folder / "rabbitmq", ("rabbitmq_management", "rabbitmq_event_exchange"))
        self.brokers = {
            "mosquitto": MosquittoServer(folder / "mosquitto", *DISCOVERY, *KEPT),
            "rabbitmq": rabbit,
            "link-mosquitto": MosquittoServer(folder / "link-mosquitto"),
        }
        await asyncio.gather(*(asyncio.to_thread(server.start) for server in self.brokers.values()))
        await asyncio.to_thread(rabbit.add_vhost, LINKS)

    def _add_nodes(self) -> None:
        (self.network.folder / MESH_SECRET).write_text(secrets.token_urlsafe())
        (self.network.folder / MESH_SECRET).chmod(0o600)
        for name in CORES:
            self.network.add(name, children=children_of_root())
        ways = {name: f"ws://127.0.0.1:{self.network.ports[name]}/link" for name in CORES}
        for name in CORES:
            others = [{"name": other, "uri": uri} for other, uri in ways.items() if other != name]
            self.network.configure(name, mesh={"cores": others, "secret_file": MESH_SECRET})
        for region, stores in REGIONS.items():
            settings = self._settings(region)
            self.network.add(region, CORES[0], role="branch", children=children_of_region(region), **settings)
            for store in stores:
                if self._with_brokers or store not in AT_BROKERS:
                    self.network.add(store, region, **self._settings(store))

    def _settings(self, name: str) -> dict[str, Any]:
        """Of the brokers that a node uses."""
        if not self._with_brokers:
            return {}
        rabbit = self.brokers["rabbitmq"]
        assert isinstance(rabbit, RabbitServer)
        over = {
            "north": f"mqtt://127.0.0.1:{self.brokers['link-mosquitto'].port}",
            "south": rabbit.uri(LINKS),
        }
        match name:
            case "north" | "south":
                return {"listener": {"link_brokers": [{"uri": over[name], "proves_names": True}]}}
            case "york" | "bath":
                region = {"york": "north", "bath": "south"}[name]
                return {"tree_connectors": [{"nodetype": "leaf", "uri": over[region]}]}
            case "leeds":
                uri = f"mqtt://127.0.0.1:{self.brokers['mosquitto'].port}"
                # The reader at HQ may be away for longer than the linger; what nobody takes, Mosquitto drops.
                return {"site_broker": {"uri": uri, "sources": ["queue:reports"]}}
            case _:
                return {"site_broker": {"uri": rabbit.uri(), "management": rabbit.management_uri}}

    def _preload(self) -> None:
        library = build(self.network.folder)
        for name in self.network.nodes.by_name:
            data = self.network.data(name).resolve()
            self.shims[name] = Shim(library, self.network.folder / f"{name}.shim", data)
            self.network.environments[name] = self.shims[name].environment

    async def until_whole(self, seconds: float) -> None:
        """Wait until every node answers and has all its links."""
        nodes, deadline = self.network.nodes, time.monotonic() + seconds
        while True:
            found = await nodes.all_status()
            lacking = sorted(name for name, status in found.items() if not (status and has_all_links(status)))
            if not lacking:
                return
            assert time.monotonic() < deadline, f"not all links of {', '.join(lacking)} run"
            await asyncio.sleep(0.1)

    # --- programs

    async def _start_programs(self) -> None:
        """Who reads comes first, and is known at hq before anybody sends."""
        readers = [name for name in PROGRAMS if name.endswith("-reads")]
        for name in readers:
            self.start_program(name)
        for name in readers:
            await self.until_said(name, "ready")
        for known in ("queue:york/prices", "queue:transfers", "queue:york/stock", "topic:offers/#"):
            await self.network.until_known("hq", known)
        await self.network.until_known("york", "topic:alarms/#")
        senders = [name for name in PROGRAMS if name not in readers]
        for name in (*(AT_BROKERS if self._with_brokers else ()), *senders):
            self.start_program(name)
            await self.until_said(name, "ready")

    def start_program(self, name: str) -> None:
        """Start it, maybe again; it goes on with its journal."""
        script, told = self.commands.setdefault(name, self._command(name))
        with (self.network.folder / f"{name}.log").open("ab") as log:
            self.programs[name] = subprocess.Popen(
                [sys.executable, str(HERE / script), str(self.journal(name)), json.dumps(told)],
                cwd=HERE.parents[1],
                env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for the checker, which ends them
            )

    def kill_program(self, name: str) -> None:
        """SIGKILL, and wait until it has gone."""
        program = self.programs.pop(name)
        program.kill()
        program.wait()

    def _command(self, name: str) -> tuple[str, Program]:
        common = {"name": name, "rate": self._rate, "seed": self._seed}
        if name in AT_BROKERS:
            kind = AT_BROKERS[name]
            server = {"kind": kind, "port": self.brokers[kind].port}
            return "site_application.py", common | {"server": server} | SITE_PROGRAMS[name]
        site, _, role = name.rpartition("-")
        told = dict(PROGRAMS[name])
        if self._with_brokers and name == "hq-sends":
            told["sends"] = told["sends"] | {"labels": "queue:labels", "orders": "queue:orders"}
        if self._with_brokers and name == "hq-reads":
            told["reads"] = told["reads"] | {"queue:reports": ""}
        role = {"sends": "producer", "reads": "consumer"}[role]
        return "application.py", common | {"url": self.network.url(site), "role": role} | told

    def journal(self, name: str) -> Path:
        return self.journals / f"{name}.journal"

    def said(self, name: str, word: str) -> int:
        """How many lines of a program begin with this word."""
        file = self.journal(name)
        return ("\n" + file.read_text()).count(f"\n{word} ") if file.exists() else 0

    async def until_said(self, name: str, word: str, times: int = 1) -> None:
        """Wait until a program has written so many lines that begin with this word."""
        deadline = time.monotonic() + LONG
        while self.said(name, word) < times:
            code = self.programs[name].poll()
            if code is not None or time.monotonic() > deadline:
                words = (self.network.folder / f"{name}.log").read_text()[-2000:]
                raise AssertionError(f"{name} does not say {word!r} (exit code {code}): {words}")
            await asyncio.sleep(0.05)

    def check_programs(self) -> None:
        """Raise `AssertionError` if one has ended that nobody has killed."""
        for name, program in self.programs.items():
            if program.poll() is not None:
                words = (self.network.folder / f"{name}.log").read_text()[-3000:]
                raise AssertionError(f"{name} has ended with {program.returncode}: {words}")

    async def end_senders(self) -> None:
        """Let all that send finish what they have begun."""
        names = [name for name in self.programs if not name.endswith("-reads")]
        for name in names:
            self.programs[name].send_signal(signal.SIGUSR1 if name in AT_BROKERS else signal.SIGTERM)
        for name in names:
            await self.until_said(name, "end")
            if name not in AT_BROKERS:
                self.programs.pop(name).wait()


def has_all_links(status: Status) -> bool:
    """Is a node linked with all its parents, and with all nodes of its mesh?"""
    parents = status["parents"] or ([status["parent"]] if status.get("parent") else [])
    above = status["role"] == "root" or bool(parents)
    return above and all(link.get("state") == "running" for link in (*parents, *status["mesh"]))
