"""Why a WebSocket could not be dialled, or has ended, in words that help."""

import os
import socket
import ssl
from typing import Final

from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.http11 import Response

from bridges.carriers.base import CarrierBroken, CarrierBusy, CarrierEnded, CarrierError
from bridges.tls import TlsSettings, is_not_tls, untimely

_WELL: Final = (1000, 1001)
_BUSY: Final = 1013


class Unanswered(Exception):
    """The connection ended before the answer. `cause`: what the transport said, None = nothing."""

    def __init__(self, cause: Exception | None) -> None:
        super().__init__(str(cause or "without an answer"))
        self.cause = cause


def end_of(peer: str, code: int, reason: str) -> CarrierError:
    """Why there will be no further packets."""
    reason = reason or "no reason given"
    if code == _BUSY:
        return CarrierBusy(f"{peer} cannot take us now: {reason}")
    if code in _WELL:
        return CarrierEnded(f"{peer} closed the connection: {reason}")
    return CarrierBroken(f"{peer} gave the connection up with code {code}: {reason}")


def explain(error: BaseException, uri: str, timeout: float, tls: TlsSettings | None) -> CarrierError:
    """Say in words that help why dialling failed."""
    if isinstance(error, Unanswered):
        if error.cause is None and not uri.startswith("wss"):
            return CarrierBroken(f"{uri} ended the connection: does its port speak TLS? Then write wss://")
        if error.cause is None or isinstance(error.cause, ConnectionError):
            return _ended_early(error.cause or error, uri, tls)
        error = error.cause
    match error:
        case ssl.SSLCertVerificationError():
            return CarrierBroken(_explain_certificate(error, uri))
        case ssl.SSLError():
            return CarrierBroken(f"TLS with {uri} failed: {_first(error)}{_tls_hint(error, tls, uri)}")
        case socket.gaierror():
            return CarrierBroken(f"{uri}: its host is not known to DNS ({_first(error)})")
        case TimeoutError():
            return CarrierBroken(f"{uri} did not answer within {timeout:g} s")
        case InvalidStatus():
            return explain_status(error.response, uri, tls)
        case InvalidHandshake():
            return CarrierBroken(
                f"{uri} is no WebSocket: {error}. Does its port speak TLS? Then write wss://"
            )
        case ConnectionResetError() | ConnectionAbortedError() if uri.startswith("wss"):
            return _ended_early(error, uri, tls)
        case _:
            return CarrierBroken(f"{uri} cannot be reached: {_first(error)}")


def _ended_early(error: BaseException, uri: str, tls: TlsSettings | None) -> CarrierError:
    return CarrierBroken(
        f"{uri} ended the connection in the handshake: {_first(error)}{_certificate_hint(tls, uri)}"
    )


def explain_status(answer: Response, uri: str, tls: TlsSettings | None) -> CarrierError:
    status = answer.status_code
    if 300 <= status < 400:
        where = next(iter(answer.headers.get_all("Location")), "elsewhere")
        return CarrierBroken(f"{uri} redirects to {where}, which links do not follow")
    if status in (429, 503):
        return CarrierBusy(f"{uri} cannot take us now (HTTP {status}); try later")
    hint = {
        401: "it asks for a credential" + _certificate_hint(tls, uri),
        403: "it refuses us (a leaf takes no children)",
        404: "there is nothing at that path: links live at /link",
    }.get(status, "is it a Sapwood node, and is the path /link?")
    return CarrierBroken(f"{uri} answered HTTP {status} instead of opening a WebSocket: {hint}")


def _explain_certificate(error: Exception, uri: str) -> str:
    why = getattr(error, "verify_message", "") or str(error)
    if text := untimely(uri, why):
        return text
    if "match" in why.lower() or "not valid for" in why:
        return f"the certificate of {uri} is for another host ({why}): dial the name that it carries"
    return f"the certificate of {uri} is not trusted ({why}): name its authority in the setting `ca`"


def _tls_hint(error: BaseException, tls: TlsSettings | None, uri: str) -> str:
    if is_not_tls(error):
        return (
            "; its port speaks ws only: write ws:// (in a record of DNS: carrier=ws), or give the parent's"
            " listener a certificate"
        )
    return _certificate_hint(tls, uri)


def _certificate_hint(tls: TlsSettings | None, uri: str) -> str:
    if not uri.startswith("wss") or (tls and tls.certificate):
        return ""
    return "; it may ask for a client certificate: give `certificate` and `key`"


def _first(error: BaseException) -> str:
    text = str(getattr(error, "strerror", None) or error) or type(error).__name__
    if isinstance(error, OSError) and error.errno and text.startswith("Connect call failed"):
        return os.strerror(error.errno)  # asyncio puts its own words in the place of the system's
    return text
