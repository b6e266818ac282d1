"""Which adapter carries a link, and what is said where its library is not installed."""

import pytest

from bridges.carriers import registry
from bridges.carriers.base import CarrierBroken
from bridges.carriers.brokered.line import BrokerAccess
from config.uris import address


def test_the_scheme_chooses_the_adapter() -> None:
    access = BrokerAccess("hq", 1)
    made = [
        registry.broker_for(address(uri), access, "acme", 65_536) for uri in ("mqtt://hq:1", "amqp://hq:1")
    ]
    assert [repr(each) for each in made] == [
        "<MqttBroker mqtt://hq:1 tree=acme>",
        "<AmqpBroker amqp://hq:1 tree=acme>",
    ]


def test_a_library_that_is_not_there_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(name: str) -> object:
        assert name == "bridges.carriers.mqtt"
        raise ModuleNotFoundError(name="paho")

    monkeypatch.setattr(registry, "import_module", lacks)
    with pytest.raises(
        CarrierBroken, match=r"mqtts:// needs the Python package 'paho': pip install .*\[mqtt\]"
    ):
        registry.broker_for(address("mqtts://hq"), BrokerAccess("hq", 8883), "acme", 65_536)
