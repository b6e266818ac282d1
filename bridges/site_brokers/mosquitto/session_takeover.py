"""A session that the broker has kept for this node, whose database knows nothing of it: the machine is new.

Our client ids are made of the node's name, so the session is still ours. Our filters in it
lie at the broker as well, retained, at `$sapwood/bridge/filters`: without it nobody could end what is not
wanted any more, for MQTT has no question for that.

Law: for `PATIENCE` seconds nothing of it is given up, and what comes for a topic that nobody wants yet is
neither taken nor answered: a new database learns from the parent who reads what. The seconds count while a
parent is there, and from the start again with each connection.
"""

import json
import zlib
from typing import Final

from bridges.mqtt.texts import fits
from bridges.site_brokers.mosquitto.names import OURS
from sapwood.protocol.errors import PatternError
from treeconnector.patterns import from_mqtt

FILTERS: Final = OURS + "filters"
PATIENCE: Final = 60.0
_MOST: Final = 16 * 1024 * 1024
_MOST_ID: Final = 1 << 28


def written(filters: dict[str, int]) -> bytes:
    """The message that is retained at the broker."""
    return zlib.compress(json.dumps(filters).encode(), 1)


def read(payload: bytes) -> dict[str, int]:
    """By filter its id. Whatever is not as we write it is nothing: anybody may have written it."""
    try:
        found = json.loads(zlib.decompressobj().decompress(payload, _MOST)) if payload else {}
    except (ValueError, zlib.error, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        text: number
        for text, number in found.items()
        if type(number) is int and 0 < number < _MOST_ID and _is_filter(text)
    }


def _is_filter(text: str) -> bool:
    """Else the broker ends the connection of whoever gives it up."""
    try:
        return fits(from_mqtt(text))
    except PatternError:
        return False
