"""Who may join, whose certificate is renewed, who is out: decided once, and on disk before it is answered."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from cryptography import x509

from bridges import certificates
from broker.api.invitations import listed
from broker.api.pages import Cut
from broker.enrolment import proofs, registrar
from broker.enrolment.errors import EnrolmentRefused
from broker.enrolment.messages import Join
from broker.enrolment.tokens import write_token
from sapwood.protocol.errors import LinkRefused
from treeconnector.identity import Shown

DAY = 86_400.0


def shown(certificate: bytes, *names: str) -> Shown:
    serial = x509.load_pem_x509_certificate(certificate).serial_number
    return Shown(certified=frozenset(names or {certificates.facts(certificate).name}), serial=serial)


async def joined(desk, name="york"):
    made = desk.machine(await desk.invite(name))
    await made.join(desk.office)
    return made


async def test_who_has_the_secret_gets_a_certificate_for_the_name(desk) -> None:
    york = desk.machine(await desk.invite("york"))
    granted = await york.join(desk.office)
    found = certificates.facts(york.certificate)
    assert (found.name, found.key, found.ends) == ("york", york.public, desk.now + 30 * DAY)
    assert granted.authorities.encode() == desk.office.authority.authority.certificate
    desk.office.admit_link("york", shown(york.certificate))


async def test_an_invitation_tells_where_the_parent_is_and_who_it_is(desk) -> None:
    invitation = await desk.invite("york")
    assert invitation.ways == ("wss://hq.example.com:7600/link",)
    assert invitation.fingerprint == certificates.fingerprint(desk.office.authority.authority.certificate)
    assert (invitation.tree, invitation.parent, invitation.ends) == ("acme", "hq", desk.now + DAY)


async def test_a_wrong_secret_and_an_unknown_invitation_are_answered_alike(desk) -> None:
    invitation = await desk.invite("york")
    york = desk.machine(invitation)
    unknown = Join(invitation=b"unknown.", request=york.asking().request, proof=york.asking().proof)
    for asked in (york.asking(b"another secret.."), unknown):
        with pytest.raises(EnrolmentRefused, match="knows no such invitation, or it was revoked"):
            await desk.office.join(asked)
    await york.join(desk.office)


async def test_a_proof_is_good_for_its_own_request_only(desk) -> None:
    """Who sits between and changes the request has no use of the proof."""
    invitation = await desk.invite("york")
    asked, thief = desk.machine(invitation).asking(), desk.machine(invitation).asking()
    with pytest.raises(EnrolmentRefused, match="knows no such invitation"):
        await desk.office.join(Join(invitation=invitation.id, request=thief.request, proof=asked.proof))


async def test_the_name_is_that_of_the_invitation(desk) -> None:
    invitation = await desk.invite("york")
    with pytest.raises(EnrolmentRefused, match="is for 'york', the certificate request for 'hq-2'"):
        await desk.machine(invitation, "hq-2").join(desk.office)


async def test_a_token_is_good_for_one_machine_also_after_a_kill(desk, caplog) -> None:
    invitation = await desk.invite("york")
    york, thief = desk.machine(invitation), desk.machine(invitation)
    await york.join(desk.office)
    for _ in range(2):
        with pytest.raises(EnrolmentRefused, match="another machine has joined as 'york'") as caught:
            await thief.join(desk.office)
        assert caught.value.code == "USED"
        desk.restart()
    assert "a second machine tried the invitation of york" in caplog.text


async def test_the_same_key_is_answered_again(desk) -> None:
    york = desk.machine(await desk.invite("york"))
    await york.join(desk.office)
    desk.restart()
    await york.join(desk.office)
    desk.office.admit_link("york", shown(york.certificate))


async def test_of_two_at_once_one_gets_it(desk) -> None:
    invitation = await desk.invite("york")
    desk.stuck = asyncio.Event()
    two = [desk.machine(invitation), desk.machine(invitation)]
    asking = [asyncio.ensure_future(each.join(desk.office)) for each in two]
    await asyncio.sleep(0)
    desk.stuck.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(answer, EnrolmentRefused) for answer in answers] == [False, True]


async def test_nobody_is_answered_before_it_is_on_disk(desk) -> None:
    york = desk.machine(await desk.invite("york"))
    desk.stuck = asyncio.Event()
    asking = asyncio.ensure_future(york.join(desk.office))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asking.done()
    asking.cancel()
    desk.stuck = None
    desk.restart()  # killed before the commit: nothing was used up
    other = desk.machine(york.invitation)
    await other.join(desk.office)


@pytest.mark.parametrize("clock", ["now", "ran"])
async def test_it_ends_by_the_clock_or_by_running_time_whichever_is_first(desk, clock) -> None:
    """A clock that is set back does not make it younger."""
    york = desk.machine(await desk.invite("york", 3600.0))
    setattr(desk, clock, getattr(desk, clock) + 3600)
    with pytest.raises(EnrolmentRefused, match="the invitation of 'york' has ended") as caught:
        await york.join(desk.office)
    assert caught.value.code == "ENDED"
    assert [each.state for each in desk.office.listed().invitations] == ["ended"]


async def test_a_new_invitation_ends_the_open_one_for_that_name(desk) -> None:
    first, second = await desk.invite("york"), await desk.invite("york")
    with pytest.raises(EnrolmentRefused, match="knows no such invitation"):
        await desk.machine(first).join(desk.office)
    await desk.machine(second).join(desk.office)


@pytest.mark.parametrize(
    ("name", "said"), [("hq", "'hq' is this node itself"), ("local", "local"), ("a b", "a b"), ("", "name")]
)
async def test_names_that_cannot_be_are_refused(desk, name, said) -> None:
    with pytest.raises(EnrolmentRefused, match=said) as caught:
        await desk.invite(name)
    assert caught.value.code == "BAD_REQUEST"


async def test_a_machine_that_takes_the_place_of_another_shuts_that_out(desk) -> None:
    old = await joined(desk)
    new = await joined(desk)
    desk.office.admit_link("york", shown(new.certificate))
    with pytest.raises(LinkRefused, match="is of a key that was replaced"):
        desk.office.admit_link("york", shown(old.certificate))
    with pytest.raises(EnrolmentRefused, match="this is not the key that 'york' has here now"):
        await desk.office.renew(old.renewing(certificates.make_key()))
    with pytest.raises(EnrolmentRefused, match="was revoked, or has renewed since"):
        await old.join(desk.office)


# --- links


async def test_a_certificate_links_its_own_name_only(desk) -> None:
    york = await joined(desk, "york")
    await joined(desk, "bath")
    with pytest.raises(LinkRefused, match="'bath' shows a certificate for york: give it a token"):
        desk.office.admit_link("bath", shown(york.certificate))
    with pytest.raises(LinkRefused, match="'bath' shows no certificate"):
        desk.office.admit_link("bath", Shown())
    with pytest.raises(LinkRefused, match="'durham' shows a certificate for york"):
        desk.office.admit_link("durham", shown(york.certificate))


async def test_who_was_invited_as_a_leaf_links_as_nothing_else(desk) -> None:
    york = await joined(desk)
    for role in ("branch", "root"):
        with pytest.raises(LinkRefused, match=f"'york' was invited as a leaf, and says that it is a {role}"):
            desk.office.admit_link("york", shown(york.certificate), role)
    north = desk.machine(await desk.office.invite("north", "branch", (), DAY))
    await north.join(desk.office)
    for role in ("leaf", "branch"):
        desk.office.admit_link("north", shown(north.certificate), role)


@pytest.mark.parametrize("name", ["local", "LOCAL", "a b", "6a0f2c9e-1b1d-4c53-9f0a-2f7a55c0a9d1"])
async def test_nobody_is_invited_under_a_name_that_means_something_else(desk, name: str) -> None:
    with pytest.raises(EnrolmentRefused, match="name"):
        await desk.invite(name)


async def test_a_revoked_child_is_out_also_after_a_kill_until_it_is_invited_again(desk) -> None:
    york = await joined(desk)
    assert await desk.office.revoke("york") == (0, True)
    for _ in range(2):
        with pytest.raises(LinkRefused, match="'york' was revoked at 'hq'"):
            desk.office.admit_link("york", shown(york.certificate))
        with pytest.raises(EnrolmentRefused, match="'york' was revoked at 'hq'"):
            await desk.office.renew(york.renewing(certificates.make_key()))
        with pytest.raises(EnrolmentRefused, match="was revoked, or has renewed since"):
            await york.join(desk.office)
        desk.restart()
    again = await joined(desk)
    desk.office.admit_link("york", shown(again.certificate))


async def test_an_invitation_is_taken_back_by_name_or_id(desk) -> None:
    for what in (lambda made: made.name, lambda made: made.id.hex()):
        invitation = await desk.invite("york")
        assert await desk.office.revoke(what(invitation)) == (1, False)
        with pytest.raises(EnrolmentRefused, match="knows no such invitation"):
            await desk.machine(invitation).join(desk.office)
    with pytest.raises(EnrolmentRefused, match="'york' is no open invitation"):
        await desk.office.revoke("york")


# --- renewal


async def test_a_renewal_brings_the_next_key_and_both_link_until_it_is_seen(desk) -> None:
    york = await joined(desk)
    key = certificates.make_key()
    granted = await desk.office.renew(york.renewing(key))
    desk.office.admit_link("york", shown(york.certificate))
    desk.office.admit_link("york", shown(granted.certificate.encode()))
    with pytest.raises(LinkRefused, match="is of a key that was replaced"):
        desk.office.admit_link("york", shown(york.certificate))
    await asyncio.sleep(0)
    desk.restart()
    with pytest.raises(LinkRefused, match="is of a key that was replaced"):
        desk.office.admit_link("york", shown(york.certificate))


async def test_a_renewal_whose_answer_was_lost_is_answered_again(desk) -> None:
    york = await joined(desk)
    key = certificates.make_key()
    await desk.office.renew(york.renewing(key))
    desk.restart()
    granted = await desk.office.renew(york.renewing(key))
    assert certificates.facts(granted.certificate.encode()).key == certificates.public_key(key)


async def test_a_copied_key_is_worth_nothing_after_the_next_renewal(desk) -> None:
    york = await joined(desk)
    await desk.office.renew(york.renewing(certificates.make_key()))
    with pytest.raises(EnrolmentRefused, match="this is not the key that 'york' has here now"):
        await desk.office.renew(york.renewing(certificates.make_key()))


async def test_nobody_renews_for_another(desk) -> None:
    york, bath = await joined(desk, "york"), await joined(desk, "bath")
    key = certificates.make_key()
    with pytest.raises(EnrolmentRefused, match="not the key that 'bath' has here"):
        await desk.office.renew(desk.machine(bath.invitation).renewing(key, york.key))
    with pytest.raises(EnrolmentRefused, match="not the key that 'durham' has here"):
        await desk.office.renew(desk.machine(bath.invitation, "durham").renewing(key, york.key))


async def test_after_weeks_offline_the_key_still_proves_the_name_as_long_as_the_grace_lasts(desk) -> None:
    york = await joined(desk)
    desk.now += 30 * DAY + 99 * DAY
    key = certificates.make_key()
    granted = await desk.office.renew(york.renewing(key))
    assert certificates.facts(granted.certificate.encode()).ends == desk.now + 30 * DAY
    york.key = key
    desk.now += 30 * DAY + 101 * DAY
    with pytest.raises(EnrolmentRefused, match="ended more than 100 d ago") as caught:
        await desk.office.renew(york.renewing(certificates.make_key()))
    assert caught.value.code == "ENDED"


async def test_garbage_is_refused_by_name(desk) -> None:
    invitation = await desk.invite("york")
    with pytest.raises(EnrolmentRefused, match="no certificate request in PEM") as caught:
        await desk.office.join(Join(invitation=invitation.id, request=b"garbage", proof=b""))
    assert caught.value.code == "BAD_REQUEST"


async def test_invitations_and_then_members_are_listed_in_pages(desk) -> None:
    for name in ("york", "bath", "leeds"):
        await joined(desk, name)
    for name in ("ely", "deal"):
        await desk.invite(name)
    node = SimpleNamespace(access=SimpleNamespace(registry=desk.office))
    found, after = [], ""
    while True:
        page = await listed(node, Cut(2, after))
        found.append([each.name for each in (*page.invitations, *page.members)])
        assert page.more == 8 - sum(map(len, found))
        if page.next is None:
            break
        after = page.next
    assert found == [["bath", "deal"], ["ely", "leeds"], ["york", "bath"], ["leeds", "york"]]


async def test_nothing_secret_is_logged_or_listed(desk, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    york = await joined(desk)
    await desk.office.renew(york.renewing(certificates.make_key()))
    await desk.office.revoke("york")
    said = caplog.text + repr(desk.office) + repr(desk.office.listed())
    secret = york.invitation.secret
    for hidden in (
        secret.hex(),
        repr(secret)[2:-1],
        write_token(york.invitation),
        proofs.stored_of(secret).hex(),
    ):
        assert hidden not in said
    assert "PRIVATE" not in said


async def test_a_node_has_so_many_invitations_and_says_how_room_is_made(desk, monkeypatch) -> None:
    monkeypatch.setattr(registrar, "MOST_INVITATIONS", 2)
    await desk.invite("york")
    await desk.invite("leeds")
    with pytest.raises(EnrolmentRefused, match="2 invitations are open: revoke some"):
        await desk.invite("bath")
    await desk.invite("york")
    assert len(desk.office._invitations) == 2
