"""Nodes that run in the process of a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from broker.node import Node
from config.model import Site


@asynccontextmanager
async def running_node(site: Site, **given: Any) -> AsyncIterator[Node]:
    """A node, until the test has done with it."""
    node = Node(site, **given)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()
