from pathlib import Path

import pytest

from config.model import AdvisoryLog, Listener, Site, Spool, TreeConnector


def connector(nodetype: str | None) -> TreeConnector:
    return TreeConnector(nodetype=nodetype, uri="ws://a", uris=("ws://b",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("site", "role"),
    [
        (Site(name="n"), "root"),
        (Site(name="n", tree_connectors=(connector("leaf"),)), "leaf"),
        (Site(name="n", tree_connectors=(connector("branch"),)), "branch"),
        (Site(name="n", scheme="core"), "root"),
        (Site(name="n", scheme="satellite"), "leaf"),
        (Site(name="n", scheme="satellite", tree_connectors=(connector(None),)), "leaf"),
    ],
)
def test_the_role_follows_from_connector_and_scheme(site: Site, role: str) -> None:
    assert site.role == role


def test_the_ways_to_a_parent_are_in_order() -> None:
    assert connector("leaf").ways == ("ws://a", "ws://b")
    assert Site(name="n").connector is None


def test_data_and_advisories_have_their_places() -> None:
    assert Site(name="n").data_directory == Path("data/n")
    assert Site(name="n", data=Path("/d")).advisory_directory == Path("/d/advisories")
    assert Site(name="n", advisory_log=AdvisoryLog(directory=Path("/a"))).advisory_directory == Path("/a")


def test_shares_of_the_spool_follow_from_the_whole() -> None:
    spool = Spool(max_bytes=2**20, max_bytes_up=5)
    assert (spool.up, spool.down, spool.rerouted) == (5, 2**19, 2**18)


def test_a_listener_is_safe_by_default() -> None:
    assert Listener().loopback
    assert not Listener().allow_anonymous
    assert not Listener(host="0.0.0.0").loopback
