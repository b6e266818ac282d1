"""Which adapter an address asks for. The client libraries are extras: what lacks says how to install it."""

from typing import Final

from bridges.carriers.base import CarrierBroken
from bridges.carriers.brokered.line import Broker, BrokerAccess

_EXTRAS: Final = {"mqtt": "mqtt", "mqtts": "mqtt", "amqp": "amqp", "amqps": "amqp"}
SCHEMES: Final = frozenset(_EXTRAS)


def broker_for(scheme: str, access: BrokerAccess, tree: str, max_packet: int) -> Broker:
    """The broker at `access`, for mqtt, mqtts, amqp or amqps. Raises `CarrierBroken` without its library."""
    try:
        if _EXTRAS[scheme] == "mqtt":
            from bridges.carriers.mqtt import MqttBroker

            return MqttBroker(access, tree, max_packet)
        from bridges.carriers.amqp import AmqpBroker

        return AmqpBroker(access, tree)
    except ModuleNotFoundError as error:
        raise CarrierBroken(
            f"{scheme}:// needs the Python package {error.name!r}: pip install 'sapwood[{_EXTRAS[scheme]}]'"
        ) from None
