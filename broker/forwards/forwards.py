"""The TCP services and folders that the site's file names, by which others reach them through channels.

Law: closed by default. One that the file does not name is not there; one that it names is there for the
nodes that it permits, and for no others. A file that is read again counts at once, for open channels too.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Executor
from functools import partial
from typing import Final

from broker.core.neighbours.channels import BUSY, REFUSED, UNREACHABLE, Channel, Side
from broker.forwards.application_channels import ApplicationChannels, is_of_application, matches
from broker.forwards.channel_log import ChannelLog
from broker.forwards.channel_trace import ChannelTrace
from broker.forwards.copying import Deed, FileService, Put, Turns
from broker.forwards.folders import FileFault
from broker.forwards.local_end import LocalEnd, LocalEnds
from broker.forwards.service_names import ServiceNames, dialled
from broker.host import Host
from broker.link_driver import LinkDriver
from broker.threads import Threads
from broker.trail import ChangeTrail
from config.channels import Folder, Forward
from config.model import Site
from sapwood.channels.pipes import TcpPipe

CONNECT: Final = 10.0
OPENING: Final = 30.0
"""Seconds until a service has answered, and until a channel is open."""
MOST_COPIES: Final = 64
MOST_OF_ONE: Final = 8
"""Files that are copied at a time, of all and of one node; one neighbour alone has half of them."""
_THREADS: Final = 2
_COUNTERS: Final = ("files_fetched", "files_brought", "file_copies_failed")


class Forwards:
    """Of one node: what it offers, and the ends of channels at it. `trail`: who opened them, and copied."""

    def __init__(self, host: Host, wires: LinkDriver, site: Site) -> None:
        self._host = host
        self.ends = LocalEnds(host, wires)
        self.trail = ChangeTrail(site.data_directory / "trail", "channels", logged=False)
        self._reserve = site.limits.disk_reserve
        self._offered: dict[str, Forward | Folder] = {}
        self._me = host.core.identity.name
        self.applications = ApplicationChannels(self.ends, self._me, site.channels)
        self._log = ChannelLog()
        self.trace = ChannelTrace(site.trace.events)
        self._copies: Counter[str] = Counter()
        self._copies_of: Counter[str] = Counter()
        self._turns = Turns()
        self._services: dict[LocalEnd, FileService] = {}
        self._threads: Threads | None = None
        self._names: ServiceNames | None = None
        for name in _COUNTERS:
            host.core.counters.setdefault(name, 0)
        self.configure(site.forwards, site.folders)
        host.core.channels.configure(self._serve, self._told)

    def __repr__(self) -> str:
        return f"<Forwards of {self._me}: {', '.join(self._offered) or 'none'}>"

    def close(self) -> None:
        self.trail.close()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        if self._names is not None:
            self._names.close()

    def configure(self, forwards: Iterable[Forward], folders: Iterable[Folder] = ()) -> None:
        """The site's file was read again. Channels to what it offers no more, or elsewhere, end."""
        before, self._offered = self._offered, {}
        for forward in forwards:
            self._offered[forward.name] = forward
            self._names = self._names or ServiceNames()
        for folder in folders:
            self._offered[folder.name] = folder
            self._threads = self._threads or Threads("sapwood-files", _THREADS)
        for end in list(self.ends.open):
            channel = end.channel
            if channel is None or channel.far is not end or is_of_application(channel.name):
                continue
            was, now = before.get(channel.name), self._offered.get(channel.name)
            why = self._why_not(channel) or self._why_not_go_on(end)
            if why or (was and now and _place(was) != _place(now)):
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
        offered = self._offered.get(channel.name)
        if offered is None:
            return f"PERMIT: {self._me} offers nothing as {channel.name}"
        permit = offered.permit if isinstance(offered, Forward) else (*offered.read, *offered.write)
        if not any(matches(pattern, channel.origin) for pattern in permit):
            return f"PERMIT: {self._me} does not offer {channel.name} to {channel.origin}"
        return ""

    def _why_not_go_on(self, end: LocalEnd) -> str:
        """May a copy that is under way still be made?"""
        try:
            if (service := self._services.get(end)) is not None:
                service.folder()
        except FileFault as fault:
            return str(fault)
        return ""

    def _told(self, op: str, channel: Channel) -> None:
        self._log(op, channel)
        self.trace.told(op, channel, self._host.now())

    def _serve(self, channel: Channel) -> Side | str:
        asker = "" if isinstance(channel.near, LocalEnd) else channel.near.via
        if (made := self.applications.taken(channel, asker)) is not None:
            return made
        if why := self._why_not(channel) or self.ends.why_none(asker):
            return why
        offered = self._offered[channel.name]
        if isinstance(offered, Folder) and (why := self._why_no_copy(channel.origin, asker)):
            return why
        end = LocalEnd(self.ends, _place(offered), asker)
        end.channel = channel
        if isinstance(offered, Forward) and self._names is not None:
            end.dialling = self._host.spawn(self._connect(end, offered, self._names))
        elif self._threads is not None:
            self._copies[asker] += 1
            self._copies_of[channel.origin] += 1
            self._host.spawn(self._copy(end, channel, self._threads))
        return end

    def _why_no_copy(self, origin: str, asker: str) -> str:
        if self._copies_of[origin] >= MOST_OF_ONE:
            return f"{self._me} copies {MOST_OF_ONE} files of {origin}: none more of it now"
        if self._copies[asker] >= MOST_COPIES - self._copies.total():
            return f"{self._me} copies {self._copies.total()} files: none more now"
        return ""

    async def _connect(self, end: LocalEnd, forward: Forward, names: ServiceNames) -> None:
        found = await _dialled(names, forward.to)
        end.dialling = None
        if isinstance(found, str):
            end.end(UNREACHABLE, f"{self._me} does not reach {forward.name} at {forward.to}: {found}")
            return
        self.ends.tell(self.ends.channels.opened, end)
        await end.run(found)

    def _folder(self, channel: Channel, deed: Deed) -> Folder:
        """A folder as the file has it now, for whoever may `read` or `write` there. Raises `FileFault`."""
        if why := self._why_not(channel):
            raise FileFault(why)
        folder = self._offered[channel.name]
        if not isinstance(folder, Folder):
            raise FileFault(f"{channel.name} is no folder any more: open it again")
        permit = folder.read if deed == "read" else folder.write
        if not any(matches(pattern, channel.origin) for pattern in permit):
            raise FileFault(f"PERMIT: {self._me} lets {channel.origin} not {deed} files of {folder.name}")
        return folder

    async def _copy(self, end: LocalEnd, channel: Channel, threads: Executor) -> None:
        """One file of a folder, which is a service of this node itself."""
        try:
            await self._serve_file(end, channel, threads)
        except OSError as error:  # as for want of descriptors
            end.end(BUSY, f"{self._me} cannot copy files now: {error.strerror or error}")
        finally:
            self._copies -= Counter((end.asker,))
            self._copies_of -= Counter((channel.origin,))
            self._services.pop(end, None)

    async def _serve_file(self, end: LocalEnd, channel: Channel, threads: Executor) -> None:
        near, far = map(TcpPipe, socket.socketpair())
        service = FileService(channel.name, channel.origin, partial(self._folder, channel), self._reserve)
        self._services[end] = service
        self.ends.tell(self.ends.channels.opened, end)
        _, why = await asyncio.gather(end.run(near), service.serve(far, threads, self._turns))
        self._tell_of(service, channel, why)

    def _tell_of(self, service: FileService, channel: Channel, why: str) -> None:
        """The trail keeps each file that was copied; some of those that failed are in the log."""
        counters, asked = self._host.core.counters, service.asked
        path = asked.path if asked is not None else ""
        if why:
            counters["file_copies_failed"] += 1
            channel.why = f"{path}: {why}" if path else why
            self._log("broken", channel)
            return
        deed = "brought" if isinstance(asked, Put) else "fetched"
        counters[f"files_{deed}"] += 1
        said = {"folder": channel.name, "path": path, "size": service.size, "channel": channel.number.hex()}
        self.trail.add(channel.origin, "", channel.near.via, f"file {deed}", said)


def _place(offered: Forward | Folder) -> str:
    """Where it is, for people too."""
    return offered.to if isinstance(offered, Forward) else str(offered.path)


async def _dialled(names: ServiceNames, to: str) -> TcpPipe | str:
    """A connection with a service, or why there is none."""
    host, _, port = to.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT):
            return await dialled(names, host.strip("[]"), int(port))
    except (OSError, UnicodeError) as error:  # a name that no resolver takes is the latter
        return getattr(error, "strerror", None) or str(error) or f"no answer within {CONNECT:g} s"
