"""The desk: keeps the bridge to the site's broker at work, and passes on between it and the core.

Names are translated here (`broker.site.rules`), and here the two loops meet: the core hands out messages in
the middle of its own work, so what is for the bridge is gathered and given to it afterwards; what the bridge
confirms is gathered likewise. Lost connections are made again, with tenacity, for ever.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice
from typing import Any, Final

from tenacity import RetryCallState, retry_if_exception

from bridges.site_brokers.base import Bridge, SiteBrokerError, SiteBrokerRefused, in_parts
from broker.core.messages.queue_names import is_internal
from broker.core.policy import Policy
from broker.core.site.site import SiteClient as CoreSite
from broker.host import Host
from broker.pauses import retrying
from broker.site.bridges import make_bridge
from broker.site.line import SiteLine
from broker.site.rules import Rules
from config.model import Site
from config.uris import EMBEDDED
from sapwood.protocol.destinations import Destination, Kind, parse, topic
from sapwood.protocol.errors import InvalidName, PatternError
from treeconnector.edge import BrokerConsumer, BrokerDelivery
from treeconnector.patterns import MANY, check_pattern, matches

_log = logging.getLogger("sapwood.site")
_STATIC: Final = "static"
_LISTED: Final = 100
_LEAVE: Final = 30.0
_FEW: Final = 1000
_REST: Final = 1e-5
"""Seconds, for each destination that is wanted."""


class SiteDesk(Policy):
    """One for a node with a site broker. `state`: connecting, running, waiting or refused."""

    def __init__(self, host: Host, site: Site, bridge: Bridge) -> None:
        self._host = host
        self._bridge = bridge
        self._settings = site.site_broker
        self._link = site.link
        self._rules = Rules(self._settings.rules)
        self._limit = site.limits.max_routes_per_link
        self._static = [BrokerConsumer(parse(text), _STATIC) for text in self._settings.consumers]
        self._sources = [parse(text) for text in self._settings.sources]
        self._line: SiteLine | None = None
        self._was_up = False
        self._changes = self._told = 0
        self._then: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_telling = False
        self._has_told = asyncio.Event()
        self.state = "connecting"
        self.error = ""
        self.broker = ""
        self.failures = 0
        self.since = host.now()
        self.left_out: dict[str, str] = {}
        self._lingering: dict[str, asyncio.TimerHandle] = {}

    def __repr__(self) -> str:
        return f"<SiteDesk {self._settings.uri} {self.state}>"

    @cached_property
    def core(self) -> CoreSite:
        return self._host.core.site

    # --- life

    async def run(self) -> None:
        """Until cancelled. A refusal before the broker was ever ours stops the node."""
        self._host.core.policies.add((self,))
        self._host.core.retained_interest.broker_retains = self._bridge.retains
        for consumer in self._static:
            self.came(consumer)
        self.wanted_changed()
        await self._has_told.wait()
        try:
            while True:
                await retrying(self._link, retry_if_exception(self._may_end), self._failed)(self._once)
        except SiteBrokerRefused as error:
            self._host.fail(error)

    def _may_end(self, error: BaseException) -> bool:
        """May this trouble end by itself? A refusal may once the broker was ours."""
        return isinstance(error, SiteBrokerError) and (
            self._was_up or not isinstance(error, SiteBrokerRefused)
        )

    async def _once(self) -> None:
        """One connection. Raises if it never was up, or ended soon: what ends each at once would do so
        hundreds of times a second.
        """
        self._become("connecting")
        line = self._line = SiteLine(self._host, self, self._rules, self._bridge)
        try:
            await self._visit(line)
        except SiteBrokerError as error:
            if not line.up or isinstance(error, SiteBrokerRefused):
                raise
            lost = f"lost the site's broker {self._settings.uri}: {error}"
            if self._host.now() - self.since < self._link.backoff_max:
                raise SiteBrokerError(lost) from None
            self._note(lost)
        except Exception as mistake:
            _log.exception("! the bridge to the site's broker failed")
            raise SiteBrokerError(
                f"a mistake in the bridge to {self._settings.uri} ({mistake!r}): please report it"
            ) from None
        finally:
            line.open = False
            self._line = None
            self._advance()
            self.core.lost()
            self._host.wake()
        self.failures = 0

    async def _visit(self, line: SiteLine) -> None:
        """Until the bridge ends; or makes a mistake outside its own run, which ends it too."""
        work = asyncio.ensure_future(self._bridge.run(line))
        try:
            await asyncio.wait((work, line.mistake), return_when=asyncio.FIRST_COMPLETED)
            if line.mistake.done():
                raise line.mistake.result()
            work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _failed(self, state: RetryCallState) -> None:
        self.failures += 1
        self._note(str(state.outcome.exception()) if state.outcome else "")

    def _note(self, text: str) -> None:
        """Say it once."""
        self._become("waiting")
        if text != self.error:
            _log.warning("! %s", text, extra={"state": self.state, "reason": text})
        self.error = text

    def _become(self, state: str) -> None:
        if state != self.state:
            self.state, self.since = state, self._host.now()

    def pause(self) -> None:
        """The node stops: give nothing more."""
        self.core.pause()

    async def leave(self) -> list[str]:
        """For good: take what the broker keeps for this node, and have it forget the node.

        Returns the commands for that if the broker is away, or does not do it.
        """
        if self._line is None or not self._line.up:
            return self._bridge.farewell()
        try:
            async with asyncio.timeout(_LEAVE):
                await self._bridge.leave()
        except (SiteBrokerError, TimeoutError) as error:
            why = str(error) or "it takes too long"
            _log.warning("! the site's broker keeps what it has for this node: %s", why)
            return self._bridge.farewell()
        return []

    def stay(self) -> None:
        """Not for good after all: connect anew."""
        if self._line is not None and not self._line.mistake.done():
            self._line.mistake.set_result(SiteBrokerError("the node stays: the connection is made anew"))

    def connected(self, text: str) -> None:
        self.broker, self.error, self._was_up = text, "", True
        self._become("running")
        _log.info("= the site's broker is %s at %s", text, self._settings.uri, extra={"state": "running"})
        self._advance()
        self.core.connected()
        self._host.wake()

    # --- consumers

    def complete(self, consumers: Iterable[BrokerConsumer]) -> None:
        self._advance()
        self.left_out.clear()
        every = (*self._static, *consumers)
        self.core.complete([found for consumer in every for found in self._in_tree(consumer)])
        self._consumers_changed()
        self._bridge.review(MANY)

    def came(self, consumer: BrokerConsumer) -> None:
        self._advance()
        alone = self._line is not None and consumer.id != _STATIC and self._bridge.greets(consumer)
        for found in self._in_tree(consumer):
            self.core.came(found, alone=consumer if alone else None)
        self._consumers_changed()
        if consumer.destination.name in self._lingering:
            self._review(consumer.destination.name)

    def went(self, consumer: BrokerConsumer) -> None:
        self._advance()
        for found in self._named(consumer):
            self.core.went(found)
        self._consumers_changed()
        kind, name, _ = consumer.destination
        if kind == Kind.TOPIC and name not in self._lingering:
            linger, loop = self._host.core.settings.linger, asyncio.get_running_loop()
            self._lingering[name] = loop.call_later(linger, self._review, name)

    def _review(self, pattern: str) -> None:
        """Whoever read this has not come back in time; or has, and may find what was cleared meanwhile."""
        self._lingering.pop(pattern).cancel()
        self._bridge.review(pattern)

    def _consumers_changed(self) -> None:
        if self._sources:
            self.wanted_changed()
        self._host.wake()

    def _in_tree(self, consumer: BrokerConsumer) -> list[BrokerConsumer]:
        """The consumer under the names that the tree knows, as far as it may have them."""
        return [each for each in self._named(consumer) if self._fits(each.destination)]

    def _named(self, consumer: BrokerConsumer) -> list[BrokerConsumer]:
        local, name = consumer
        keys = self._rules.consumed(local)
        return [BrokerConsumer(key, name if key == local else f"{name} {local}") for key in keys]

    def _fits(self, key: Destination) -> bool:
        settings = self._host.core.settings
        if is_internal(key):
            return self._leave_out(key, "nodes talk with each other by queues of that name")
        try:
            if key.kind == Kind.TOPIC:
                check_pattern(key.name, settings.max_filter_length, settings.max_levels)
            else:
                parse(str(key))
        except (PatternError, InvalidName) as error:
            return self._leave_out(key, str(error))
        if key not in self.core.consumers and len(self.core.consumers) >= self._limit:
            return self._leave_out(key, f"more than {self._limit} destinations (max_routes_per_link)")
        return True

    def _leave_out(self, key: Destination, text: str) -> bool:
        if len(self.left_out) < _LISTED and str(key) not in self.left_out:
            self.left_out[str(key)] = text
            _log.warning("! the consumers of %s are left out: %s", key, text, extra={"destination": str(key)})
        return False

    # --- what is wanted

    def wanted_changed(self) -> None:
        self._changes += 1
        if not self._is_telling:
            self._is_telling = True
            self._host.spawn(self._tell_wanted())

    def when_told(self, call: Callable[[], None]) -> None:
        """Once the bridge has been told all that is wanted now."""
        if self._told == self._changes:
            call()
        else:
            self._then.append((self._changes, call))

    async def _tell_wanted(self) -> None:
        """Until it is as it was told. Of very much one telling rests before the next."""
        try:
            while self._told != self._changes:
                began, wanted = self._changes, set[Destination]()
                async for part in in_parts(self.core.wanted):
                    wanted.update(here for key in part for here in self._rules.wanted(key))
                wanted.update(filter(self._is_source, self._sources))
                self._bridge.want(frozenset(wanted))
                self._told = began
                self._has_told.set()
                while self._then and self._then[0][0] <= began:
                    self._then.popleft()[1]()
                if len(wanted) > _FEW:
                    await asyncio.sleep(len(wanted) * _REST)
        finally:
            self._is_telling = False

    def _is_source(self, local: Destination) -> bool:
        """Is this taken whoever wants it? A queue is not while it has a consumer at the broker."""
        key = self._rules.to_tree(local) if local.kind == Kind.QUEUE else local
        return key is not None and (key.kind == Kind.TOPIC or key not in self.core.consumers)

    def takes_from_site(self, name: str) -> bool:
        """A topic under a source is taken whoever wants it."""
        here = self._rules.wanted(topic(name))
        return any(
            source.kind == Kind.TOPIC and matches(source.name, local.name)
            for source in self._sources
            for local in here
        )

    # --- messages

    def for_site(self, deliveries: list[BrokerDelivery]) -> None:
        if self._line is not None:
            self._line.give(deliveries)

    def _advance(self) -> None:
        """Tell the core what time it is."""
        self._host.core.advance(self._host.now())

    # --- for people

    @property
    def held(self) -> int:
        """Messages taken from the broker that the node has no room for now."""
        return self._line.held if self._line is not None else 0

    @property
    def busy(self) -> bool:
        """Does it wait for answers of the broker?"""
        return self._line is not None and self.core.unanswered > 0

    def status(self) -> dict[str, Any]:
        core = self.core
        taken, given = core.totals
        consumers, wanted = core.consumers, core.wanted
        return {
            "uri": self._settings.uri,
            "state": self.state,
            "since_s": round(self._host.now() - self.since, 3),
            "broker": self.broker,
            "error": self.error,
            "failures": self.failures,
            "consumers": _some(consumers),
            "consumers_more": max(0, len(consumers) - _LISTED),
            "left_out": dict(self.left_out),
            "wanted": _some(wanted),
            "wanted_more": max(0, len(wanted) - _LISTED),
            "waiting": core.waiting,
            "unanswered": core.unanswered,
            "held": self.held,
            "held_for": _some(self._line.held_for) if self._line is not None else [],
            "taken": taken,
            "given": given,
            "repeated": core.repeated,
            **self._bridge.status(),
        }


def _some(keys: Iterable[Destination]) -> list[str]:
    return sorted(str(key) for key in islice(keys, _LISTED))


def desk_of(host: Host, site: Site) -> SiteDesk | None:
    """The desk of a node; None if its applications use the node itself. Raises `SapwoodError`."""
    if site.site_broker.uri == EMBEDDED:
        host.core.site.end()
        return None
    return SiteDesk(host, site, make_bridge(site, host.core.identity.store_id.hex()))
