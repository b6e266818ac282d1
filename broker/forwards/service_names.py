"""The addresses of services: their hosts' names are looked up here.

Law: however many ask for a service, one question for a host is under way, in threads that do nothing else. A
resolver that does not answer makes whoever dials that host wait, and neither links nor other hosts' callers.
"""

import asyncio
import socket
from typing import Any, Final

import aiohappyeyeballs

from broker.threads import Threads
from sapwood.channels.pipes import TcpPipe

THREADS: Final = 2
Addresses = list[Any]
"""As `socket.getaddrinfo` says them."""


class ServiceNames:
    """Of one node."""

    def __init__(self) -> None:
        self._threads = Threads("sapwood-services", THREADS)
        self._asked: dict[tuple[str, int], asyncio.Future[Addresses]] = {}

    def __repr__(self) -> str:
        return f"<ServiceNames asked={len(self._asked)}>"

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def addresses(self, host: str, port: int) -> Addresses:
        """Raises `OSError`, and `UnicodeError` for a name that no resolver takes."""
        try:
            return _look_up(host, port, socket.AI_NUMERICHOST)
        except socket.gaierror:
            pass  # no address but a name, which may take long
        place = host, port
        if place not in self._asked:
            self._asked[place] = self._ask(place)
        return await asyncio.shield(self._asked[place])

    def _ask(self, place: tuple[str, int]) -> "asyncio.Future[Addresses]":
        asked = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, *place)

        def answered(answer: "asyncio.Future[Addresses]") -> None:
            del self._asked[place]
            if not answer.cancelled():
                answer.exception()  # whoever waited may have gone

        asked.add_done_callback(answered)
        return asked


def _look_up(host: str, port: int, flags: int = 0) -> Addresses:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)


async def dialled(names: ServiceNames, host: str, port: int) -> TcpPipe:
    """A connection that was made. Raises `OSError`, and `UnicodeError` for a name that no resolver takes."""
    found = await names.addresses(host, port)
    return TcpPipe(await aiohappyeyeballs.start_connection(found))
