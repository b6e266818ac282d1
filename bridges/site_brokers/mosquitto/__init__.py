"""The bridge to Mosquitto, with paho-mqtt. `docs/mosquitto.md` says what the broker needs."""

from bridges.site_brokers.base import Bridge, Setup
from bridges.site_brokers.mosquitto.bridge import MosquittoBridge

__all__ = ["MosquittoBridge", "make"]


def make(setup: Setup) -> Bridge:
    """The bridge for this site."""
    return MosquittoBridge(setup)
