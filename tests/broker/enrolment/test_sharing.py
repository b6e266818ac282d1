"""Nodes of one mesh that all invite: who joins at one is let in and renews at all, and is out at all."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509

from bridges import certificates
from broker.cells.errors import NoAnswer, RefusedByCell
from broker.core.errors import SwitchError
from broker.core.rows import MetaRow
from broker.enrolment.errors import EnrolmentRefused
from broker.enrolment.sharing import Sharing
from sapwood.protocol.errors import LinkRefused
from treeconnector.identity import Shown

DAY = 86_400.0


class Core:
    """A node of a mesh, as far as sharing needs it: its office, and cells that reach the others."""

    def __init__(self, desk: Any, name: str, others: "dict[str, Core]") -> None:
        self.desk = desk
        self.desk.disk[MetaRow] = {}
        self.name, self.others, self.up = name, others, True
        self.site = self.desk.site
        self.out: list[tuple[str, str]] = []
        self.told = b""
        self.core = SimpleNamespace(mesh=self, context=self, neighbours=self)

        self.open()

    def open(self) -> None:
        self.desk.office.on_out = lambda name, why: self.out.append((name, why))
        self.commands: dict[str, Any] = {}
        self.sharing = Sharing(self, self.desk.office, self.desk.disk[MetaRow].values())
        self.sharing.open(self)

    @property
    def members(self) -> dict[str, list[str]]:
        return {name: [f"wss://{name}:7600/link"] for name in self.others if name != self.name}

    def peers(self) -> list[Any]:
        return [self.get(name) for name in self.members]

    def get(self, name: str) -> Any:
        return SimpleNamespace(name=name, up=self.others[name].up, link=name)

    def show(self, authorities: bytes) -> None:
        self.told = authorities

    def wake(self) -> None: ...

    async def ask(self, peer: str, command: str, arguments: Any, timeout: float) -> Any:
        asked = self.others[peer]
        if not (asked.up and self.up):
            raise NoAnswer(peer, "down")
        try:
            return json.loads(json.dumps(asked.commands[command].handler(self.name, arguments)))
        except SwitchError as error:
            raise RefusedByCell(peer, error.code, error.text) from None

    async def look(self) -> None:
        for peer in self.sharing._due():
            await self.sharing._exchange(peer)
        await asyncio.sleep(0)


@pytest.fixture
async def cores(desks: Callable[[str], Any]) -> dict[str, Core]:
    made: dict[str, Core] = {}
    for name in ("hq-1", "hq-2", "hq-3"):
        made[name] = Core(desks(name), name, made)
    for core in made.values():
        await core.look()
    return made


def shown(certificate: bytes) -> Shown:
    found = x509.load_pem_x509_certificate(certificate)
    return Shown(certified=frozenset({certificates.facts(certificate).name}), serial=found.serial_number)


async def joined(core: Core, name: str = "york") -> Any:
    made = core.desk.machine(await core.desk.invite(name))
    await made.join(core.desk.office)
    return made


async def renewed(core: Core, machine: Any) -> None:
    key = certificates.make_key()
    granted = await core.desk.office.renew(machine.renewing(key))
    machine.key, machine.certificate = key, granted.certificate.encode()


async def test_all_trust_the_authorities_of_all_and_children_are_told(cores: dict[str, Core]) -> None:
    own = {core.desk.office.authority.own for core in cores.values()}
    assert len(own) == 3
    for core in cores.values():
        assert set(certificates.split(core.desk.office.authority.trusted)) == own
        assert core.told == core.desk.office.authority.trusted
        core.desk.restart()
        core.open()
        assert core.told == core.desk.office.authority.trusted


async def test_who_joins_at_one_is_let_in_by_all_and_renews_at_any(cores: dict[str, Core]) -> None:
    york = await joined(cores["hq-1"])
    for core in cores.values():
        core.desk.office.admit_link("york", shown(york.certificate))
        assert core.desk.office.is_member("york")
    cores["hq-1"].up = False
    await renewed(cores["hq-2"], york)
    cores["hq-3"].desk.office.admit_link("york", shown(york.certificate))
    cores["hq-1"].up = True
    await cores["hq-1"].look()
    assert cores["hq-1"].sharing._exchanged
    cores["hq-1"].sharing._links.clear()
    await cores["hq-1"].look()
    cores["hq-1"].desk.restart()
    cores["hq-1"].desk.office.admit_link("york", shown(york.certificate))
    await renewed(cores["hq-1"], york)


async def test_a_token_is_good_once_and_at_the_node_that_invited(cores: dict[str, Core]) -> None:
    invitation = await cores["hq-1"].desk.invite("york")
    assert invitation.ways[1:] == ("wss://hq-2:7600/link", "wss://hq-3:7600/link")
    first, second = (cores["hq-1"].desk.machine(invitation) for _ in range(2))
    for name in ("hq-2", "hq-3"):
        with pytest.raises(EnrolmentRefused, match="knows no such invitation"):
            await first.join(cores[name].desk.office)
    await first.join(cores["hq-1"].desk.office)
    for core in cores.values():
        with pytest.raises(EnrolmentRefused):
            await second.join(core.desk.office)


async def test_who_is_revoked_at_one_is_out_at_all_also_if_it_renewed_elsewhere_meanwhile(
    cores: dict[str, Core],
) -> None:
    york = await joined(cores["hq-1"])
    await cores["hq-2"].desk.invite("york")
    cores["hq-3"].up = False
    await cores["hq-1"].desk.office.revoke("york")
    assert ("york", "your certificate was revoked") in cores["hq-2"].out
    assert [each.state for each in cores["hq-2"].desk.office.listed().invitations] == []
    cores["hq-1"].up, cores["hq-2"].up, cores["hq-3"].up = False, False, True
    await renewed(cores["hq-3"], york)
    for core in cores.values():
        core.up = True
        core.sharing._links.clear()
    for core in cores.values():
        await core.look()
    for core in cores.values():
        with pytest.raises(LinkRefused, match="was revoked"):
            core.desk.office.admit_link("york", shown(york.certificate))
    again = await joined(cores["hq-2"])
    for core in cores.values():
        core.desk.office.admit_link("york", shown(again.certificate))
    assert ("york", "another machine was invited in your place") in cores["hq-3"].out


async def test_many_members_come_in_parts(cores: dict[str, Core], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.enrolment.sharing._PAGE", 2)
    cores["hq-2"].up = False
    for number in range(5):
        await joined(cores["hq-1"], f"store-{number}")
    cores["hq-2"].up = True
    cores["hq-2"].sharing._links.clear()
    await cores["hq-2"].look()
    assert len(cores["hq-2"].desk.office.members()) == 5
    assert cores["hq-2"].desk.office.digest() == cores["hq-1"].desk.office.digest()


async def test_a_node_that_has_left_is_trusted_as_long_as_its_certificates_last(
    cores: dict[str, Core],
) -> None:
    core = cores["hq-2"]
    del cores["hq-3"]
    core.sharing._watch_who_left()
    assert core.sharing.kept["hq-3"].until == core.desk.now + 30 * DAY
    core.desk.now += 31 * DAY
    core.sharing._watch_who_left()
    assert set(core.sharing.kept) == {"hq-1"}
    assert len(certificates.split(core.told)) == 2
    assert core.desk.office.authority.trusted == core.told


async def test_an_authority_that_took_the_place_of_another_drops_it_at_the_others(
    cores: dict[str, Core],
) -> None:
    """As after the theft of a key: the folder was moved away, and the node has made another."""
    hq = cores["hq-1"].desk
    stolen = hq.office.authority.own
    hq.site.enrolment.authority.rename(hq.site.enrolment.authority.with_name("stolen"))
    hq.restart()
    cores["hq-1"].open()
    await cores["hq-1"].look()
    for core in cores.values():
        trusted = core.desk.office.authority.trusted
        assert hq.office.authority.own in trusted
        assert stolen not in trusted
        assert core.told == trusted


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"authority": "nonsense"},
        {"authority": 5},
        {"authority": "x" * 30_000},
        {"authority": "", "members": [{"name": "york"}]},
    ],
)
async def test_what_is_no_question_changes_nothing(cores: dict[str, Core], arguments: Any) -> None:
    before = dict(cores["hq-1"].sharing.kept)
    with pytest.raises(Exception, match=r"members|authorities"):
        cores["hq-1"].commands["members"].handler("hq-2", arguments)
    assert cores["hq-1"].sharing.kept == before
    assert cores["hq-1"].commands["members"].beside
