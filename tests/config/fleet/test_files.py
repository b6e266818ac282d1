from collections.abc import Iterator
from pathlib import Path

import pytest

from config.credentials import children_secrets, connector_secret, mesh_secret
from config.errors import ConfigurationError
from config.fleet import SiteRow, read_sites, sites, write_fleet
from config.load import load

ROWS = [
    SiteRow(name="hq", role="root", address="hq.example.com"),
    SiteRow(name="uk", role="branch", parent="hq", address="uk.example.com"),
    SiteRow(name="store-1", role="leaf", parent="uk"),
    SiteRow(name="store-2", role="leaf", parent="uk", secret_env="SECRET"),
]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_every_site_gets_its_file_in_both_formats(tmp_path: Path) -> None:
    report = write_fleet(ROWS, tmp_path / "out")
    names = [row.name for row in ROWS]
    assert files(tmp_path / "out") == sorted(
        f"{kind}/{name}.{kind}" for kind in ("xml", "yaml") for name in names
    )
    assert sorted(report.files) == sorted(path for path in (tmp_path / "out").rglob("*.*"))
    assert report.sites == tuple(sites(ROWS))
    for site in report.sites:
        for kind in ("xml", "yaml"):
            loaded = load(tmp_path / "out" / kind / f"{site.name}.{kind}")
            assert loaded.data == tmp_path / "out" / kind / "data" / site.name
            assert (loaded.name, loaded.connector, loaded.listener) == (
                site.name,
                site.connector,
                site.listener,
            )


def test_secrets_prove_each_child_to_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = write_fleet(ROWS, tmp_path, ["yaml"], secrets=True)
    assert report.warnings == ()
    uk, store = (load(tmp_path / "yaml" / f"{name}.yaml") for name in ("uk", "store-1"))
    proof = connector_secret(store)
    assert proof is not None
    assert len(proof.reveal()) >= 40
    assert children_secrets(uk)["store-1"] == proof
    assert children_secrets(load(tmp_path / "yaml" / "hq.yaml")) == {"uk": connector_secret(uk)}
    monkeypatch.setenv("SECRET", (tmp_path / "secrets" / "store-2.secret").read_text())
    assert children_secrets(uk)["store-2"] == connector_secret(load(tmp_path / "yaml" / "store-2.yaml"))
    assert len({secret.reveal() for secret in children_secrets(uk).values()}) == 2
    for path in (tmp_path / "secrets").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_a_mesh_of_one_table_knows_its_others_its_children_and_its_secret(tmp_path: Path) -> None:
    rows = [
        SiteRow(name="hq-1", role="root", address="hq-1.example.com", mesh="hq"),
        SiteRow(name="hq-2", role="root", address="hq-2.example.com", mesh="hq"),
        SiteRow(name="store", role="leaf", parent="hq-2"),
    ]
    report = write_fleet(rows, tmp_path, secrets=True)
    assert report.warnings == ()
    one, two, store = (load(tmp_path / "xml" / f"{row.name}.xml") for row in rows)
    assert [(core.name, core.uri) for core in one.mesh.cores] == [("hq-2", "ws://hq-2.example.com:7600/link")]
    assert [core.name for core in two.mesh.cores] == ["hq-1"]
    secret = mesh_secret(one)
    assert secret is not None
    assert secret == mesh_secret(two)
    assert store.connector is not None
    assert store.connector.ways == ("ws://hq-2.example.com:7600/link", "ws://hq-1.example.com:7600/link")
    proof = connector_secret(store)
    assert children_secrets(one) == children_secrets(two) == {"store": proof}
    assert not store.mesh.cores


def test_secrets_stay_when_the_chain_is_written_again(tmp_path: Path) -> None:
    write_fleet(ROWS, tmp_path, secrets=True)
    before = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    write_fleet([*ROWS, SiteRow(name="store-3", role="leaf", parent="uk")], tmp_path, secrets=True)
    after = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert set(after) - set(before) == {"store-3.secret"}
    assert after["uk.children"].startswith(before["uk.children"])
    assert all(after[name] == text for name, text in before.items() if name.endswith(".secret"))


def test_places_of_secrets_in_the_table_are_kept(tmp_path: Path) -> None:
    rows = [
        SiteRow(name="hq", role="root", address="hq", children_secrets="/etc/sapwood/children"),
        SiteRow(name="uk", role="leaf", parent="hq", secret_file="/etc/sapwood/secret"),
    ]
    hq, uk = write_fleet(rows, tmp_path, secrets=True).sites
    assert hq.children_secrets == Path("/etc/sapwood/children")
    assert uk.connector is not None
    assert uk.connector.secret_file == Path("/etc/sapwood/secret")
    assert (tmp_path / "secrets" / "hq.children").read_text().startswith("uk\t")


def test_an_operator_is_told_of_parents_that_would_refuse_and_of_files_left_behind(tmp_path: Path) -> None:
    assert [text.split(" will refuse")[0] for text in write_fleet(ROWS, tmp_path).warnings] == [
        "'hq'",
        "'uk'",
    ]
    local = [
        SiteRow(name="hq", role="root", address="127.0.0.1"),
        SiteRow(name="uk", role="leaf", parent="hq"),
    ]
    warnings = write_fleet(local, tmp_path, ["xml"]).warnings
    assert warnings == tuple(
        f"{tmp_path}/xml/{name}.xml belongs to no site of the table: remove it"
        for name in ("store-1", "store-2")
    )


def test_nothing_is_written_of_a_table_that_is_wrong(tmp_path: Path) -> None:
    for rows, formats in ((ROWS[1:], ("xml",)), (ROWS, ("xml", "toml"))):
        with pytest.raises(ConfigurationError):
            write_fleet(rows, tmp_path / "out", formats)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConfigurationError, match=r"cannot write .*out"):
        write_fleet(ROWS, tmp_path / "out")


def chain(regions: int, stores: int) -> Iterator[str]:
    yield "name,parent,role,address,site_broker"
    yield "hq,,root,hq.example.com,"
    for region in range(regions):
        yield f"region-{region},hq,branch,region-{region}.example.com,"
        yield from (f"store-{region}-{i},region-{region},leaf,,mqtt://localhost:1883" for i in range(stores))


def test_a_chain_of_thousands_is_read_written_and_loaded(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text("\n".join(chain(20, 110)))
    rows = read_sites(tmp_path / "sites.csv")
    report = write_fleet(rows, tmp_path / "out", secrets=True)
    assert len(report.sites) == 1 + 20 * 111
    assert len(report.files) == 2 * 2221 + 2220 + 21
    region = load(tmp_path / "out/xml/region-7.xml")
    assert len(children_secrets(region)) == 110
    assert region.role == "branch"
