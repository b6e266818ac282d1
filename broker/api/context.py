"""The running node as operations see it: its core, and of what stands around that the parts that they use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from broker.access import Access
from broker.alarms.watch import AlarmWatch
from broker.api.following import Followers
from broker.cells.cells import NodeCells
from broker.cells.deliveries import Deliveries
from broker.cells.paths import Paths
from broker.cells.tracing import Tracing
from broker.chronicle import RecentAdvisories
from broker.core.node import NodeCore
from broker.core_driver import CoreDriver
from broker.diallers import Diallers
from broker.history.sampler import Sampler
from broker.site.desk import SiteDesk
from broker.trail import ChangeTrail


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningNode:
    """Of one node. Whoever changes the core wakes the node. `desk` None: the site has no broker beside it.

    `sampler`, `alarms` None: it takes no samples. `status`: all that it says of itself.
    """

    driver: CoreDriver
    cells: NodeCells
    paths: Paths
    deliveries: Deliveries
    tracing: Tracing
    following: Followers
    diallers: Diallers
    access: Access
    desk: SiteDesk | None
    recent: RecentAdvisories
    trail: ChangeTrail
    sampler: Sampler | None
    alarms: AlarmWatch | None
    status: Callable[[], Awaitable[dict[str, Any]]]

    @property
    def name(self) -> str:
        return self.driver.core.identity.name

    @property
    def core(self) -> NodeCore:
        return self.driver.core

    def wake(self) -> None:
        self.driver.wake()
