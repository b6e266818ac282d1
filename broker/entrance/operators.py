"""Operators: who looks at a node and administrates it over HTTP, by a token each, and with a role.

Law: the node knows hashes of tokens, no token; and no name or role comes from anywhere but its file.
Law: a node that asked for tokens once asks for them until it ends. To take the last one out
of the file of a node that runs closes it, and opens it to nobody on this machine.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from config.operators import ROLES, Operator, Role

_BITS: Final = 256
_SCHEME: Final = "sha256$"


class Asker(NamedTuple):
    """Whoever asks: of the file, or one of the two that each node knows by itself."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether it may do what one of this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


HERE: Final = Asker("local", "administrator")
"""This very machine, where the file names neither a token nor an operator."""
_HOLDER: Final = Asker("token", "administrator")
"""Whoever has the one token that the file names (`token_file`, `token_env`)."""


class Operators:
    """`token`: the one of the file that may do everything, '' = none. `listed`: the file's `operators`."""

    def __init__(self, token: str = "", listed: Iterable[Operator] = ()) -> None:
        self._known = {each.token_hash: Asker(each.name, each.role) for each in listed}
        if token:
            self._known[hash_of(token)] = _HOLDER
        self._closed = bool(self._known)
        self._changed: dict[object, Callable[[], None]] = {}

    def __repr__(self) -> str:
        return f"<Operators {len(self._known)}>"

    def become(self, others: "Operators") -> None:
        """Those of the file as it is now: all others may do nothing more, and what they have open ends."""
        self._known = others._known
        self._closed = self._closed or bool(self._known)
        for call in list(self._changed.values()):
            call()

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
        return self._closed and not self._known

    def holder(self, token: str) -> Asker | None:
        """The operator with this token, None = nobody. Hashes are compared, whose beginnings tell nothing."""
        return self._known.get(hash_of(token)) if token else None


def new_token() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(_BITS // 8)


def hash_of(token: str) -> str:
    """The text that stands in a node's file for a token."""
    digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
    return _SCHEME + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
