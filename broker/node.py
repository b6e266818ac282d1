"""The node as a process: a pure core on its short loop, links on carriers, one HTTP port, and all that stands
around. This module alone knows all of it; each part knows those that it is given.
"""

import logging
import time
from collections.abc import Callable, Iterator
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import msgspec

from broker.access import Access
from broker.alarms.watch import AlarmWatch
from broker.alarms.webhook import receiver_of
from broker.api.context import RunningNode
from broker.buffers import Buffers
from broker.cells.cells import CellCommand, NodeCells
from broker.cells.deliveries import Deliveries
from broker.cells.paths import Paths
from broker.cells.tracing import Tracing
from broker.chronicle import Chronicle
from broker.core.clients.switch import Switch
from broker.core.node import NodeCore
from broker.core.rows import MetaRow
from broker.core.sessions.masking import hide_with
from broker.core_driver import CoreDriver
from broker.diallers import Diallers
from broker.enrolment.opening import registry_of, renewal_of, sharing_of
from broker.entrance.entrance import Entrance
from broker.entrance.policy import policy_of
from broker.forwards.forwards import Forwards
from broker.grants import Grants
from broker.history.sampler import Sampler
from broker.intake import Admission
from broker.link_driver import LinkDriver
from broker.link_secrets import LinkSecrets
from broker.naming import Naming
from broker.operator_log import OperatorLog
from broker.report import NodeReport
from broker.room import Room
from broker.settings import (
    announced,
    core_settings,
    dashboard,
    http_settings,
    intake_bounds,
    link_settings,
    mesh_settings,
)
from broker.shares import Shares
from broker.site.desk import desk_of
from broker.store import Store
from broker.store.files import RECOVERED
from broker.store.loaded import Loaded
from broker.trail import ChangeTrail
from config.alarms import rules_of
from config.model import Listener, Site
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import SapwoodError
from treeconnector.identity import Identity, new_uuid

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry
    from broker.enrolment.sharing import Sharing
    from broker.http.port import Port
    from broker.link_brokers import LinkBrokerListener
    from broker.location.lan import LanAnswers
    from broker.location.registrar import Registrar

_log = logging.getLogger("sapwood.node")


class Node:
    """One site's node. `start`, then `stop`; errors at start are `SapwoodError`s that say what to do.

    `read`: reads its file again. `draws`: further names that may be drawn, None = the file gives one. `port`:
    that it listens on.
    `running`: for operators' work, `report`: for those who look; both once it has started.
    """

    def __init__(
        self, site: Site, *, draws: int | None = None, read: Callable[[], Site] | None = None
    ) -> None:
        self.site = site
        self._draws = draws
        self._read = read
        self._started_at, self._began = time.time(), time.monotonic()
        self.driver: CoreDriver
        self.naming: Naming
        self.running: RunningNode
        self.report: NodeReport
        self._sharing: Sharing | None = None
        self._port: Port | None = None
        self.port = 0

    def __repr__(self) -> str:
        return f"<Node {self.site.name} port={self.port}>"

    # --- its start

    async def start(self) -> None:
        """Open the store, be the node that it describes, listen, and dial the parent."""
        site = self.site
        policy, secrets, grants = policy_of(site), LinkSecrets(site), Grants(site)
        store = Store.open(site.data_directory, tree=site.tree, node=site.name)
        try:
            loaded, chronicle = store.load(), Chronicle(site)
            room = Room(site.limits.disk_reserve, Admission(intake_bounds(site)))
            driver = self.driver = self._drive(store, loaded, chronicle, room, secrets, grants)
            self.naming = Naming(driver, loaded.rows(MetaRow), draws=self._draws)
            registry = registry_of(site, loaded, driver.committer.commit, driver.now)
            self._sharing = sharing_of(driver, registry, loaded.meta)
            forwards = Forwards(driver, driver.wires, site)
            alarms = self._alarms() if site.history.enabled else None
            access = Access(driver, site, secrets, grants, policy, registry, forwards, alarms, self._read)
            self._surround(access, chronicle, room)
            await self._listen()
        except BaseException:
            store.close()
            raise
        driver.begin()
        self._set_to_work()
        grants.warn(_log)
        _log.info("= node %s (%s) of tree %s listens on port %d", site.name, site.role, site.tree, self.port)
        _log.info("= dashboard: %s", dashboard(site.listener, self.port))

    def _drive(
        self,
        store: Store,
        loaded: Loaded,
        chronicle: Chronicle,
        room: Room,
        secrets: LinkSecrets,
        grants: Grants,
    ) -> CoreDriver:
        """The core as it was left, on its loop."""
        ticks = next((int(row.value) for row in loaded.rows(MetaRow) if row.name == "ticks"), 0)
        offset = ticks / 1000 - time.monotonic()
        hide_with(token_bytes(16))

        def now() -> float:
            return time.monotonic() + offset

        core = self._core(store, chronicle, secrets, now)
        grants.tell(core)
        core.start(loaded, time.time_ns() // 1000)
        journal = chronicle.journal = OperatorLog(core)
        if store.recovered_from:
            core.admission.void_positions()
            core.custody.transaction.delete(MetaRow, RECOVERED)  # once, with the same commit
            _log.warning(
                "! this store was saved from a damaged one: gap_bundles of its links tells what is missing"
            )
        driver = CoreDriver(core, store, now, room, journal)
        chronicle.begin(core)
        return driver

    def _core(
        self, store: Store, chronicle: Chronicle, secrets: LinkSecrets, now: Callable[[], float]
    ) -> NodeCore:
        """The node that the store describes, without what the store has of its messages."""
        site = self.site
        identity = Identity(
            tree=site.tree,
            name=site.name,
            role=site.role,
            store_id=store.store_id,
            start=store.start,
            incarnation=new_uuid(token_bytes),
        )
        return NodeCore(
            identity,
            core_settings(site),
            link_settings(site),
            now=now(),
            random_bytes=token_bytes,
            read_bodies=store.bodies,
            read_copies=store.copies,
            secret_of=secrets.secret_of,
            secret_of_core=secrets.secret_of_core,
            fine_clock=now,
            chronicle=chronicle,
            zone=site.zone or "",
            mesh=mesh_settings(site),
        )

    def _surround(self, access: Access, chronicle: Chronicle, room: Room) -> None:
        """All that stands around the core."""
        site, driver = self.site, self.driver
        cells = NodeCells(driver)
        paths, tracing = Paths(driver, cells), Tracing(driver, cells, access.forwards.trace)
        diallers, desk = Diallers(driver, driver.wires, site, self.naming), desk_of(driver, site)
        if self._sharing is not None:
            self._sharing.open(cells)
        self.report = NodeReport(
            driver=driver,
            diallers=diallers,
            access=access,
            chronicle=chronicle,
            room=room,
            link_brokers=self._link_brokers(),
            desk=desk,
            registrar=self._registrar(),
            renewal=renewal_of(site, driver.core),
            door=None,
            started_at=self._started_at,
            began=self._began,
            alarms=access.alarms,
        )
        sampler = self._watch_figures(access.alarms) if access.alarms is not None else None
        self.running = RunningNode(
            driver=driver,
            cells=cells,
            paths=paths,
            deliveries=Deliveries(driver, cells),
            tracing=tracing,
            diallers=diallers,
            access=access,
            desk=desk,
            recent=chronicle.recent,
            trail=ChangeTrail(site.data_directory / "trail"),
            sampler=sampler,
            alarms=access.alarms,
            status=self.status,
        )
        cells.further = self._further_commands

    def _further_commands(self) -> Iterator[tuple[str, str, CellCommand]]:
        """Operations for other nodes, loaded when one asks for the first: nobody asks most leaves."""
        from broker.api.asking import commands

        return commands(self.running)

    def _registrar(self) -> "Registrar | None":
        if not self.site.registration.domain:
            return None
        from broker.location.registrar import Registrar, zone_of

        return Registrar(self.site, self.core.identity.incarnation.hex(), zone_of(self.site))

    def _link_brokers(self) -> "list[LinkBrokerListener]":
        if not self.site.listener.link_brokers:
            return []
        from broker.link_brokers import LinkBrokerListener

        driver, site = self.driver, self.site
        return [LinkBrokerListener(driver, driver.wires, site, each) for each in site.listener.link_brokers]

    def _alarms(self) -> AlarmWatch:
        site, alarms = self.site, self.site.alarms
        folder, receiver = site.data_directory, receiver_of(site)
        return AlarmWatch(self.core, rules_of(alarms), folder, receiver, alarms.webhook.least)

    def _watch_figures(self, alarms: AlarmWatch) -> Sampler:
        """Samples for charts, and the alarms that look at them."""
        report = self.report
        sampler = Sampler(report, self.site.data_directory, self.site.history.every)
        sampler.watchers.append(alarms.look)
        report.warners += [sampler.warnings, alarms.warnings]
        return sampler

    async def _listen(self) -> None:
        """Open the port, and that of MQTT clients. Raises `SapwoodError`."""
        from broker.http.port import listen

        listener, report, wires = self.site.listener, self.report, self.driver.wires
        tls = report.access.port_tls
        if self.site.mqtt.port is not None:
            from broker.mqtt.door import Door

            door = Door(self.driver, self.site, self.entrance, report.room.intake, wires.turned_away)
            report.door = door.open(listener.host, self.site.mqtt.port, tls)
        try:
            self._port = await listen(
                self,
                listener.host,
                listener.port,
                tls,
                wires.turned_away,
                http_settings(self.site, self.running.access.operators),
                report.room.intake,
            )
        except BaseException as error:
            if report.door is not None:
                report.door.close()
            if isinstance(error, OSError):
                raise _cannot_listen(listener, error) from None
            raise
        self.port = report.port = self._port.addresses[0][1]
        self.core.logical_addresses.announce(announced(self.site, self.port))

    def _set_to_work(self) -> None:
        """All this runs as long as the node does."""
        report = self.report
        works = (report.desk, report.diallers, *report.link_brokers, report.registrar, self._lan_answers())
        more = (
            report.access.operators,
            report.access.registry,
            self._sharing,
            report.renewal,
            self.running.sampler,
            report.alarms,
        )
        for work in (*works, *more):
            if work is not None:
                self.driver.spawn(work.run())

    def _lan_answers(self) -> "LanAnswers | None":
        if not self.site.listener.discoverable:
            return None
        from broker.location.lan import LanAnswers

        return LanAnswers(self.site, self.core)

    # --- its end

    async def stop(self, text: str = "the node stops") -> None:
        """Commit what came, say that we pause, and close. Routes and custody stay."""
        driver, report = self.driver, self.report
        desk = report.desk
        self.core.switch.stopping = True
        if self._port is not None:
            self._port.pause()
        if desk is not None:
            desk.pause()
        if driver.failure is None:
            await driver.drain(lambda: desk is not None and desk.busy)
            self.core.logical_addresses.end()
            await driver.hand_over(text, lambda: desk is not None and desk.busy)
        driver.wires.pause(text)
        await driver.end_tasks()
        if report.door is not None:
            report.door.close()
        if self._port is not None:
            await self._port.cleanup()
        self.entrance.close()
        await driver.close()
        report.chronicle.node("stop")
        _log.info("= node %s has stopped", self.site.name)
        report.chronicle.close()
        self.running.trail.close()
        if self.running.sampler is not None:
            self.running.sampler.close()
        if report.alarms is not None:
            await report.alarms.close()
        self.running.access.forwards.close()
        driver.store.close()
        driver.stopped.set()

    # --- for the port (`broker.http.ports.NodePort`)

    @property
    def core(self) -> NodeCore:
        return self.driver.core

    @property
    def ready(self) -> bool:
        return self.driver.ready

    @property
    def disconnected(self) -> bool:
        return self.report.diallers.disconnected

    @property
    def settings(self) -> str:
        from config.write import to_yaml

        return to_yaml(self.report.access.site)

    def matched(self, topic: str) -> str:
        return str(self.core.topics.reach(Destination(Kind.TOPIC, topic), -1))

    @property
    def switch(self) -> Switch:
        return self.driver.switch

    @property
    def shares(self) -> Shares:
        return self.driver.shares

    @property
    def buffers(self) -> Buffers:
        return self.driver.buffers

    @property
    def wires(self) -> LinkDriver:
        return self.driver.wires

    @property
    def entrance(self) -> Entrance:
        return self.report.access.entrance

    @property
    def enrolment(self) -> "Registry | None":
        return self.report.access.registry

    @property
    def tracing(self) -> Tracing:
        return self.running.tracing

    def wake(self) -> None:
        self.driver.wake()

    def nudge(self) -> None:
        self.driver.nudge()

    async def status(self) -> dict[str, Any]:
        from broker.api.status import status

        found: dict[str, Any] = msgspec.to_builtins(await status(self.report), enc_hook=str)
        return found


def _cannot_listen(listener: Listener, error: OSError) -> SapwoodError:
    low = isinstance(error, PermissionError)
    why = "ports below 1024 are root's." if low else "is another node running there?"
    return SapwoodError(
        f"cannot listen on {listener.host}:{listener.port}: {error.strerror or error};"
        f" {why} Change the listener's port"
    )
