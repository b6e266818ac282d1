"""Channels that applications have made at this node, until others take them through the tree.

Law: closed by default. An application offers one to the nodes that the site's file names, and takes one at
those that it names; a name is drawn, and is there once. Whether the secret is right is for the application.
"""

import asyncio
import re
from collections.abc import Iterable
from typing import Final

from broker.core.neighbours.channels import REFUSED, Channel, Side
from broker.forwards.local_end import LocalEnd, LocalEnds
from config.channels import AppChannels
from treeconnector.permit_patterns import ANY, glob

MOST: Final = 1024
"""Channels that wait for whoever takes them."""
NAMES: Final = re.compile(r"channel-[0-9a-f]{32}")


class Offer:
    """A channel that waits. `via`: who made it, for people. `end`: set when somebody takes it."""

    def __init__(self, name: str, via: str) -> None:
        self.name = name
        self.via = via
        self.end: asyncio.Future[LocalEnd] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<Offer {self.via} {'taken' if self.end.done() else 'waits'}>"


class ApplicationChannels:
    """Of one node."""

    def __init__(self, ends: LocalEnds, me: str, settings: AppChannels) -> None:
        self._ends = ends
        self._me = me
        self._settings = settings
        self._offers: dict[str, Offer] = {}

    def __repr__(self) -> str:
        return f"<ApplicationChannels of {self._me}: {len(self._offers)} wait>"

    @property
    def settings(self) -> AppChannels:
        return self._settings

    def configure(self, settings: AppChannels) -> None:
        """The site's file was read again. Channels that it does not let through any more end."""
        self._settings = settings
        for end in list(self._ends.open):
            channel = end.channel
            if channel is None or not is_of_application(channel.name):
                continue
            why = self.why_not_take(channel.to) if channel.near is end else self._why_not(channel.origin)
            if why:
                end.end(REFUSED, why)

    def offer(self, name: str, via: str) -> Offer:
        offer = self._offers[name] = Offer(name, via)
        return offer

    @property
    def has_room(self) -> bool:
        return len(self._offers) < MOST

    def withdraw(self, offer: Offer) -> None:
        """Nobody can take it any more. Idempotent."""
        self._offers.pop(offer.name, None)
        offer.end.cancel()

    def taken(self, channel: Channel, asker: str) -> Side | str | None:
        """The end of a channel that an application made here, or why not; None: it is none of them."""
        if not is_of_application(channel.name):
            return None
        if why := self._why_not(channel.origin) or self._ends.why_none(asker):
            return why
        offer = self._offers.pop(channel.name, None)
        if offer is None or offer.end.done():
            return f"PERMIT: {self._me} has no such channel: it was taken, or its application has gone"
        end = LocalEnd(self._ends, offer.via, asker)
        end.channel = channel
        offer.end.set_result(end)
        return end

    def why_not_take(self, node: str) -> str:
        """Why an application here may take no channel at a node; '' if it may."""
        return self._refusal("takes no channels at", node, self._settings.taken_from, "taken_from")

    def _why_not(self, origin: str) -> str:
        return self._refusal("offers no channels to", origin, self._settings.offered_to, "offered_to")

    def _refusal(self, deed: str, node: str, patterns: Iterable[str], setting: str) -> str:
        if any(matches(pattern, node) for pattern in patterns):
            return ""
        return f"PERMIT: {self._me} {deed} {node[:64]}: its file says to whom, as {setting} of channels"


def is_of_application(name: str) -> bool:
    return NAMES.fullmatch(name) is not None


def matches(pattern: str, name: str) -> bool:
    """Is a node meant by a pattern, in which '*' is any text?"""
    return glob(pattern)(name) if ANY in pattern else pattern == name
