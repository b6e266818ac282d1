"""A session's token as it may be shown: enough to tell sessions apart, not enough to be one."""

import hmac
import re
from functools import lru_cache
from typing import Final

from broker.core.messages.queue_names import SITE

_SHOWN: Final = 4
_MASKED: Final = re.compile(r".{0,4}…[0-9a-f]{8}")

_keys: list[bytes] = []


def hide_with(key: bytes) -> None:
    """The key of this process; only the first one counts. Without one, who knows a token knows its hash."""
    if not _keys:
        _keys.append(key)
        masked.cache_clear()


@lru_cache(maxsize=4096)
def masked(token: str) -> str:
    """The token's beginning (four characters, of a short one less) and a hash, as `till…5f3a09c1`.

    The same token looks the same until this process ends; the hash is keyed (`hide_with`), so that nobody
    can try tokens.
    """
    if token == SITE:
        return SITE[1:]
    digest = hmac.digest(_keys[0] if _keys else b"", token.encode(errors="replace"), "sha256").hex()[:8]
    return f"{token[: min(_SHOWN, len(token) // 2)]}…{digest}"


def hidden(text: str) -> str:
    """The same of a text that may be a token as it is, or masked already."""
    return text if _MASKED.fullmatch(text) else masked(text)
