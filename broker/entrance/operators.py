"""Operators: who looks at a node and administrates it over HTTP, by a token each, and with a role.

Law: the node knows hashes of tokens, no token; and no name or role comes from anywhere but its file.
Wrinkle: an issuer that the file names proves names and groups; which group has which role says the file.
Law: a node that asked for tokens once asks for them until it ends. To take the last one out
of the file of a node that runs closes it, and opens it to nobody on this machine.
"""

import asyncio
import base64
import hashlib
import math
import secrets
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from config.operators import ROLES, Operator, Role
from sapwood.channels.pipes import until_first

_BITS: Final = 256
_SCHEME: Final = "sha256$"


class Asker(NamedTuple):
    """Whoever asks: of the file, of its issuer, or one of the two that each node knows by itself.

    `until`: when its token ends; seconds since 1970.
    """

    name: str
    role: Role
    until: float = math.inf

    def may(self, role: Role) -> bool:
        """Whether it may do what one of this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


HERE: Final = Asker("local", "administrator")
"""This very machine, where the file names neither a token nor an operator."""
_HOLDER: Final = Asker("token", "administrator")
"""Whoever has the one token that the file names (`token_file`, `token_env`)."""


class TokenRefused(Exception):
    """Why an issuer's token opens nothing, for its holder and the log."""


class IssuerPort(Protocol):
    """`broker.entrance.issuer.Issuer`. `holder` raises `TokenRefused`."""

    def become(self, other: Any) -> None: ...

    def holder(self, token: str) -> Asker: ...

    async def ready(self, token: str) -> None: ...

    async def run(self, changed: Callable[[], None]) -> None: ...


class Operators:
    """`token`: the one of the file that may do everything, '' = none. `listed`: the file's `operators`.

    `issuer`: whose tokens are taken, too.
    """

    def __init__(
        self, token: str = "", listed: Iterable[Operator] = (), issuer: IssuerPort | None = None
    ) -> None:
        self._known = {each.token_hash: Asker(each.name, each.role) for each in listed}
        if token:
            self._known[hash_of(token)] = _HOLDER
        self._issuer, self._another = issuer, asyncio.Event()
        self._closed = not self._is_empty
        self._changed: dict[object, Callable[[], None]] = {}

    def __repr__(self) -> str:
        return f"<Operators {len(self._known)}>"

    def become(self, others: "Operators") -> None:
        """Those of the file as it is now: all others may do nothing more, and what they have open ends."""
        self._known = others._known
        if self._issuer is not None and others._issuer is not None:
            self._issuer.become(others._issuer)
        else:
            self._issuer = others._issuer
            self._another.set()
        self._closed = self._closed or not self._is_empty
        self._tell()

    def _tell(self) -> None:
        for call in list(self._changed.values()):
            call()

    async def run(self) -> None:
        """Keep the issuer's keys, whichever the file names, as long as the node runs."""
        while True:
            self._another.clear()
            works: list[Coroutine[Any, Any, object]] = [self._another.wait()]
            if self._issuer is not None:
                works.append(self._issuer.run(self._tell))
            await until_first(*works)

    @contextmanager
    def when_changed(self, call: Callable[[], None]) -> Iterator[None]:
        """`call` it after each change, as long as this lasts."""
        key = object()
        self._changed[key] = call
        try:
            yield
        finally:
            del self._changed[key]

    @property
    def ask_all(self) -> bool:
        """Does each request need a token, those of this machine too?"""
        return self._closed

    @property
    def is_nobody(self) -> bool:
        """Is a token asked for that nobody has?"""
        return self._closed and self._is_empty

    @property
    def _is_empty(self) -> bool:
        return not self._known and self._issuer is None

    def holder(self, token: str) -> Asker | None:
        """The operator with this token, None = nobody. Hashes are compared, whose beginnings tell nothing."""
        found = self._known.get(hash_of(token)) if token else None
        if found is not None or not token or self._issuer is None:
            return found
        try:
            return self._issuer.holder(token)
        except TokenRefused:
            return None

    def why_nobody(self, token: str) -> str:
        """Why the issuer's word opens nothing to this token, which is none of the file's; '' = no issuer."""
        try:
            if self._issuer is not None:
                self._issuer.holder(token)
        except TokenRefused as refused:
            return str(refused)
        return ""

    async def ready(self, token: str) -> None:
        """Before a token is looked at: what it takes to know it may have to be fetched."""
        if self._issuer is not None:
            await self._issuer.ready(token)


def new_token() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(_BITS // 8)


def hash_of(token: str) -> str:
    """The text that stands in a node's file for a token."""
    digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
    return _SCHEME + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
