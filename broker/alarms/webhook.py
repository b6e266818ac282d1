"""Tells a receiver of alarms: a POST of JSON for each event, again and again until it takes it.

Law: it never holds the node up. Events wait in a bounded queue; beyond it the oldest goes and is counted.
Law: only the site's file says where. Redirects are not followed, so no receiver sends the token elsewhere.
Law: address, token and key are secrets: errors and the status name the host alone.
Law: a signature covers the time of the request as well as its body, so that nobody repeats it later.

An answer of 2xx ends an event. So does one that would be the same next time: a redirect, and a refusal (4xx,
but for 408, 425 and 429); it is counted and is in the log. All else is tried again, with growing pauses.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from bridges.tls import TlsSettings, client_context
from broker.pauses import Growing
from config.alarm_rules import why_not_told
from config.credentials import webhook_secrets
from config.errors import ConfigurationError
from config.model import Site

if TYPE_CHECKING:
    from aiohttp import ClientSession

_log = logging.getLogger("sapwood.alarms")
MOST: Final = 1000
"""Events that wait at most."""
_TIMEOUT: Final = 15.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0
_AGAIN: Final = frozenset((408, 425, 429))
_ENDED: Final = "it ended the connection without an answer"
_WORDS: Final = {
    "ServerDisconnectedError": _ENDED,
    "ClientResponseError": "it answered something that is no HTTP",
}
_encode: Final = msgspec.json.Encoder().encode
Event = dict[str, Any]


class _NotTaken(Exception):
    """The receiver may take it later."""


class Receiver(msgspec.Struct, frozen=True, kw_only=True):
    """Where events go. `host`: what may be shown of it. `token`, `key`: '' = none."""

    uri: str
    host: str
    token: str
    key: str
    tls: ssl.SSLContext | None

    def __repr__(self) -> str:
        return f"<Receiver at {self.host}>"


def receiver_of(site: Site) -> Receiver | None:
    """None where the file names none. Raises `ConfigurationError`, `TlsError`."""
    webhook = site.alarms.webhook
    if not webhook.is_named:
        return None
    uri, token, key = (secret.reveal().strip() if secret else "" for secret in webhook_secrets(site))
    uri = uri or webhook.uri or ""
    if why := why_not_told(uri):
        raise ConfigurationError(f"alarms.webhook: {why}")
    parts = urlsplit(uri)
    tls = client_context(TlsSettings(ca=webhook.ca)) if parts.scheme == "https" else None
    host = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    return Receiver(uri=uri, host=host, token=token, key=key, tls=tls)


def signature(key: str, at: str, body: bytes) -> str:
    """As a receiver works it out: HMAC-SHA256 over the header Sapwood-Timestamp, a dot and the body."""
    return "sha256=" + hmac.new(key.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


class AlarmWebhook:
    """Of one receiver, None: nobody is told. `changed`: told when what waits has changed. `clock`: seconds
    since 1970."""

    def __init__(
        self,
        receiver: Receiver | None,
        waiting: Iterable[Event] = (),
        *,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
        first_pause: float = _FIRST_PAUSE,
    ) -> None:
        self._receiver = receiver
        self._turned = asyncio.Event()
        self._waiting = deque(waiting, maxlen=MOST)
        self._changed, self._clock = changed, clock
        self._pauses = Growing(first_pause, _LONGEST_PAUSE)
        self._came = asyncio.Event()
        self.sent = self.refused = self.dropped = 0
        self.error = ""

    def __repr__(self) -> str:
        return f"<AlarmWebhook to {self._host} waiting={len(self._waiting)}>"

    @property
    def _host(self) -> str:
        return self._receiver.host if self._receiver is not None else "nobody"

    @property
    def is_named(self) -> bool:
        """Is there a receiver?"""
        return self._receiver is not None

    def configure(self, receiver: Receiver | None) -> None:
        """From now on this one is told, also of what waits: at once, whatever pause there was."""
        self._receiver = receiver
        if receiver is None:
            self._waiting.clear()
        self.error = ""
        self._turned.set()
        self._changed()

    @property
    def waiting(self) -> list[Event]:
        """Events that were not taken yet, in the order in which they happened."""
        return list(self._waiting)

    def tell(self, event: Event) -> None:
        """Queue an event. Nothing where nobody is told."""
        if self._receiver is None:
            return
        if len(self._waiting) == MOST:
            self.dropped += 1
        self._waiting.append(event)
        self._came.set()
        self._changed()

    async def run(self) -> None:
        """Until cancelled."""
        async with AsyncExitStack() as stack:
            session: ClientSession | None = None
            while True:
                while self._waiting:
                    if session is None:
                        # Only here: a node that has nothing to tell loads no HTTP client.
                        session = await stack.enter_async_context(_session())
                    await self._deliver(session, self._waiting[0])
                self._came.clear()
                await self._came.wait()

    async def _deliver(self, session: "ClientSession", event: Event) -> None:
        self._turned.clear()
        retrying = AsyncRetrying(
            wait=self._pauses,
            retry=retry_if_exception_type(_NotTaken),
            before_sleep=self._failed,
            sleep=self._rest,
        )
        await retrying(self._post, session, event)
        if self._waiting and self._waiting[0] is event:  # else newer ones have pushed it out meanwhile
            self._waiting.popleft()
        self._changed()

    async def _rest(self, seconds: float) -> None:
        """Between two attempts; another receiver ends it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._turned.wait()
        self._turned.clear()

    async def _post(self, session: "ClientSession", event: Event) -> None:
        """Raises `_NotTaken`."""
        from aiohttp import ClientError

        body, receiver = _encode(event), self._receiver
        if receiver is None:
            return
        try:
            async with session.post(
                receiver.uri,
                data=body,
                headers=self._headers(receiver, event, body),
                ssl=receiver.tls if receiver.tls is not None else True,
                allow_redirects=False,
            ) as answer:
                status = answer.status
        except (ClientError, OSError, TimeoutError, ValueError) as error:
            raise _NotTaken(_why(error)) from None
        if 200 <= status < 300:
            self.sent += 1
            self._say("")
        elif 300 <= status < 500 and status not in _AGAIN:
            self.refused += 1
            redirect = ", and nobody follows a redirect: name the address that takes alarms"
            self._say(f"it refused an event with {status}{redirect if status < 400 else ''}")
        else:
            raise _NotTaken(f"it answered {status}")

    def _headers(self, receiver: Receiver, event: Event, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "sapwood",
            "Idempotency-Key": str(event["id"]),
        }
        if receiver.token:
            headers["Authorization"] = f"Bearer {receiver.token}"
        if receiver.key:
            at = str(int(self._clock()))
            headers["Sapwood-Timestamp"] = at
            headers["Sapwood-Signature"] = signature(receiver.key, at, body)
        return headers

    def _failed(self, attempt: RetryCallState) -> None:
        error = attempt.outcome.exception() if attempt.outcome is not None else None
        self._say(str(error or ""))

    def _say(self, error: str) -> None:
        """In the log, once for each new text."""
        if error and error != self.error:
            _log.warning("! the webhook at %s does not take alarms: %s", self._host, error)
        elif self.error and not error:
            _log.info("= the webhook at %s takes alarms again", self._host)
        self.error = error

    def status(self) -> dict[str, Any]:
        return {
            "host": self._host,
            "waiting": len(self._waiting),
            "sent": self.sent,
            "refused": self.refused,
            "dropped": self.dropped,
            "error": self.error,
        }


def _session() -> "ClientSession":
    from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

    return ClientSession(
        timeout=ClientTimeout(total=_TIMEOUT),
        connector=TCPConnector(limit=1, keepalive_timeout=_TIMEOUT),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
    )


def _why(error: BaseException) -> str:
    """For people, without the address: what some libraries say has all of it."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    certificate = getattr(error, "certificate_error", None)
    if isinstance(certificate, ssl.SSLCertVerificationError):
        return f"its certificate: {certificate.verify_message}"
    cause = getattr(error, "os_error", error)
    if isinstance(cause, OSError) and cause.strerror:
        # Of one that ends a connection as an event is written, aiohttp says the address there.
        return cause.strerror if "://" not in cause.strerror else _ENDED
    name = type(error).__name__
    return _WORDS.get(name, name)
