"""Every option that the manuals name leaves something in the file: a setting, or a note.

The lists are those of mosquitto.conf of Mosquitto 2.0, of dynamic shovels and federation upstreams of
RabbitMQ, and of the network connector of ActiveMQ Classic.
"""

import json
from typing import Any

import pytest

from config.convert import convert


def words(text: str) -> list[str]:
    return text.split()


OF_A_BRIDGE = {
    "address": "hq.example.com:1999",
    "addresses": "hq.example.com:1999",
    "bridge_alpn": "mqtt",
    "bridge_attempt_unsubscribe": "false",
    "bridge_bind_address": "127.0.0.1",
    "bridge_cafile": "/etc/ssl/ca.pem",
    "bridge_capath": "/etc/ssl/certs",
    "bridge_certfile": "/etc/ssl/own.pem",
    "bridge_identity": "store",
    "bridge_insecure": "true",
    "bridge_keyfile": "/etc/ssl/own.key",
    "bridge_max_packet_size": "1000",
    "bridge_outgoing_retain": "false",
    "bridge_protocol_version": "mqttv50",
    "bridge_psk": "deadbeef",
    "bridge_require_ocsp": "true",
    "bridge_tls_version": "tlsv1.2",
    "cleansession": "true",
    "clientid": "store",
    "idle_timeout": "30",
    "keepalive_interval": "77",
    "local_cleansession": "true",
    "local_clientid": "near",
    "local_password": "swordfish",
    "local_username": "node",
    "notification_topic": "state",
    "notifications": "false",
    "notifications_local_only": "true",
    "password": "hunter2",
    "remote_clientid": "store-0042",
    "remote_password": "hunter2",
    "remote_username": "store",
    "restart_timeout": "5 60",
    "round_robin": "true",
    "start_type": "lazy",
    "threshold": "5",
    "topic": "prices/# in",
    "try_private": "false",
    "username": "store",
}
OF_MOSQUITTO = words("""
acl_file allow_anonymous allow_duplicate_messages allow_zero_length_clientid auth_opt_x auth_plugin
auth_plugin_deny_special_chars auto_id_prefix autosave_interval autosave_on_changes bind_address
bind_interface cafile capath check_retain_source ciphers ciphers_tls1.3 clientid_prefixes
connection_messages crlfile dhparamfile http_dir include_dir keyfile log_dest log_facility
log_timestamp log_timestamp_format log_type max_connections max_inflight_bytes max_inflight_messages
max_keepalive max_packet_size max_qos max_queued_bytes max_queued_messages max_topic_alias
memory_limit message_size_limit mount_point password_file per_listener_settings persistence
persistence_file persistence_location persistent_client_expiration pid_file plugin plugin_opt_x
psk_file psk_hint queue_qos0_messages require_certificate retain_available retained_persistence
set_tcp_nodelay socket_domain store_clean_interval sys_interval tls_engine tls_engine_kpass_sha1
tls_keyform tls_version upgrade_outgoing_qos use_identity_as_username use_subject_as_username
use_username_as_clientid user websockets_headers_size websockets_log_level
""")
OF_A_SHOVEL = words("""
ack-mode add-forward-headers add-timestamp-header delete-after dest-add-forward-headers dest-add-
timestamp-header dest-address dest-application-properties dest-exchange dest-exchange-key dest-
message-annotations dest-predeclared dest-properties dest-protocol dest-publish-properties dest-
queue dest-queue-args predeclared prefetch-count publish-properties reconnect-delay src-address src-
consumer-args src-delete-after src-exchange src-exchange-key src-predeclared src-prefetch-count src-
protocol src-queue-args
""")
OF_AN_UPSTREAM = words("""
ack-mode bind-nowait channel-use-mode consumer-tag exchange expires ha-policy max-hops message-ttl
prefetch-count queue queue-type reconnect-delay resource-cleanup-mode trust-user-id
""")
OF_A_CONNECTOR = words("""
advisoryForFailedForward advisoryPrefetchSize alwaysSyncSend bridgeTempDestinations
checkDuplicateMessagesOnDuplex clientIdToken conduitNetworkQueueSubscriptions conduitSubscriptions
consumerPriorityBase consumerTTL decreaseNetworkConsumerPriority destinationFilter duplex
dynamicOnly gcDestinationViews gcSweepTime messageTTL networkTTL objectName password prefetchSize
staticBridge suppressDuplicateQueueSubscriptions suppressDuplicateTopicSubscriptions syncDurableSubs
useBrokerNameAsIdSees useCompression userName useVirtualDestSubs
""")
LISTS = words("""
dynamicallyIncluded excluded staticallyIncluded durable
""")


def text(data: str) -> str:
    return convert(data).text("yaml")


@pytest.mark.parametrize("option", sorted(OF_A_BRIDGE))
def test_an_option_of_a_bridge_of_mosquitto(option: str) -> None:
    bridge = "connection hq\naddress hq.example.com\ntopic # out\n"
    assert text(bridge) != text(f"{bridge}{option} {OF_A_BRIDGE[option]}\n")


@pytest.mark.parametrize("option", OF_MOSQUITTO)
@pytest.mark.parametrize("before", [True, False])
def test_an_option_of_mosquitto_itself(option: str, before: bool) -> None:
    bridge, line = "connection hq\naddress hq.example.com\ntopic # out\n", f"{option} 1\n"
    found = text(line + bridge if before else bridge + line)
    assert option in found.partition("broker:")[0] or "were not read" in found


@pytest.mark.parametrize(
    "line", ["listener 1999", "port 1999", "listener 1884\nprotocol websockets", "listener 1884\ncertfile x"]
)
def test_a_listener_of_mosquitto(line: str) -> None:
    bridge = "connection hq\naddress hq.example.com\ntopic # out\n"
    assert text(bridge) != text(f"{line}\n{bridge}")


def of_rabbitmq(component: str, value: dict[str, Any]) -> str:
    policy = {
        "name": "p",
        "pattern": "^orders$",
        "apply-to": "queues",
        "definition": {"federation-upstream": "x"},
    }
    document = {"parameters": [{"component": component, "name": "x", "vhost": "/", "value": value}]}
    return text(json.dumps(document | {"policies": [policy | {"vhost": "/"}]}))


@pytest.mark.parametrize("option", OF_A_SHOVEL)
def test_an_option_of_a_shovel(option: str) -> None:
    plain = {"src-uri": "amqp://", "src-queue": "orders", "dest-uri": "amqp://hq.example.com"}
    given = {**plain, option: "another"}
    if option.startswith("src-exchange"):
        given = {**given, "src-exchange": "amq.topic"}
        del given["src-queue"]
        plain = {**plain, "src-exchange": "amq.fanout"} if option == "src-exchange" else plain
    if option == "dest-exchange-key":
        plain = {**plain, "dest-exchange": "shop"}
        given = {**plain, option: "another"}
    assert of_rabbitmq("shovel", plain) != of_rabbitmq("shovel", given)


@pytest.mark.parametrize("option", OF_AN_UPSTREAM)
def test_an_option_of_a_federation_upstream(option: str) -> None:
    plain = {"uri": "amqp://hq.example.com"}
    assert of_rabbitmq("federation-upstream", plain) != of_rabbitmq(
        "federation-upstream", {**plain, option: "another"}
    )


def of_activemq(attributes: str = "", children: str = "") -> str:
    connector = f'<networkConnector name="hq" uri="static:(tcp://hq:61616)" {attributes}>{children}'
    inside = f"<networkConnectors>{connector}</networkConnector></networkConnectors>"
    return text(f'<broker brokerName="b">{inside}</broker>')


@pytest.mark.parametrize("option", OF_A_CONNECTOR)
def test_an_option_of_a_network_connector(option: str) -> None:
    value = "true" if option == "duplex" else "7"
    assert of_activemq() != of_activemq(f'{option}="{value}"')


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_a_network_connector(name: str) -> None:
    listed = f'<{name}Destinations><queue physicalName="orders"/></{name}Destinations>'
    assert of_activemq() != of_activemq(children=listed)


@pytest.mark.parametrize("line", ["bridge_insecure TRUE", "topic # out 1 a/ b/ more"])
def test_a_value_that_mosquitto_would_not_take_is_left_out_by_name(line: str) -> None:
    bridge = "connection hq\naddress hq.example.com\nbridge_capath /etc\ntopic # out 1 a/ b/\n"
    assert f"{line.split()[-1]}" in text(bridge + line).partition("broker:")[0]


@pytest.mark.parametrize("option", OF_AN_UPSTREAM)
def test_an_option_of_an_upstream_in_a_set(option: str) -> None:
    def of_set(**options: str) -> str:
        upstream = {
            "component": "federation-upstream",
            "name": "x",
            "value": {"uri": "amqp://hq.example.com"},
        }
        members = {
            "component": "federation-upstream-set",
            "name": "s",
            "value": [{"upstream": "x"} | options],
        }
        return text(json.dumps({"parameters": [upstream, members]}))

    assert of_set() != of_set(**{option: "another"})


@pytest.mark.parametrize("option", ["dest-queue", "dest-exchange", "dest-exchange-key"])
def test_an_option_of_a_shovel_whose_source_is_not_understood(option: str) -> None:
    plain = {"src-uri": "amqp://", "src-address": "/orders", "dest-uri": "amqp://hq.example.com"}
    assert option in of_rabbitmq("shovel", {**plain, option: "another"})


@pytest.mark.parametrize(
    ("name", "text_of"),
    [
        ("schedulerSupport", '<broker schedulerSupport="true">{}</broker>'),
        ("import", '<beans><broker>{}</broker><import resource="jetty.xml"/></beans>'),
        (
            "ldapNetworkConnector",
            '<broker>{}<networkConnectors><ldapNetworkConnector uri="x"/></networkConnectors></broker>',
        ),
        ("brokerURL", "<broker>{}</broker>"),
    ],
)
def test_an_element_or_attribute_of_activemq_that_is_no_connector(name: str, text_of: str) -> None:
    connector = '<networkConnector name="hq" uri="static:(tcp://hq:61616)"><brokerURL>x</brokerURL></networkConnector>'
    inside = f"<networkConnectors>{connector}</networkConnectors>"
    assert name in text(text_of.format(inside)).partition("broker:")[0]


def test_connections_that_lead_elsewhere_are_named() -> None:
    bridges = "".join(
        f"connection {name}\naddress {name}.example.com\ntopic # in\n" for name in ("hq", "east", "west")
    )
    found = convert(bridges, connection="hq").text("yaml")
    assert "# not in this file, since they lead elsewhere: 'east', 'west'" in found
