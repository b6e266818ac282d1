"""X.509 with the library `cryptography`: keys, requests, and the small authority of an inviting node.

Law: a private key is handed round as PEM bytes only between files and these functions; no error and no `repr`
shows one. All keys are ECDSA on P-256. What comes from outside (a request) is read by `read_request`, which
proves that the caller has the key, and takes the name and the key from it and nothing else.
Law: the authority gives certificates *of servers* only to its own node, and certificates *of clients* to
children. So whoever trusts the authority knows by the kind of certificate that it talks to the inviting node,
whatever the address, and no child can pose as it.

Wrinkle: Python's ssl tells of a caller's certificate the serial number, but not the key. So the serial begins
with a digest of the key (`serial_mark`), and ends in random bytes.
"""

import datetime
import hashlib
import ipaddress
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sapwood.protocol.errors import SapwoodError

MAX_REQUEST: Final = 8192
AUTHORITY_LIFETIME: Final = 20 * 365 * 86_400.0
SERVER_BACKDATE: Final = 86_400.0
"""Seconds: children whose clock is behind take the node's own certificate all the same."""
_MARK_BYTES: Final = 12
_RANDOM_BYTES: Final = 7
_SIGNED: Final = ec.ECDSA(hashes.SHA256())
_UNREADABLE: Final = (ValueError, x509.InvalidVersion, TypeError, InvalidSignature, UnsupportedAlgorithm)


class CertificateError(SapwoodError):
    """Bytes that are no certificate, key or request of the kind expected; or a signature that is wrong."""


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """What a request says once its signature is proved. `key`: the public key (SubjectPublicKeyInfo, DER)."""

    name: str
    key: bytes
    der: bytes


@dataclass(frozen=True, slots=True)
class Facts:
    """Of a certificate. `begins`, `ends`: seconds since 1970. `key`: as of a `CertificateRequest`."""

    name: str
    key: bytes
    begins: float
    ends: float
    hosts: frozenset[str]


def make_key() -> bytes:
    """A new private key, PEM. Keep it in a file that only its owner reads."""
    return _private_pem(ec.generate_private_key(ec.SECP256R1()))


def make_request(key: bytes, name: str, tree: str) -> bytes:
    """A request (PEM) for a certificate of `name`, signed with the private key. Raises `CertificateError`."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(name, tree))
    return builder.sign(_private(key), hashes.SHA256()).public_bytes(Encoding.PEM)


def read_request(pem: bytes) -> CertificateRequest:
    """Check a request that came from outside. Raises `CertificateError`."""
    if len(pem) > MAX_REQUEST:
        raise CertificateError(f"a certificate request of {len(pem)} bytes: expected {MAX_REQUEST} at most")
    try:
        request = x509.load_pem_x509_csr(pem)
        key, signed = request.public_key(), request.is_signature_valid
        names = [str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except _UNREADABLE as error:
        raise CertificateError(f"this is no certificate request in PEM ({error})") from None
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        raise CertificateError("a certificate request with another kind of key: expected ECDSA on P-256")
    if not signed:
        raise CertificateError("the certificate request is not signed with the key that it names")
    if len(names) != 1:
        raise CertificateError(f"a certificate request with {len(names)} common names: expected one")
    return CertificateRequest(names[0], _public_der(key), request.public_bytes(Encoding.DER))


def sign(key: bytes, text: bytes) -> bytes:
    """Prove with the private key that its holder says this text."""
    return _private(key).sign(text, _SIGNED)


def check_signature(key: bytes, signature: bytes, text: bytes) -> None:
    """Check what `sign` made, with the public key (DER). Raises `CertificateError`."""
    public = load_der_public_key(key)
    assert isinstance(public, ec.EllipticCurvePublicKey)
    try:
        public.verify(signature, text, _SIGNED)
    except InvalidSignature:
        raise CertificateError("the signature is not of the key that this name has") from None


def public_key(key: bytes) -> bytes:
    """The public half (DER) of a private key (PEM). Raises `CertificateError`."""
    return _public_der(_private(key).public_key())


def serial_mark(key: bytes) -> int:
    """What the serial numbers of all certificates for a public key (DER) begin with."""
    return int.from_bytes(hashlib.sha256(key).digest()[:_MARK_BYTES], "big")


def mark_of(serial: int) -> int:
    """The beginning of a serial number, to be compared with `serial_mark`."""
    return serial >> (8 * _RANDOM_BYTES)


def fingerprint(pem: bytes) -> bytes:
    """SHA-256 of the first certificate in PEM text. Raises `CertificateError`."""
    return hashlib.sha256(_certificate(pem).public_bytes(Encoding.DER)).digest()


def split(pem: bytes) -> list[bytes]:
    """Each certificate in PEM text by itself. Raises `CertificateError`."""
    try:
        return [each.public_bytes(Encoding.PEM) for each in x509.load_pem_x509_certificates(pem)]
    except _UNREADABLE as error:
        raise CertificateError(f"no certificates in PEM ({error})") from None


def facts(pem: bytes) -> Facts:
    """What the first certificate in PEM text says. Raises `CertificateError`."""
    certificate = _certificate(pem)
    try:
        return _facts(certificate)
    except (*_UNREADABLE, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise CertificateError(f"a certificate that cannot be read ({error})") from None


def _facts(certificate: x509.Certificate) -> Facts:
    """Wrinkle: what is in a certificate is parsed only when it is asked for, and may be nonsense."""
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise CertificateError("a certificate with another kind of key: expected ECDSA")
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    try:
        hosts = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        hosts = x509.SubjectAlternativeName([])
    return Facts(
        name=str(names[0].value) if names else "",
        key=_public_der(key),
        begins=certificate.not_valid_before_utc.timestamp(),
        ends=certificate.not_valid_after_utc.timestamp(),
        hosts=frozenset(str(each.value) for each in hosts),
    )


def is_issued_by(pem: bytes, authority: bytes) -> bool:
    """Whether the first certificate in PEM text is from an authority (PEM)."""
    try:
        _certificate(pem).verify_directly_issued_by(_certificate(authority))
    except _UNREADABLE:
        return False
    return True


class Authority:
    """Gives certificates. Made from its key and its certificate; `certify` makes the latter."""

    def __init__(self, key: bytes, certificate: bytes) -> None:
        """PEM both. Raises `CertificateError`."""
        self._key = _private(key)
        self._own = _certificate(certificate)
        self.certificate = self._own.public_bytes(Encoding.PEM)
        if _public_der(self._key.public_key()) != facts(certificate).key:
            raise CertificateError("the authority's key does not belong to its certificate")

    def __repr__(self) -> str:
        return f"<Authority {self._own.subject.rfc4514_string()}>"

    @staticmethod
    def certify(key: bytes, name: str, tree: str, now: float) -> bytes:
        """The certificate of a new authority with that private key, PEM both. `now`: seconds since 1970."""
        private = _private(key)
        subject = _subject(f"authority of {name}"[:64], tree)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(subject, subject, private.public_key(), now - SERVER_BACKDATE, now + AUTHORITY_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(private, hashes.SHA256())
        )
        return certificate.public_bytes(Encoding.PEM)

    def for_child(self, request: CertificateRequest, tree: str, now: float, lifetime: float) -> bytes:
        """A certificate of a client (PEM) for the name and key of a request."""
        key = load_der_public_key(request.key)
        assert isinstance(key, ec.EllipticCurvePublicKey)
        hosts = [x509.DNSName(request.name)]
        return self._issue(_subject(request.name, tree), key, now, now + lifetime, hosts, server=False)

    def for_own_node(self, name: str, tree: str, hosts: Iterable[str], now: float, lifetime: float) -> bytes:
        """A certificate of a server with its key (PEM both), for this node itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        begins, ends = now - SERVER_BACKDATE, now + lifetime
        named = [_general_name(host) for host in sorted(hosts)]
        made = self._issue(_subject(name, tree), key.public_key(), begins, ends, named, server=True)
        return made + _private_pem(key)

    def _issue(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        begins: float,
        ends: float,
        hosts: Sequence[x509.GeneralName],
        *,
        server: bool,
    ) -> bytes:
        kind = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            _builder(subject, self._own.subject, key, begins, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([kind]), critical=True)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return made.public_bytes(Encoding.PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: float, ends: float
) -> x509.CertificateBuilder:
    serial = (serial_mark(_public_der(key)) << (8 * _RANDOM_BYTES)) | secrets.randbits(8 * _RANDOM_BYTES)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(_time(begins))
        .not_valid_after(_time(ends))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str, tree: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, tree),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _time(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(at), datetime.UTC)


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        raise CertificateError("no private key in PEM without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("another kind of private key: expected ECDSA on P-256")
    return key


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _public_der(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except _UNREADABLE as error:
        raise CertificateError(f"no certificate in PEM ({error})") from None
