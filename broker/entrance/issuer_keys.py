"""The keys of an issuer, fetched where OpenID Connect Discovery 1.0 says they are.

Law: over TLS, or from this machine; no redirection is followed, no secret is sent. Bytes, keys and time are
bounded, so nothing is unpacked.
Law: the loop does not wait: what takes long is done in a thread.

Wrinkle: aiohttp is loaded when keys are first fetched. Most nodes name no issuer.
"""

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bridges.dialling import why_not
from bridges.tls import TlsError, TlsSettings, client_context
from broker.entrance.id_tokens import Key, keys_of
from config.oidc import Oidc, is_safe_issuer
from sapwood.protocol.errors import LocalError

if TYPE_CHECKING:
    import aiohttp

MAX_DOCUMENT: Final = 256 * 1024
PATIENCE: Final = 10.0
_SHOWN: Final = 300
_WHERE: Final = "/.well-known/openid-configuration"


class IssuerError(LocalError):
    """The issuer's keys cannot be had."""


class NoIssuerKeys(IssuerError):
    """The issuer itself says that none of its keys may sign."""


class _Metadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


async def fetch_keys(site: Oidc) -> tuple[Key, ...]:
    """Raises `IssuerError`."""
    where = issuer = site.issuer or ""
    try:
        aiohttp, context = await asyncio.to_thread(_prepared, site)
    except (TlsError, OSError) as error:
        raise IssuerError(str(error)) from None
    try:
        connector = aiohttp.TCPConnector(ssl=context, use_dns_cache=False, force_close=True)
        async with (
            asyncio.timeout(PATIENCE),
            aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            ) as session,
        ):
            where = await _where_keys_are(session, issuer)
            document = await _read(session, where)
    except (OSError, TimeoutError) as error:
        inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
        raise IssuerError(why_not(inner, where[:_SHOWN], seconds=PATIENCE)) from None
    except (aiohttp.ClientError, ValueError) as error:
        said = " ".join(str(error).split())
        raise IssuerError(f"{where[:_SHOWN]} did not answer as an issuer does: {said[:200]}") from None
    try:
        keys = await asyncio.to_thread(keys_of, document)
    except ValueError as error:
        raise IssuerError(f"{where}: {error}") from None
    if not keys:
        raise NoIssuerKeys(f"{where} has no key that may sign, of 2,048 bits or a curve that is known")
    return keys


def _prepared(site: Oidc) -> tuple[Any, ssl.SSLContext]:
    import aiohttp

    return aiohttp, client_context(TlsSettings(ca=site.ca))


async def _where_keys_are(session: "aiohttp.ClientSession", issuer: str) -> str:
    where = issuer.rstrip("/") + _WHERE
    document = await _read(session, where)
    try:
        found = msgspec.json.decode(document, type=_Metadata)
    except (msgspec.DecodeError, RecursionError) as error:
        raise IssuerError(f"{where} is no description of an issuer: {str(error)[:200]}") from None
    if found.issuer != issuer:
        raise IssuerError(
            f"the issuer at {issuer} calls itself {found.issuer[:200]!r}: write that, if it is the one"
        )
    if not is_safe_issuer(found.jwks_uri):
        raise IssuerError(f"{issuer} has its keys at {found.jwks_uri[:200]!r}: expected an https:// address")
    return found.jwks_uri


async def _read(session: "aiohttp.ClientSession", url: str) -> bytes:
    async with session.get(url, allow_redirects=False) as answer:
        if answer.status != 200:
            raise IssuerError(f"{url[:_SHOWN]} answered HTTP {answer.status}")
        data = bytearray()
        async for chunk in answer.content.iter_any():
            data += chunk
            if len(data) > MAX_DOCUMENT:
                raise IssuerError(f"{url[:_SHOWN]} answered more than {MAX_DOCUMENT} bytes")
        if "Content-Encoding" in answer.headers and not data.lstrip().startswith(b"{"):
            raise IssuerError(f"{url[:_SHOWN]} answered something packed: it was asked for none")
        return bytes(data)
