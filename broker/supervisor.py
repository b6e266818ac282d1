"""Keeps a link to a parent, or to another node of the mesh: dials, waits longer after each failure, dials
again, for ever.

A failed link dies whole; the next one is new. How it stands shows in the node's status.

Law: while the node is linked with who is meant, whoever of the two dialled, nobody is dialled.
Wrinkle: of the nodes of a mesh some are not there yet when the first ones start, and two may dial each other
at once: that is worth a warning only once it has lasted for `dormant_after`.
"""

import asyncio
import logging
import random
from typing import Final, Protocol

from tenacity import RetryCallState, retry_if_exception_type

from bridges.carriers.base import Carrier, CarrierError
from bridges.carriers.brokered.line import BrokerAccess
from bridges.carriers.registry import broker_for, connect
from broker.host import Host
from broker.location.ways import Way, ways_of
from broker.pauses import retrying
from broker.settings import client_tls
from config.credentials import connector_password
from config.model import ClientTls, Site, TreeConnector
from config.uris import address, dialable, is_loopback
from sapwood.protocol.errors import LinkRefused, Refusal, SapwoodError
from treeconnector.link import Link
from treeconnector.relations import Relation

_log = logging.getLogger("sapwood.link")
_MOST_WAYS: Final = 64


class LinkLost(SapwoodError):
    """The link was up, or nearly, and has gone. `passing`: as it may at any start."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


class Dialler(Protocol):
    """All who dial, as one supervisor knows them. `leaving`: nobody is dialled any more."""

    @property
    def leaving(self) -> bool: ...

    async def drive(self, link: Link, carrier: Carrier) -> tuple[bool, str]:
        """Run a link on a carrier until either ends. Returns (whether it was up, what ended it)."""
        ...

    def begun(self, link: Link) -> "asyncio.Task[None] | None":
        """A link to be driven was made. Returns what is to be cancelled at its end."""
        ...

    def ended(self, uri: str, link: Link) -> None:
        """The link that was dialled there has ended."""
        ...


class Supervisor:
    """Dials the ways to one node in turn. `state`: 'connecting', 'running' or 'waiting'.

    `name`: of the node that is to be there; '' = whichever the ways lead to. `linked`: the node at the other
    end of the link, '' = there is none. `uri`: the way that is tried or used. `strangers`: of links that have
    ended, what came through a broker and was not of the link.
    """

    def __init__(
        self,
        host: Host,
        site: Site,
        diallers: Dialler,
        connector: TreeConnector,
        name: str = "",
        relation: Relation = Relation.PARENT,
    ) -> None:
        self._host = host
        self._diallers = diallers
        self._site = site
        self.connector = connector
        self._name = name
        self.relation = relation
        self._link: Link | None = None
        self._tls = client_tls(connector.tls)
        self.ways = ways_of(site, connector)
        self.ways.one_of_many = lambda: not name and bool(host.core.mesh.parents_to_dial())
        self.ways.announced = self._announced
        self.uri = self._local = ""
        self._state = "connecting"
        self.error = ""
        self.failures = 0
        self.strangers = 0
        self._failing_since = 0.0
        self._said: dict[str, tuple[str, int]] = {}

    def __repr__(self) -> str:
        return f"<Supervisor {self._name or self.connector.uri} {self.state} failures={self.failures}>"

    @property
    def linked(self) -> str:
        return self._link.peer_name if self._link is not None and self._link.is_up else ""

    @property
    def state(self) -> str:
        return "running" if self.linked else self._state

    async def run(self) -> None:
        """Until cancelled, or until the node has left its tree."""
        while not self._diallers.leaving:
            await retrying(self._site.link, retry_if_exception_type(SapwoodError), self._failed)(self._once)

    async def _once(self) -> None:
        """One link, from dialling to its end. Returns if it was up, or not wanted; raises if it never was, or
        was refused after all.
        """
        if await self._rested():
            return
        self._state = "connecting"
        way = await self.ways.next()
        uri = self.uri = way.uri
        self._local = way.local
        carrier = await self._connect(way)
        link = self._link = self._host.core.link_maker.dial(
            carrier.max_packet,
            self._name or way.name,
            self.relation,
            carrier.shown._replace(anybody=way.of_anybody),
        )
        following = self._host.spawn(self._follow(way, link)) if self.ways.follows(way) else None
        watching = self._diallers.begun(link)
        try:
            was_up, error = await self._diallers.drive(link, carrier)
        finally:
            self._link = None
            for task in filter(None, (following, watching)):
                task.cancel()
            self._diallers.ended(uri, link)
        self.strangers += carrier.strangers
        if not was_up:
            raise LinkLost(
                error or f"{uri}: the link ended in its handshake", passing=link.refusal is Refusal.BUSY
            )
        self.ways.restart()
        if link.refusal not in (None, Refusal.BUSY):  # such as its name, which a node above knows elsewhere
            raise LinkLost(error)
        self.failures = 0
        self._said.clear()
        self._note(f"lost the {self._what} at {uri}: {error}", logging.DEBUG)
        await asyncio.sleep(random.uniform(0, self._site.link.backoff_initial))

    def _announced(self) -> dict[str, str]:
        """Where the parent says that it can be dialled, as far as whoever is there has to prove its name.

        So it is with the connector's secret, with TLS, and on this machine; where the connector says anything
        of TLS or logs in, what was announced cannot take TLS away.
        """
        if self._name:
            return {}
        connector = self.connector
        secret = connector.secret_env is not None or connector.secret_file is not None
        secure = connector.tls != ClientTls() or connector.user is not None
        return {
            uri: name
            for uri, name in self._host.core.mesh.announced().items()
            if (way := dialable(uri)) is not None
            and (way.tls or not secure)
            and (way.tls or secret or is_loopback(way.host))
        }

    async def _rested(self) -> bool:
        """Wait while nobody is to be dialled; was there a reason to? Then whoever dials next begins anew."""
        rested = False
        while self._is_linked():
            rested, self.failures = True, 0
            self._state, self.error, self._said = "waiting", "", {}
            await asyncio.sleep(self._site.link.backoff_initial)
        return rested

    def _is_linked(self) -> bool:
        """Is whoever is meant linked, or any parent? Each node of a mesh has a supervisor of its own."""
        core = self._host.core
        if not self._name:
            return any(parent.up for parent in core.neighbourhood.parents())
        meant = core.neighbours.get(self._name)
        return meant is not None and meant.up

    @property
    def _what(self) -> str:
        return "node of the mesh" if self.relation is Relation.MESH else "parent"

    async def _follow(self, way: Way, link: Link) -> None:
        """Where the parent has moved, or a better way works again, end the link; the next one goes there."""
        text = await self.ways.moved(way)
        _log.warning("! parent %s: %s", self.connector.uri, text, extra={"link": way.uri, "reason": text})
        self._host.core.admission.handle(link, link.pause(text))
        self._host.wake()

    async def _connect(self, chosen: Way) -> Carrier:
        """The carrier that the address asks for. Raises `SapwoodError`."""
        site, way = self._site, address(chosen.uri)
        timeout, max_packet = site.link.connect_timeout, site.limits.max_frame
        if not way.brokered:
            return await connect(
                way, tls=self._tls, timeout=timeout, max_packet=max_packet, local=chosen.local
            )
        password = connector_password(site)
        access = BrokerAccess(
            host=way.host,
            port=way.port,
            user=self.connector.user or "",
            password=password.reveal() if password else "",
            tls=self._tls if way.tls else None,
            vhost=way.vhost,
            local=chosen.local,
        )
        from bridges.carriers.brokered import carrier as brokered

        broker = broker_for(way, access, site.tree, max_packet)
        return await brokered.connect(broker, site.name, timeout=timeout, max_packet=max_packet)

    def _failed(self, state: RetryCallState) -> None:
        now = self._host.now()
        self._failing_since = self._failing_since if self.failures else now
        self.failures += 1
        error = state.outcome.exception() if state.outcome else None
        passing = isinstance(error, CarrierError) or (isinstance(error, LinkLost) and error.passing)
        lasted = now - self._failing_since >= self._host.core.settings.dormant_after
        early = self.relation is Relation.MESH and passing and not lasted
        self._note(str(error), logging.INFO if early else logging.WARNING)

    def _note(self, text: str, level: int) -> None:
        """Say it once for each way. That a link which was up is lost is in the log already."""
        self._state = "waiting"
        if self._said.get(self.uri) != (text, level):
            if len(self._said) >= _MOST_WAYS:
                self._said.clear()
            self._said[self.uri] = text, level
            fields = {"link": self.connector.uri, "relation": str(self.relation), "reason": text}
            _log.log(level, "! %s %s: %s", self._what, self.connector.uri, text, extra=fields)
        self.error = text

    def status(self) -> dict[str, object]:
        return {
            "uris": list(self.connector.ways),
            "uri": self.uri,
            "local": self._local,
            "announced": list(self._announced()),
            "location": self.ways.status(),
            "state": self.state,
            "failures": self.failures,
            "error": self.error,
            "strangers": self.strangers,
        }


__all__ = ["CarrierError", "LinkLost", "LinkRefused", "Supervisor"]
