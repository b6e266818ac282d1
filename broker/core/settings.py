"""Settings that a core needs of its site's configuration. All times in seconds, all sizes in bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Destination, Kind
from treeconnector.patterns import matches

DAY = 86_400.0


class Overflow(StrEnum):
    """The fate of a message for a queue that is full."""

    REFUSE = "refuse"
    DROP_OLDEST = "drop-oldest"
    DROP_NEW = "drop-new"


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """What holds for destinations that match `pattern` (a topic pattern, or a queue's name with `#`, `+`)."""

    kind: Kind = Kind.QUEUE
    pattern: str = "#"
    scope: Scope = Scope.VERTICAL
    max_messages: int = 10_000_000
    max_bytes: int = 4 * 1024**3
    overflow: Overflow = Overflow.REFUSE
    home: bool = False


DEFAULT_POLICY = QueuePolicy()


@dataclass(frozen=True, slots=True)
class MeshSettings:
    """The other nodes of this node's mesh that its file names, with the addresses to dial them at.

    `secret`: proves each to the others, None = as for children without one. `ways`: those to a parent that
    the file names.
    """

    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    secret: bytes | None = None
    ways: tuple[str, ...] = ()

    @property
    def admits(self) -> bool:
        """May others join that the file does not name? They prove the secret, if there is one."""
        return self.secret is not None


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """One node's rules. `advise_down`: 'all', 'topics', 'queues' or 'none'.

    `address_cache`: most logical addresses that are known, 0 = as the tree needs; `address_waiting`: most
    messages for incarnations that are being asked for. `cache_copies`: about as many bundles that wait are in
    memory, whatever waits on disk.
    """

    advise_down: str = "all"
    linger: float = 10.0
    dormant_after: float = 30.0
    reattach_time: float = 60.0
    route_retention: float = 30 * DAY
    subscription_retention: float = 30 * DAY
    hold_time: float = 7 * DAY
    dedup_window: float = 3600.0
    probe_time: float = 2.0
    max_deliveries: int = 10
    address_cache: int = 0
    address_lifetime: float = 120.0
    address_waiting: int = 10_000
    max_message: int = 16 * 1024**2
    max_routes: int = 200_000
    max_filter_length: int = 1024
    max_levels: int = 32
    queue_quota: int = 1_000_000
    spool_up: int = 8 * 1024**3
    spool_down: int = 8 * 1024**3
    spool_rerouted: int = 2 * 1024**3
    child_waiting: int = 2 * 1024**3
    disk_reserve: int = 64 * 1024**2
    dead_messages: int = 100_000
    dead_bytes: int = 256 * 1024**2
    dead_age: float = 30 * DAY
    cache_bytes: int = 64 * 1024**2
    cache_copies: int = 65_536
    trace_events: int = 20_000
    deliver_twice: float = 0.0
    seed: int = 0
    policies: tuple[QueuePolicy, ...] = field(default=())

    def policy(self, destination: Destination) -> QueuePolicy:
        """The first policy that matches, else the default."""
        for policy in self.policies:
            if policy.kind == destination.kind and matches(policy.pattern, destination.name):
                return policy
        return DEFAULT_POLICY
