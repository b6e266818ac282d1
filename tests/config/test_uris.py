import pytest

from config.kinds import Fault
from config.uris import (
    ANNOUNCED_URI,
    BROKER_URI,
    DOMAIN,
    HOST,
    LINK_BROKER_URI,
    LINK_URI,
    NAME_SERVER,
    UPDATE_SERVER,
    Address,
    address,
    is_loopback,
)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("ws://hq", Address("ws", "hq", 7600, "/link")),
        ("wss://hq:443/", Address("wss", "hq", 443, "/link")),
        ("wss://hq/other", Address("wss", "hq", 7600, "/other")),
        ("ws://[::1]:99/link", Address("ws", "::1", 99, "/link")),
        ("mqtt://b", Address("mqtt", "b", 1883, "")),
        ("mqtts://b", Address("mqtts", "b", 8883, "")),
        ("amqp://b/vhost", Address("amqp", "b", 5672, "/vhost")),
        ("amqps://b:1", Address("amqps", "b", 1, "")),
        ("srv://uk.example.com", Address("srv", "uk.example.com", 0, "")),
    ],
)
def test_a_link_uri_is_completed(uri: str, expected: Address) -> None:
    assert address(LINK_URI.parse(uri)) == expected
    assert address(expected.uri) == expected


@pytest.mark.parametrize(
    ("uri", "vhost"),
    [
        ("amqp://b", "/"),
        ("amqp://b/", "/"),
        ("amqp://b/%2f", "/"),
        ("amqp://b/stores", "stores"),
        ("amqps://b/a%20b", "a b"),
    ],
)
def test_the_path_of_an_amqp_address_is_its_virtual_host(uri: str, vhost: str) -> None:
    assert address(LINK_BROKER_URI.parse(uri)).vhost == vhost


def test_a_link_broker_is_a_broker() -> None:
    with pytest.raises(
        Fault, match=r"children dial the node's own port on WebSocket; a link broker is mqtt://"
    ):
        LINK_BROKER_URI.parse("wss://hq:7600/link")
    assert [scheme for scheme in ("ws", "mqtt", "amqps", "srv") if address(f"{scheme}://h").brokered] == [
        "mqtt",
        "amqps",
    ]


def test_tls_follows_from_the_scheme() -> None:
    assert [
        scheme for scheme in ("ws", "wss", "mqtt", "mqtts", "amqp", "amqps") if address(f"{scheme}://h").tls
    ] == [
        "wss",
        "mqtts",
        "amqps",
    ]


@pytest.mark.parametrize("uri", ["tcp://hq:7600", "TCP://hq", "http://hq", "https://hq/link"])
def test_a_scheme_that_is_no_carrier_is_refused_with_what_to_use(uri: str) -> None:
    with pytest.raises(Fault, match="write ws://HOST:7600/link, or wss:// with TLS"):
        LINK_URI.parse(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "hq",
        "ws://",
        "ws://h:0",
        "ws://h:65536",
        "ws://h:x",
        "ws://h h",
        "ws:///link",
        "srv://h/x",
        "ftp://h",
    ],
)
def test_what_is_no_link_uri_is_refused(uri: str) -> None:
    with pytest.raises(Fault):
        LINK_URI.parse(uri)


@pytest.mark.parametrize("kind", [LINK_URI, ANNOUNCED_URI, BROKER_URI])
@pytest.mark.parametrize("user", ["user", "user:hunter2"])
def test_a_user_or_password_in_a_uri_is_refused_and_not_shown(kind: object, user: str) -> None:
    with pytest.raises(Fault, match="a URI holds no user and no password") as caught:
        kind.parse(f"amqp://{user}@host")  # type: ignore[attr-defined]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", [LINK_URI, ANNOUNCED_URI])
def test_a_link_that_could_never_be_dialled_for_its_fragment_is_refused(kind: object) -> None:
    with pytest.raises(Fault, match="has no part after '#': leave it out"):
        kind.parse("wss://hq.example/link?a=1#b")  # type: ignore[attr-defined]
    assert kind.parse("wss://hq.example/link?a=1") == "wss://hq.example/link?a=1"  # type: ignore[attr-defined]


def test_a_site_broker_is_embedded_mqtt_or_amqp() -> None:
    for uri in ("embedded", "mqtt://localhost:1883", "amqps://h/vhost"):
        assert BROKER_URI.parse(uri) == uri
    for uri in ("ws://h", "tcp://h:1883", "Embedded", "srv://h"):
        with pytest.raises(Fault):
            BROKER_URI.parse(uri)


@pytest.mark.parametrize("server", ["10.0.0.53", "10.0.0.53:5300", "[::1]", "[2001:db8::1]:53"])
def test_a_name_server_is_an_address(server: str) -> None:
    assert NAME_SERVER.parse(server) == UPDATE_SERVER.parse(server) == server


@pytest.mark.parametrize(
    "server",
    ["ns1.example.com", "10.0.0.300", "10.0.0.53:0", "10.0.0.53:70000", "[::1::2]", "::1", "[1.2]:5"],
)
def test_what_is_no_name_server_is_refused(server: str) -> None:
    with pytest.raises(Fault):
        NAME_SERVER.parse(server)


def test_a_server_that_takes_updates_may_have_a_name() -> None:
    assert UPDATE_SERVER.parse("ns1.example.com:5300") == "ns1.example.com:5300"
    for server in ("", "ns1:0", "ns1:65536", "10.0.0.300", "ns 1", "ns1:53:53"):
        with pytest.raises(Fault):
            UPDATE_SERVER.parse(server)


@pytest.mark.parametrize("domain", ["uk.example.com", "test", "_x.a-b"])
def test_a_domain_has_labels_that_dns_can_hold(domain: str) -> None:
    assert DOMAIN.parse(domain) == domain
    for wrong in (f".{domain}", f"{domain}.", f"a..{domain}", f"{'a' * 64}.{domain}"):
        with pytest.raises(Fault):
            DOMAIN.parse(wrong)


def test_an_announced_address_is_no_look_up() -> None:
    with pytest.raises(Fault):
        ANNOUNCED_URI.parse("srv://h")


def test_a_loopback_host_is_known() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "127.example.com", "::", "hq", "10.127.0.1")))


def test_a_host_is_a_name_or_an_address() -> None:
    for host in ("0.0.0.0", "::", "hq.example.com", "fe80::1"):
        assert HOST.parse(host) == host
    for host in ("", "a b", "[::1]", "h:1:x", "h/x"):
        with pytest.raises(Fault):
            HOST.parse(host)
