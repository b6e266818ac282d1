"""The files of an authority: made once, with the right modes, and what is missing or open is told."""

import ssl
import time
from pathlib import Path

import pytest
from tls_in_memory import handshake

from bridges import certificates
from broker.enrolment.authority import KeptAuthority, look_at
from broker.enrolment.contact import context_for
from broker.enrolment.errors import EnrolmentError
from config.model import Enrolment, Listener, Site

NOW = 1_800_000_000.0
DAY = 86_400.0


def site(host: str = "hq.example.com") -> Site:
    return Site(
        name="hq",
        tree="acme",
        listener=Listener(public_uri=f"wss://{host}:7600/link"),
        enrolment=Enrolment(authority=Path("ignored"), lifetime=7.0),
    )


def opened(folder: Path, now: float = NOW, host: str = "hq.example.com") -> KeptAuthority:
    return KeptAuthority(folder / "authority", site(host), lambda: now)


def test_it_is_made_once_and_only_its_owner_reads_the_keys(tmp_path: Path) -> None:
    first = opened(tmp_path)
    modes = {file.name: file.stat().st_mode & 0o777 for file in first.folder.iterdir()}
    assert modes == {"authority.key": 0o600, "authority.pem": 0o644, "port.pem": 0o600}
    assert first.folder.stat().st_mode & 0o777 == 0o700
    assert opened(tmp_path).fingerprint == first.fingerprint


def test_the_port_has_a_certificate_for_its_addresses_from_the_authority(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    pem = (kept.folder / "port.pem").read_bytes()
    found = certificates.facts(pem)
    assert {"hq", "hq.example.com", "localhost", "127.0.0.1"} <= found.hosts
    assert found.ends == NOW + 90 * DAY
    assert certificates.is_issued_by(pem, kept.authority.certificate)


def test_the_ports_certificate_is_kept_until_it_is_due_or_says_other_addresses(tmp_path: Path) -> None:
    first = (opened(tmp_path).folder / "port.pem").read_bytes()
    assert (opened(tmp_path, NOW + 59 * DAY).folder / "port.pem").read_bytes() == first
    later = (opened(tmp_path, NOW + 60 * DAY).folder / "port.pem").read_bytes()
    assert certificates.facts(later).ends == NOW + 150 * DAY
    moved = (opened(tmp_path, NOW + 60 * DAY, "other.example.com").folder / "port.pem").read_bytes()
    assert "other.example.com" in certificates.facts(moved).hosts


def test_a_running_node_renews_it_when_it_is_due(tmp_path: Path) -> None:
    now = [NOW]
    kept = KeptAuthority(tmp_path / "authority", site(), lambda: now[0])
    assert kept.renew_port() == 60 * DAY
    now[0] += 61 * DAY
    assert kept.renew_port() == 60 * DAY
    assert certificates.facts((kept.folder / "port.pem").read_bytes()).ends == now[0] + 90 * DAY


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    key = opened(tmp_path).folder / "authority.key"
    key.chmod(0o640)
    with pytest.raises(EnrolmentError, match=r"others can read .*authority.key: chmod 600"):
        opened(tmp_path)


def test_a_lost_key_is_told_and_a_lost_certificate_is_made_anew(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    child = certificates.read_request(certificates.make_request(certificates.make_key(), "york", "acme"))
    pem = kept.authority.for_child(child, "acme", NOW, 60)
    (kept.folder / "authority.pem").rename(tmp_path / "away.pem")
    assert certificates.is_issued_by(pem, opened(tmp_path).authority.certificate)
    (kept.folder / "authority.key").unlink()
    with pytest.raises(EnrolmentError, match=r"authority.key is gone: put it back"):
        opened(tmp_path)


def test_what_is_damaged_is_told_by_the_file_and_the_ports_own_is_made_anew(tmp_path: Path) -> None:
    assert look_at(tmp_path / "authority") == "made at the first start"
    folder = opened(tmp_path).folder
    (folder / "port.pem").write_text("half of one")
    assert opened(tmp_path).context.get_ca_certs()
    assert look_at(folder) == "can be read"
    for name in ("authority.pem", "authority.key"):
        before = (folder / name).read_bytes()
        (folder / name).write_text("half of one")
        for look in (lambda: opened(tmp_path), lambda: look_at(folder)):
            with pytest.raises(EnrolmentError, match=r"authority\.key and authority\.pem: .*; put the copy"):
                look()
        (folder / name).write_bytes(before)
    (folder / "also-trusted.pem").write_text("half of one")
    with pytest.raises(EnrolmentError, match=r"also-trusted\.pem: no certificates in PEM"):
        look_at(folder)
    with pytest.raises(EnrolmentError, match="it is a file: expected a folder"):
        look_at(folder / "port.pem")


def test_another_authority_is_trusted_beside_it_while_one_takes_the_place_of_the_other(
    tmp_path: Path,
) -> None:
    kept = opened(tmp_path)
    key = certificates.make_key()
    next_one = certificates.Authority(key, certificates.Authority.certify(key, "hq", "acme", NOW))
    (kept.folder / "also-trusted.pem").write_bytes(next_one.certificate)
    again = opened(tmp_path)
    assert certificates.split(again.trusted) == [kept.authority.certificate, next_one.certificate]
    assert len(again.context.get_ca_certs()) == 2
    (kept.folder / "also-trusted.pem").write_text("nonsense")
    with pytest.raises(EnrolmentError, match="no certificates in PEM"):
        opened(tmp_path)


def another() -> certificates.Authority:
    key = certificates.make_key()
    return certificates.Authority(key, certificates.Authority.certify(key, "hq-2", "acme", time.time()))


def is_let_in(
    kept: KeptAuthority, by: certificates.Authority, folder: Path, host: str | None, most: int
) -> bool:
    """Does the port take the certificate of a child of `by`? Both ends of a handshake, in memory."""
    key = certificates.make_key()
    request = certificates.read_request(certificates.make_request(key, "york", "acme"))
    file = folder / "york.pem"
    file.write_bytes(by.for_child(request, "acme", time.time(), DAY) + key)
    child = context_for(kept.authority.certificate)
    child.maximum_version = ssl.TLSVersion(most)
    child.load_cert_chain(file)
    try:
        port, _ = handshake(kept.context, child, host)
    except ssl.SSLCertVerificationError:
        return False
    return bool(port.getpeercert())


@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("host", ["hq.example.com", None])
def test_who_is_trusted_no_more_is_turned_away_at_the_next_handshake(
    tmp_path: Path, host: str | None, most: int
) -> None:
    kept, other, third = opened(tmp_path, time.time()), another(), another()
    assert not is_let_in(kept, other, tmp_path, host, most)
    kept.trust([other.certificate, third.certificate])
    assert is_let_in(kept, other, tmp_path, host, most)
    kept.trust([third.certificate])
    assert not is_let_in(kept, other, tmp_path, host, most)
    assert is_let_in(kept, third, tmp_path, host, most)
    assert is_let_in(kept, kept.authority, tmp_path, host, most)


def test_what_lies_beside_an_authority_is_looked_at_again(tmp_path: Path) -> None:
    kept, former, other = opened(tmp_path, time.time()), another(), another()
    kept.trust([other.certificate])
    beside, most = kept.folder / "also-trusted.pem", ssl.TLSVersion.TLSv1_3
    beside.write_bytes(former.certificate)
    assert kept.look_again()
    assert not kept.look_again()
    assert is_let_in(kept, former, tmp_path, None, most)
    beside.unlink()
    assert kept.look_again()
    assert not is_let_in(kept, former, tmp_path, None, most)
    assert is_let_in(kept, other, tmp_path, None, most)


def test_no_authority_is_made_by_a_clock_that_was_never_set(tmp_path: Path) -> None:
    with pytest.raises(EnrolmentError, match="the clock of this machine says 1970: set it"):
        opened(tmp_path, 5.0)
    assert not any((tmp_path / "authority").iterdir())
    opened(tmp_path)
    opened(tmp_path, 5.0)
