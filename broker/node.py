"""The node as a process: a pure core, a store, links on carriers, one HTTP port, and a short loop.

The loop: whatever comes in is told to the core at once; a *turn* takes what changed, commits it, and tells
the core, which lets go what waited for it. While a commit is under way the next turn gathers.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from broker.api.administration import Administration
from broker.api.status import status
from broker.cells import NodeCells
from broker.cells.tracing import Tracing
from broker.chronicle import Chronicle
from broker.core.commit import CommitBatch
from broker.core.links.neighbour import Neighbour
from broker.core.node import NodeCore
from broker.core.rows import MetaRow, QueueRow
from broker.diallers import Diallers
from broker.enrolment import office_of, renewal_of, sharing_of
from broker.entrance.entrance import Entrance
from broker.entrance.opening import entrance_of
from broker.entrance.policy import policy_of
from broker.grants import Grants
from broker.headroom import Headroom
from broker.intake import Admission
from broker.link_brokers import LinkBrokerListener
from broker.link_driver import LinkDriver
from broker.link_secrets import LinkSecrets
from broker.location.registrar import Registrar, zone_of
from broker.memory import OUT_OF_MEMORY, Leftovers, Watch
from broker.naming import Naming
from broker.operator_log import OperatorLog
from broker.reload import reread
from broker.settings import (
    announced,
    core_settings,
    http_settings,
    intake_bounds,
    link_settings,
    mesh_settings,
    server_tls,
)
from broker.shares import Shares
from broker.site import SiteDesk, desk_of
from broker.store import GroupCommit, Store
from broker.store.files import RECOVERED
from broker.supervisor import Supervisor
from broker.vital import vital
from config.model import Site
from treeconnector.errors import SapwoodError, StoreError
from treeconnector.identity import Identity, new_uuid

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry
    from broker.enrolment.renewal import CertificateRenewal
    from broker.enrolment.sharing import Sharing
    from broker.http.app import Port
    from broker.mqtt import Door

_log = logging.getLogger("sapwood.node")
_LONGEST_SLEEP: Final = 1.0
_SHORTEST_SLEEP: Final = 0.002
_DRAIN: Final = 2.0
_HAND_OVER: Final = 5.0
_LAST_WORDS: Final = 0.3
_PATIENCE: Final = 0.02
_DISK_EVERY: Final = 1.0


class Node:
    """One site's node. `start`, then `stop`; errors at start are `SapwoodError`s that say what to do."""

    def __init__(self, site: Site, *, drawn_name: bool = False) -> None:
        self.site = site
        self.naming = Naming(self, drawn=drawn_name)
        self.core: NodeCore
        self.store: Store
        self.committer: GroupCommit
        self.entrance: Entrance
        self.chronicle: Chronicle
        self.journal: OperatorLog
        self.cells: NodeCells
        self.tracing: Tracing
        self.administration: Administration
        self.desk: SiteDesk | None = None
        self.supervisor: Supervisor | None = None
        self.diallers: Diallers
        self.link_brokers: list[LinkBrokerListener] = []
        self.registrar: Registrar | None = None
        self.enrolment: Registry | None = None
        self.renewal: CertificateRenewal | None = None
        self.sharing: Sharing | None = None
        self.grants = Grants(site)
        self.memory = Watch(lambda: self.fail(SapwoodError(OUT_OF_MEMORY)))
        self.headroom = Headroom()
        self.leftovers = Leftovers()
        self.intake = Admission(intake_bounds(site))
        self.names_children = False
        self.source: Callable[[], Site] | None = None
        self.failure: SapwoodError | None = None
        self.leaving = False
        self.stopped = asyncio.Event()
        self.port = 0
        self.started_at = time.time()
        self.shares = Shares()
        self.wires = LinkDriver(self)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._port: Port | None = None
        self.door: Door | None = None
        self._scheduled = False
        self._committing = False
        self._again = self._later = False
        self._offset = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._patient: asyncio.TimerHandle | None = None
        self._disk_checked = 0.0

    def __repr__(self) -> str:
        return f"<Node {self.site.name} port={self.port} links={len(self.wires)}>"

    # --- life

    async def start(self) -> None:
        """Open the store, be the node that it describes, listen, and dial the parent."""
        site = self.site
        policy = policy_of(site)
        permits = self.permits = LinkSecrets(site)
        self.names_children = permits.closed
        self._loop = asyncio.get_running_loop()
        self.memory.listen(self._loop)
        self.store = Store.open(site.data_directory, tree=site.tree, node=site.name)
        try:
            self._make_core(permits)
            self.entrance = entrance_of(self, policy)
            self.cells = NodeCells(self)
            self.tracing = Tracing(self, self.cells)
            self.administration = Administration(self)
            self.desk = desk_of(self)
            self.link_brokers = [LinkBrokerListener(self, site, one) for one in site.listener.link_brokers]
            self.renewal = renewal_of(self)
            if self.sharing is not None:
                self.sharing.open()
            if site.registration.domain:
                self.registrar = Registrar(site, self.core.identity.incarnation.hex(), zone_of(site))
            await self._listen()
        except BaseException:
            if self.door is not None:
                self.door.close()
            self.store.close()
            raise
        self.wake()
        self._tick()
        if self.desk is not None:
            self.spawn(self.desk.run())
        self.diallers = Diallers(self, site)
        self.core.policies.add((self.diallers,))
        if site.connector is not None:
            self.supervisor = Supervisor(self, site, site.connector)
            self.spawn(self.supervisor.run())
        self.spawn(self.diallers.run())
        for listening in self.link_brokers:
            self.spawn(listening.run())
        for work in (self.registrar, self.enrolment, self.sharing, self.renewal):
            if work is not None:
                self.spawn(work.run())
        self.grants.warn(_log)
        _log.info("= node %s (%s) of tree %s listens on port %d", site.name, site.role, site.tree, self.port)

    def _make_core(self, permits: LinkSecrets) -> None:
        site = self.site
        loaded = self.store.load()
        self.naming.restore(loaded.rows(MetaRow))
        ticks = next((int(row.value) for row in loaded.rows(MetaRow) if row.name == "ticks"), 0)
        self._offset = ticks / 1000 - time.monotonic()
        identity = Identity(
            tree=site.tree,
            name=site.name,
            role=site.role,
            store_id=self.store.store_id,
            start=self.store.start,
            incarnation=new_uuid(),
        )
        self.chronicle = Chronicle(site)
        self.core = NodeCore(
            identity,
            core_settings(site),
            link_settings(site),
            now=self.now(),
            read_bodies=self.store.bodies,
            read_copies=self.store.copies,
            secret_of=permits.secret_of,
            secret_of_core=permits.secret_of_core,
            fine_clock=self.now,
            chronicle=self.chronicle,
            zone=site.zone or "",
            mesh=mesh_settings(site),
        )
        self.grants.tell(self.core)
        self.core.start(loaded)
        self.journal = self.chronicle.journal = OperatorLog(self.core)
        if self.store.recovered_from:
            self.core.admission.void_positions()
            self.core.custody.transaction.delete(MetaRow, RECOVERED)  # once, with the same commit
            _log.warning(
                "! this store was saved from a damaged one: gap_bundles of its links tells what is missing"
            )
        self._check_room()
        self._commit_start()
        self.chronicle.begin(self.core)
        self.committer = GroupCommit(self.store, on_failure=self.fail)
        self.enrolment = permits.office = office_of(self, loaded)
        if self.enrolment is not None:
            self.grants.invited = self.enrolment.role_of
        self.sharing = sharing_of(self, loaded.meta)

    def _commit_start(self) -> None:
        """What the start itself changes is on disk before anybody is spoken to; transfer ids are reserved."""
        turn = self.core.take()
        if turn is not None:
            self.store.apply(turn.transaction)
            self.core.committed(turn)

    async def _listen(self) -> None:
        from broker.http.app import listen

        listener, settings = self.site.listener, http_settings(self.site)
        tls = self.enrolment.authority.context if self.enrolment is not None else server_tls(self.site)
        if self.site.mqtt.port is not None:
            from broker.mqtt import Door

            self.door = Door(self).open(listener.host, self.site.mqtt.port, tls)
        try:
            self._port = await listen(
                self, listener.host, listener.port, tls, self.wires.turned_away, settings, self.intake
            )
        except OSError as error:
            low = isinstance(error, PermissionError)
            why = "ports below 1024 are root's." if low else "is another node running there?"
            raise SapwoodError(
                f"cannot listen on {listener.host}:{listener.port}: {error.strerror or error};"
                f" {why} Change the listener's port"
            ) from None
        self.port = self._port.addresses[0][1]
        self.core.addressing.announce(announced(self.site, self.port))

    async def stop(self, text: str = "the node stops") -> None:
        """Commit what came, say that we pause, and close. Routes and custody stay."""
        self.core.switch.stopping = True
        if self._port is not None:
            self._port.pause()
        if self.desk is not None:
            self.desk.pause()
        if self.failure is None:
            await self._drain()
            await self._hand_over(text)
        self.wires.pause(text)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.door is not None:
            self.door.close()
        if self._port is not None:
            await self._port.cleanup()
        if self._timer is not None:
            self._timer.cancel()
        self.entrance.close()
        await self._last_commit()
        self.chronicle.node("stop")
        _log.info("= node %s has stopped", self.site.name)
        self.chronicle.close()
        self.store.close()
        self.stopped.set()

    async def _drain(self) -> None:
        """Give acknowledgements that are under way a moment."""
        end = self._loop.time() + _DRAIN
        while self._loop.time() < end and self._busy():
            await asyncio.sleep(0.01)

    async def _hand_over(self, text: str) -> None:
        """In a mesh: the children go to the others, and so does all that waits here for them."""
        if not any(peer.up for peer in self.core.context.peers()):
            return
        self.wires.pause(text, self.core.context.children())
        self.core.handover.leave()
        self.wake()
        end = self._loop.time() + _HAND_OVER
        while self._loop.time() < end and not (self.core.handover.is_done and not self._busy()):
            await asyncio.sleep(0.01)

    def _busy(self) -> bool:
        unanswered = self.desk is not None and self.desk.busy
        unsaid = any(neighbour.will_say for neighbour in self.core.neighbours.values())
        return self._committing or self._scheduled or self.wires.unsent or unanswered or unsaid

    async def _last_commit(self) -> None:
        if self.failure is None:
            self.core.admission.end()
            self._turn(True)
        await self.committer.close()

    def fail(self, error: SapwoodError) -> None:
        """It cannot go on, as when the store keeps nothing more: stop. Nothing that was promised is lost."""
        self.failure = error
        _log.error("! node %s stops: %s", self.site.name, error)
        self.stopped.set()

    def spawn(self, work: Awaitable[Any]) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            if isinstance(error, MemoryError):
                self.memory.out()
            _log.error("! %r", error, exc_info=error)

    # --- time and turns

    def now(self) -> float:
        """Running time in seconds: goes on over restarts, whatever the wall clock says."""
        return time.monotonic() + self._offset

    @property
    def switch(self) -> Any:
        """The message switch, told what time it is."""
        self.core.advance(self.now())
        return self.core.switch

    def wake(self) -> None:
        """Something was told to the core: take a turn soon, or after the commit that is under way."""
        self._again = True
        if not self._scheduled and not self._committing and self.failure is None:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def nudge(self) -> None:
        """The same, of what may wait for somebody whose work goes on: there will be a turn when that ends.

        Else acknowledgements that come between its slices would cut a commit of hundreds into one at each.
        """
        if self._committing:
            self._later = True
        elif not self.shares.under_way:
            self.wake()

    @vital
    def _turn(self, at_once: bool = False, /) -> None:
        """Commit what changed. What nobody waits for is committed with the next that somebody does."""
        self._scheduled = False
        if self._committing or self.failure is not None:
            self._again = True
            return
        self._again = self._later = False
        self.shares.looked_at()
        self.core.advance(self.now())
        if not (at_once or self.core.is_urgent()):
            self._flush()
            if self._patient is None and (self.core.forwarder.touched or self.core.custody.transaction):
                self._patient = self._loop.call_later(_PATIENCE, self._lose_patience)
            return
        if self._patient is not None:
            self._patient.cancel()
            self._patient = None
        turn = self.core.take()
        if turn is None:
            self._flush()
            return
        if not turn.transaction:
            self.core.committed(turn)
            self._flush()
            self.wake()
            return
        self._committing = True
        self.committer.submit(turn.transaction, lambda error: self._committed(turn, error))
        self._flush()

    def _lose_patience(self) -> None:
        self._patient = None
        self._turn(True)

    @vital
    def _committed(self, turn: CommitBatch, error: StoreError | None) -> None:
        self._committing = False
        if error is not None:
            return
        self.core.advance(self.now())
        self.core.committed(turn)
        if queues := turn.transaction.changes[QueueRow]:
            self.journal.queues(queues)
        self._flush()
        if self._again:
            self.wake()
        elif self._later or turn.leads_on:
            self.nudge()

    def _flush(self) -> None:
        """Let everything out that may go, and see when the core wants to be woken next."""
        self.wires.flush()
        soon = self.core.soonest()
        if soon is not None and soon < self._timer_at - _SHORTEST_SLEEP:
            self._sleep_until(soon)

    def look_at(self, deadline: float | None) -> None:
        """Something is due at `deadline`, perhaps before what was known."""
        if deadline is not None and deadline < self._timer_at:
            self._sleep_until(deadline)

    def _sleep_until(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = min(max(at - self.now(), _SHORTEST_SLEEP), _LONGEST_SLEEP)
        self._timer_at = self.now() + delay
        self._timer = self._loop.call_later(delay, self._tick)

    @vital
    def _tick(self) -> None:
        if self.failure is not None:
            return
        now = self.now()
        self.core.advance(now)
        self.core.handle_timer()
        if now - self._disk_checked >= _DISK_EVERY:
            self._disk_checked = now
            self._check_room()
            self.journal.look()
        self.nudge()
        self._sleep_until(self.core.next_deadline())

    def _check_room(self) -> None:
        sending = self.core.switch.sending
        sending.disk_room = self.store.disk_free() - self.site.limits.disk_reserve
        self.leftovers.give_back(self.intake.gone, time.monotonic())
        sending.memory_room = self.headroom.left()
        self.intake.is_short = sending.memory_room <= 0

    # --- for people

    @property
    def ready(self) -> bool:
        """Does it take messages, whichever way they go?"""
        refusing = self.core.switch.sending.refusing or self.core.pressure.refusing
        return self.failure is None and not refusing and not self.committer.stands

    def status(self) -> dict[str, Any]:
        return status(self)

    def read_again(self) -> list[str]:
        """Read the site's file again: who may be a child, and what children may do; all else needs a restart.

        Returns the children that are turned away. Raises `SwitchError` with what is wrong with the file.
        """
        return reread(self)

    def say_goodbye(self, neighbours: Iterable[Neighbour]) -> None:
        """Leave these for good: they withdraw our routes. Nobody is dialled any more."""
        self.leaving = True
        for neighbour in neighbours:
            if neighbour.link is not None:
                self.wires.goodbye(neighbour.link, "the node leaves the tree")
        self.wake()

    def stop_soon(self) -> None:
        """Stop when what was said last is out."""
        self._loop.call_later(_LAST_WORDS, self.stopped.set)
