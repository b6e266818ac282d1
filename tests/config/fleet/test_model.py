from dataclasses import replace
from pathlib import Path

import pytest

from config.errors import ConfigurationError
from config.fleet import SiteRow, sites
from config.model import Child, ClientTls, LinkBroker, Listener, ServerTls, Site, SiteBroker, TreeConnector

HQ = SiteRow(
    name="hq", role="root", address="hq.example.com", tree="acme", certificate="c", key="k", client_ca="a"
)
UK = SiteRow(
    name="uk", role="branch", parent="hq", address="uk:7700 uk-2:7701", ca="ca.pem", listen_port="7999"
)
STORE = SiteRow(
    name="store",
    role="leaf",
    parent="uk",
    site_broker="mqtts://b",
    site_broker_user="u",
    site_broker_secret_file="p",
    zone="z",
    region="North",
    data="/var/lib/sapwood",
    secret_env="S",
)


def test_a_row_becomes_the_model_of_its_site() -> None:
    hq, uk, store = sites([HQ, UK, STORE])
    tls = ServerTls(certificate=Path("c"), key=Path("k"), client_ca=Path("a"))
    assert hq == Site(
        name="hq",
        tree="acme",
        listener=Listener(host="0.0.0.0", public_uri="wss://hq.example.com:7600/link", tls=tls),
        children=(Child(name="uk", role="branch", nodes=("store",)),),
    )
    up = TreeConnector(
        nodetype="branch", uri="wss://hq.example.com:7600/link", tls=ClientTls(ca=Path("ca.pem"))
    )
    announced = ("ws://uk:7700/link", "ws://uk-2:7701/link")
    assert uk == Site(
        name="uk",
        tree="acme",
        applications="local",
        tree_connectors=(up,),
        listener=Listener(host="0.0.0.0", port=7999, public_uri=announced[0], addresses=announced[1:]),
        children=(Child(name="store", role="leaf"),),
    )
    assert store == Site(
        name="store",
        tree="acme",
        zone="z",
        data=Path("/var/lib/sapwood"),
        site_broker=SiteBroker(uri="mqtts://b", user="u", secret_file=Path("p")),
        tree_connectors=(
            TreeConnector(nodetype="leaf", uri=announced[0], uris=announced[1:], secret_env="S"),
        ),
    )


def test_where_a_node_is_reached_at_a_broker_it_listens_and_its_children_dial() -> None:
    hq = SiteRow(
        name="hq",
        role="root",
        address="mqtts://hq.example.com ws://hq.example.com:7700 amqp://hq.example.com/stores",
        ca="ca.pem",
        link_user="hq",
        link_password_env="P",
    )
    store = SiteRow(
        name="store", role="leaf", parent="hq", ca="ca.pem", link_user="store", link_password_file="p"
    )
    plain = SiteRow(name="plain", role="leaf", parent="hq")
    root, leaf, bare = sites([hq, store, plain])
    assert root.listener.link_brokers == (
        LinkBroker(
            uri="mqtts://hq.example.com:8883", user="hq", secret_env="P", tls=ClientTls(ca=Path("ca.pem"))
        ),
        LinkBroker(uri="amqp://hq.example.com:5672/stores", user="hq", secret_env="P"),
    )
    assert (root.listener.host, root.listener.port) == ("0.0.0.0", 7700)
    ways = (
        "mqtts://hq.example.com:8883",
        "ws://hq.example.com:7700/link",
        "amqp://hq.example.com:5672/stores",
    )
    assert leaf.connector == TreeConnector(
        nodetype="leaf",
        uri=ways[0],
        uris=ways[1:],
        user="store",
        password_file=Path("p"),
        tls=ClientTls(ca=Path("ca.pem")),
    )
    assert bare.connector == TreeConnector(nodetype="leaf", uri=ways[0], uris=ways[1:])


def test_a_login_at_a_broker_is_for_links_over_brokers_only() -> None:
    store = replace(STORE, link_user="store", link_password_env="P")
    assert sites([HQ, UK, store]) == sites([HQ, UK, STORE])
    hq = replace(HQ, address="mqtt://hq.example.com")
    assert (sites([hq, UK, STORE])[0].listener.host, sites([hq, UK, STORE])[0].listener.port) == (
        Listener().host,
        Listener().port,
    ), "nobody dials its port from elsewhere"
    hq = replace(hq, link_user="hq")
    with pytest.raises(ConfigurationError, match="'user' needs 'secret_env' or 'secret_file' beside it"):
        sites([hq, UK, STORE])


def test_a_node_on_this_machine_listens_on_this_machine() -> None:
    listeners = [
        sites([SiteRow(name="hq", role="root", address=address, listen_host=host)])[0].listener
        for address, host in (("127.0.0.1:7700", ""), ("hq", "10.0.0.1"), ("", ""), ("mqtt://b", ""))
    ]
    assert [(one.host, one.port) for one in listeners] == [
        ("127.0.0.1", 7700),
        ("10.0.0.1", 7600),
        ("127.0.0.1", 7600),
        ("127.0.0.1", 7600),
    ]


def test_rows_that_contradict_themselves_are_refused_with_their_place() -> None:
    row = SiteRow(name="hq", role="root", address="hq", site_broker_user="u", file="t.csv", line=2)
    with pytest.raises(ConfigurationError, match=r"t\.csv:2: 'hq': site_broker\.user: .*embedded"):
        sites([row])
    with pytest.raises(ConfigurationError) as caught:
        sites([SiteRow(name="a b", role="root"), SiteRow(name="c", role="leaf", parent="x")])
    assert [problem.column for problem in caught.value.problems] == ["name", "parent"]
