"""The steps of a node that leave its core whole, or end it."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from treeconnector.errors import SapwoodError

if TYPE_CHECKING:
    from broker.node import Node

_log = logging.getLogger("sapwood.node")


def vital(step: Callable[..., None]) -> Callable[..., None]:
    """A mistake of ours in the middle of a step leaves the core half changed: stop, for the disk is sound."""

    @wraps(step)
    def guarded(node: "Node", *arguments: Any) -> None:
        try:
            step(node, *arguments)
        except MemoryError:
            node.memory.out()
        except Exception as mistake:
            _log.exception("! a step of node %s failed", node.site.name)
            node.fail(
                SapwoodError(
                    f"a mistake in Sapwood ({mistake!r}): please report it. Nothing that was acknowledged is"
                    " lost: start the node again"
                )
            )

    return guarded
