"""Mosquitto, and other MQTT brokers: `docs/mosquitto.md` says what the broker needs.

| module | what to find there |
|---|---|
| `bridge` | the port `bridges.site_brokers.base.Bridge`: what holds the rest together |
| `connection`, `login` | one MQTT connection, with paho; why a broker did not let us in |
| `taking`, `filters` | subscribing to what others want; our filters and their ids |
| `publishing`, `given` | giving messages to the broker, and its answers; which retained ones it has |
| `replies` | answers that applications here wait for |
| `messages`, `names` | properties as paho has them; how queues, topics and nodes are spelled |
| `discovery`, `log_lines` | who reads what, from the broker's log and counts |
| `consumers`, `database` | the table of who is subscribed, pure; what Mosquitto's own database adds to it |
| `ownership` | one node at one broker |
| `inspection` | what a Mosquitto lacks, tried out |
| `memory`, `session_takeover` | what the bridge keeps on disk; a session from before its database was made |
| `loop_detection` | what we have said ourselves and may hear again |
| `withdrawal` | what is retained there and the tree holds no more |
| `poison_messages` | which message a broker ends the connection for |
"""

from bridges.site_brokers.base import Bridge, Setup
from bridges.site_brokers.mosquitto.bridge import MosquittoBridge

__all__ = ["MosquittoBridge", "make"]


def make(setup: Setup) -> Bridge:
    """The bridge for this site."""
    return MosquittoBridge(setup)
