"""Asks a parent over https, at the port where its children dial.

Law: nothing is said before it is known who listens. A fresh machine knows the parent by the fingerprint of
its authority alone: it fetches the authorities from whoever answers, keeps the one with the fingerprint, and
connects anew, trusting that one only. The host's name counts for nothing: addresses change, and only the
parent's own port has a certificate *of a server* from its authority.
"""

import asyncio
import hmac
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from bridges import certificates
from bridges.certificates import CertificateError
from broker.enrolment.errors import EnrolmentError, EnrolmentRefused, ParentUnreachable
from broker.enrolment.messages import AUTHORITIES_PATH, MAX_ANSWER, Granted

TIMEOUT: Final = 15.0
_FINAL: Final = range(400, 500)
_BUSY: Final = 429


class NotTheParent(EnrolmentError):
    """Who answers is not the parent that was meant: somebody on the way, or another node at its address."""


def base_of(way: str) -> str:
    """https://HOST:PORT of a way that leads to a port with TLS."""
    return f"https://{urlsplit(way).netloc}"


async def trusted_authority(way: str, fingerprint: bytes) -> ssl.SSLContext:
    """A context that trusts the authority with this fingerprint alone, fetched from the parent.

    Raises `ParentUnreachable`, or `NotTheParent` where nothing there has it.
    """
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname = False
    blind.verify_mode = ssl.CERT_NONE
    status, data = await _ask(base_of(way), "GET", AUTHORITIES_PATH, None, blind)
    if status != 200:
        raise _answered(status, data, way)
    for pem in _certificates(data, way):
        if hmac.compare_digest(certificates.fingerprint(pem), fingerprint):
            return context_for(pem)
    raise NotTheParent(
        f"{way} is not the parent that the token names: its authority has another fingerprint. Either"
        " somebody stands between (ask who runs the network), or the parent has a new authority: invite anew"
    )


def context_for(authorities: bytes) -> ssl.SSLContext:
    """Trusts these authorities (PEM) and nobody else, at any address. Raises `CertificateError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"no certificate authorities in PEM ({error})") from None
    return context


async def ask(way: str, path: str, body: msgspec.Struct, context: ssl.SSLContext) -> Granted:
    """Post a request and read what is granted.

    Raises `EnrolmentRefused`, `ParentUnreachable`, `NotTheParent`.
    """
    status, data = await _ask(base_of(way), "POST", path, msgspec.json.encode(body), context)
    if status != 200:
        raise _answered(status, data, way)
    try:
        return msgspec.json.decode(data, type=Granted)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ParentUnreachable(f"{way} answered with something else than a certificate ({error})") from None


async def _ask(
    base: str, method: str, path: str, body: bytes | None, context: ssl.SSLContext
) -> tuple[int, bytes]:
    try:
        async with asyncio.timeout(TIMEOUT), _session(context) as session:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            async with session.request(
                method, base + path, data=body, headers=headers, allow_redirects=False
            ) as answer:
                return answer.status, await _bounded(answer.content.iter_any)
    except aiohttp.ClientConnectorCertificateError as error:
        raise _untrusted(base, error.certificate_error) from None
    except TimeoutError:
        raise ParentUnreachable(f"{base} did not answer within {TIMEOUT:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        inner = getattr(error, "os_error", None) or error
        text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
        raise ParentUnreachable(f"{base} cannot be reached: {text}") from None


def _untrusted(base: str, error: BaseException) -> EnrolmentError:
    why = getattr(error, "verify_message", "") or str(error)
    if "expired" in why or "not yet valid" in why:
        return ParentUnreachable(
            f"the certificate of {base} is not good at this time ({why}): is the clock right?"
        )
    return NotTheParent(
        f"{base} is not the parent: its certificate is not from the parent's authority ({why}). Somebody"
        " stands between, or another node has that address"
    )


@asynccontextmanager
async def _session(context: ssl.SSLContext) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=context, limit=1, use_dns_cache=False, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        yield session


async def _bounded(chunks: Callable[[], Any]) -> bytes:
    data = bytearray()
    async for chunk in chunks():
        data += chunk
        if len(data) > MAX_ANSWER:
            raise aiohttp.ClientPayloadError(f"an answer of more than {MAX_ANSWER} bytes")
    return bytes(data)


def _certificates(data: bytes, way: str) -> list[bytes]:
    try:
        return certificates.split(data)
    except CertificateError:
        raise NotTheParent(
            f"{way} answered with something else than its authorities: is it a Sapwood node?"
        ) from None


def _answered(status: int, data: bytes, way: str) -> EnrolmentError:
    """What an answer other than 200 means."""
    try:
        found = msgspec.json.decode(data, type=dict[str, str])
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = {}
    text = found.get("text", "")[:1000]
    if status in _FINAL and status != _BUSY and text:
        return EnrolmentRefused(found.get("code", "REFUSED"), text)
    if status == 404:
        return ParentUnreachable(f"{way}: nobody is invited there (its file says no enrolment authority)")
    return ParentUnreachable(f"{way} answered HTTP {status}: {text or 'no reason given'}")
