from dataclasses import replace
from pathlib import Path

import pytest

from config.errors import ConfigurationError
from config.fields import XML, YAML
from config.model import (
    Child,
    ClientTls,
    Core,
    Delivery,
    DestinationPolicy,
    Enrolment,
    Http,
    Limits,
    Link,
    LinkBroker,
    Listener,
    Mesh,
    Registration,
    ServerTls,
    Site,
    SiteBroker,
    Spool,
    TreeConnector,
)
from config.rules import check, contradictions, secret_advice

LEAF = TreeConnector(nodetype="leaf", uri="ws://hq")
ROOT = Site(name="n")
FILE = Path("f")


def with_connector(**given: object) -> Site:
    return replace(ROOT, tree_connectors=(replace(LEAF, **given),))  # type: ignore[arg-type]


def policies(*given: DestinationPolicy) -> Site:
    return replace(ROOT, delivery=Delivery(destinations=given))


def link_brokers(*given: LinkBroker) -> Site:
    return replace(ROOT, listener=Listener(link_brokers=given))


MQTT = LinkBroker(uri="mqtt://b")
REGISTERED = Registration(domain="uk.example.com", server="ns1", key_name="k", key_env="K")


def registered(given: Registration = REGISTERED, **listener: object) -> Site:
    listening = Listener(**{"public_uri": "wss://uk1.example.com", **listener})  # type: ignore[arg-type]
    return replace(ROOT, registration=given, listener=listening)


INVITING = Enrolment(authority=FILE)
RENEWED = ClientTls(ca=FILE, certificate=FILE, key=FILE)

IMPOSSIBLE = [
    (
        with_connector(local_addresses=("10.0.0.1", "10.0.0.2", "10.0.0.1")),
        "tree_connectors.0.local_addresses.2",
        "'10.0.0.1' is listed twice",
    ),
    (
        with_connector(uri="amqp://hq", local_addresses=("10.0.0.1",)),
        "tree_connectors.0.local_addresses",
        "the library for amqp binds no address",
    ),
    (replace(ROOT, enrolment=Enrolment(lifetime=60)), "enrolment.lifetime", "needs 'authority' beside it"),
    (replace(with_connector(), enrolment=INVITING), "enrolment.authority", "a leaf has no children"),
    (
        replace(ROOT, enrolment=INVITING, listener=Listener(tls=ServerTls(certificate=FILE, key=FILE))),
        "listener.tls.certificate",
        "the port has a certificate of 'authority': leave 'tls' out",
    ),
    (
        replace(ROOT, enrolment=INVITING, listener=Listener(public_uri="ws://hq")),
        "listener.public_uri",
        "speaks TLS only: write wss://",
    ),
    (
        with_connector(uri="wss://hq", renew=True, tls=ClientTls(ca=FILE)),
        "tree_connectors.0.renew",
        "'renew' needs a 'certificate', a 'key' and a 'ca'",
    ),
    (
        with_connector(uri="mqtts://hq", renew=True, tls=RENEWED),
        "tree_connectors.0.renew",
        "give a way with wss:// or srv://",
    ),
    (with_connector(name_servers=("10.0.0.53",)), "tree_connectors.0.name_servers", "no use without srv://"),
    (
        replace(with_connector(), registration=REGISTERED, listener=registered().listener),
        "registration.domain",
        "a leaf has no children",
    ),
    (registered(replace(REGISTERED, server=None)), "registration.domain", "needs 'server' beside it"),
    (registered(replace(REGISTERED, key_name=None)), "registration.domain", "needs 'key_name' beside it"),
    (registered(replace(REGISTERED, key_env=None)), "registration.domain", "needs 'key_env' or 'key_file'"),
    (registered(replace(REGISTERED, key_file=FILE)), "registration.key_file", "exclude each other"),
    (
        registered(replace(REGISTERED, zone="example.org")),
        "registration.zone",
        "does not lie in 'example.org'",
    ),
    (registered(replace(REGISTERED, zone="k.example.com")), "registration.zone", "does not lie in"),
    (registered(public_uri=None), "registration.domain", "what is registered is the listener's 'public_uri'"),
    (registered(public_uri="wss://10.0.0.5"), "listener.public_uri", "never an IP address"),
    (registered(addresses=("wss://[::1]:7600",)), "listener.addresses.0", "never an IP address"),
    (registered(addresses=("wss://a..b",)), "listener.addresses.0", "no name that DNS can hold"),
    (registered(addresses=("ws://a/" + "x" * 200,)), "listener.addresses.0", "at most 200 characters"),
    (
        replace(ROOT, registration=Registration(server="ns1")),
        "registration.server",
        "needs 'domain' beside it",
    ),
    (
        replace(ROOT, registration=Registration(key_env="K")),
        "registration.key_env",
        "needs 'domain' beside it",
    ),
    (with_connector(user="u"), "tree_connectors.0.user", "it has no use with ws://, where 'secret_env'"),
    (with_connector(password_env="P"), "tree_connectors.0.password_env", "is for the parent's broker"),
    (
        with_connector(uri="mqtt://hq", user="u"),
        "tree_connectors.0.user",
        "needs 'password_env' or 'password_",
    ),
    (
        with_connector(uri="amqp://hq", password_env="P"),
        "tree_connectors.0.password_env",
        "needs 'user' besid",
    ),
    (
        with_connector(uri="amqp://hq", user="u", password_env="P", password_file=FILE),
        "tree_connectors.0.password_file",
        "exclude each other",
    ),
    (with_connector(uri="mqtt://hq/path"), "tree_connectors.0.uri", "an address of MQTT has no path"),
    (
        with_connector(uris=("mqtts://hq/link",)),
        "tree_connectors.0.uris.0",
        "an address of MQTT has no path: leave '/link' out",
    ),
    (
        replace(with_connector(), listener=Listener(link_brokers=(MQTT,))),
        "listener.link_brokers",
        "a leaf has no children",
    ),
    (
        link_brokers(MQTT, LinkBroker(uri="mqtt://b:1883")),
        "listener.link_brokers.1.uri",
        "'mqtt://b:1883' is listed twice",
    ),
    (
        link_brokers(replace(MQTT, uri="mqtts://b/x")),
        "listener.link_brokers.0.uri",
        "an address of MQTT has no path",
    ),
    (
        link_brokers(replace(MQTT, user="u")),
        "listener.link_brokers.0.user",
        "needs 'secret_env' or 'secret_fil",
    ),
    (
        link_brokers(replace(MQTT, secret_env="S")),
        "listener.link_brokers.0.secret_env",
        "needs 'user' beside it",
    ),
    (
        link_brokers(replace(MQTT, user="u", secret_env="S", secret_file=FILE)),
        "listener.link_brokers.0.secret_file",
        "exclude each other",
    ),
    (
        link_brokers(replace(MQTT, tls=ClientTls(ca=FILE))),
        "listener.link_brokers.0.tls",
        "'tls' has no use with mqtt://: write mqtts://, or leave it out",
    ),
    (
        link_brokers(LinkBroker(uri="amqps://b", tls=ClientTls(key=FILE))),
        "listener.link_brokers.0.tls.key",
        "needs 'certificate' beside it",
    ),
    (with_connector(nodetype=None), "tree_connectors.0.nodetype", "expected leaf or branch"),
    (replace(with_connector(), scheme="core"), "tree_connectors.0.nodetype", "exclude each other"),
    (replace(with_connector(), children=(Child(name="c"),)), "children", "a leaf has no children"),
    (replace(with_connector(), children_secrets=FILE), "children_secrets", "a leaf has no children"),
    (
        replace(ROOT, scheme="satellite", children=(Child(name="c"),)),
        "children",
        "a satellite has no children",
    ),
    (replace(ROOT, children=(Child(name="c"), Child(name="c"))), "children.1.name", "listed twice"),
    (replace(ROOT, children=(Child(name="n"),)), "children.0.name", "cannot be its own child"),
    (with_connector(secret_env="A", secret_file=FILE), "tree_connectors.0.secret_file", "exclude each other"),
    (replace(ROOT, http=Http(token_env="A", token_file=FILE)), "http.token_file", "exclude each other"),
    (
        replace(ROOT, http=Http(session_secret_env="A", session_secret_file=FILE)),
        "http.session_secret_file",
        "exclude each other",
    ),
    (
        replace(ROOT, children=(Child(name="c", secret_env="A", secret_file=FILE),)),
        "children.0.secret_file",
        "exclude each other",
    ),
    (
        with_connector(uri="wss://hq", tls=ClientTls(certificate=FILE)),
        "tree_connectors.0.tls.certificate",
        "'certificate' needs 'key'",
    ),
    (
        replace(ROOT, listener=Listener(tls=ServerTls(key=FILE))),
        "listener.tls.key",
        "'key' needs 'certificate'",
    ),
    (
        replace(ROOT, listener=Listener(tls=ServerTls(client_ca=FILE))),
        "listener.tls.client_ca",
        "needs 'certificate'",
    ),
    (with_connector(tls=ClientTls(ca=FILE)), "tree_connectors.0.tls", "write wss://"),
    (
        replace(ROOT, listener=Listener(public_uri="ws://n", tls=ServerTls(certificate=FILE, key=FILE))),
        "listener.public_uri",
        "write wss://",
    ),
    (
        replace(
            ROOT,
            listener=Listener(addresses=("wss://n", "ws://n"), tls=ServerTls(certificate=FILE, key=FILE)),
        ),
        "listener.addresses.1",
        "write wss://",
    ),
    (replace(ROOT, site_broker=SiteBroker(user="u")), "site_broker.user", "no use with the embedded broker"),
    (
        replace(ROOT, site_broker=SiteBroker(secret_env="A")),
        "site_broker.secret_env",
        "no use with the embedded",
    ),
    (
        replace(ROOT, site_broker=SiteBroker(tls=ClientTls(ca=FILE))),
        "site_broker.tls",
        "no use with the embedded",
    ),
    (
        replace(ROOT, site_broker=SiteBroker(uri="mqtt://b", tls=ClientTls(ca=FILE))),
        "site_broker.tls",
        "write mqtts://",
    ),
    (
        replace(ROOT, site_broker=SiteBroker(uri="mqtt://b", user="u")),
        "site_broker.user",
        "needs 'secret_env'",
    ),
    (with_connector(uris=("ws://hq:7600/link",)), "tree_connectors.0.uris.0", "listed twice"),
    (
        replace(with_connector(), mesh=Mesh(cores=(Core(name="b", uri="ws://b"),))),
        "mesh.cores",
        "a leaf is in no mesh",
    ),
    (replace(with_connector(), mesh=Mesh(secret_env="A")), "mesh.secret_env", "a leaf is in no mesh"),
    (
        replace(ROOT, mesh=Mesh(cores=(Core(name=ROOT.name, uri="ws://b"),))),
        "mesh.cores.0.name",
        "this node itself",
    ),
    (
        replace(ROOT, mesh=Mesh(cores=(Core(name="b", uri="ws://b"), Core(name="b", uri="ws://c")))),
        "mesh.cores.1.name",
        "listed twice",
    ),
    (
        replace(
            ROOT, mesh=Mesh(cores=(Core(name="b", uri="ws://b"), Core(name="c", uri="ws://b:7600/link")))
        ),
        "mesh.cores.1.uri",
        "the address of another node",
    ),
    (
        replace(ROOT, mesh=Mesh(cores=(Core(name="b", uri="ws://b"),), tls=ClientTls(ca=FILE))),
        "mesh.tls",
        "write wss://",
    ),
    (
        replace(ROOT, mesh=Mesh(cores=(Core(name="b", uri="ws://b"),), secret_env="A", secret_file=FILE)),
        "mesh.secret_file",
        "exclude each other",
    ),
    (
        Site(name="n", scheme="core", tree_connectors=(TreeConnector(uri="ws://hq"),)),
        "tree_connectors.0",
        "a core has no parent",
    ),
    (
        replace(with_connector(), listener=Listener(public_uri="ws://hq:7600/link")),
        "tree_connectors.0.uri",
        "this node's own address",
    ),
    (replace(ROOT, link=Link(backoff_initial=2.0, backoff_max=1.0)), "link.backoff_initial", "longer than"),
    (
        replace(ROOT, limits=Limits(spool=Spool(max_bytes=2**20, max_bytes_down=2**21))),
        "limits.spool.max_bytes_down",
        "more than 'max_bytes'",
    ),
    (
        policies(DestinationPolicy(pattern="queue:a"), DestinationPolicy(pattern="queue:a")),
        "delivery.destinations.1.pattern",
        "listed twice",
    ),
    (
        policies(DestinationPolicy(pattern="queue:a", scope="tree")),
        "delivery.destinations.0.scope",
        "is for topics",
    ),
    (
        policies(DestinationPolicy(pattern="topic:a", home="n")),
        "delivery.destinations.0.home",
        "is for queues",
    ),
]


@pytest.mark.parametrize(
    ("site", "path", "text"), IMPOSSIBLE, ids=[f"{one[1]}: {one[2]}" for one in IMPOSSIBLE]
)
def test_what_cannot_be_together_is_named_once(site: Site, path: str, text: str) -> None:
    found = contradictions(site, YAML)
    assert [".".join(map(str, one.path)) for one in found] == [path]
    assert text in found[0].message
    with pytest.raises(ConfigurationError):
        check(site)


POSSIBLE = [
    with_connector(
        uri="mqtt://hq", uris=("ws://hq",), local_addresses=("10.0.0.1", "::1"), strategy="random"
    ),
    with_connector(uri="mqtts://hq", uris=("wss://hq",), renew=True, tls=RENEWED),
    replace(ROOT, enrolment=INVITING, listener=Listener(public_uri="wss://hq")),
    registered(),
    registered(replace(REGISTERED, zone="Example.com"), addresses=("amqps://lte.example.com/vhost",)),
    with_connector(uris=("srv://uk.example.com",), name_servers=("10.0.0.53:5300", "[::1]")),
    ROOT,
    with_connector(),
    replace(ROOT, tree_connectors=(replace(LEAF, nodetype="branch"),), children=(Child(name="c"),)),
    replace(ROOT, scheme="satellite", tree_connectors=(replace(LEAF, nodetype=None),)),
    replace(ROOT, scheme="core", children=(Child(name="c"),)),
    with_connector(uri="srv://uk.example.com", tls=ClientTls(ca=FILE)),
    with_connector(uris=("wss://hq",), tls=ClientTls(ca=FILE)),
    replace(ROOT, limits=Limits(spool=Spool(max_bytes=2**20))),
    replace(ROOT, site_broker=SiteBroker(uri="mqtts://b", user="u", secret_env="A", tls=ClientTls(ca=FILE))),
]


@pytest.mark.parametrize("site", POSSIBLE)
def test_what_can_be_together_is_left_alone(site: Site) -> None:
    assert check(site) is site


def test_messages_speak_the_language_of_the_file() -> None:
    site = with_connector(secret_env="A", secret_file=FILE)
    assert "'secretEnv' and 'secretFile'" in contradictions(site, XML)[0].message
    assert "'secret_env' and 'secret_file'" in contradictions(site, YAML)[0].message


def test_a_wrong_value_made_by_a_program_is_named_with_its_place() -> None:
    site = replace(
        with_connector(uri="tcp://hq", uris=("ws://b", "x")),
        name="local",
        link=Link(keep_alive=-1.0),
        tree_connectors=(LEAF, LEAF),
    )
    with pytest.raises(ConfigurationError) as caught:
        check(site, what="demo")
    assert [str(problem).split(": ")[1] for problem in caught.value.problems] == [
        "name",
        "tree_connectors",
        "link.keep_alive",
    ]
    with pytest.raises(ConfigurationError, match=r"tree_connectors\[0\]\.uris\[1\]"):
        check(with_connector(uris=("ws://b", "x")))


def test_advice_about_secrets_is_for_secrets_only() -> None:
    known = {"secretEnv", "secretFile", "sessionSecretEnv", "sessionSecretFile"}
    assert "'sessionSecretEnv'" in secret_advice("sessionSecret", known, XML)
    assert secret_advice("password", known, XML) == ""


@pytest.mark.parametrize("way", [{"uri": "srv://local"}, {"discover": "lan"}])
def test_the_same_network_is_asked_by_whoever_has_a_proof_alone(way: dict[str, str]) -> None:
    (found,) = contradictions(with_connector(**way), YAML)
    assert "prove its name" in found.message
    assert not contradictions(with_connector(**way, secret_env="S"), YAML)
    tls = ClientTls(ca=Path("tree.pem"))
    assert contradictions(with_connector(**way, tls=tls), YAML)
    joined = replace(tls, certificate=Path("york.pem"), key=Path("york.key"))
    assert contradictions(with_connector(**way, tls=joined), YAML)
    assert not contradictions(with_connector(**{"uri": "wss://hq"} | way, tls=joined, renew=True), YAML)


def test_only_a_node_that_can_prove_itself_says_that_it_is_a_parent() -> None:
    site = replace(ROOT, listener=Listener(discoverable=True))
    (found,) = contradictions(site, YAML)
    assert found.path == ("listener", "discoverable")
    assert not contradictions(replace(site, children=(Child(name="york", secret_env="S"),)), YAML)
    assert not contradictions(replace(site, children_secrets=Path("secrets")), YAML)
    assert not contradictions(replace(site, enrolment=Enrolment(authority=Path("authority"))), YAML)
    tls = ServerTls(certificate=Path("hq.pem"), key=Path("hq.key"))
    assert contradictions(replace(site, listener=Listener(discoverable=True, tls=tls)), YAML)


def test_a_leaf_answers_nobody_who_looks_for_a_parent() -> None:
    site = replace(with_connector(), listener=Listener(discoverable=True))
    (found,) = contradictions(site, YAML)
    assert found.path == ("listener", "discoverable")
