"""What proves the name of the node at the other end, by what the link rides on."""

import pytest

from broker.api.proofs import proof
from treeconnector.frames import Position
from treeconnector.identity import Identity, Shown
from treeconnector.link import Link, LinkSettings
from treeconnector.link_settings import Standing
from treeconnector.relations import Relation

BROKER = "mqtt://broker:1883"


def link(*, dials: bool, secret: bytes | None) -> Link:
    """A link whose two ends have greeted each other."""
    child, parent = (
        Link(
            Identity("acme", name, role, bytes([number]) * 16, 1, bytes([number]) * 16),
            LinkSettings(),
            dials=role == "leaf",
            chain=[name],
            now=0.0,
            nonce=bytes([number]) * 16,
        )
        for number, (name, role) in enumerate((("york", "leaf"), ("hq", "root")), 1)
    )
    for packet in child.data_to_send():
        parent.receive(packet, 0.0)
    parent.accept(secret)
    if not dials:
        return parent
    for packet in parent.data_to_send():
        child.receive(packet, 0.0)
    child.accept(secret, Standing(Position(), 0, bytes(16)))
    return child


@pytest.mark.parametrize(
    ("secret", "shown", "expected"),
    [
        (None, Shown(), "nothing"),
        (b"s", Shown(), "its secret"),
        (
            None,
            Shown(certified=frozenset(("york", "york.example"))),
            "a certificate for york, york.example",
        ),
        (None, Shown(place="york", vouched=True), "the broker's permissions for york"),
        (None, Shown(place="york"), "nothing"),
        (b"s", Shown(place="york", vouched=True), "its secret, the broker's permissions for york"),
    ],
)
def test_a_child_is_proven_by_what_it_has_shown(secret: bytes | None, shown: Shown, expected: str) -> None:
    over = BROKER if shown.place else "10.1.0.7:51002"
    assert proof(link(dials=False, secret=secret), Relation.CHILD, shown, over).startswith(expected)


def test_a_parent_is_proven_by_the_secret_or_the_certificate_of_its_port_and_not_of_a_broker() -> None:
    one = link(dials=True, secret=None)
    assert proof(one, Relation.PARENT, Shown(), "wss://hq:7600/link") == "the certificate of its port"
    assert proof(one, Relation.PARENT, Shown(), "ws://hq:7600/link") == "nothing"
    assert proof(one, Relation.PARENT, Shown(), "mqtts://broker:8883") == "nothing"
    kept = link(dials=True, secret=b"s")
    assert proof(kept, Relation.MESH, Shown(), "ws://hq-2:7600/link") == "the secret of the mesh"
