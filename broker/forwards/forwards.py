"""The TCP services that the site's file names, by which others reach them through channels.

Law: closed by default. A service that the file does not name is not there; one that it names is there for the
nodes of its `permit`, and for no others. A file that is read again counts at once, for open channels too.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from broker.core.neighbours.channels import REFUSED, UNREACHABLE, Channel, Side
from broker.forwards.channel_log import ChannelLog
from broker.forwards.local_end import LocalEnd, LocalEnds
from broker.forwards.pipes import TcpPipe, dialled
from broker.host import Host
from broker.link_driver import LinkDriver
from config.channels import Forward
from treeconnector.permit_patterns import ANY, glob

CONNECT: Final = 10.0
OPENING: Final = 30.0
"""Seconds until a service has answered, and until a channel is open."""


class Forwards:
    """Of one node: what it offers, and the ends of channels at it."""

    def __init__(self, host: Host, wires: LinkDriver, offered: Iterable[Forward]) -> None:
        self._host = host
        self.ends = LocalEnds(host, wires)
        self._offered: dict[str, Forward] = {}
        self._me = host.core.identity.name
        self.configure(offered)
        host.core.channels.configure(self._serve, ChannelLog())

    def __repr__(self) -> str:
        return f"<Forwards of {self._me}: {', '.join(self._offered) or 'none'}>"

    def configure(self, offered: Iterable[Forward]) -> None:
        """The site's file was read again. Channels to what it offers no more, or elsewhere, end."""
        before, self._offered = self._offered, {each.name: each for each in offered}
        for end in list(self.ends.open):
            channel = end.channel
            if channel is None or channel.far is not end:
                continue
            was, now = before.get(channel.name), self._offered.get(channel.name)
            why = self._why_not(channel)
            if why or (was and now and was.to != now.to):
                end.end(REFUSED, why or f"{channel.name} is elsewhere now: open it again")

    @property
    def offers(self) -> list[str]:
        return sorted(self._offered)

    def reach(self, node: str, name: str, via: str) -> LocalEnd | str:
        """Open a channel for somebody here. Returns its end, or why there is none."""
        if why := self.ends.why_none():
            return why
        end = LocalEnd(self.ends, via)

        def begin() -> None:
            end.channel = self.ends.channels.begin(node, name, end)

        self.ends.tell(begin)
        return end

    # --- what is asked for by others

    def _why_not(self, channel: Channel) -> str:
        forward = self._offered.get(channel.name)
        if forward is None:
            return f"PERMIT: {self._me} offers nothing as {channel.name}"
        if not any(_matches(pattern, channel.origin) for pattern in forward.permit):
            return f"PERMIT: {self._me} does not offer {channel.name} to {channel.origin}"
        return ""

    def _serve(self, channel: Channel) -> Side | str:
        asker = "" if isinstance(channel.near, LocalEnd) else channel.near.via
        if why := self._why_not(channel) or self.ends.why_none(asker):
            return why
        forward = self._offered[channel.name]
        end = LocalEnd(self.ends, forward.to, asker)
        end.channel = channel
        end.dialling = self._host.spawn(self._connect(end, forward))
        return end

    async def _connect(self, end: LocalEnd, forward: Forward) -> None:
        found = await _dialled(forward.to)
        end.dialling = None
        if isinstance(found, str):
            end.end(UNREACHABLE, f"{self._me} does not reach {forward.name} at {forward.to}: {found}")
            return
        self.ends.tell(self.ends.channels.opened, end)
        await end.run(found)


async def _dialled(to: str) -> TcpPipe | str:
    """A connection with a service, or why there is none."""
    host, _, port = to.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT):
            return await dialled(host.strip("[]"), int(port))
    except (OSError, UnicodeError) as error:  # a name that no resolver takes is the latter
        return getattr(error, "strerror", None) or str(error) or f"no answer within {CONNECT:g} s"


def _matches(pattern: str, name: str) -> bool:
    return glob(pattern)(name) if ANY in pattern else pattern == name
