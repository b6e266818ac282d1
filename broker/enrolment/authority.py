"""The files of an inviting node's certificate authority, and the TLS of its port, which is made from them.

    authority.key        the private key; whoever reads it can be any child: mode 0600, never copied or logged
    authority.pem        its certificate; its fingerprint is in every token
    also-trusted.pem     further authorities, while one takes the place of another (may be absent)
    port.pem             the certificate of this node's own port, and its key; made anew when it is due

Law: what children trust, and what the port trusts of children, is `trusted`: the authority, those beside it,
and those of the other nodes of the mesh. No private key ever leaves its node.
Law: each handshake goes by what is trusted then. Wrinkle: OpenSSL takes no authority away from a context, so
each connection is given the present one when its first message has come (`ChangingContext`).
"""

import logging
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from bridges import certificates
from bridges.certificates import Authority, CertificateError
from bridges.tls import ChangingContext, TlsError, server_context
from broker.enrolment.errors import EnrolmentError
from broker.enrolment.files import private_folder
from config.model import Site
from config.uris import address
from config.whole_files import PRIVATE, PUBLIC, put

_log = logging.getLogger("sapwood.enrolment")
PLAUSIBLE: Final = 1_704_067_200.0
"""Seconds since 1970 of 2024-01-01: a clock that says less was never set."""
PORT_LIFETIME: Final = 90 * 86_400.0
RENEW_AFTER: Final = 2 / 3
"""Share of a certificate's lifetime after which it is renewed."""
_KEY: Final = "authority.key"
_CERTIFICATE: Final = "authority.pem"
_BESIDE: Final = "also-trusted.pem"
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - names of no host


class KeptAuthority:
    """Opened, or made, at the start of a node. Raises `EnrolmentError`. `clock`: seconds since 1970."""

    def __init__(self, folder: Path, site: Site, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._site = site
        self._clock = clock
        try:
            private_folder(folder)
            self.authority = self._opened()
            self.own = self.trusted = self._own()
            self._others: tuple[bytes, ...] = ()
            self.fingerprint = certificates.fingerprint(self.authority.certificate)
            self._port = self._port_certificate()
            self._tls = ChangingContext(lambda: self._context(self.trusted))
        except (OSError, CertificateError) as error:
            raise _unusable(folder, error) from None

    def __repr__(self) -> str:
        return f"<KeptAuthority {self.folder} {self.fingerprint.hex()[:16]}>"

    def _opened(self) -> Authority:
        found = _lying_in(self.folder)
        if found is not None:
            return found
        key_file, file = self.folder / _KEY, self.folder / _CERTIFICATE
        if self._clock() < PLAUSIBLE:
            year = time.gmtime(self._clock()).tm_year
            raise CertificateError(f"the clock of this machine says {year}: set it, then start again")
        if not key_file.exists():
            put(key_file, certificates.make_key(), PRIVATE)
            _log.info("= made a certificate authority in %s: keep a copy of it in a safe place", self.folder)
        key = key_file.read_bytes()
        put(file, Authority.certify(key, self._site.name, self._site.tree, self._clock()), PUBLIC)
        return Authority(key, file.read_bytes())

    def trust(self, others: Iterable[bytes]) -> None:
        """Trust the authorities of the other nodes of the mesh, too, these and no further ones.

        Raises `CertificateError`, `OSError`; nothing has changed then, until `look_again`.
        """
        self._others = tuple(others)
        self._trust(self.own)

    def look_again(self) -> bool:
        """Look again which authorities lie beside this one. Is anybody else trusted now?

        Raises `CertificateError`, `OSError`.
        """
        before = self.trusted
        self._trust(self._own())
        return self.trusted != before

    def _trust(self, own: bytes) -> None:
        mine = certificates.split(own)
        more = {each for pem in self._others for each in certificates.split(pem)}
        trusted = b"".join([*mine, *sorted(more.difference(mine))])
        if trusted != self.trusted:
            self._tls.become(self._context(trusted))
        self.own, self.trusted = own, trusted

    def _own(self) -> bytes:
        return b"".join([self.authority.certificate, *_beside(self.folder)])

    # --- the port

    @property
    def context(self) -> ssl.SSLContext:
        """To listen with."""
        return self._tls.context

    def _context(self, trusted: bytes) -> ssl.SSLContext:
        """Asks for children's certificates."""
        try:
            context = server_context(self.folder / "port.pem", None, self.folder / "authority.pem")
        except TlsError as error:
            raise CertificateError(str(error)) from None
        context.load_verify_locations(cadata=trusted.decode("ascii"))
        return context

    def _port_certificate(self) -> certificates.Facts:
        """That which lies there, unless it is due, or damaged."""
        file = self.folder / "port.pem"
        try:
            found = certificates.facts(file.read_bytes()) if file.exists() else None
        except CertificateError as error:
            _log.warning("! %s is made anew: %s", file, error)
            found = None
        if found and found.hosts == self._hosts() and not self._is_due(found) and self._is_ours(file):
            return found
        return self._new_port_certificate()

    def _is_ours(self, file: Path) -> bool:
        return certificates.is_issued_by(file.read_bytes(), self.authority.certificate)

    def _new_port_certificate(self) -> certificates.Facts:
        site = self._site
        made = self.authority.for_own_node(site.name, site.tree, self._hosts(), self._clock(), PORT_LIFETIME)
        put(self.folder / "port.pem", made, PRIVATE)
        return certificates.facts(made)

    def _hosts(self) -> frozenset[str]:
        """The hosts under which applications and browsers reach the port. Children need none of them."""
        site = self._site
        announced = {address(uri).host for uri in site.listener.announced}
        own = {site.name, "localhost", "127.0.0.1", "::1", site.listener.host}
        return frozenset(announced | own) - _EVERYWHERE

    def _is_due(self, found: certificates.Facts) -> bool:
        return not found.begins <= self._clock() < self._due(found)

    def _due(self, found: certificates.Facts) -> float:
        return found.ends - (1 - RENEW_AFTER) * PORT_LIFETIME

    def renew_port(self) -> float:
        """Give the port a new certificate where that is due; connections that are open go on.

        Returns when to come again, in seconds from now. Raises `CertificateError`, `OSError`.
        """
        if self._is_due(self._port):
            self._port = self._new_port_certificate()
            self._tls.become(self._tls.fresh())
            _log.info("= the port has a new certificate")
        return self._due(self._port) - self._clock()


def look_at(folder: Path) -> str:
    """How it stands there, in words. Nothing is changed. Raises `EnrolmentError` if it is of no use."""
    try:
        found, more = _lying_in(folder), len(_beside(folder))
    except (OSError, CertificateError) as error:
        raise _unusable(folder, error) from None
    beside = f", and {more} more that are trusted" if more else ""
    return "made at the first start" if found is None else f"can be read{beside}"


def _unusable(folder: Path, error: OSError | CertificateError) -> EnrolmentError:
    text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
    return EnrolmentError(f"the certificate authority in {folder} cannot be used: {text}")


def _lying_in(folder: Path) -> Authority | None:
    """None: its key, or its certificate, is to be made. Raises `OSError`, `CertificateError`."""
    if folder.exists() and not folder.is_dir():
        raise CertificateError("it is a file: expected a folder")
    key_file, file = folder / _KEY, folder / _CERTIFICATE
    if not key_file.exists():
        if file.exists():
            raise CertificateError(f"{_KEY} is gone: put it back, or move {_CERTIFICATE} away too")
        return None
    if key_file.stat().st_mode & 0o077:
        raise CertificateError(f"others can read {key_file}: chmod 600 {key_file}")
    if not file.exists():
        return None
    try:
        return Authority(key_file.read_bytes(), file.read_bytes())
    except CertificateError as error:
        raise CertificateError(f"{_KEY} and {_CERTIFICATE}: {error}; put the copy of both back") from None


def _beside(folder: Path) -> list[bytes]:
    """The further authorities, PEM."""
    file = folder / _BESIDE
    try:
        return certificates.split(file.read_bytes()) if file.exists() else []
    except CertificateError as error:
        raise CertificateError(f"{_BESIDE}: {error}") from None
