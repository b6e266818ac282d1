"""A link and the carrier that it rides on, as the node's loop holds them."""

import asyncio

from bridges.carrier import Carrier
from treeconnector.link import Link


class Wire:
    """A link and the carrier that it rides on."""

    __slots__ = ("carrier", "draining", "link", "text", "was_up")

    def __init__(self, link: Link, carrier: Carrier) -> None:
        self.link = link
        self.carrier = carrier
        self.draining: asyncio.Task[None] | None = None
        self.was_up = False
        self.text = ""
