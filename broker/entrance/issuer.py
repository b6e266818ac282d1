"""The issuer that a node's file names: its keys, kept until newer ones come, and whom its tokens let in.

Law: an issuer that cannot be reached shuts nobody out whose token its last keys prove. One that says itself
that it has none any more shuts out everybody.
Law: whoever shows tokens of unknown keys makes the node ask the issuer every `AGAIN` seconds at most, and few
requests wait for its answer.
Law: a token that is refused is looked at once, however often the request that shows it asks.
"""

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

from broker.entrance.id_tokens import Key, asker_of, heading_of, is_one
from broker.entrance.issuer_keys import IssuerError, NoIssuerKeys, fetch_keys
from broker.entrance.operators import Asker, TokenRefused, hash_of
from config.oidc import Oidc

AGAIN: Final = 10.0
FRESH: Final = 900.0
"""Seconds, a fifth more or less, until keys are fetched without a reason: a withdrawn one counts as long."""
WAIT: Final = 5.0
"""Seconds that a request waits for the issuer."""
MOST_WAITING: Final = 64
"""Requests that wait for keys. Others are refused at once, until the keys are there."""
_MOST_KNOWN: Final = 256
_REFUSED: Final = 1.0
"""Seconds that a refusal counts: a token whose time has not come yet may be good then."""
_log = logging.getLogger("sapwood.entrance")
_Found = TypeVar("_Found")


class Issuer:
    """Of one node, as its file says."""

    def __init__(self, site: Oidc) -> None:
        self._site = site
        self._keys: tuple[Key, ...] = ()
        self._known: OrderedDict[str, Asker] = OrderedDict()
        self._refused: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._wanted, self._moved = asyncio.Event(), asyncio.Event()
        self._waiting: set[asyncio.Future[None]] = set()
        self._said = ""

    def __repr__(self) -> str:
        return f"<Issuer {self._site.issuer} with {len(self._keys)} keys>"

    def become(self, other: "Issuer") -> None:
        """As the file says now: other roles, or another issuer, whose keys must come first."""
        if other._place != self._place:
            self._keys = ()
            self._moved.set()
            self._wanted.set()
        self._site = other._site
        self._forget()

    @property
    def _place(self) -> tuple[object, ...]:
        """Where its keys come from."""
        return self._site.issuer, self._site.ca

    def holder(self, token: str) -> Asker:
        """Raises `TokenRefused`."""
        key = hash_of(token)
        found = self._known.get(key)
        if found is not None and time.time() < found.until:
            self._known.move_to_end(key)
            return found
        self._refuse_again(key)
        try:
            found = asker_of(token, self._key(token), self._site)
        except TokenRefused as refused:
            _keep(self._refused, key, (str(refused), time.monotonic() + _REFUSED))
            raise
        _keep(self._known, key, found)
        return found

    def _refuse_again(self, key: str) -> None:
        why, until = self._refused.pop(key, ("", 0.0))
        if time.monotonic() < until:
            self._refused[key] = why, until
            raise TokenRefused(why)

    def _key(self, token: str) -> Key:
        found = heading_of(token).key_of(self._keys)
        if found is not None:
            return found
        self._wanted.set()
        if not self._keys:
            raise TokenRefused("the issuer's keys are not here yet: see this node's log")
        raise TokenRefused("the token is signed by no key of the issuer that is named here")

    async def ready(self, token: str) -> None:
        """Wait, for a while, where a token has a key that may have come new."""
        if not is_one(token):
            return
        try:
            if heading_of(token).key_of(self._keys) is not None:
                return
        except TokenRefused:
            return
        self._wanted.set()
        if len(self._waiting) >= MOST_WAITING:
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(told)
        try:
            await asyncio.wait((told,), timeout=WAIT)
        finally:
            self._waiting.discard(told)

    async def run(self, changed: Callable[[], None]) -> None:
        """Keep the keys fresh, as long as the node runs. `changed`: called when others have come."""
        while True:
            self._wanted.clear()
            self._moved.clear()
            if await self._fetch():
                changed()
            for each in self._waiting:
                if not each.done():
                    each.set_result(None)
            await _until(self._moved, AGAIN)
            if self._keys:
                await _until(self._wanted, FRESH * random.uniform(0.8, 1.2))

    async def _fetch(self) -> bool:
        """Whether other keys have come."""
        site, place = self._site, self._place
        try:
            keys = await fetch_keys(site)
        except IssuerError as error:
            self._say(logging.WARNING, f"! the issuer's keys cannot be had: {error}")
            if not isinstance(error, NoIssuerKeys):
                return False
            keys = ()
        if place != self._place:
            return False
        if keys:
            self._say(logging.INFO, f"= keys of the issuer {site.issuer}: {len(keys)}")
        if _published(keys) == _published(self._keys):
            return False
        self._keys = keys
        self._forget()
        return True

    def _forget(self) -> None:
        self._known.clear()
        self._refused.clear()

    def _say(self, level: int, text: str) -> None:
        """Once, until it is otherwise."""
        if text != self._said:
            self._said = text
            _log.log(level, "%s", text)


def _keep(known: OrderedDict[str, _Found], key: str, found: _Found) -> None:
    """The oldest goes for it."""
    known[key] = found
    if len(known) > _MOST_KNOWN:
        known.popitem(last=False)


def _published(keys: tuple[Key, ...]) -> list[tuple[object, ...]]:
    return [(key.kid, key.algorithms, key.public.public_numbers()) for key in keys]


async def _until(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
