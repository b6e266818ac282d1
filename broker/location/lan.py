"""The same network: who could be a parent there is asked by multicast, and a node that says so answers.

Law: off unless the file says otherwise; what answers proves nothing (decision 0069).
Law: only nodes' own ports are told and taken. Whoever answers would get the login of a broker.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from bridges.dns.errors import without_library
from bridges.dns.records import NamedParent
from broker.core.node import NodeCore
from broker.location.finder import LookUp
from config.model import Site
from config.uris import address

if TYPE_CHECKING:
    from bridges.dns.lookup import LookupResult

_log = logging.getLogger("sapwood.location")
_ANYWHERE: Final = ("0.0.0.0", "::", "[::]")  # noqa: S104 (nothing is bound here)


def asking(lines: Sequence[str]) -> LookUp:
    """A look-up by multicast, over these own addresses."""
    return partial(_ask, tuple(lines))


async def _ask(
    lines: Sequence[str], domain: str, *, servers: Sequence[str], timeout: float
) -> "LookupResult":
    """Raises `LocationError`, also where the library for it is not installed."""
    try:
        from bridges.dns.multicast import ask_lan
    except ModuleNotFoundError as error:
        raise without_library(error) from None
    return await ask_lan(domain, servers=servers, timeout=timeout, lines=lines)


class LanAnswers:
    """Of one node that says `discoverable`: it tells whoever asks where it can be dialled."""

    def __init__(self, site: Site, core: NodeCore) -> None:
        self._site = site
        self._core = core

    def __repr__(self) -> str:
        return f"<LanAnswers of {self._site.name}>"

    async def run(self) -> None:
        """Until cancelled. A network that carries no multicast is told, and ends nothing else."""
        try:
            from bridges.dns.multicast import Answerer
        except ModuleNotFoundError as error:
            _log.warning("! discoverable: %s", without_library(error))
            return
        answerer, host = Answerer(self.parents), self._site.listener.host
        try:
            await answerer.open("" if host in _ANYWHERE else host)
        except OSError as error:
            _log.warning("! discoverable: cannot hear questions by multicast: %s", error)
            return
        try:
            await asyncio.Event().wait()
        finally:
            answerer.close()

    def parents(self, asker: str) -> list[NamedParent]:
        """The ways to this node's port; where the file says none, at the address that leads to the asker."""
        site = self._site
        ways = [uri for uri in self._core.logical_addresses.addresses if address(uri).direct]
        if site.listener.host in _ANYWHERE and not site.listener.announced:
            own = _towards(asker)
            ways = [uri.replace(address(uri).host, own, 1) for uri in ways] if own else []
        return [NamedParent(address(uri).uri, tree=site.tree, node=site.name) for uri in ways]


def _towards(asker: str) -> str:
    """This machine's address on the way to another one, '' if there is none. Nothing is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((asker, 9))
            return str(probe.getsockname()[0])
    except OSError:  # as for want of descriptors
        return ""
