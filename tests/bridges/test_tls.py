"""TLS from files: what is trusted, what is refused, and what the errors say."""

import ssl
from pathlib import Path

import pytest
import trustme
from tls_in_memory import handshake

from bridges.tls import TlsError, TlsSettings, certified_names, client_context, is_certified, server_context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name in ("one", "two"):
        leaf = authority.issue_cert("localhost", "127.0.0.1")
        leaf.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        leaf.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    (folder / "garbage.pem").write_text("not a certificate")
    return folder


def test_a_client_needs_tls_1_2_a_trusted_certificate_and_the_right_name() -> None:
    context = client_context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_a_given_authority_replaces_the_systems(files: Path) -> None:
    context = client_context(TlsSettings(ca=files / "ca.pem"))
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_the_name_alone_can_be_left_unverified(files: Path) -> None:
    context = client_context(TlsSettings(ca=files / "ca.pem", verify_hostname=False))
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_server_asks_for_certificates_only_with_a_client_authority(files: Path) -> None:
    plain = server_context(files / "one.pem", files / "one.key")
    strict = server_context(files / "one.pem", files / "one.key", files / "ca.pem")
    assert plain.verify_mode is ssl.CERT_NONE
    assert strict.verify_mode is ssl.CERT_OPTIONAL
    assert strict.minimum_version == plain.minimum_version == ssl.TLSVersion.TLSv1_2


def goes_on(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """Does a second connection go on with the session of the first?"""
    far, near = handshake(server, client, "localhost")
    far.write(b"-")
    near.read(1)  # what is given for the next time comes before that
    return bool(handshake(server, client, "localhost", near.session)[1].session_reused)


@pytest.mark.parametrize("asks", [False, True])
def test_who_is_asked_for_a_certificate_goes_on_with_no_session_of_before(files: Path, asks: bool) -> None:
    """An authority that was taken away would do, and a certificate that has ended."""
    server = server_context(files / "one.pem", files / "one.key", files / "ca.pem" if asks else None)
    client = client_context(TlsSettings(files / "ca.pem", files / "two.pem", files / "two.key"))
    assert goes_on(server, client) is not asks


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        ("absent.pem", "one.key", "the certificate file .*absent.pem cannot be read: No such file"),
        ("one.pem", "absent.key", "the private key file .*absent.key cannot be read"),
        ("one.pem", "two.key", "two.key does not belong to the certificate .*one.pem"),
        ("one.pem", None, "one.pem holds no certificate with its private key .* give `key` too"),
        ("garbage.pem", "one.key", "garbage.pem and .*one.key are not a PEM certificate"),
        (None, "one.key", "the private key .*one.key has no certificate beside it"),
    ],
)
def test_an_unusable_pair_is_named(files: Path, certificate: str | None, key: str | None, said: str) -> None:
    with pytest.raises(TlsError, match=said):
        server_context(certificate and files / certificate, key and files / key)


def test_an_unusable_authority_is_named(files: Path) -> None:
    with pytest.raises(TlsError, match=r"garbage.pem holds no certificate authority .* expected PEM"):
        client_context(TlsSettings(ca=files / "garbage.pem"))
    with pytest.raises(TlsError, match=r"certificate authority file .*absent.pem cannot be read"):
        client_context(TlsSettings(ca=files / "absent.pem"))


def test_an_encrypted_key_is_refused_without_asking_anybody(files: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key((files / "one.key").read_bytes(), None)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    (files / "secret.key").write_bytes(secret)
    with pytest.raises(TlsError, match=r"secret.key is encrypted: store it decrypted"):
        server_context(files / "one.pem", files / "secret.key")


def test_a_certificate_tells_its_common_names_and_its_hosts() -> None:
    found = {
        "subject": ((("organizationName", "acme"),), (("commonName", "york"),)),
        "subjectAltName": (("DNS", "york.example.com"), ("IP Address", "127.0.0.1"), ("email", "a@york")),
    }
    assert certified_names(found) == {"york", "york.example.com"}
    assert certified_names(None) == certified_names({}) == frozenset()


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("york", {"york"}, True),
        ("york", {"durham", "york.example.com"}, True),
        ("york.example.com", {"york.example.com"}, True),
        ("york.example.com", {"york"}, False),
        ("example", {"york.example.com"}, False),
        ("york", {"york-2.example.com", "yorkshire", "new.york", "*.york", "*"}, False),
        ("york", set(), False),
    ],
)
def test_which_nodes_a_certificate_names(name: str, names: set[str], expected: bool) -> None:
    assert is_certified(name, frozenset(names)) is expected
