"""The table of protocols: what it names is there, and what it says in patterns and texts."""

import importlib.metadata
import re
from importlib import import_module

import pytest

from bridges.carriers.brokered.line import Broker
from config.schemes import (
    BROKERED,
    CARRIERS,
    DIRECT,
    LOOKED_UP,
    PROTOCOLS,
    SITE_BROKERS,
    Protocol,
    advice,
    either,
    listed,
    listed_tls,
    pattern,
    protocol_of,
    shows_certificate,
    speaks_tls,
    usual_port,
)
from config.uris import address
from sapwood import address as of_clients


def test_no_scheme_stands_twice() -> None:
    schemes = [scheme for each in PROTOCOLS for scheme in each.schemes]
    assert len(set(schemes)) == len(schemes)
    assert LOOKED_UP not in schemes


@pytest.mark.parametrize("protocol", CARRIERS, ids=lambda protocol: protocol.scheme)
def test_the_adapter_of_each_carrier_has_what_the_registry_calls(protocol: Protocol) -> None:
    adapter = import_module(f"bridges.carriers.{protocol.carrier}")
    if protocol.brokered:
        from bridges.carriers.brokered.line import BrokerAccess

        assert isinstance(adapter.broker(BrokerAccess("localhost", 1), "acme", 65_536), Broker)
    else:
        assert callable(adapter.connect)


@pytest.mark.parametrize("protocol", SITE_BROKERS, ids=lambda protocol: protocol.product)
def test_the_package_of_each_site_broker_makes_a_bridge(protocol: Protocol) -> None:
    assert callable(import_module(f"bridges.site_brokers.{protocol.site_broker}").make)


def test_each_extra_is_one_of_the_distribution() -> None:
    extras = importlib.metadata.metadata("sapwood-node").get_all("Provides-Extra") or []
    assert {each.extra for each in PROTOCOLS if each.extra} <= set(extras)


def test_the_client_library_dials_the_port_of_the_table() -> None:
    assert DIRECT.port == of_clients.DEFAULT_PORT


def test_ports_and_tls() -> None:
    found = {
        scheme: (usual_port(scheme), speaks_tls(scheme)) for scheme in re.findall(r"\w+", listed(PROTOCOLS))
    }
    assert found == {
        "ws": (7600, False),
        "wss": (7600, True),
        "mqtt": (1883, False),
        "mqtts": (8883, True),
        "amqp": (5672, False),
        "amqps": (5671, True),
    }
    assert (usual_port("srv"), speaks_tls("srv")) == (0, False)
    with pytest.raises(KeyError):
        protocol_of("srv")


def test_an_address_knows_where_it_leads() -> None:
    uris = ("ws://hq", "wss://hq", "mqtt://hq", "amqps://hq", "srv://hq")
    found = [(way.direct, way.brokered, way.looked_up, way.reaches_a_port) for way in map(address, uris)]
    assert found == [
        (True, False, False, False),
        (True, False, False, True),
        (False, True, False, False),
        (False, True, False, False),
        (False, False, True, True),
    ]


def test_patterns_and_texts() -> None:
    plain = Protocol("toy", "Toy", 9, site_broker="toy", product="Toybox")
    assert pattern(CARRIERS) == "(wss?|mqtts?|amqps?)"
    assert pattern((*BROKERED, plain)) == "(mqtts?|amqps?|toy)"
    assert (listed((plain,)), listed_tls((plain,))) == ("toy", "")
    assert listed_tls(CARRIERS) == "wss, mqtts, amqps"
    assert (either(["a"]), either(["a", "b"]), either(["a", "b", "c"])) == ("a", "a or b", "a, b or c")
    assert advice(SITE_BROKERS) == "mqtt:// or mqtts:// for Mosquitto, amqp:// or amqps:// for RabbitMQ"


def test_only_a_port_with_tls_of_a_node_itself_shows_its_certificate() -> None:
    ways = {scheme: f"{scheme}://hq.example.com/link" for each in PROTOCOLS for scheme in each.schemes}
    assert [scheme for scheme, way in ways.items() if shows_certificate(way)] == ["wss"]
    assert not shows_certificate("srv://hq.example.com")
    assert not shows_certificate("memory")
