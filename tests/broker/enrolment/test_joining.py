"""A fresh machine: what it writes, what it never overwrites, and whom it asks again."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from broker.enrolment import joining
from broker.enrolment.contact import NotTheParent
from broker.enrolment.errors import EnrolmentError, EnrolmentRefused, ParentUnreachable, TokenError
from broker.enrolment.files import private_folder
from broker.enrolment.joining import join
from broker.enrolment.tokens import Invitation, write_token
from config.load import load


class Line:
    """Between a machine and an office: what happens to each question, '' = it is answered."""

    def __init__(self, desk, *happens: object) -> None:
        self.desk = desk
        self.happens = list(happens)
        self.keys: list[bytes] = []

    async def trusted(self, way: str, fingerprint: bytes) -> None:
        return None

    async def ask(self, way: str, path: str, body: object, context: None) -> object:
        self.keys.append(body.request)
        happens = self.happens.pop(0) if self.happens else None
        if happens == "lost":
            await self.desk.office.join(body)
            raise ParentUnreachable("the answer was lost")
        if isinstance(happens, Exception):
            raise happens
        return await self.desk.office.join(body)


@pytest.fixture
def between(desk, monkeypatch):
    def put(*happens: object) -> Line:
        line = Line(desk, *happens)
        monkeypatch.setattr(joining, "trusted_authority", line.trusted)
        monkeypatch.setattr(joining, "ask", line.ask)
        monkeypatch.setattr(joining, "_FIRST_PAUSE", 0.001)
        return line

    return put


def quiet(_text: str) -> None:
    """Nobody listens."""


async def token_of(desk) -> str:
    return write_token(await desk.invite("york"))


async def test_it_writes_a_configuration_that_runs(desk, between, tmp_path: Path) -> None:
    between()
    joined = await join(await token_of(desk), tmp_path / "york", say=quiet)
    site = load(joined.file)
    assert (site.name, site.tree, site.role, joined.parent) == ("york", "acme", "leaf", "hq")
    connector = site.connector
    assert connector.uri == "wss://hq.example.com:7600/link"
    assert (connector.renew, connector.tls.verify_hostname) == (True, False)
    assert connector.tls.certificate == connector.tls.key == tmp_path / "york" / "tls" / "node.pem"
    assert connector.tls.key.stat().st_mode & 0o777 == 0o600
    assert connector.tls.key.parent.stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "york" / "tls" / "joining.pem").exists()
    assert joined.file.read_text().startswith("# york, a leaf below hq: it joined by invitation")


@pytest.mark.parametrize("below", ["", "york"])
async def test_where_root_joins_for_a_nodes_user_all_is_that_users(
    desk, between, tmp_path: Path, below: str
) -> None:
    between()
    (folder := tmp_path / "of the user").mkdir()
    with suppress(PermissionError):
        os.chown(folder, 4711, 4712)
    await join(await token_of(desk), into := folder / below, say=quiet)
    made = {path.relative_to(into).as_posix(): path.stat().st_uid for path in into.rglob("*")}
    assert made.keys() == {"york.yaml", "tls", "tls/node.pem", "tls/authorities.pem"}
    assert {*made.values(), into.stat().st_uid} == {folder.stat().st_uid}


def test_no_link_that_a_nodes_user_lays_leads_root_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the place of the folder that was made just now."""
    (tmp_path / "of root").mkdir()
    monkeypatch.setattr(Path, "mkdir", lambda path, **_: path.symlink_to(tmp_path / "of root"))
    with pytest.raises(OSError, match="tls"):
        private_folder(tmp_path / "tls")


async def test_a_lost_answer_is_asked_for_again_with_the_same_key(desk, between, tmp_path: Path) -> None:
    line, said = between("lost", "lost"), []
    await join(await token_of(desk), tmp_path, say=said.append)
    assert len(line.keys) == 3
    assert said == ["the answer was lost; trying again"] * 2


async def test_a_machine_that_was_switched_off_meanwhile_goes_on_with_its_key(
    desk, between, tmp_path
) -> None:
    token = await token_of(desk)
    between("lost")
    with pytest.raises(ParentUnreachable):
        await join(token, tmp_path, patience=0, say=quiet)
    assert [file.name for file in (tmp_path / "tls").iterdir()] == ["joining.pem"]
    between()
    await join(token, tmp_path, say=quiet)


async def test_a_refusal_and_somebody_between_are_final(desk, between, tmp_path: Path) -> None:
    for error in (EnrolmentRefused("ENDED", "it has ended"), NotTheParent("somebody stands between")):
        line = between(error)
        with pytest.raises(type(error), match=str(error)):
            await join(await token_of(desk), tmp_path, say=quiet)
        assert len(line.keys) == 1


async def test_nothing_that_is_there_is_overwritten(desk, between, tmp_path: Path) -> None:
    between()
    token = await token_of(desk)
    await join(token, tmp_path, say=quiet)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(EnrolmentError, match=r"york.yaml is there already: this machine has joined"):
        await join(token, tmp_path, say=quiet)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


async def test_a_node_that_is_invited_again_gets_a_certificate_and_keeps_its_file(
    desk, between, tmp_path: Path
) -> None:
    """As after its right was taken back, or its parent was replaced: no folder had to be emptied for it."""
    between()
    joined = await join(await token_of(desk), tmp_path, say=quiet)
    joined.file.write_text(f"{joined.file.read_text()}  zone: london\n")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    said: list[str] = []
    await join(await token_of(desk), tmp_path, again=True, say=said.append)
    after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    changed = [file.name for file in before if before[file] != after[file]]
    assert (changed, before.keys() == after.keys(), said) == (["node.pem"], True, [])
    joined.file.write_text(joined.file.read_text().replace("hq.example.com", "old.example.com"))
    await join(await token_of(desk), tmp_path, again=True, say=said.append)
    assert "leads to wss://old.example.com:7600/link, the invitation to wss://hq.example.com" in said[0]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "name: york",
            "name: leeds",
            "is of the leaf 'leeds' of tree 'acme', and the invitation for the leaf 'york'",
        ),
        ("renew: true", "", "is of no node that has joined"),
        ("certificate: tls/node.pem", "certificate: tls/authorities.pem", "is of no node that has joined"),
    ],
)
async def test_who_joins_again_is_the_node_of_the_file(
    desk, between, tmp_path: Path, old: str, new: str, why: str
) -> None:
    line = between()
    joined = await join(await token_of(desk), tmp_path, say=quiet)
    joined.file.write_text(joined.file.read_text().replace(old, new))
    with pytest.raises(EnrolmentError, match=why):
        await join(await token_of(desk), tmp_path, again=True, say=quiet)
    assert len(line.keys) == 1, "the invitation is not used"


async def test_a_branch_may_invite_in_turn_and_a_broker_is_written(desk, between, tmp_path: Path) -> None:
    between()
    token = write_token(await desk.office.invite("north", "branch", (), 60.0))
    uri = "wss://north.example.com:7601/link"
    joined = await join(token, tmp_path, site_broker="mqtt://localhost:1883", public_uri=uri, say=quiet)
    site = load(joined.file)
    assert (site.role, site.site_broker.uri) == ("branch", "mqtt://localhost:1883")
    assert (site.listener.host, site.listener.port) == ("0.0.0.0", 7601)
    assert site.listener.announced == (uri,)
    assert site.enrolment.authority == tmp_path / "authority"


async def test_a_token_with_a_way_that_is_none_is_told(desk, tmp_path: Path) -> None:
    made = await desk.invite("york")
    values = {field: getattr(made, field) for field in Invitation.__struct_fields__}
    token = write_token(Invitation(**{**values, "ways": ("tcp://hq:7600",)}))
    with pytest.raises(TokenError, match="a way to the parent that is none"):
        await join(token, tmp_path, say=quiet)


async def test_a_leaf_has_no_address_for_children(desk, tmp_path: Path) -> None:
    with pytest.raises(EnrolmentError, match="'york' is invited as a leaf, which nobody dials"):
        await join(await token_of(desk), tmp_path, public_uri="wss://york:7600/link", say=quiet)
