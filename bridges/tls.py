"""TLS contexts from files: towards a server that we dial, and for the node's own port.

Law: TLS 1.2 at least; the host's name is verified unless the site's file says otherwise; where a client
CA is given, a caller's certificate must come from it. Each request decides whether its caller must show one:
applications and browsers share the port with links. Errors name the file and what to do.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from config.files import read_plain
from sapwood.protocol.errors import LocalError
from treeconnector.identity import Shown

CERTIFICATE: Final = "it may ask for a client certificate, or not take ours: see its log, and `tls`"
"""Wrinkle: with TLS 1.3 a server refuses a certificate when the client takes itself for connected."""


_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
"""The words of OpenSSL, each version another, for a peer that does not speak TLS."""


def untimely(where: str, why: str) -> str:
    """Of a certificate that does not hold now, by the words of OpenSSL; '' of one that is wrong otherwise."""
    if "expired" in why:
        return f"the certificate of {where} has expired: renew it there (is the clock here right?)"
    if "not yet valid" in why:
        return f"the certificate of {where} does not hold yet: is the clock right, here and there?"
    return ""


class TlsError(LocalError):
    """A certificate, key or CA that cannot be used."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Towards a server. `ca` None: the system's authorities. `certificate` and `key`: this client's own.

    `server_name`: the name that the certificate must carry, where that is not the host dialled.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify_hostname: bool = True
    server_name: str = ""


def client_context(settings: TlsSettings | None = None) -> ssl.SSLContext:
    """A context for dialling. Raises `TlsError`."""
    settings = settings or TlsSettings()
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.verify_hostname
    if settings.ca:
        context = _trust_only(context, settings.ca)
    if settings.certificate or settings.key:
        _identify(context, settings.certificate, settings.key)
    return context


def server_context(
    certificate: Path | None, key: Path | None, client_ca: Path | None = None
) -> ssl.SSLContext:
    """A context for listening; with `client_ca` a client is asked for a certificate, and shows one from it or
    none: see `certified_names`. It gets no ticket then: with one it would show the certificate that it had.
    Wrinkle: a session of TLS 1.2 without a ticket can be gone on with for two hours; Python cannot forbid it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _identify(context, certificate, key)
    if client_ca:
        _load_ca(context, client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


class ChangingContext:
    """The context of a port whose files may be renewed meanwhile. `context`: to listen with.

    Law: a connection begins with the files as they were read last; one that is up stays as it is.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext]) -> None:
        """`make` reads the files. Raises what it raises."""
        self._make = make
        self._present = make()
        self.context = make()
        self.context.sni_callback = self._choose

    def __repr__(self) -> str:
        return f"<ChangingContext {self._present}>"

    def fresh(self) -> ssl.SSLContext:
        """The files as they are now, for `become`. Raises what `make` raises."""
        return self._make()

    def become(self, fresh: ssl.SSLContext) -> None:
        self._present = fresh

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, _host: str | None, _first: object) -> None:
        """Is asked for each connection, whatever host that names or none."""
        connection.context = self._present


def is_not_tls(error: object) -> bool:
    """Whether this says that the peer does not speak TLS."""
    return getattr(error, "reason", None) in _NOT_TLS


def certified_names(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """The names that a verified certificate, as `SSLSocket.getpeercert` gives it, says its holder has.

    Its common names and its DNS names, none without a certificate.
    """
    if not certificate:
        return frozenset()
    subject = [pair for group in certificate.get("subject", ()) for pair in group]
    common = (value for kind, value in subject if kind == "commonName")
    hosts = (value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS")
    return frozenset((*common, *hosts))


def serial_number(certificate: Mapping[str, Any] | None) -> int:
    """The serial number of such a certificate, 0 without one."""
    return int(certificate.get("serialNumber", "0"), 16) if certificate else 0


def shown_by(certificate: Mapping[str, Any] | None) -> Shown:
    """The facts that such a certificate tells of its holder."""
    return Shown(certified=certified_names(certificate), serial=serial_number(certificate))


def is_certified(name: str, names: frozenset[str]) -> bool:
    """Whether one of a certificate's names is a node's: the very name, or a host of that name in some domain.

    `york` is certified by `york` and by `york.example.com`; `york.example.com` only by itself.
    """
    return any(each == name or each.partition(".")[0] == name for each in names)


def _trust_only(context: ssl.SSLContext, ca: Path) -> ssl.SSLContext:
    """The same context, but with the given authorities instead of the system's."""
    fresh = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    fresh.minimum_version = context.minimum_version
    fresh.check_hostname = context.check_hostname
    fresh.verify_mode = ssl.CERT_REQUIRED
    _load_ca(fresh, ca)
    return fresh


def _load_ca(context: ssl.SSLContext, ca: Path) -> None:
    _readable(ca, "certificate authority")
    try:
        context.load_verify_locations(cafile=str(ca))
    except (ssl.SSLError, OSError) as error:
        raise TlsError(
            f"{ca} holds no certificate authority that can be read ({_reason(error)}): expected PEM text "
            "that begins with -----BEGIN CERTIFICATE-----"
        ) from None


def _identify(context: ssl.SSLContext, certificate: Path | None, key: Path | None) -> None:
    if not certificate:
        raise TlsError(f"the private key {key} has no certificate beside it: give `certificate` too")
    _readable(certificate, "certificate")
    if key:
        _readable(key, "private key")
    try:
        context.load_cert_chain(str(certificate), str(key) if key else None, password=_no_password)
    except _NeedsPassword:
        raise TlsError(
            f"the private key {key or certificate} is encrypted: store it decrypted in a file that only the "
            "node can read"
        ) from None
    except (ssl.SSLError, OSError) as error:
        raise TlsError(_what_is_wrong(certificate, key, error)) from None


def _what_is_wrong(certificate: Path, key: Path | None, error: OSError) -> str:
    reason = _reason(error)
    if "MISMATCH" in reason:
        return f"the private key {key or certificate} does not belong to the certificate {certificate}"
    if not key:
        return f"{certificate} holds no certificate with its private key ({reason}): give `key` too"
    return f"{certificate} and {key} are not a PEM certificate and its PEM private key ({reason})"


class _NeedsPassword(Exception):
    """The key is encrypted; a node starts without anybody to ask."""


def _no_password() -> str:
    raise _NeedsPassword


def _readable(path: Path, what: str) -> None:
    try:
        read_plain(path, 0)
    except OSError as error:
        raise TlsError(f"the {what} file {path} cannot be read: {error.strerror}") from None


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error)
