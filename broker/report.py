"""The parts of a node of which its status and its figures tell. They are only read."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.access import Access
from broker.alarms.watch import AlarmWatch
from broker.chronicle import Chronicle
from broker.core.node import NodeCore
from broker.core_driver import CoreDriver
from broker.diallers import Diallers
from broker.room import Room
from broker.site.desk import SiteDesk

if TYPE_CHECKING:
    from broker.enrolment.renewal import CertificateRenewal
    from broker.link_brokers import LinkBrokerListener
    from broker.location.registrar import Registrar
    from broker.mqtt.door import Door


@dataclass(slots=True, kw_only=True)
class NodeReport:
    """Of one node. `port`: where it listens. None: it is not there.

    `started_at`: seconds since 1970. `began`: the same by the monotonic clock, which never jumps.

    `alarms` None: it takes no samples. `warners`: parts that read this report and have something to say
    themselves.
    """

    driver: CoreDriver
    diallers: Diallers
    access: Access
    chronicle: Chronicle
    room: Room
    link_brokers: "list[LinkBrokerListener]"
    desk: SiteDesk | None
    registrar: "Registrar | None"
    renewal: "CertificateRenewal | None"
    door: "Door | None"
    started_at: float
    began: float
    port: int = 0
    alarms: AlarmWatch | None = None
    warners: list[Callable[[], list[str]]] = field(default_factory=list)

    @property
    def core(self) -> NodeCore:
        return self.driver.core

    @property
    def uptime(self) -> float:
        """Seconds since the node began to start."""
        return round(time.monotonic() - self.began, 3)

    @property
    def warnings(self) -> list[str]:
        """What a person who looks at the node is to be told."""
        return [
            *self.access.entrance.warnings,
            *self.access.grants.warnings,
            *self.core.switch.warnings,
            *self.chronicle.warnings,
            *(text for warner in self.warners for text in warner()),
        ]
