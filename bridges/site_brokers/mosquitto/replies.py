"""Answers that applications of this broker wait for: who asks reads his response topic from the request on.

The broker's log tells of that subscription too, but over another connection; it does not tell of plain
subscriptions to the topic of a queue, and where it tells nothing, of none at all.

Law: their number is bounded; the one that was not used for longest goes first. A topic goes after `HEARD`
seconds where the log tells who reads it, and else after `LONGEST`; the topic of a queue costs no advisory.
"""

import asyncio
from collections import OrderedDict
from typing import Final

from bridges.site_brokers.base import BrokerConsumer, Desk
from sapwood.protocol.destinations import Destination, Kind

MOST: Final = 1000
HEARD: Final = 10.0
LONGEST: Final = 600.0
_ID: Final = "asked"


class ResponseTopics:
    """Of one connection."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._asked: OrderedDict[Destination, asyncio.TimerHandle] = OrderedDict()
        self._loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        return f"<ResponseTopics asked={len(self._asked)}>"

    def __contains__(self, key: Destination) -> bool:
        return key in self._asked

    def asked(self, key: Destination, *, told: bool) -> None:
        """Somebody waits for an answer there. `told`: the log says who reads topics."""
        timer = self._asked.pop(key, None)
        if timer is None:
            self._desk.came(BrokerConsumer(key, _ID))
        else:
            timer.cancel()
        seconds = HEARD if told and key.kind == Kind.TOPIC else LONGEST
        self._asked[key] = self._loop.call_later(seconds, self.over, key)
        if len(self._asked) > MOST:
            self.over(next(iter(self._asked)))

    def over(self, key: Destination) -> None:
        """Nobody waits there any more."""
        timer = self._asked.pop(key, None)
        if timer is not None:
            timer.cancel()
            self._desk.went(BrokerConsumer(key, _ID))

    def consumers(self) -> list[BrokerConsumer]:
        return [BrokerConsumer(key, _ID) for key in self._asked]

    def end(self) -> None:
        for timer in self._asked.values():
            timer.cancel()
