"""Which retained messages of ours the broker has, as it says: a node that was killed gives none twice.

One that is given again could take the place of one that an application has retained since. So behind those
that it is given the broker is given their names, retained at `$sapwood/bridge/given`. It takes both in their
order and keeps both in one database: where it has the name, it had the message.

Law: a name stays there until the confirmation of its message has had the time between two savings to be
committed. Behind the first that the broker has not it has none.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from bridges.properties import MqttProperties
from bridges.site_brokers.base import BrokerDelivery
from bridges.site_brokers.mosquitto.connection import Post
from bridges.site_brokers.mosquitto.names import OURS

GIVEN: Final = OURS + "given"


class Given:
    """Of one connection. `said`: what was retained there when it began."""

    def __init__(self, said: bytes) -> None:
        self._had = _read(said)
        self._names: dict[bytes, None] = {}
        self._confirmed: Collection[bytes] = ()

    def __repr__(self) -> str:
        return f"<Given had={len(self._had)} names={len(self._names)}>"

    def has(self, delivery: BrokerDelivery) -> bool:
        """Has the broker this from an earlier connection? Ask once, in the order of giving."""
        if not (delivery.retained and delivery.persistent):
            return False
        if delivery.again and delivery.name in self._had:
            self._names[delivery.name] = None
            return True
        self._had.clear()
        return False

    def note(self, delivery: BrokerDelivery) -> bool:
        """The broker is given this now; is it to be said?"""
        if delivery.retained and delivery.persistent:
            self._names[delivery.name] = None
        return delivery.retained and delivery.persistent

    def refused(self, delivery: BrokerDelivery) -> None:
        self._names.pop(delivery.name, None)

    def confirmed(self, names: Collection[bytes]) -> bool:
        """The memory is saved. These are confirmed now, the last ones have been; is that to be said?"""
        before, self._confirmed = self._confirmed, names
        for name in before:
            self._names.pop(name, None)
        if before and not names:
            self._had.clear()
        return bool(before)

    def post(self, most: int) -> Post:
        """To be posted behind the messages; without a name where they are more than `most` bytes."""
        names = msgspec.msgpack.encode([*self._names, *self._had - self._names.keys()])
        return Post(GIVEN, names if len(names) <= most else b"", 0, True, MqttProperties(), lambda code: None)


def _read(payload: bytes) -> set[bytes]:
    """Whatever is not as we write it is nothing: anybody may have written it."""
    try:
        return set(msgspec.msgpack.decode(payload, type=list[bytes])) if payload else set()
    except msgspec.DecodeError:
        return set()
