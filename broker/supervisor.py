"""Keeps the link to the parent: dials, waits longer after each failure, dials again, for ever.

A failed link dies whole; the next one is new. How it stands shows in the node's status.
"""

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential, wait_random
from tenacity.wait import wait_base

from bridges import ws
from bridges.brokered import carrier as brokered
from bridges.brokered.line import Access
from bridges.brokered.schemes import broker_for
from bridges.carrier import Carrier, CarrierError
from broker.location.ways import Way, ways_of
from broker.settings import client_tls
from config.credentials import connector_password
from config.model import Site, TreeConnector
from config.uris import address
from treeconnector.errors import LinkRefused, SapwoodError
from treeconnector.link import Link

if TYPE_CHECKING:
    from broker.node import Node

_log = logging.getLogger("sapwood.link")
_SCHEMES = ("ws://", "wss://")


class LinkLost(SapwoodError):
    """The link was up, or nearly, and has gone."""


class Supervisor:
    """Dials the ways to one parent in turn. `state`: 'connecting', 'running' or 'waiting'.

    `strangers`: of links that have ended, what came through a broker and was not of the link.
    """

    def __init__(self, node: "Node", site: Site, connector: TreeConnector) -> None:
        self._node = node
        self._site = site
        self._connector = connector
        self._tls = client_tls(connector.tls)
        self.ways = ways_of(site, connector)
        self._way = self._local = ""
        self.state = "connecting"
        self.error = ""
        self.failures = 0
        self.strangers = 0

    def __repr__(self) -> str:
        return f"<Supervisor {self._connector.uri} {self.state} failures={self.failures}>"

    async def run(self) -> None:
        """Until cancelled, or until the node has left its tree."""
        while not self._node.leaving:
            async for attempt in AsyncRetrying(
                wait=self._waits(), retry=retry_if_exception_type(SapwoodError), before_sleep=self._failed
            ):
                with attempt:
                    await self._once()

    def _waits(self) -> wait_base:
        """Twice as long after each failure, up to the longest pause; never all nodes at the same moment."""
        link = self._site.link
        exponential = wait_exponential(multiplier=link.backoff_initial, max=link.backoff_max)
        return exponential + wait_random(0, link.backoff_initial)

    async def _once(self) -> None:
        """One link, from dialling to its end. Returns if it was up, raises if it never was."""
        self.state = "connecting"
        way = await self.ways.next()
        uri = self._way = way.uri
        self._local = way.local
        carrier = await self._connect(way)
        link = self._node.core.dial(carrier.max_packet)
        following = self._node.spawn(self._follow(way, link)) if self.ways.follows(way) else None
        watching = self._node.spawn(self._node.naming.watch(link)) if self._node.naming.drawn else None
        try:
            was_up, error = await self._node.wires.drive(link, carrier)
        finally:
            for task in filter(None, (following, watching)):
                task.cancel()
        self._node.naming.ended(link)
        self.strangers += carrier.strangers
        if not was_up:
            raise LinkLost(error or f"{uri}: the link ended in its handshake")
        self.ways.restart()
        self.failures = 0
        self._note(f"lost the parent at {uri}: {error}", logging.DEBUG)
        await asyncio.sleep(random.uniform(0, self._site.link.backoff_initial))

    async def _follow(self, way: Way, link: Link) -> None:
        """Where the parent has moved, or a better way works again, end the link; the next one goes there."""
        text = await self.ways.moved(way)
        _log.warning("! parent %s: %s", self._connector.uri, text, extra={"link": way.uri, "reason": text})
        self._node.core.links.handle(link, link.pause(text))
        self._node.wake()

    async def _connect(self, chosen: Way) -> Carrier:
        """The carrier that the address asks for. Raises `SapwoodError`."""
        site, way = self._site, address(chosen.uri)
        timeout, max_packet = site.link.connect_timeout, site.limits.max_frame
        if not way.brokered:
            return await ws.connect(
                chosen.uri, tls=self._tls, timeout=timeout, max_packet=max_packet, local=chosen.local
            )
        password = connector_password(site)
        access = Access(
            host=way.host,
            port=way.port,
            user=self._connector.user or "",
            password=password.reveal() if password else "",
            tls=self._tls if way.tls else None,
            vhost=way.vhost,
            local=chosen.local,
        )
        broker = broker_for(way.scheme, access, site.tree, max_packet)
        return await brokered.connect(broker, site.name, timeout=timeout, max_packet=max_packet)

    def _failed(self, state: RetryCallState) -> None:
        self.failures += 1
        error = state.outcome.exception() if state.outcome else None
        self._note(str(error))

    def _note(self, text: str, level: int = logging.WARNING) -> None:
        """Say it once. That a link which was up is lost is in the log already."""
        self.state = "waiting"
        if text != self.error:
            fields = {"link": self._connector.uri, "relation": "parent", "reason": text}
            _log.log(level, "! parent %s: %s", self._connector.uri, text, extra=fields)
        self.error = text

    def status(self) -> dict[str, object]:
        return {
            "uris": list(self._connector.ways),
            "uri": self._way,
            "local": self._local,
            "location": self.ways.status(),
            "state": self.state,
            "failures": self.failures,
            "error": self.error,
            "strangers": self.strangers,
        }


__all__ = ["CarrierError", "LinkLost", "LinkRefused", "Supervisor"]
