"""Plays the piece: start, traffic, a killed store, a cut line, recovery, the count.

Law: it ends by itself and leaves nothing running: when all has arrived, or when no message was taken and none
arrived for `STALLED` seconds, or more on a busy machine: a slow one has the time that it needs. Exit code 0
only if every message was taken and has arrived, once.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from broker.advisory_log import read_log
from broker.cli.demo import costs, plan
from broker.cli.demo.ledger import Ledger
from broker.cli.demo.line import CutLine
from broker.cli.demo.processes import NodeFailed, NodeProcess, Nodes, patience
from broker.cli.demo.report import Report, make_report, print_report
from broker.cli.demo.traffic import Applications
from broker.cli.demo.trickle import Trickle
from broker.cli.demo.view import Scene, View, make_console, make_view
from broker.cli.errors import FAILED, WELL, CommandError, make_given
from broker.cli.output import print_json
from sapwood.protocol.errors import SapwoodError

STALLED: Final = 30.0
START: Final = 60.0
SENDING: Final = 9.0
KILL_AFTER, CUT_AFTER, START_AFTER, RESTORE_AFTER = 2.0, 1.0, 1.5, 3.0
QUIET: Final = 1.0
REFRESH: Final = 0.25
POLL: Final = 0.05


def run_demo(*, keep: bool, as_json: bool, logs: Path | None = None) -> int:
    """Run the demo and print its report; return the exit code. Raises `CommandError` if it cannot run.

    `logs`: a folder that then has the advisory logs of all nodes, and the table of sites.
    """
    if logs is not None:
        make_given(logs)
    folder = Path(tempfile.mkdtemp(prefix="sapwood-demo-"))
    try:
        report = asyncio.run(_Demo(folder, keep=keep, as_json=as_json).play())
        if logs is not None:
            _keep_logs(folder, logs)
    except (KeyboardInterrupt, asyncio.CancelledError):
        shutil.rmtree(folder, ignore_errors=True)
        raise CommandError("the demo was stopped, and all its nodes with it") from None
    except (NodeFailed, SapwoodError, OSError, ExceptionGroup) as error:
        raise CommandError(f"{_innermost(error)}\nthe nodes' logs are in {folder}") from error
    if report["well"]:
        shutil.rmtree(folder, ignore_errors=True)
        return WELL
    print(f"sapwood: the nodes' files and logs are in {folder}", file=sys.stderr)
    return FAILED


def _keep_logs(folder: Path, logs: Path) -> None:
    for found in sorted(folder.glob("data/*/advisories")):
        shutil.copytree(found, logs / found.parent.name, dirs_exist_ok=True)
    (logs / "sites.csv").write_text(plan.read_text("stores.csv"), encoding="utf-8")


def _innermost(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


class _Demo:
    """One performance. `folder` takes configurations, data and logs."""

    def __init__(self, folder: Path, *, keep: bool, as_json: bool) -> None:
        self.folder = folder
        self.keep = keep
        self.as_json = as_json
        self.chain = plan.read_chain()
        self.ports = plan.Ports.choose(self.chain)
        self.files = plan.write_configurations(self.chain, self.ports, folder)
        self.urls = {place.name: self.ports.url(place.name) for place in self.chain.places}
        region = self.chain.region.name
        self.ledger = Ledger(
            {
                "price list: HQ to each store's queue": plan.price_lists(self.chain),
                f"offers: HQ to a topic of region {region}": plan.offers(self.chain),
                "sales: every store to HQ's queue": plan.sales(self.chain),
            }
        )
        self.parcels = [parcel for account in self.ledger.accounts for parcel in account.parcels]
        self.nodes = Nodes([NodeProcess(name, file, self.urls[name]) for name, file in self.files.items()])
        self.line = CutLine(self.ports.line, self.ports.nodes[self.chain.root.name])
        self.console = make_console(as_json)
        self.scene = Scene(self.chain, self.ledger, started=time.monotonic())
        self.view: View = make_view(self.scene, self.console)

    async def play(self) -> Report:
        """The whole piece; returns the report, which it has printed."""
        _cancel_at_sigterm()
        async with self.line, self.nodes:
            with self.view:
                async with self._refreshing():
                    await self._start()
                    await self._act()
                    kept = not self.ledger.all_arrived and await self.nodes.keep_messages()
                    exit_codes = {} if self.keep else await self._stop()
            report = self._report(exit_codes, kept=kept)
            if self.keep:
                await self._stay()
        return report

    @asynccontextmanager
    async def _refreshing(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._refresh())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _refresh(self) -> None:
        while True:
            self.scene.statuses = await self.nodes.all_status()
            self.view.update()
            await asyncio.sleep(REFRESH)

    async def _start(self) -> None:
        self.view.say(f"starting {len(self.files)} nodes in {self.folder}")
        for name in self.files:
            self.nodes[name].start()
        await self.nodes.until_all_linked(self.files, START)
        self.view.say("the tree stands: every node is linked with its parent")

    async def _act(self) -> None:
        async with Applications(self.chain, self.urls, self.ledger) as applications:
            await applications.subscribe(self._until_known)
            self.view.say("all consumers are known on their way up; traffic begins")
            if await self._send_and_arrive(applications):
                await asyncio.sleep(QUIET)
                self.view.say("everything has arrived, and nothing more comes")
            else:
                self.view.say(f"nothing moved for {patience(STALLED):.0f} s, and not everything has arrived")
            applications.unsubscribe()
            if not await _within(patience(STALLED), self._withdrawn):
                self.view.say("some routes have not been withdrawn yet")

    async def _send_and_arrive(self, applications: Applications) -> bool:
        """Send everything while things break; return whether all has arrived before all stood still."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._send(applications))
            breaking = group.create_task(self._break_things())
            moved, since = -1, time.monotonic()
            while not (work.done() and breaking.done() and self.ledger.all_arrived):
                if (now := self.ledger.moved) != moved or not breaking.done():
                    moved, since = now, time.monotonic()
                elif time.monotonic() - since > patience(STALLED):
                    work.cancel()
                    return False
                await asyncio.sleep(POLL)
        return True

    async def _send(self, applications: Applications) -> None:
        await applications.send(self.parcels, SENDING)
        self.view.say("everything is sent; waiting for the last messages")

    async def _until_known(self, destination: str) -> None:
        """Wait until HQ has an advisory that somebody reads `destination`."""
        root = self.chain.root.name
        limit = patience(STALLED)
        if not await _within(limit, lambda: destination in self._received(root, "add")):
            raise NodeFailed(f"{root} does not know after {limit:.0f} s who reads {destination}")

    def _withdrawn(self) -> bool:
        """For every advisory that a queue is read, there is one that it is not any more."""
        return all(
            _queues(self._received(name, "add")) == _queues(self._received(name, "remove"))
            for name in self.files
        )

    def _received(self, name: str, op: str) -> Counter[str]:
        """Advisories of consumers that a node has received, by destination."""
        return Counter(
            f"{row.kind}:{row.destination}"
            for row in read_log(self._log_folder(name))
            if row.event == "advisory" and row.op == op and row.kind != "domain"
        )

    def _log_folder(self, name: str) -> Path:
        return self.folder / "data" / name / "advisories"

    async def _break_things(self) -> None:
        """Kill a store, cut its region off, start the store while it is cut off, mend the line."""
        victim, region = self.chain.victim.name, self.chain.region.name
        await asyncio.sleep(KILL_AFTER)
        self.nodes[victim].kill()
        self.scene.killed.add(victim)
        self.view.say(f"store {victim} is killed (SIGKILL)")
        await asyncio.sleep(CUT_AFTER)
        await self.line.cut()
        self.scene.line_cut = True
        self.view.say(f"the line between region {region} and HQ is cut")
        await asyncio.sleep(START_AFTER)
        self.nodes[victim].start()
        self.scene.killed.discard(victim)
        self.view.say(f"store {victim} is started again, while its region is cut off")
        await self.nodes.until_all_linked([victim], START)
        await asyncio.sleep(RESTORE_AFTER)
        await self.line.restore()
        self.scene.line_cut = False
        self.view.say("the line is mended")
        await self.nodes.until_all_linked([region], START)
        self.view.say(f"region {region} is linked with HQ again")

    async def _stop(self) -> dict[str, int]:
        self.scene.stopping = True
        self.view.say("stopping all nodes (SIGTERM)")
        return await self.nodes.stop_all()

    def _report(self, exit_codes: dict[str, int], *, kept: bool) -> Report:
        rows = (row for name in self.files for row in read_log(self._log_folder(name)))
        found = costs.consumer_costs(rows, self.chain.neighbours())
        report = make_report(self.ledger, found, self.scene.seconds, exit_codes, kept=kept)
        if self.as_json:
            print_json(report)
        else:
            print_report(report, self.console)
        return report

    async def _stay(self) -> None:
        """Print where the nodes are, let a few messages flow, and wait to be stopped."""
        lines = [f"  {place.name:<12} {place.role:<7} {self.urls[place.name]}" for place in self.chain.places]
        self.console.print("\n".join(["the chain goes on running:", *lines]), markup=False)
        here = (
            f"dashboard: {self.urls[self.chain.root.name]}/dashboard, and of each node at its own address",
            f"look: sapwood status URL · stop: Ctrl-C here, or kill {os.getpid()}",
        )
        self.console.print("\n".join(here), markup=False)
        with suppress(asyncio.CancelledError):
            try:
                await Trickle(self.chain, self.urls).run(self.parcels)
            except SapwoodError as error:
                self.console.print(f"the traffic has ended: {error}", markup=False)
            await asyncio.Event().wait()


def _cancel_at_sigterm() -> None:
    """SIGTERM ends the demo as Ctrl-C does, and its nodes with it."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _queues(received: Counter[str]) -> dict[str, int]:
    """Without topics: a durable subscription outlives its reader."""
    return {name: count for name, count in received.items() if name.startswith("queue:")}


async def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Wait until `holds()`, and return whether it did within `seconds`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not holds():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(POLL)
    return True
