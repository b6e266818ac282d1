"""A certificate is renewed in time; a crash at any moment leaves a pair that the parent knows."""

import random
from pathlib import Path

import pytest

from bridges import certificates
from broker.enrolment import renewal as renewals
from broker.enrolment.errors import EnrolmentError, EnrolmentRefused, ParentUnreachable
from broker.enrolment.renewal import CertificateRenewal
from config.model import ClientTls, Site, TreeConnector

DAY = 86_400.0


class Never(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return a


@pytest.fixture
async def store(desk, tmp_path: Path, monkeypatch):
    """A store that has joined, whose questions go straight to the office."""
    york = desk.machine(await desk.invite("york"))
    granted = await york.join(desk.office)
    files = ClientTls(ca=tmp_path / "ca.pem", certificate=tmp_path / "node.pem", key=tmp_path / "node.pem")
    files.ca.write_text(granted.authorities)
    files.certificate.write_bytes(york.certificate + york.key)
    connector = TreeConnector(nodetype="leaf", uri="wss://hq.example.com/link", tls=files, renew=True)
    asked = []

    async def ask(way, path, body, context):
        asked.append((way, path))
        return await desk.office.renew(body)

    monkeypatch.setattr(renewals, "ask", ask)
    site = Site(name="york", tree="acme", tree_connectors=(connector,))
    made = CertificateRenewal(site, clock=desk.clock, chance=Never())
    made.asked = asked
    return made


async def test_it_is_due_after_two_thirds(store, desk) -> None:
    assert store.due_in() == 20 * DAY
    desk.now += 21 * DAY
    assert store.due_in() == -DAY


async def test_it_brings_the_next_key_in_one_file(store, desk, tmp_path: Path) -> None:
    before = (tmp_path / "node.pem").read_bytes()
    desk.now += 20 * DAY
    await store.renew()
    after = (tmp_path / "node.pem").read_bytes()
    found = certificates.facts(after)
    assert found.key not in (b"", certificates.facts(before).key)
    assert found.key == certificates.public_key(after)
    assert (tmp_path / "node.pem").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "node.pem.next").exists()
    assert store.due_in() == 20 * DAY
    assert store.asked == [("wss://hq.example.com/link", "/enrol/renew")]
    assert store.status() == {"ends_s": 30 * DAY, "renewed": 1, "error": ""}


async def test_after_a_crash_before_the_answer_the_same_key_is_asked_for(store, desk, monkeypatch) -> None:
    with monkeypatch.context() as crashing:
        crashing.setattr(store, "_take", lambda key, granted: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await store.renew()
    again = CertificateRenewal(store._site, clock=desk.clock)
    await again.renew()
    await again.renew()
    assert again.renewed == 2


async def test_new_authorities_come_with_it(store, desk, tmp_path: Path) -> None:
    key = certificates.make_key()
    more = certificates.Authority.certify(key, "hq", "acme", desk.now)
    desk.office.authority.trusted += more
    await store.renew()
    assert (tmp_path / "ca.pem").read_bytes() == desk.office.authority.trusted


async def test_a_refusal_is_told_once_and_tried_again_later(store, desk, caplog) -> None:
    await desk.office.revoke("york")
    pauses = [await store._attempt() for _ in range(3)]
    assert all(pause > 0 for pause in pauses)
    assert "'york' was revoked" in store.status()["error"]
    assert caplog.text.count("the certificate is not renewed") == 1


async def test_each_way_is_tried_and_a_refusal_counts_when_nobody_renews(store, desk, monkeypatch) -> None:
    """Of a mesh one node may know of a renewal, and another not yet."""
    tried, good = [], ""

    async def ask(way, path, body, context):
        tried.append(way)
        if way == "wss://two":
            raise EnrolmentRefused("REFUSED", "no")
        if way == good:
            return await desk.office.renew(body)
        raise ParentUnreachable("nobody there")

    async def ways_of(site):
        return ["wss://one", "wss://two"]

    monkeypatch.setattr(renewals, "ask", ask)
    monkeypatch.setattr(renewals, "ways_of", ways_of)
    store.ways_beside = lambda: ["wss://two", "ws://never", "wss://three"]
    with pytest.raises(EnrolmentRefused):
        await store.renew()
    assert tried == ["wss://one", "wss://two", "wss://three"]
    good = "wss://three"
    await store.renew()
    assert store.renewed == 1


async def test_it_trusts_the_authorities_that_a_parent_tells_of_and_nonsense_changes_nothing(
    store, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.pem"
    own = ca.read_bytes()
    other = certificates.Authority.certify(certificates.make_key(), "hq-2", "acme", 1_800_000_000.0)
    store.authorities_told(b"nonsense")
    assert ca.read_bytes() == own
    for _ in range(2):
        store.authorities_told(other + own)
        assert certificates.split(ca.read_bytes()) == [*certificates.split(own), other]


async def test_files_that_cannot_be_are_told_at_the_start(store, tmp_path: Path) -> None:
    (tmp_path / "node.pem").write_text("nonsense")
    with pytest.raises(EnrolmentError, match=r"node.pem: no certificate in PEM"):
        CertificateRenewal(store._site)


async def test_clocks_that_differ_too_much_make_no_endless_round(store, desk, monkeypatch) -> None:
    """The parent's clock is two months behind: what it gives has ended by ours."""
    store._clock = lambda: desk.now + 60 * DAY
    pauses = [await store._attempt() for _ in range(4)]
    assert all(pause >= 0.5 for pause in pauses)
    assert pauses[3] >= 4.0
    assert "the clocks here and at the parent differ" in store.error


async def test_a_certificate_of_clocks_that_were_ahead_is_renewed_when_they_are_right_again(
    store, desk
) -> None:
    """It begins in two months, and the parent would refuse it until then."""
    desk.now += 60 * DAY
    await store.renew()
    desk.now -= 60 * DAY
    assert await store._look_whether_due() == 0.0
    assert store.renewed == 2
    assert certificates.facts(store._file.read_bytes()).begins == desk.now
    assert store.due_in() == 20 * DAY


async def test_clocks_may_differ_by_hours_and_one_that_was_never_set_asks_for_nothing(store, desk) -> None:
    store._clock = lambda: desk.now - DAY
    assert store.due_in() == 21 * DAY
    store._clock = lambda: 60.0
    assert await store._look_whether_due() == 60.0


async def test_what_failed_while_the_clock_was_wrong_is_no_error_once_it_is_right(store, desk) -> None:
    store._clock = lambda: desk.now + 60 * DAY
    assert await store._look_whether_due() > 0
    assert store.status()["error"]
    store._clock = desk.clock
    assert await store._look_whether_due() == 60.0
    assert store.status()["error"] == ""
