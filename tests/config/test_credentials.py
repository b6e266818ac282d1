import copy
import logging
import pickle
from pathlib import Path

import pytest

from config.credentials import (
    Secret,
    children_secrets,
    connector_secret,
    permitted_children,
    read_table,
    resolve_secret,
    session_secret,
    site_broker_secret,
    token,
)
from config.errors import ConfigurationError
from config.model import Child, Http, Site, SiteBroker, TreeConnector


def secret_file(path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


def test_a_secret_comes_from_the_environment_or_a_file_without_outer_space(tmp_path: Path) -> None:
    file = secret_file(tmp_path / "s", "hunter2\n")
    for found in (
        resolve_secret("A", None, what="x", environ={"A": " hunter2 "}),
        resolve_secret(None, file, what="x"),
    ):
        assert found is not None
        assert found.reveal() == "hunter2"
    assert resolve_secret(None, None, what="x") is None


def test_a_secret_is_shown_nowhere() -> None:
    secret = Secret("hunter2", "environment variable A")
    assert repr(secret) == str(secret) == f"{secret}" == "<Secret from environment variable A>"
    for leak in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="not to be stored"):
            leak(secret)


def test_equal_secrets_are_equal_wherever_they_come_from() -> None:
    assert Secret("é", "a") == Secret("é", "b")
    assert Secret("a", "a") != Secret("b", "a")
    assert Secret("a", "a") != "a"
    assert len({Secret("a", "a"), Secret("a", "b")}) == 1


@pytest.mark.parametrize(
    "text", ["", " \n", "hunter2\nhunter3", "hunter2" * 1000, b"hunter2\xff", b"hunter2\0x"]
)
def test_what_is_no_secret_is_refused_and_not_shown(tmp_path: Path, text: str | bytes) -> None:
    file = secret_file(tmp_path / "s", text)
    with pytest.raises(ConfigurationError, match=r"^secret of 'x': ") as caught:
        resolve_secret(None, file, what="secret of 'x'")
    assert str(file) in str(caught.value)
    assert "hunter" not in str(caught.value)


def test_a_secret_that_cannot_be_had_is_named() -> None:
    with pytest.raises(ConfigurationError, match="token: the environment variable A is not set"):
        resolve_secret("A", None, what="token", environ={})
    with pytest.raises(ConfigurationError, match="token: cannot read /nowhere: No such file"):
        resolve_secret(None, Path("/nowhere"), what="token")


def test_a_file_that_everyone_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        resolve_secret(None, secret_file(tmp_path / "closed", "hunter2", 0o640), what="x")
        assert caplog.records == []
        resolve_secret(None, secret_file(tmp_path / "open", "hunter2", 0o644), what="x")
    assert "open can be read by everyone" in caplog.text
    assert "hunter2" not in caplog.text


def test_each_secret_of_a_site_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ABCD":
        monkeypatch.setenv(name, name.lower())
    site = Site(
        name="n",
        tree_connectors=(TreeConnector(nodetype="leaf", uri="ws://h", secret_env="A"),),
        site_broker=SiteBroker(uri="mqtt://b", user="u", secret_env="B"),
        http=Http(token_env="C", session_secret_env="D"),
    )
    found = [get(site) for get in (connector_secret, site_broker_secret, token, session_secret)]
    assert [one and one.reveal() for one in found] == ["a", "b", "c", "d"]
    assert [get(Site(name="n")) for get in (connector_secret, site_broker_secret, token, session_secret)] == [
        None
    ] * 4


def test_permits_come_from_the_list_and_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "from-list")
    table = secret_file(tmp_path / "t", "# stores\nstore-1\tone two\n\nstore-2   two\r\nstore-3 three")
    permits = (
        Child(name="store-3", secret_env="A"),
        Child(name="store-4"),
        Child(name="store-1", max_routes=1),
    )
    site = Site(name="n", children_secrets=table, children=permits)
    secrets = children_secrets(site)
    assert {name: secret.reveal() for name, secret in secrets.items()} == {
        "store-1": "one two",
        "store-2": "two",
        "store-3": "from-list",
    }
    assert permitted_children(site, secrets) == {"store-1", "store-2", "store-3", "store-4"}
    assert permitted_children(Site(name="n"), {}) is None


def test_every_mistake_of_a_table_is_listed_without_its_secrets(tmp_path: Path) -> None:
    table = secret_file(tmp_path / "t", "a hunter2\nlocal hunter2\na hunter2\nb\n../c hunter2\n")
    with pytest.raises(ConfigurationError) as caught:
        read_table(table)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4, 5]
    assert "no secret follows 'b'" in str(caught.value)
    assert "hunter2" not in str(caught.value)
