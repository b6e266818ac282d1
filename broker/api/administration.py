"""The part of operators' work that lives with a running node: followers, questions, commands of its cells."""

import asyncio
from typing import TYPE_CHECKING

from broker.api import invitations
from broker.api.asking import add_commands
from broker.api.follow import Following
from broker.api.table import OPERATIONS
from broker.cells.paths import Paths
from broker.core.errors import SwitchError

if TYPE_CHECKING:
    from broker.node import Node


class Administration:
    """Made by the node once its core is."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.following = Following(node)
        self.paths = Paths(node, node.cells)
        invitations.watch(node)
        for operation in OPERATIONS:
            add_commands(node, operation)

    def __repr__(self) -> str:
        return f"<Administration of {self._node.site.name}>"

    async def committed(self) -> None:
        """Return once everything that was done so far is on disk."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._node.core.switch.when_committed(lambda: _settle(future))
        self._node.wake()
        stopped = asyncio.ensure_future(self._node.stopped.wait())
        try:
            await asyncio.wait((future, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if not future.done():
            raise SwitchError("the node stopped before that was on disk: look again when it runs")


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
