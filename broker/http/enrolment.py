"""Where nodes join and renew: three paths that answer without a token, since who asks has none yet.

Law: what comes is bounded before it is read, and each address has a few tries only; an answer to who has
proved nothing tells nothing. To ask for the authorities is no try: they are public, and of many who ask from
one address nobody had a try left to join with.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from aiohttp import web

from broker.enrolment.errors import STATUS, EnrolmentRefused
from broker.enrolment.messages import (
    AUTHORITIES_PATH,
    JOIN_PATH,
    MAX_BODY,
    RENEW_PATH,
    Granted,
    Join,
    Renew,
)
from broker.http.guard import address, from_a_web_page
from broker.intake.addresses import network_of

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry

Asked = TypeVar("Asked", Join, Renew)
TRIES: Final = 30
"""That one address has at once."""
PER_SECOND: Final = 0.5
"""Tries that come back to it each second."""
_MOST_ADDRESSES: Final = 4096
_SLOWEST: Final = 10.0


class RequestAllowance:
    """How many requests each address may still make. `clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def __repr__(self) -> str:
        return f"<RequestAllowance of {len(self._left)} addresses>"

    def take(self, host: str) -> bool:
        """Whether `host` may make a request now; counts it."""
        now, network = self._clock(), network_of(host)
        left, at = self._left.pop(network, (float(TRIES), now))
        left = min(TRIES, left + (now - at) * PER_SECOND)
        while len(self._left) >= _MOST_ADDRESSES:
            del self._left[next(iter(self._left))]
        self._left[network] = (max(0.0, left - 1), now)
        return left >= 1


class EnrolmentEndpoint:
    """Handlers of `/enrol/…`."""

    def __init__(self, office: "Registry") -> None:
        self._office = office
        self._tries = RequestAllowance(asyncio.get_running_loop().time)

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get(AUTHORITIES_PATH, self.authorities, allow_head=False)
        router.add_post(JOIN_PATH, self.join)
        router.add_post(RENEW_PATH, self.renew)

    async def authorities(self, request: web.Request) -> web.StreamResponse:
        """The certificates to be trusted; who joins compares one with the fingerprint in its token."""
        try:
            _not_from_a_page(request)
        except EnrolmentRefused as error:
            return _error(error)
        return web.Response(body=self._office.authority.trusted, content_type="application/x-pem-file")

    async def join(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, Join, self._office.join)

    async def renew(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, Renew, self._office.renew)

    async def _answer(
        self, request: web.Request, kind: type[Asked], work: Callable[[Asked], Awaitable[Granted]]
    ) -> web.StreamResponse:
        try:
            self._admit(request)
            granted = await work(await self._read(request, kind))
        except EnrolmentRefused as error:
            return _error(error)
        return web.Response(body=msgspec.json.encode(granted), content_type="application/json")

    def _admit(self, request: web.Request) -> None:
        _not_from_a_page(request)
        if not self._tries.take(address(request).rpartition(":")[0]):
            raise EnrolmentRefused("BUSY", "too many tries from this address: wait a minute")

    async def _read(self, request: web.Request, kind: type[Asked]) -> Asked:
        if (request.content_length or 0) > MAX_BODY:
            raise EnrolmentRefused("BAD_REQUEST", f"expected {MAX_BODY} bytes at most")
        try:
            async with asyncio.timeout(_SLOWEST):
                data: Any = await _bounded(request)
            return msgspec.json.decode(data, type=kind)
        except TimeoutError:
            raise EnrolmentRefused("BAD_REQUEST", "the request came too slowly") from None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise EnrolmentRefused("BAD_REQUEST", f"the request is not what was expected: {error}") from None


def _not_from_a_page(request: web.Request) -> None:
    if from_a_web_page(request):
        raise EnrolmentRefused("REFUSED", "joining is for nodes, not for web pages")


async def _bounded(request: web.Request) -> bytes:
    """The body; a chunked one does not say its length beforehand."""
    data = bytearray()
    async for chunk in request.content.iter_any():
        data += chunk
        if len(data) > MAX_BODY:
            raise EnrolmentRefused("BAD_REQUEST", f"expected {MAX_BODY} bytes at most")
    return bytes(data)


def _error(error: EnrolmentRefused) -> web.Response:
    headers = {"Retry-After": "60"} if error.code == "BUSY" else {}
    body = {"code": error.code, "text": str(error)}
    return web.json_response(body, status=STATUS.get(error.code, 400), headers=headers)
