"""Which adapter an address asks for. The client libraries are extras: what lacks says how to install it."""

from typing import Final

from bridges.brokered.line import Access, Broker
from bridges.carrier import CarrierBroken

_EXTRAS: Final = {"mqtt": "mqtt", "mqtts": "mqtt", "amqp": "amqp", "amqps": "amqp"}
SCHEMES: Final = frozenset(_EXTRAS)


def broker_for(scheme: str, access: Access, tree: str, max_packet: int) -> Broker:
    """The broker at `access`, for mqtt, mqtts, amqp or amqps. Raises `CarrierBroken` without its library."""
    try:
        if _EXTRAS[scheme] == "mqtt":
            from bridges.mqtt import MqttBroker

            return MqttBroker(access, tree, max_packet)
        from bridges.amqp import AmqpBroker

        return AmqpBroker(access, tree)
    except ModuleNotFoundError as error:
        raise CarrierBroken(
            f"{scheme}:// needs the Python package {error.name!r}: pip install 'sapwood[{_EXTRAS[scheme]}]'"
        ) from None
