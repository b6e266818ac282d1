"""Keys, requests and certificates: what is taken, what is refused, and what nobody can pose as."""

import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from tls_in_memory import handshake

from bridges import certificates
from bridges.certificates import Authority, CertificateError
from bridges.tls import serial_number, server_context

NOW = float(int(time.time()))
DAY = 86_400.0
"""A suite may take long from its collection to these tests."""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return made_authority("hq")


def made_authority(name: str) -> Authority:
    key = certificates.make_key()
    return Authority(key, Authority.certify(key, name, "acme", NOW))


def child(authority: Authority, name: str = "york", lifetime: float = DAY) -> tuple[bytes, bytes]:
    key = certificates.make_key()
    request = certificates.read_request(certificates.make_request(key, name, "acme"))
    return key, authority.for_child(request, "acme", NOW, lifetime)


def test_a_certificate_says_what_was_asked_for(authority: Authority) -> None:
    key, certificate = child(authority, "york_2..x", 600.0)
    found = certificates.facts(certificate)
    assert (found.name, found.begins, found.ends) == ("york_2..x", NOW, NOW + 600)
    assert found.key == certificates.public_key(key)
    assert certificates.is_issued_by(certificate, authority.certificate)
    assert not certificates.is_issued_by(certificate, made_authority("hq").certificate)


def test_a_serial_number_tells_the_key_and_is_never_the_same(authority: Authority) -> None:
    key = certificates.make_key()
    request = certificates.read_request(certificates.make_request(key, "york", "acme"))
    serials = {
        x509.load_pem_x509_certificate(authority.for_child(request, "acme", NOW, 60)).serial_number
        for _ in range(3)
    }
    assert len(serials) == 3
    assert {certificates.mark_of(serial) for serial in serials} == {
        certificates.serial_mark(certificates.public_key(key))
    }


def test_a_request_is_for_a_key_of_ours_and_signed_with_it() -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "york")])
    strange = rsa.generate_private_key(65537, 2048)
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(strange, hashes.SHA256())
    with pytest.raises(CertificateError, match="another kind of key: expected ECDSA on P-256"):
        certificates.read_request(request.public_bytes(Encoding.PEM))
    with pytest.raises(CertificateError, match="no certificate request in PEM"):
        certificates.read_request(
            b"-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n"
        )
    with pytest.raises(CertificateError, match="expected 8192 at most"):
        certificates.read_request(b"a" * 8193)


def test_a_request_with_another_key_put_in_is_refused() -> None:
    one = x509.load_pem_x509_csr(certificates.make_request(certificates.make_key(), "york", "acme"))
    other = certificates.public_key(certificates.make_key())
    own = one.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    swapped = one.public_bytes(Encoding.DER).replace(own, other)
    pem = ssl.DER_cert_to_PEM_cert(swapped).replace("CERTIFICATE", "CERTIFICATE REQUEST")
    with pytest.raises(CertificateError, match="not signed with the key that it names"):
        certificates.read_request(pem.encode())


def test_a_request_names_one_node() -> None:
    key = certificates._private(certificates.make_key())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in ("york", "bath")]
    request = (
        x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    )
    with pytest.raises(CertificateError, match="2 common names: expected one"):
        certificates.read_request(request.public_bytes(Encoding.PEM))


def test_what_is_signed_is_proved_with_the_public_key_only_for_that_text() -> None:
    key = certificates.make_key()
    signature = certificates.sign(key, b"this")
    certificates.check_signature(certificates.public_key(key), signature, b"this")
    for public, text in ((key, b"that"), (certificates.make_key(), b"this")):
        with pytest.raises(CertificateError, match="not of the key that this name has"):
            certificates.check_signature(certificates.public_key(public), signature, text)


def test_a_key_stands_in_no_repr_and_no_error(authority: Authority) -> None:
    key = certificates.make_key()
    assert "PRIVATE" not in repr(authority)
    with pytest.raises(CertificateError) as caught:
        Authority(key, authority.certificate)
    assert str(caught.value) == "the authority's key does not belong to its certificate"
    with pytest.raises(CertificateError, match=r"^no private key in PEM without a password$"):
        certificates.sign(key[:-60], b"")


# --- on a line


def trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=authority.certificate.decode())
    return context


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_python_tells_the_serial_number_of_a_caller(authority: Authority, tmp_path: Path) -> None:
    own = written(tmp_path / "own.pem", authority.for_own_node("hq", "acme", {"127.0.0.1"}, NOW, DAY))
    key, certificate = child(authority)
    client = trusting(authority)
    client.load_cert_chain(written(tmp_path / "york.pem", certificate + key))
    server = server_context(own, None, written(tmp_path / "ca.pem", authority.certificate))
    far, _ = handshake(server, client)
    number = serial_number(far.getpeercert())
    assert certificates.mark_of(number) == certificates.serial_mark(certificates.public_key(key))
    assert serial_number(None) == serial_number({}) == 0


def test_no_child_can_pose_as_the_node_itself(authority: Authority, tmp_path: Path) -> None:
    """Its certificate is from the same authority, but not of a server."""
    key, certificate = child(authority, "hq")
    server = server_context(written(tmp_path / "york.pem", certificate + key), None)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)unsuitable certificate purpose|unsupported"):
        handshake(server, trusting(authority))


def test_the_nodes_own_certificate_is_no_childs(authority: Authority, tmp_path: Path) -> None:
    own = written(tmp_path / "own.pem", authority.for_own_node("hq", "acme", {"hq"}, NOW, DAY))
    client = trusting(authority)
    client.load_cert_chain(own)
    server = server_context(own, None, written(tmp_path / "ca.pem", authority.certificate))
    with pytest.raises(ssl.SSLError, match=r"(?i)unsuitable certificate purpose|unsupported|verify failed"):
        handshake(server, client)
