"""All that an operator can ask of a node and do to it, in one place; what each means stands in its part."""

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final

from bridges.dns.errors import LocationError
from broker.administration import answers
from broker.administration.dead import Dead
from broker.administration.follow import Following
from broker.administration.invitations import Invitations
from broker.administration.pages import cut_of
from broker.administration.permits import Permits
from broker.administration.queues import Queues
from broker.administration.routes import Routes
from broker.administration.routing import Routing
from broker.administration.sessions import Sessions
from broker.administration.tree import TreeView
from broker.cells.cells import Command
from broker.core.errors import NotFound, SwitchError
from broker.core.links.neighbour import Neighbour
from treeconnector.relations import Relation

if TYPE_CHECKING:
    from broker.node import Node

_HAND_OVER: Final = 30.0
_LOOK_AGAIN: Final = 0.02


class Administration:
    """Made by the node once its core is. Calls raise `SwitchError`s."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.queues = Queues(node)
        self.sessions = Sessions(node)
        self.dead = Dead(node)
        self.routes = Routes(node)
        self.routing = Routing(node)
        self.permits = Permits(node)
        self.tree = TreeView(node)
        self.following = Following(node)
        self.invitations = Invitations(node)
        node.cells.commands["tree"] = Command(lambda asker, arguments: self.tree.here(cut_of(arguments)))
        node.cells.commands["status"] = Command(lambda asker, arguments: node.status())

    def __repr__(self) -> str:
        return f"<Administration of {self._node.site.name}>"

    def advisories(self, limit: int) -> answers.Advisories:
        """What was heard of consumers and links lately."""
        return self._node.chronicle.recent.latest(limit)

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

    # --- the node in the tree

    async def leave(self) -> answers.Left:
        """Hand over what is on its way, say goodbye, so that the others withdraw our routes, and stop.

        Before that the site's broker gives what it keeps for this node, and forgets it. A node of a mesh lets
        its children go then, and hands over what it has for them, too.
        """
        node, core = self._node, self._node.core
        others = self._others()
        left_to_do = await self._leave_broker(others)
        if any(each.relation is Relation.MESH for each in others):
            node.say_goodbye(core.children())
            core.handover.leave()
        await self._handed_over(others)
        kept = sum(place.messages for place in core.custody.queues.values())
        core.root.forget()
        node.say_goodbye(others)
        node.stop_soon()
        return answers.Left(left=others[0].name, messages_kept_here=kept, site_broker=left_to_do)

    def _others(self) -> list[Neighbour]:
        """Those above, then those beside, that it is linked with. Raises `SwitchError` if there are none."""
        core = self._node.core
        linked = [each for each in (*core.neighbourhood.parents(), *core.mesh.peers()) if each.up]
        if linked:
            return linked
        if not core.role.has_parent and not core.mesh.peers():
            raise SwitchError("a root has nobody to leave: stop it when its children have another parent")
        who = "parent" if core.role.has_parent else "other node of its mesh"
        raise SwitchError(f"no {who} can be reached now: leave again when a line is up")

    async def _leave_broker(self, neighbours: list[Neighbour]) -> list[str]:
        """Returns the commands for people, where the site's broker could not be told to forget this node."""
        desk = self._node.desk
        left_to_do = await desk.leave() if desk is not None else []
        if desk is not None and not any(each.up for each in neighbours):
            desk.stay()
            raise SwitchError("the lines went down meanwhile: leave again when one is up")
        return left_to_do

    async def _handed_over(self, neighbours: list[Neighbour]) -> None:
        """Return once these have all that goes to them, or it takes too long."""
        self._node.wake()
        end = time.monotonic() + _HAND_OVER
        while time.monotonic() < end:
            left = (each for each in neighbours if each.up)
            if not any(each.outbox or each.queue.waiting or each.wants for each in left):
                return
            await asyncio.sleep(_LOOK_AGAIN)

    async def locate(self) -> answers.Located:
        """Look the parent up in DNS now; if it has moved, the link follows."""
        supervisor = self._node.supervisor
        finders = supervisor.ways.finders.values() if supervisor is not None else ()
        if not finders:
            raise SwitchError("this node's file names no srv://DOMAIN: there is nothing to look up")
        for finder in finders:
            with contextlib.suppress(LocationError):
                await finder.look()
            finder.ask()
        return answers.Located(location=[finder.status() for finder in finders])

    def forget(self, name: str) -> answers.Forgotten:
        """Forget a child, or a node of a mesh, that will not come back: its routes go, what waits for it is
        routed again.

        Or the root that this node knows, so that it accepts another one; its messages stay where they are.
        """
        node = self._node
        if name and name == node.core.root.name:
            node.core.root.forget()
            node.wake()
            return answers.Forgotten(forgotten=name, messages_routed_again=0)
        neighbour = node.core.neighbours.get(name)
        spare = len(node.core.forwarder.parents) > 1
        if neighbour is None or (neighbour.relation is Relation.PARENT and not spare):
            raise NotFound(f"{node.site.name} has no child {name!r}")
        if neighbour.up:
            raise SwitchError(f"{name!r} is connected: run 'sapwood node leave' there, or stop it first")
        waiting = neighbour.queue.messages
        node.core.mesh.left(name)
        node.core.moves.forget(neighbour, moved=False)
        node.wake()
        return answers.Forgotten(forgotten=name, messages_routed_again=waiting)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
