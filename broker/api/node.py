"""The node in its tree: it leaves for good, forgets who will not come back, and looks its parent up."""

import asyncio
import contextlib
import time
from typing import Any, Final

from bridges.dns.errors import LocationError
from broker.api.context import RunningNode
from broker.api.operation import GONE, NODE, Answer, PlainCommand, operation
from broker.core.errors import NotFound, SwitchError
from broker.core.links.neighbour import Neighbour
from treeconnector.relations import Relation

_HAND_OVER: Final = 30.0
_LOOK_AGAIN: Final = 0.02
_REFUSED: Final = {409: "It cannot be done now; the text says why."}


class Left(Answer):
    """`site_broker`: the commands with which people have the site's broker forget the node, if it has not."""

    left: str
    messages_kept_here: int
    site_broker: list[str]


class Forgotten(Answer):
    forgotten: str
    messages_routed_again: int


class Located(Answer):
    """Each domain as `parent.dialling.location` of the status has it."""

    location: list[dict[str, Any]]


@operation(
    "POST",
    "/api/node/leave",
    "Leave the tree for good; the node hands over what it has, says goodbye and stops.",
    "node",
    errors=_REFUSED,
    role="administrator",
    commands=(
        PlainCommand(
            "node leave",
            "Take a running node out of its tree for good. It hands over what it has, and stops.",
            sure="Take the node at {url} out of its tree for good?",
        ),
    ),
)
async def leave(node: RunningNode) -> Left:
    """Hand over what is on its way, say goodbye, so that the others withdraw our routes, and stop.

    Before that the site's broker gives what it keeps for this node, and forgets it. A node of a mesh lets
    its children go then, and hands over what it has for them, too.
    """
    core = node.core
    others = _others(node)
    left_to_do = await _leave_broker(node, others)
    if any(each.relation is Relation.MESH for each in others):
        node.diallers.say_goodbye(core.context.children())
        core.handover.leave()
    await _handed_over(node, others)
    kept = sum(place.messages for place in core.custody.queues.values())
    core.root.forget()
    node.diallers.say_goodbye(others)
    node.driver.stop_soon()
    return Left(left=others[0].name, messages_kept_here=kept, site_broker=left_to_do)


def _others(node: RunningNode) -> list[Neighbour]:
    """Those above, then those beside, that it is linked with. Raises `SwitchError` if there are none."""
    core = node.core
    linked = [each for each in (*core.neighbourhood.parents(), *core.context.peers()) if each.up]
    if linked:
        return linked
    if not core.role.has_parent and not core.context.peers():
        raise SwitchError("a root has nobody to leave: stop it when its children have another parent")
    who = "parent" if core.role.has_parent else "other node of its mesh"
    raise SwitchError(f"no {who} can be reached now: leave again when a line is up")


async def _leave_broker(node: RunningNode, neighbours: list[Neighbour]) -> list[str]:
    """Returns the commands for people, where the site's broker could not be told to forget this node."""
    desk = node.desk
    left_to_do = await desk.leave() if desk is not None else []
    if desk is not None and not any(each.up for each in neighbours):
        desk.stay()
        raise SwitchError("the lines went down meanwhile: leave again when one is up")
    return left_to_do


async def _handed_over(node: RunningNode, neighbours: list[Neighbour]) -> None:
    """Return once these have all that goes to them, or it takes too long."""
    node.wake()
    end = time.monotonic() + _HAND_OVER
    while time.monotonic() < end:
        left = (each for each in neighbours if each.up)
        if not any(each.outbox or each.queue.waiting or each.wants for each in left):
            return
        await asyncio.sleep(_LOOK_AGAIN)


@operation(
    "POST",
    "/api/node/locate",
    "Look the parent and the mesh up in DNS (srv://) now; if the parent has moved, the link follows.",
    "node",
    errors=_REFUSED,
)
async def locate(node: RunningNode) -> Located:
    """Look up in DNS now; if the parent has moved, the link follows."""
    finders = node.diallers.finders
    if not finders:
        raise SwitchError("this node's file names no srv://DOMAIN: there is nothing to look up")
    for finder in finders:
        with contextlib.suppress(LocationError):
            await finder.look()
        finder.ask()
    return Located(location=[finder.status() for finder in finders])


@operation(
    "POST",
    "/api/node/forget/{node}",
    "Say goodbye in place of a child that will not come back.",
    "node",
    (NODE,),
    errors={**GONE, **_REFUSED},
    role="administrator",
    commands=(
        PlainCommand(
            "node forget",
            "Say goodbye on behalf of a child that is gone for good. Asked of its parent.",
            texts={"node": "The child that does not come back."},
            places={"node": "NAME"},
            sure="Forget {node} at {url} for good?",
        ),
    ),
)
def forget(node: RunningNode, name: str) -> Forgotten:
    """Forget a child, or a node of a mesh, that will not come back: its routes go, what waits for it is
    routed again.

    Or the root that this node knows, so that it accepts another one; its messages stay where they are.
    """
    if name and name == node.core.root.name:
        node.core.root.forget()
        node.wake()
        return Forgotten(forgotten=name, messages_routed_again=0)
    neighbour = node.core.neighbours.get(name)
    spare = len(node.core.context.parents) > 1
    if neighbour is None or (neighbour.relation is Relation.PARENT and not spare):
        raise NotFound(f"{node.name} has no child {name!r}")
    if neighbour.up:
        raise SwitchError(f"{name!r} is connected: run 'sapwood node leave' there, or stop it first")
    waiting = neighbour.queue.messages
    node.core.mesh.left(name)
    node.core.relocation.forget(neighbour, moved=False)
    node.wake()
    return Forgotten(forgotten=name, messages_routed_again=waiting)
