"""Who may connect, and what its name is proved with."""

from pathlib import Path
from typing import Any

import pytest

from broker.link_secrets import LinkSecrets
from config.model import Child, Core, Listener, Mesh, ServerTls, Site, TreeConnector
from sapwood.protocol.errors import LinkRefused, Refusal
from treeconnector.identity import Shown

CERTIFIED = Listener(
    host="0.0.0.0",
    tls=ServerTls(certificate=Path("a"), key=Path("b"), client_ca=Path("c")),
)


def permits(listener: Listener, *children: Child) -> LinkSecrets:
    return LinkSecrets(Site(name="hq", listener=listener, children=children))


def test_a_certificate_proves_the_name_that_it_carries_and_no_other() -> None:
    found = permits(CERTIFIED)
    assert found.secret_of("durham", False, Shown(frozenset({"durham.example.com"}))) is None
    with pytest.raises(LinkRefused, match=r"'bath' shows 'hq' is for durham.example.com: give it one for"):
        found.secret_of("bath", False, Shown(frozenset({"durham.example.com"})))
    with pytest.raises(LinkRefused, match="is for no name at all"):
        found.secret_of("bath", False)


def test_also_a_child_that_is_permitted_without_a_secret_is_named_by_its_certificate() -> None:
    found = permits(CERTIFIED, Child(name="bath"))
    assert found.secret_of("bath", False, Shown(frozenset({"bath"}))) is None
    with pytest.raises(LinkRefused, match="is for durham"):
        found.secret_of("bath", False, Shown(frozenset({"durham"})))
    with pytest.raises(LinkRefused, match="no permit for a child 'durham'"):
        found.secret_of("durham", False, Shown(frozenset({"durham"})))


FOUND = Shown(anybody=True)
"""Of a parent whose address came by multicast, over a line without TLS."""


def child(**connector: Any) -> LinkSecrets:
    return LinkSecrets(
        Site(name="york", tree_connectors=(TreeConnector(nodetype="leaf", uri="srv://local", **connector),))
    )


def test_a_parent_that_was_found_is_named_by_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside a secret: whoever stands between could hand that on."""
    monkeypatch.setenv("YORK", "hush")
    own, other = frozenset({"hq.example.com"}), frozenset({"till-7", "localhost"})
    for found, secret in ((child(renew=True), None), (child(secret_env="YORK"), b"hush")):
        assert found.secret_of("hq", True, FOUND._replace(certified=own)) == secret
        assert found.secret_of("hq", True, Shown(certified=other)) == secret
        with pytest.raises(LinkRefused, match="'hq' shows 'york' is for localhost, till-7"):
            found.secret_of("hq", True, FOUND._replace(certified=other))


def test_a_parent_that_was_found_without_tls_proves_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YORK", "hush")
    assert child(secret_env="YORK").secret_of("hq", True, FOUND) == b"hush"
    with pytest.raises(LinkRefused, match="for no name at all"):
        child(renew=True).secret_of("hq", True, FOUND)


class Inviting:
    """An office that knows `york`, whatever certificate it shows."""

    def is_member(self, name: str) -> bool:
        return name == "york"

    def admit_link(self, name: str, shown: Shown, role: str) -> None:
        if name != "york":
            raise LinkRefused(Refusal.SECRET, f"{name!r} did not join")


def test_who_joined_by_invitation_needs_no_other_permit() -> None:
    found = permits(Listener(), Child(name="bath"))
    found.office = Inviting()  # type: ignore[assignment]
    assert found.secret_of("york", False) is None
    with pytest.raises(LinkRefused, match="'bath' did not join"):
        found.secret_of("bath", False)
    with pytest.raises(LinkRefused, match="no permit for a child 'durham'"):
        found.secret_of("durham", False)


def test_a_file_that_names_its_last_child_no_more_opens_the_node_to_nobody() -> None:
    """Read again while the node runs; a start with such a file asks for no names."""
    site = Site(name="hq", listener=Listener())
    again = LinkSecrets(site, closed=True)
    assert again.names_nobody
    with pytest.raises(LinkRefused, match="no permit for a child 'bath'"):
        again.secret_of("bath", False)
    again.office = Inviting()  # type: ignore[assignment]
    assert again.secret_of("york", False) is None
    started = LinkSecrets(site)
    assert not started.names_nobody
    assert started.secret_of("bath", False) is None


def test_a_secret_proves_a_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATH", "hush")
    found = permits(CERTIFIED, Child(name="bath", secret_env="BATH"))
    assert found.secret_of("bath", False, Shown(frozenset({"another"}))) == b"hush"


def test_without_certificates_only_this_machine_needs_no_secret() -> None:
    assert permits(Listener()).secret_of("bath", False) is None
    with pytest.raises(LinkRefused, match="from its own machine only"):
        permits(Listener(host="0.0.0.0")).secret_of("bath", False, Shown(frozenset({"bath"})))


def test_at_a_broker_a_child_is_the_one_whose_topics_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATH", "hush")
    found = permits(Listener(), Child(name="bath", secret_env="BATH"), Child(name="durham"))
    assert found.secret_of("bath", False, Shown(place="bath")) == b"hush"
    for place in ("durham", "bath.example.com"):
        with pytest.raises(LinkRefused, match=rf"'bath' came over the topics or queues of '{place}'"):
            found.secret_of("bath", False, Shown(place=place, vouched=True))


@pytest.mark.parametrize("listener", [Listener(), CERTIFIED])
def test_at_a_broker_its_permissions_prove_a_name_and_the_ports_address_proves_nothing(
    listener: Listener,
) -> None:
    found = permits(listener)
    assert found.secret_of("bath", False, Shown(place="bath", vouched=True)) is None
    with pytest.raises(LinkRefused, match="say proves_names at the link broker"):
        found.secret_of("bath", False, Shown(place="bath"))
    open_to_all = permits(Listener(allow_anonymous=True))
    assert open_to_all.secret_of("bath", False, Shown(place="bath")) is None


def test_a_child_that_a_broker_vouches_for_needs_a_permit_too() -> None:
    with pytest.raises(LinkRefused, match="no permit for a child 'durham'"):
        permits(Listener(), Child(name="bath")).secret_of(
            "durham", False, Shown(place="durham", vouched=True)
        )


def test_who_is_listed_in_the_mesh_needs_no_permit_as_a_child_but_proves_its_name() -> None:
    core = Core(name="hq-2", uri="wss://hq-2.example.com/link")
    site = Site(name="hq", listener=CERTIFIED, children=(Child(name="bath"),), mesh=Mesh(cores=(core,)))
    found = LinkSecrets(site)
    certified = Shown(frozenset({"hq-2"}))
    assert found.secret_of_core("hq-2", False, certified) is None
    with pytest.raises(LinkRefused, match="is for no name at all"):
        found.secret_of_core("hq-2", False)
    with pytest.raises(LinkRefused, match="'hq-2' came over the topics or queues of 'bath'"):
        found.secret_of_core("hq-2", False, Shown(place="bath"))
    with pytest.raises(LinkRefused, match="no permit for a child 'durham'"):
        found.secret_of_core("durham", False, Shown(frozenset({"durham"})))
    with pytest.raises(LinkRefused, match="no permit for a child 'hq-2'"):
        found.secret_of("hq-2", False, certified)
