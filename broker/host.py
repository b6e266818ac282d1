"""The port between a node's short loop and the parts that stand around it."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol

from broker.buffers import Buffers
from broker.core.node import NodeCore
from broker.shares import Shares
from sapwood.protocol.errors import SapwoodError


class Host(Protocol):
    """A core that runs. Whoever tells it something says what time it is first, and wakes the host after that.

    `stopped`: set when the node is to stop.
    """

    @property
    def core(self) -> NodeCore: ...

    @property
    def shares(self) -> Shares: ...

    @property
    def buffers(self) -> Buffers: ...

    @property
    def stopped(self) -> asyncio.Event: ...

    def now(self) -> float:
        """Running time in seconds, which the core is told (`core.advance`)."""
        ...

    def wake(self) -> None:
        """Something was told to the core: commit it soon."""
        ...

    def nudge(self) -> None:
        """The same, of what may wait for somebody whose work goes on."""
        ...

    def look_at(self, deadline: float | None) -> None:
        """Something is due at `deadline`, perhaps before what was known."""
        ...

    def spawn(self, work: Awaitable[Any]) -> "asyncio.Task[Any]":
        """Run this until it ends, or the node does."""
        ...

    def fail(self, error: SapwoodError) -> None:
        """The node cannot go on: it stops, and says why."""
        ...
