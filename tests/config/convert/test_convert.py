"""Bridges of other brokers, as their manuals write them, made into site files."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.convert import Conversion, convert
from config.errors import ConfigurationError
from config.load import load

BRIDGE = """\
# the till's broker
listener 1884 127.0.0.1
persistence true

connection hq
address hq.example.com:8883 spare.example.com
remote_clientid store-0042
remote_username store
remote_password hunter2
local_username node
local_password swordfish
bridge_cafile /etc/ssl/ca.pem
bridge_insecure true
cleansession false
start_type lazy
keepalive_interval 30
restart_timeout 5 60
topic # out 1 till/ store/0042/till/
topic prices/# in 2
topic alarm both
topic /y both 1 store shop
topic "" out 1 a/temperature b/temperature
"""


def rules(made: Conversion) -> list[tuple[str, str, str | None, str | None]]:
    return [
        (rule.pattern, rule.direction, rule.local_prefix, rule.tree_prefix)
        for rule in made.site.site_broker.rules
    ]


def said(made: Conversion, line: int = 0) -> str:
    return "\n".join(note.text for note in made.notes if note.line == line)


def bridge(*lines: str) -> Conversion:
    return convert("connection hq\naddress hq.example.com\n" + "\n".join(lines))


# --- Mosquitto


def test_a_bridge_of_mosquitto_becomes_a_site() -> None:
    made = convert(BRIDGE)
    site = made.site
    assert (site.name, site.role, site.site_broker.uri) == ("store-0042", "leaf", "mqtt://127.0.0.1:1884")
    assert (site.site_broker.user, site.site_broker.secret_env) == ("node", "SITE_BROKER_PASSWORD")
    assert site.connector is not None
    assert site.connector.ways == ("mqtts://hq.example.com:8883", "mqtts://spare.example.com:1883")
    assert (site.connector.user, site.connector.secret_env) == ("store", "SAPWOOD_SECRET")
    assert site.connector.password_env == "PARENT_BROKER_PASSWORD"
    assert (site.connector.tls.ca, site.connector.tls.verify_hostname) == (Path("/etc/ssl/ca.pem"), False)
    assert (site.link.keep_alive, site.link.backoff_initial, site.link.backoff_max) == (30, 5, 60)
    assert rules(made) == [
        ("topic:#", "out", "till/", "store/0042/till/"),
        ("topic:prices/#", "in", None, None),
        ("topic:alarm", "both", None, None),
        ("topic:y", "both", "store/", "shop/"),
        ("topic:temperature", "out", "a/", "b/"),
    ]


def test_no_password_is_repeated_anywhere() -> None:
    made = convert(BRIDGE)
    for text in (made.text("yaml"), made.text("xml"), repr(made)):
        assert "hunter2" not in text
        assert "swordfish" not in text


@pytest.mark.parametrize("kind", ["yaml", "xml"])
def test_the_file_can_be_used_and_holds_the_notes(kind: str, tmp_path: Path) -> None:
    made = convert(BRIDGE)
    file = tmp_path / f"site.{kind}"
    file.write_text(made.text(kind))
    assert load(file).site_broker.rules == made.site.site_broker.rules
    assert "start_type 'lazy'" in file.read_text()


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("bridge_psk 00ff", "no counterpart: pre-shared keys"),
        ("bridge_future yes", "no counterpart: bridge_future is not known"),
        ("notifications true", "no counterpart: the state of a link"),
        ("cleansession true", "not needed: what waits for an absent neighbour is kept on disk"),
        ("topic x sideways", "left out: 'sideways' is no direction"),
        ("topic x out 1 till store/", "no counterpart: the prefix 'till' ends within a level of 'tillx'"),
        ('topic "" both 1 a/one b/two', "no counterpart: topic 'a/one' is called 'b/two' there"),
        ("topic $share/group/x in", "no counterpart: a shared subscription is a queue"),
        ("topic x out 0", "QoS 0 crossed this bridge"),
        ("keepalive_interval soon", "left out: keepalive_interval 'soon'"),
        ("restart_timeout never", "left out: restart_timeout 'never'"),
        ("include_dir /etc/mosquitto/conf.d", "the files in '/etc/mosquitto/conf.d' were not read"),
    ],
)
def test_what_was_not_kept_is_said_with_its_line(line: str, note: str) -> None:
    assert note in said(bridge(line), 3)


def test_every_option_of_a_bridge_is_known() -> None:
    """As the manual page of Mosquitto 2.0 lists them."""
    manual = """address addresses bridge_attempt_unsubscribe bridge_bind_address bridge_max_packet_size
        bridge_outgoing_retain bridge_protocol_version cleansession clientid connection idle_timeout
        keepalive_interval local_clientid local_cleansession local_password local_username notifications
        notification_topic notifications_local_only password remote_clientid remote_password remote_username
        restart_timeout round_robin start_type threshold topic try_private username bridge_alpn bridge_cafile
        bridge_capath bridge_certfile bridge_identity bridge_insecure bridge_keyfile bridge_psk
        bridge_require_ocsp bridge_tls_version"""
    from config.convert.mosquitto import OPTIONS

    assert set(manual.split()) - {"connection"} <= set(OPTIONS)


def test_one_of_several_connections_is_chosen_by_name() -> None:
    both = "connection a\naddress one.example\nconnection b\naddress two.example\n"
    with pytest.raises(
        ConfigurationError, match="a node has one parent: choose with --connection one of 'a', 'b'"
    ):
        convert(both)
    with pytest.raises(ConfigurationError, match="no connection 'c'"):
        convert(both, connection="c")
    made = convert(both, connection="b", name="store-7", tree="acme", parent="wss://two.example:7600/link")
    assert (made.site.name, made.site.tree) == ("store-7", "acme")
    assert made.site.tree_connectors[0].uri == "wss://two.example:7600/link"


def test_several_connections_to_one_peer_become_one_file() -> None:
    here = "remote_username store\nkeepalive_interval 30\n"
    made = convert(
        f"connection down\naddress hq.example.com\n{here}topic prices/# in 1\ntopic alarms both 1\n"
        "connection other\naddress elsewhere.example\n"
        "connection up\naddress hq.example.com spare.example.com\nremote_username till\n"
        "keepalive_interval 60\ntopic sales/# out 1\ntopic alarms both 1\ntopic prices/tea in 1\n",
        connection="up",
        name="york",
    )
    assert rules(made) == [
        ("topic:prices/#", "in", None, None),
        ("topic:alarms", "both", None, None),
        ("topic:sales/#", "out", None, None),
        ("topic:prices/tea", "in", None, None),
    ]
    (connector,) = made.site.tree_connectors
    assert connector.ways == ("mqtt://hq.example.com:1883", "mqtt://spare.example.com:1883")
    assert (connector.user, made.site.link.keep_alive) == ("store", 30)
    assert "'down', 'up' lead to one peer" in said(made)
    for left in ("left out: user 'till'", "left out: keep_alive '60.0'", "through the first rule"):
        assert left in said(made, 9)


def test_of_several_client_ids_the_first_names_the_node_and_the_others_are_said_to_be_left_out() -> None:
    made = convert(
        "connection a\naddress hq.example.com\ntopic a in 1\n"
        "connection b\naddress hq.example.com\ntopic b in 1\nclientid york\n"
        "connection c\naddress hq.example.com\ntopic c in 1\nclientid leeds\n"
    )
    assert made.site.name == "york"
    assert "left out: client id 'leeds' of connection 'c': 'york' names the node" in said(made, 8)


def test_shovels_to_one_broker_become_one_file_and_those_of_another_virtual_host_another() -> None:
    hq, parameters = "amqp://hq.example.com", []
    for number, vhost in enumerate(("/", "/", "shop")):
        value: dict[str, Any] = {"src-uri": "amqp://", "src-queue": f"q{number}", "dest-uri": hq}
        value |= {"ack-mode": "no-ack"} | ({"src-delete-after": 5} if number else {})
        parameters.append({"component": "shovel", "name": f"s{number}", "vhost": vhost, "value": value})
    file = json.dumps({"parameters": parameters})
    with pytest.raises(ConfigurationError, match="one of 's0', 's1', 's2'"):
        convert(file)
    made = convert(file, connection="s1")
    assert rules(made) == [("queue:q0", "out", None, None), ("queue:q1", "out", None, None)]
    assert rules(convert(file, connection="s2")) == [("queue:q2", "out", None, None)]
    assert "connection 's1': no counterpart: src-delete-after '5'" in said(made)
    assert said(made).count("not needed: ack-mode") == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no connection: expected"),
        ("listener 1883\n", "no connection: expected"),
        ("connection x\n", "names no address that a link can lead to: say one with --parent"),
        ("connection ---\naddress a.example\n", "nothing here can name the node: say --name"),
        ("{", "not well-formed JSON"),
        ("{}", "no 'parameters' with a shovel"),
        ("[" * 100_000, "no connection"),
        ('{"parameters":' + "[" * 100_000, "not well-formed JSON"),
        ("<beans/>", "no element <networkConnector>"),
        ("<beans>", "not well-formed XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><beans>&a;</beans>', "a document type"),
    ],
)
def test_what_is_no_bridge_is_refused(text: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        convert(text, "the-file")


# --- RabbitMQ


def shovel(**value: Any) -> Conversion:
    fields = {name.replace("_", "-"): each for name, each in value.items()}
    parameter = {"component": "shovel", "name": "to-hq", "vhost": "/", "value": fields}
    return convert(json.dumps({"rabbit_version": "3.10.8", "parameters": [parameter], "policies": []}))


def test_a_shovel_away_from_here_becomes_a_way_out() -> None:
    made = shovel(
        src_uri="amqp://",
        src_queue="sales",
        dest_uri="amqps://shovel:hunter2@hq.example.com/acme",
        dest_queue="sales",
        ack_mode="on-confirm",
        src_delete_after="never",
    )
    assert rules(made) == [("queue:sales", "out", None, None)]
    connector = made.site.tree_connectors[0]
    assert (connector.uri, connector.user) == ("amqps://hq.example.com:5671/acme", "shovel")
    assert "hunter2" not in made.text("yaml")
    assert "not needed: ack-mode" in said(made)
    assert "no counterpart: src-delete-after 'never'" in said(made)


def test_a_shovel_towards_here_becomes_a_way_in() -> None:
    made = shovel(
        src_uri=["amqp://hq.example.com", "amqp://spare.example.com"],
        src_exchange="amq.topic",
        src_exchange_key="prices.*.#",
        dest_uri="amqp://localhost",
        dest_exchange="amq.topic",
    )
    assert rules(made) == [("topic:prices/+/#", "in", None, None)]
    assert made.site.tree_connectors[0].ways == (
        "amqp://hq.example.com:5672",
        "amqp://spare.example.com:5672",
    )


def test_a_shovel_that_renames_says_so() -> None:
    made = shovel(src_uri="amqp://", src_queue="a", dest_uri="amqp://hq.example.com", dest_queue="b")
    assert "no counterpart: queue 'a' went to 'b'" in said(made)


def test_everything_else_of_a_rabbitmq_is_listed() -> None:
    parameters = [
        {"component": "mqtt", "name": "x", "value": {}},
        {
            "component": "shovel",
            "name": "to-hq",
            "value": {
                "src-uri": "amqp://",
                "src-queue": "a",
                "src-protocol": "amqp091",
                "dest-uri": "amqp://hq.example.com",
                "dest-address": "b",
                "new-option": 1,
            },
        },
    ]
    policy = {"name": "p", "pattern": "^a$", "definition": {"max-length": 5, "federation-upstream": "x"}}
    file = {"rabbit_version": "3.10.8", "users": [{"name": "till"}], "parameters": parameters}
    made = convert(json.dumps(file | {"policies": [policy], "bindings": []}))
    assert "stays as it is: 'users', 'parameters mqtt', 'policy p max-length'" in said(made)
    for note in ("not needed: src-protocol", "counterpart: dest-address 'b'", "counterpart: new-option '1'"):
        assert note in said(made)


def test_an_address_without_a_host_leads_nowhere_else() -> None:
    made = federation("^prices$", "queues", uri=["amqp://", "amqp://user:hunter2@", "amqp://hq.example.com"])
    assert made.site.tree_connectors[0].ways == ("amqp://hq.example.com:5672",)
    assert "left out: an address without a host is this broker itself" in said(made)
    with pytest.raises(ConfigurationError, match="names no address that a link can lead to"):
        federation("^prices$", "queues", uri="amqp://")


def test_a_port_that_is_none_is_not_replaced_by_the_usual_one() -> None:
    there = ["amqp://user:hunter2@hq.example.com:99999", "amqp://[::1]:x", "amqp://hq.example.com"]
    made = federation("^prices$", "queues", uri=there)
    assert made.site.tree_connectors[0].ways == ("amqp://hq.example.com:5672",)
    assert "left out: 'amqp://hq.example.com:99999': expected a port from 1 to 65535" in said(made)
    assert "hunter2" not in said(made)
    with pytest.raises(ConfigurationError, match="expected a port from 1 to 65535"):
        shovel(src_uri="amqp://localhost:99999", src_queue="a", dest_uri="amqp://hq", dest_queue="a")


def test_a_shovel_within_one_broker_is_none_of_ours() -> None:
    with pytest.raises(ConfigurationError, match="names no address"):
        shovel(src_uri="amqp://", src_queue="a", dest_uri="amqp://localhost", dest_queue="b")


def federation(pattern: str, applies: str, **upstream: Any) -> Conversion:
    value = {
        "uri": "amqp://hq.example.com",
        **{key.replace("_", "-"): each for key, each in upstream.items()},
    }
    definitions = {
        "parameters": [
            {"component": "federation-upstream", "name": "hq", "vhost": "/", "value": value},
            {
                "component": "federation-upstream-set",
                "name": "up",
                "vhost": "/",
                "value": [{"upstream": "hq"}],
            },
        ],
        "policies": [
            {
                "name": "p",
                "pattern": pattern,
                "apply-to": applies,
                "definition": {"federation-upstream-set": "up"},
            },
            {"name": "other", "pattern": ".*", "definition": {"max-length": 5}},
        ],
    }
    return convert(json.dumps(definitions))


def test_federated_queues_and_exchanges_become_ways_in() -> None:
    assert rules(federation("^orders$", "queues")) == [("queue:orders", "in", None, None)]
    assert rules(federation(".*", "all")) == [("topic:#", "in", None, None), ("queue:#", "in", None, None)]
    made = federation("^ord", "queues", max_hops=2, message_ttl=60000)
    assert "no counterpart: queues '^ord'" in said(made)
    assert "not needed: max-hops" in said(made)
    assert "no counterpart: message-ttl '60000'" in said(made)


# --- ActiveMQ

CONNECTOR = """<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="http://www.springframework.org/schema/beans">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="store.42">
    <networkConnectors>
      <networkConnector name="hq" uri="static:(tcp://hq.example.com:61616,ssl://spare.example.com:61617)"
                        duplex="true" networkTTL="3" userName="bridge" password="hunter2" odd="x">
        <dynamicallyIncludedDestinations>
          <queue physicalName="orders.>"/>
          <topic physicalName="prices.*.uk"/>
        </dynamicallyIncludedDestinations>
        <excludedDestinations><queue physicalName="private"/></excludedDestinations>
        <staticallyIncludedDestinations><queue physicalName="always"/></staticallyIncludedDestinations>
      </networkConnector>
    </networkConnectors>
  </broker>
</beans>
"""


def test_everything_else_of_an_activemq_is_listed() -> None:
    made = convert(
        CONNECTOR.replace("61617)", "61617)?randomize=false").replace(
            "<networkConnectors>", "<transportConnectors/><systemUsage/><networkConnectors>"
        )
    )
    assert "no counterpart: 'randomize=false'" in said(made, 5)
    assert "stays as it is: 'transportConnectors', 'systemUsage'" in said(made)


def test_a_network_connector_becomes_a_tree_connector() -> None:
    made = convert(CONNECTOR)
    assert made.site.name == "store.42"
    assert made.site.tree_connectors[0].ways == (
        "ws://hq.example.com:7600/link",
        "wss://spare.example.com:7600/link",
    )
    assert made.site.site_broker.uri == "embedded"
    assert "'orders.>': not needed: what has a consumer elsewhere leaves" in said(made, 8)
    assert "not needed: networkTTL" in said(made, 6)
    assert "no counterpart: odd='x'" in said(made, 6)
    assert "'private': no counterpart" in said(made, 11)
    assert "'always': went without a consumer" in said(made, 12)
    assert "hunter2" not in made.text("xml")


def test_a_connector_that_looks_around_has_no_parent() -> None:
    with pytest.raises(ConfigurationError, match="'hq': it names no address"):
        convert(
            CONNECTOR.replace(
                "static:(tcp://hq.example.com:61616,ssl://spare.example.com:61617)", "multicast://x"
            )
        )


def test_without_rules_everything_passes_and_that_is_said() -> None:
    made = bridge()
    assert made.site.site_broker.rules == ()
    assert "no rules for queues and topics: all pass" in said(made)


def test_what_begins_a_listener_decides_where_the_node_goes() -> None:
    def leads(*lines: str) -> str:
        return convert("\n".join((*lines, "connection hq", "address hq.example.com"))).site.site_broker.uri

    assert leads() == "mqtt://localhost:1883"
    assert leads("listener 1885", "listener 8883", "certfile /s.crt") == "mqtt://localhost:1885"
    assert leads("listener 8883", "certfile /s.crt", "listener 1885 10.0.0.4") == "mqtt://10.0.0.4:1885"
    assert leads("listener 9001", "protocol websockets", "listener 1885") == "mqtt://localhost:1885"
    assert leads("certfile /s.crt") == "mqtts://localhost:1883"


@pytest.mark.parametrize("option", ["bridge_capath /etc/ssl", "bridge_psk 00ff", "bridge_cafile /ca.pem"])
def test_what_was_encrypted_stays_so(option: str) -> None:
    assert bridge(option).site.tree_connectors[0].uri == "mqtts://hq.example.com:1883"


def test_an_address_of_ip_version_6_needs_no_brackets() -> None:
    made = convert("connection hq\naddress 2001:db8::1 [2001:db8::2]:1885\n")
    assert made.site.tree_connectors[0].ways == ("mqtt://[2001:db8::1]:1883", "mqtt://[2001:db8::2]:1885")


def test_a_connection_whose_addresses_are_wrong_says_why() -> None:
    with pytest.raises(ConfigurationError, match=r"names no address .*line 2: left out"):
        convert("connection hq\naddress hq_{}.example\n")


@pytest.mark.parametrize(
    ("lines", "overlap"),
    [
        (("topic sensors/# out", 'topic "" out 0 sensors/temp plant/temp'), True),
        (("topic a/# out", "topic b/# out"), False),
        (("topic # out", "topic prices/# in"), False),
        (("topic # both 0 x/ y/", "topic x/# in"), False),
        (("topic # both 0 x/ y/", "topic y/# in"), True),
    ],
)
def test_what_an_earlier_line_takes_is_said(lines: tuple[str, str], overlap: bool) -> None:
    assert ("through the first rule" in said(bridge(*lines), 4)) == overlap


def test_what_a_broker_tells_of_itself_stays_there() -> None:
    made = bridge("topic $SYS/broker/# out")
    assert rules(made) == []
    assert "never leaves it" in said(made, 3)


def test_kinds_without_a_rule_are_named() -> None:
    assert "no rules for queues: all pass" in said(bridge("topic a/# out"))


def test_any_text_can_stand_in_a_comment_of_xml(tmp_path: Path) -> None:
    file = tmp_path / "site.xml"
    file.write_text(bridge("start_type on----demand-").text("xml"))
    assert load(file).name


def test_a_shovel_stays_in_its_virtual_host() -> None:
    made = shovel(
        src_uri="amqp://store:hunter2@localhost:5673/shop", src_queue="a", dest_uri="amqp://hq.example.com"
    )
    broker = made.site.site_broker
    assert (broker.uri, broker.user) == ("amqp://localhost:5673/shop", "store")
    assert broker.secret_env == "SITE_BROKER_PASSWORD"
    assert "hunter2" not in made.text("yaml")


def definitions(vhost: str, policy: dict[str, Any], of_policy: str = "") -> Conversion:
    value = {"uri": "amqp://hq.example.com"}
    upstream = {"component": "federation-upstream", "name": "hq", "vhost": vhost, "value": value}
    applied = {"vhost": of_policy or vhost, "name": "p", "pattern": "^orders$", "apply-to": "queues"}
    policies = [{**applied, "definition": policy}]
    return convert(json.dumps({"parameters": [upstream], "policies": policies}))


def test_federation_stays_in_its_virtual_host() -> None:
    made = definitions("web shop", {"federation-upstream": "hq"})
    assert made.site.site_broker.uri == "amqp://localhost:5672/web%20shop"
    assert rules(made) == [("queue:orders", "in", None, None)]
    other = definitions("shop", {"federation-upstream-set": "all"}, of_policy="/")
    assert "no policy uses this upstream" in said(other)


def test_a_policy_may_name_its_upstreams_by_a_pattern() -> None:
    assert rules(definitions("/", {"federation-upstream-pattern": "^h"})) == [
        ("queue:orders", "in", None, None)
    ]
    assert rules(definitions("/", {"federation-upstream-pattern": "^x"})) == []
    assert rules(definitions("/", {"federation-upstream-pattern": "("})) == []


def test_what_a_shovel_renames_is_said() -> None:
    made = shovel(
        src_uri="amqp://",
        src_exchange="amq.topic",
        dest_uri="amqp://hq.example.com",
        dest_queue="all",
        dest_exchange_key="k",
    )
    assert "no counterpart: topics went to queue 'all'" in said(made)
    assert "no counterpart: routing key 'k' for all" in said(made)


def test_a_queue_whose_name_no_rule_can_hold_does_not_stop_the_rest() -> None:
    made = shovel(src_uri="amqp://", src_queue="store.#.x/#/y", dest_uri="amqp://hq.example.com")
    assert rules(made) == []
    assert "no counterpart" in said(made)


@pytest.mark.parametrize(("written", "read"), [("IN", "in"), ("Out", "out"), ("BOTH", "both")])
def test_mosquitto_reads_directions_in_any_case(written: str, read: str) -> None:
    made = bridge(f"topic prices/# {written} 1")
    assert [rule[1] for rule in rules(made)] == [read]


def test_options_of_the_broker_itself_are_listed_and_none_is_silent() -> None:
    made = bridge("max_connections 5", "keepalive_intervall 30", "topic a both 1")
    assert "not converted, since the broker stays as it is:" in said(made)
    for name in ("max_connections", "keepalive_intervall"):
        assert name in said(made)
    assert "persistence" in said(convert(BRIDGE, name="till"))
