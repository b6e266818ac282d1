"""Children that dial at a broker: the node hears them knock there, and serves their links as any other.

One `LinkBrokerListener` for each broker of the listener; it listens again, for ever, after a lost connection.
The links of children have connections of their own and outlive that of the knocks.

Law: answers under way are bounded, however many children knock at once: after a broker's restart all do. So
are the links of those who have not proved themselves, and what these may say before; and the connections for
one child, however often it knocks. A knock that waits too long is answered to nobody; its child has knocked
again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tenacity import RetryCallState, retry_if_exception_type

from bridges.carriers.base import CarrierError
from bridges.carriers.brokered.envelopes import Knock
from bridges.carriers.brokered.line import Broker, BrokerAccess
from bridges.carriers.brokered.listener import Listener, answer
from bridges.carriers.registry import broker_for
from broker.host import Host
from broker.link_driver import LinkDriver
from broker.pauses import retrying
from broker.settings import client_tls
from config import model
from config.credentials import link_broker_secret
from config.model import Site
from config.uris import address
from sapwood.protocol.errors import SapwoodError
from treeconnector.identity import Shown

_log = logging.getLogger("sapwood.link")
_AT_ONCE: Final = 16
_WAITING: Final = 4096
_PER_CHILD: Final = 8
_STRANGERS: Final = 64


def link_broker_access(broker: model.LinkBroker) -> BrokerAccess:
    """How the node logs in there. Raises `ConfigurationError` if the password cannot be read."""
    place = address(broker.uri)
    secret = link_broker_secret(broker)
    return BrokerAccess(
        host=place.host,
        port=place.port,
        user=broker.user or "",
        password=secret.reveal() if secret else "",
        tls=client_tls(broker.tls) if place.tls else None,
        vhost=place.vhost,
    )


def broker_of(site: Site, settings: model.LinkBroker) -> Broker:
    """The broker of a listener's entry. Raises `SapwoodError`: no library, no password."""
    place = address(settings.uri)
    return broker_for(place, link_broker_access(settings), site.tree, site.limits.max_frame)


class LinkBrokerListener:
    """Listens at one broker. Making it raises `SapwoodError` for what only the site's file can cure.

    `state`: 'connecting', 'listening' or 'waiting'. `links`: that it serves now. `refused`: knocks that came
    while too many waited, or while their child had links enough. `strangers`: of links that have
    ended, what came and was not of the link.
    """

    def __init__(self, host: Host, wires: LinkDriver, site: Site, settings: model.LinkBroker) -> None:
        self._host = host
        self._wires = wires
        self._site = site
        self._settings = settings
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._strangers = asyncio.Semaphore(_STRANGERS)
        self._waiting: set[str] = set()
        self._serving: Counter[str] = Counter()
        self._broker = broker_of(site, settings)
        self._listener: Listener | None = None
        self.state = "connecting"
        self.error = ""
        self.failures = 0
        self.refused = 0
        self.strangers = 0

    def __repr__(self) -> str:
        counts = f"links={self.links} failures={self.failures}"
        return f"<LinkBrokerListener {self._settings.uri} {self.state} {counts}>"

    @property
    def uri(self) -> str:
        return self._settings.uri

    @property
    def links(self) -> int:
        return self._serving.total()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await retrying(self._site.link, retry_if_exception_type(SapwoodError), self._failed)(self._once)

    async def _once(self) -> None:
        """Listen, from dialling to the end. Returns if it had listened, raises if it never did."""
        self.state = "connecting"
        site = self._site
        self._listener = Listener(self._broker, site.name, self._knocked)
        try:
            await self._listener.run(self._listening)
        except CarrierError as error:
            if self.state != "listening":
                raise
            self._note(str(error))
            await asyncio.sleep(site.link.backoff_initial)

    def _listening(self) -> None:
        self.state, self.error, self.failures = "listening", "", 0
        _log.info("= node %s hears children at %s", self._site.name, self._settings.uri)

    def _failed(self, state: RetryCallState) -> None:
        self.failures += 1
        error = state.outcome.exception() if state.outcome else None
        self._note(str(error))

    def _note(self, text: str) -> None:
        """Say it once."""
        self.state = "waiting"
        if text != self.error:
            fields = {"link": self._settings.uri, "reason": text}
            _log.warning("! children cannot reach us at %s: %s", self._settings.uri, text, extra=fields)
        self.error = text

    # --- children

    def _knocked(self, child: str, knock: Knock) -> None:
        if child in self._waiting:
            return
        if len(self._waiting) >= _WAITING or self._serving[child] >= _PER_CHILD:
            self.refused += 1
            return
        self._waiting.add(child)
        self._host.spawn(self._welcome(child, knock))

    async def _welcome(self, child: str, knock: Knock) -> None:
        """Answer one knock and serve the link to its end."""
        await self._strangers.acquire()
        known = _once(self._strangers.release)
        try:
            await self._serve(child, knock, known)
        finally:
            known()

    async def _serve(self, child: str, knock: Knock, known: Callable[[], None]) -> None:
        """`known`: to be called when the child has proved itself."""
        try:
            async with self._room:
                carrier = await answer(
                    self._broker,
                    child,
                    knock,
                    timeout=self._site.link.connect_timeout,
                    max_packet=self._site.limits.max_frame,
                )
        except SapwoodError as error:
            self._wires.turned_away(self._settings.uri, str(error))
            return
        finally:
            self._waiting.discard(child)
        carrier.trusted, carrier.when_proven = False, known
        carrier.shown = Shown(place=child, vouched=self._settings.proves_names)
        self._serving[child] += 1
        try:
            await self._wires.serve(carrier)
        finally:
            self._serving -= Counter((child,))
            self.strangers += carrier.strangers
            await carrier.close()

    def status(self) -> dict[str, Any]:
        return {
            "uri": self._settings.uri,
            "state": self.state,
            "links": self.links,
            "failures": self.failures,
            "error": self.error,
            "ignored": self._listener.ignored if self._listener else 0,
            "refused": self.refused,
            "strangers": self.strangers,
        }


def _once(call: Callable[[], None]) -> Callable[[], None]:
    """The same, but from the second time on it does nothing."""
    done = False

    def first() -> None:
        nonlocal done
        if not done:
            done = True
            call()

    return first
