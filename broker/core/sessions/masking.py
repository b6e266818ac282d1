"""A session's token as it may be shown: enough to tell sessions apart, not enough to be one."""

import hmac
import secrets
from functools import lru_cache
from typing import Final

from broker.core.messages.queue_names import SITE

_KEY: Final = secrets.token_bytes(16)
_SHOWN: Final = 4


@lru_cache(maxsize=4096)
def masked(token: str) -> str:
    """The token's beginning (four characters, of a short one less) and a hash, as `till…5f3a09c1`.

    The same token looks the same until this process ends; the hash is keyed, so that nobody can try tokens.
    """
    if token == SITE:
        return SITE[1:]
    digest = hmac.digest(_KEY, token.encode(errors="replace"), "sha256").hex()[:8]
    return f"{token[: min(_SHOWN, len(token) // 2)]}…{digest}"
