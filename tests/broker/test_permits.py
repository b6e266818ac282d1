"""Who may connect, and what its name is proved with."""

from pathlib import Path

import pytest

from broker.permits import Permits
from config.model import Child, Listener, ServerTls, Site
from treeconnector.errors import LinkRefused

CERTIFIED = Listener(
    host="0.0.0.0",
    tls=ServerTls(certificate=Path("a"), key=Path("b"), client_ca=Path("c")),
)


def permits(listener: Listener, *children: Child) -> Permits:
    return Permits(Site(name="hq", listener=listener, children=children))


def test_a_certificate_proves_the_name_that_it_carries_and_no_other() -> None:
    found = permits(CERTIFIED)
    assert found.secret_of("durham", False, frozenset({"durham.example.com"})) is None
    with pytest.raises(LinkRefused, match=r"'bath' shows 'hq' is for durham.example.com: give it one for"):
        found.secret_of("bath", False, frozenset({"durham.example.com"}))
    with pytest.raises(LinkRefused, match="is for no name at all"):
        found.secret_of("bath", False)


def test_also_a_child_that_is_permitted_without_a_secret_is_named_by_its_certificate() -> None:
    found = permits(CERTIFIED, Child(name="bath"))
    assert found.secret_of("bath", False, frozenset({"bath"})) is None
    with pytest.raises(LinkRefused, match="is for durham"):
        found.secret_of("bath", False, frozenset({"durham"}))
    with pytest.raises(LinkRefused, match="no permit for a child 'durham'"):
        found.secret_of("durham", False, frozenset({"durham"}))


def test_a_secret_proves_a_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATH", "hush")
    found = permits(CERTIFIED, Child(name="bath", secret_env="BATH"))
    assert found.secret_of("bath", False, frozenset({"another"})) == b"hush"


def test_without_certificates_only_this_machine_needs_no_secret() -> None:
    assert permits(Listener()).secret_of("bath", False) is None
    with pytest.raises(LinkRefused, match="from its own machine only"):
        permits(Listener(host="0.0.0.0")).secret_of("bath", False, frozenset({"bath"}))
