"""The running node as operations see it: its core, and of what stands around that the parts that they use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from broker.access import Access
from broker.alarms.watch import AlarmWatch
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

if TYPE_CHECKING:
    from broker.api.following import Followers


@dataclass(frozen=True, kw_only=True)
class RunningNode:
    """Of one node. Whoever changes the core wakes the node. `desk` None: the site has no broker beside it.

    `sampler`, `alarms` None: it takes no samples. `status`: all that it says of itself.
    """

    driver: CoreDriver
    cells: NodeCells
    paths: Paths
    deliveries: Deliveries
    tracing: Tracing
    diallers: Diallers
    access: Access
    desk: SiteDesk | None
    recent: RecentAdvisories
    trail: ChangeTrail
    sampler: Sampler | None
    alarms: AlarmWatch | None
    status: Callable[[], Awaitable[dict[str, Any]]]

    @cached_property
    def following(self) -> "Followers":
        """Loaded when somebody follows: nobody does at most leaves."""
        from broker.api.following import Followers

        return Followers(self.driver)

    @property
    def name(self) -> str:
        return self.driver.core.identity.name

    @property
    def core(self) -> NodeCore:
        return self.driver.core

    def wake(self) -> None:
        self.driver.wake()
