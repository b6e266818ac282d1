"""The log of channels."""

import asyncio
import logging
from typing import Final

from broker.core.neighbours.channels import Channel
from broker.forwards.local_end import LocalEnd

_log = logging.getLogger("sapwood.channel")
AGAIN: Final = 600.0
MOST: Final = 100
"""Seconds in which one of a kind is said once, and lines in that time of what one neighbour opens."""
_SIGNS: Final = {"open": "+", "over": "-", "refused": "!", "broken": "!"}


class ChannelLog:
    """Of one node. A neighbour that opens many, each by another name, fills no disk and hides no other."""

    def __init__(self) -> None:
        self._said: dict[str, set[tuple[str, ...]]] = {}
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<ChannelLog of {len(self._said)} neighbours>"

    def __call__(self, op: str, channel: Channel) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._said.clear()
            self._until = now + AGAIN
        who = "this node" if isinstance(channel.near, LocalEnd) else channel.near.via
        said = self._said.setdefault(who, set())
        kind = op, channel.origin, channel.name, channel.to, channel.why
        if kind in said or len(said) >= MOST:
            return
        said.add(kind)
        _say(op, channel)
        if len(said) == MOST:
            _log.warning("! %d lines on channels of %s: no more for %d s", MOST, who, self._until - now)


def _say(op: str, channel: Channel) -> None:
    what = f"{channel.name}@{channel.to}"
    fields = {"channel": channel.number.hex(), "origin": channel.origin, "destination": what}
    level = logging.WARNING if op in ("refused", "broken") else logging.INFO
    why = f": {channel.why}" if channel.why else ""
    _log.log(
        level, "%s channel from %s to %s is %s%s", _SIGNS[op], channel.origin, what, op, why, extra=fields
    )
