"""The bridge to Mosquitto, with paho-mqtt. `docs/mosquitto.md` says what the broker needs."""

from bridges.mosquitto.bridge import Mosquitto
from bridges.site_broker import Bridge, Setup

__all__ = ["Mosquitto", "make"]


def make(setup: Setup) -> Bridge:
    """The bridge for this site."""
    return Mosquitto(setup)
