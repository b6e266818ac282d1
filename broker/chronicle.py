"""What this node tells the advisory log and its journal, in the words of its core."""

import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.advisory_log import AdvisoryLog
from broker.operator_log import OperatorLog
from broker.usage import UsageLog
from config.model import Site
from sapwood.protocol.destinations import Destination
from treeconnector.frames import Advice

if TYPE_CHECKING:
    from broker.core.node import NodeCore


KEPT: Final = 500


class Heard(NamedTuple):
    """`at`: seconds since 1970."""

    at: float
    event: str
    op: str
    kind: str | None = None
    destination: str | None = None
    peer: str | None = None
    direction: str | None = None
    cause: str | None = None
    origin: str | None = None


class RecentAdvisories:
    """The last `KEPT` events, newest first when read. What comes in thousands costs as little as hundreds."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._ring: deque[Heard] = deque(maxlen=KEPT)

    def __repr__(self) -> str:
        return f"<RecentAdvisories {len(self._ring)}>"

    def consumer(self, at: float, op: str, key: Destination, cause: str) -> None:
        self._ring.append(Heard(at, "consumer", op, str(key.kind), key.name, None, None, cause, self._node))

    def advisories(self, at: float, peer: str, direction: str, advices: list[Advice]) -> None:
        for each in advices[-KEPT:]:
            kind, cause, origin = str(each.kind), each.cause or None, each.origin or None
            self._ring.append(Heard(at, "advisory", each.op, kind, each.name, peer, direction, cause, origin))

    def link(self, at: float, op: str, peer: str, direction: str) -> None:
        self._ring.append(Heard(at, "link", op, peer=peer, direction=direction))

    def latest(self, limit: int) -> list[Heard]:
        """The newest `limit`."""
        return list(self._ring)[::-1][:limit]


class Chronicle:
    """The core's end of the advisory log; silent where the site has it switched off.

    `recent`: the latest of it in memory, always. `journal`: who else hears of links and of the chain, once
    the core has started.
    """

    def __init__(self, site: Site) -> None:
        settings = site.advisory_log
        self.recent = RecentAdvisories(site.name)
        self.journal: OperatorLog | None = None
        self._log: AdvisoryLog | None = None
        self._usage: UsageLog | None = None
        if settings.enabled:
            self._usage = UsageLog(site.advisory_directory, site.name, settings.max_files)
            self._log = AdvisoryLog(
                site.advisory_directory,
                tree=site.tree,
                node=site.name,
                role=site.role,
                max_bytes=settings.max_bytes_per_file,
                max_files=settings.max_files,
                gzip=settings.gzip,
            )

    def __repr__(self) -> str:
        return f"<Chronicle {self._log!r}>"

    @property
    def warnings(self) -> list[str]:
        """What an operator is to know about the log."""
        error = self._log.last_error if self._log else ""
        usage = self._usage.last_error if self._usage else ""
        found = [f"the advisory log cannot be written: {error}"] if error else []
        return found + ([f"the use of routes cannot be written: {usage}"] if usage else [])

    def consumer(self, op: str, key: Destination, cause: str) -> None:
        self.recent.consumer(time.time(), op, key, cause)
        if self._log:
            self._log.write_consumer(op, str(key.kind), key.name, cause)

    def advisories(self, peer: str, direction: str, advices: list[Advice]) -> None:
        self.recent.advisories(time.time(), peer, direction, advices)
        if self._log:
            self._log.write_advisories(peer, direction, advices)

    def link(self, op: str, peer: str, direction: str) -> None:
        self.recent.link(time.time(), op, peer, direction)
        if self._log:
            self._log.write_link(op, peer, direction)
        if self.journal:
            self.journal.link(op, peer)

    def chain(self, chain: list[str]) -> None:
        if self._log:
            self._log.set_chain(chain)
        if self.journal:
            self.journal.chain(chain)

    def begin(self, core: "NodeCore") -> None:
        """The node starts; from now on it is counted which routes its messages use."""
        self.node("start")
        if self._usage:
            self._usage.follow(core)

    def node(self, op: str) -> None:
        if self._log:
            self._log.write_node(op)

    def close(self) -> None:
        if self._log:
            self._log.close()
        if self._usage:
            self._usage.close()
