"""The door for MQTT applications at a node that is its site's broker."""

from broker.mqtt.door import Door

__all__ = ["Door"]
