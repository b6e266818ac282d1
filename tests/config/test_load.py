from pathlib import Path

import pytest

from config.errors import ConfigurationError
from config.load import anchored, load
from config.model import Child, ClientTls, Site, TreeConnector


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.xml", '<broker name="hq"/>'), ("a.yaml", "broker: {name: hq}"), ("a.YML", "broker: {name: hq}")],
)
def test_the_suffix_tells_the_format(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert load(tmp_path / name) == Site(name="hq", data=tmp_path / "data" / "hq")


def test_relative_paths_begin_at_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ClientTls(ca=Path("tls/ca.pem"), certificate=Path("/etc/c.pem"), key=Path("k"))
    connector = TreeConnector(nodetype="branch", uri="wss://hq", tls=tls, secret_file=Path("s"))
    site = anchored(
        Site(name="n", tree_connectors=(connector,), children=(Child(name="c", secret_file=Path("c")),)),
        tmp_path,
    )
    assert site.connector is not None
    assert site.connector.tls == ClientTls(
        ca=tmp_path / "tls/ca.pem", certificate=Path("/etc/c.pem"), key=tmp_path / "k"
    )
    assert site.connector.secret_file == tmp_path / "s"
    assert site.children[0].secret_file == tmp_path / "c"
    assert site.data_directory == tmp_path / "data/n"
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text("broker: {name: n}")
    assert load("x.yaml").data == tmp_path / "data/n"


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent.xml", "cannot read the file: No such file"), ("a.json", "expected a file that ends in .xml")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        load(tmp_path / name)
    assert caught.value.problems[0].file == str(tmp_path / name)


def test_an_endless_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.xml").symlink_to("/dev/zero")
    with pytest.raises(ConfigurationError, match="it is a device: expected a plain file"):
        load(tmp_path / "a.xml")
