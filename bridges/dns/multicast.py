"""Asks the networks of this machine, by multicast, who could be a parent, and answers there (RFC 6762, 6763).

The question is for `_sapwood._tcp.local`, from a port of its own, so that answers come to this port alone. An
answer has for each way to a node a PTR, a SRV and a TXT record; TXT says all that is used, as in DNS.

Law: whatever comes is bounded in time, number and bytes before it is read, and proves nothing: whoever
answers is proved in the link's handshake. Questions of the same network are answered, so many a second.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.rrset
from dns.rdtypes.ANY.TXT import TXT

from bridges.dns.errors import LocationError, NotThere
from bridges.dns.lookup import LONGEST_TTL, LookupResult
from bridges.dns.records import MOST, SERVICE, NamedParent, Notes, place_of, read_text, shown
from config.kinds import Fault

GROUP: Final = "224.0.0.251"
PORT: Final = 5353
MOST_PACKETS: Final = 64
LARGEST_PACKET: Final = 4096
MOST_ANSWERS: Final = 20
"""In a second."""
_WINDOW: Final = 1.5
_TIMES: Final = 2
_TTL: Final = 10
"""Seconds, as RFC 6762 says for whoever asks from a port of its own."""
_NAME: Final = dns.name.from_text(f"{SERVICE}.local.")
_ASKED: Final = (dns.rdatatype.PTR, dns.rdatatype.ANY)

Parents = Callable[[str], Sequence[NamedParent]]
"""The ways to this node for whoever asks from an address."""


async def ask_lan(
    domain: str, *, servers: Sequence[str] = (), timeout: float, lines: Sequence[str] = ()
) -> LookupResult:
    """Ask over `lines` (own IPv4 addresses; without any the system chooses), and wait 1.5 s or `timeout`.

    Raises `NotThere` where nobody answers, else `LocationError`. `domain` and `servers` have no use here.
    """
    asker = Asker()
    with ExitStack() as transports:
        for line in lines or ("",):
            transport = await _endpoint(lambda: asker, _asking(line))
            transports.callback(transport.close)
            asker.transports.append(transport)
        for _ in range(_TIMES):
            asker.ask()
            await asyncio.sleep(min(timeout, _WINDOW) / _TIMES)
    if not asker.found:
        why = "; ".join(asker.notes.all()) or "nobody answers"
        raise NotThere(f"{SERVICE}.local, asked by multicast: {why} (a parent says discoverable: yes)")
    return LookupResult(tuple(asker.found.values()), LONGEST_TTL, asker.notes.all())


async def _endpoint(make: Callable[[], asyncio.DatagramProtocol], sock: socket.socket) -> Any:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(make, sock=sock)
    return transport


def _asking(line: str) -> socket.socket:
    """Raises `LocationError`."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        if line:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(line))
        made.bind((line, 0))
    except OSError as error:
        made.close()
        raise LocationError(f"cannot ask by multicast from {line or 'this machine'}: {error}") from None
    made.setblocking(False)
    return made


class Asker(asyncio.DatagramProtocol):
    """One question, and what has come of it. `found`: by URI."""

    def __init__(self) -> None:
        self._question = dns.message.make_query(_NAME, dns.rdatatype.PTR)
        self._packets = 0
        self.transports: list[asyncio.DatagramTransport] = []
        self.found: dict[str, NamedParent] = {}
        self.notes = Notes()

    def __repr__(self) -> str:
        return f"<Asker found={len(self.found)} packets={self._packets}>"

    def ask(self) -> None:
        for transport in self.transports:
            transport.sendto(self._question.to_wire(), (GROUP, PORT))

    def error_received(self, exc: Exception) -> None:
        self.notes.add(f"a line does not carry it: {shown(exc)}")

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._packets += 1
        if self._packets > MOST_PACKETS or len(data) > LARGEST_PACKET:
            self.notes.add(f"more than {MOST_PACKETS} answers, or one of more than {LARGEST_PACKET} bytes")
            return
        try:
            answer = dns.message.from_wire(data)
        except (dns.exception.DNSException, ValueError) as error:
            self.notes.add(f"left out an answer of {shown(addr[0])}: {shown(error)}")
            return
        if answer.id == self._question.id and answer.flags & dns.flags.QR:
            for rrset in (*answer.answer, *answer.additional):
                if rrset.rdtype == dns.rdatatype.TXT and rrset.name.is_subdomain(_NAME):
                    self._take([each.strings for each in rrset if isinstance(each, TXT)])

    def _take(self, texts: list[Sequence[bytes]]) -> None:
        for strings in texts:
            try:
                place = place_of(read_text(strings))
            except Fault as fault:
                self.notes.add(f"left out {shown(fault)}")
                continue
            if len(self.found) >= MOST and place.uri not in self.found:
                self.notes.add(f"more than {MOST} ways: the others were left out")
                return
            self.found[place.uri] = place


def answer_to(data: bytes, parents: Callable[[], Sequence[NamedParent]]) -> bytes:
    """The answer to a question for parents, b'' to anything else."""
    try:
        asked = dns.message.from_wire(data)
    except (dns.exception.DNSException, ValueError):
        return b""
    if asked.flags & dns.flags.QR or len(asked.question) != 1:
        return b""
    (question,) = asked.question
    if question.name != _NAME or question.rdtype not in _ASKED:
        return b""
    answer = dns.message.make_response(asked)
    answer.flags |= dns.flags.AA
    for number, parent in enumerate(parents()[:MOST]):
        name = dns.name.Name((f"{parent.node}-{number}".encode()[:63], *_NAME.labels))
        strings = " ".join(f'"{each}"' for each in parent.text)
        place = parent.service
        answer.answer.append(dns.rrset.from_text(_NAME, _TTL, "IN", "PTR", name.to_text()))
        host = place.host if not place.host.replace(".", "").isdecimal() else f"{parent.node}.local"
        answer.additional += [
            dns.rrset.from_text(name, _TTL, "IN", "SRV", f"0 0 {place.port} {host}."),
            dns.rrset.from_text(name, _TTL, "IN", "TXT", strings),
        ]
    return answer.to_wire(max_size=LARGEST_PACKET) if answer.answer else b""


class Answerer(asyncio.DatagramProtocol):
    """Answers whoever asks for parents. `answers`: how many were given."""

    def __init__(self, parents: Parents) -> None:
        self._parents = parents
        self._transport: asyncio.DatagramTransport | None = None
        self._second = 0
        self._answers = 0
        self.answers = 0

    def __repr__(self) -> str:
        return f"<Answerer answers={self.answers}>"

    async def open(self, host: str) -> None:
        """Hear questions on the network of an own IPv4 address, '' = the one that the system chooses.

        Raises `OSError`.
        """
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind((GROUP, PORT))
            member = socket.inet_aton(GROUP) + socket.inet_aton(host or "0.0.0.0")  # noqa: S104
            made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            made.setblocking(False)
            self._transport = await _endpoint(lambda: self, made)
        except OSError:
            made.close()
            raise

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._answers = second, 0
        if self._answers >= MOST_ANSWERS or len(data) > LARGEST_PACKET or self._transport is None:
            return
        if answer := answer_to(data, lambda: self._parents(addr[0])):
            self._answers += 1
            self.answers += 1
            self._transport.sendto(answer, addr if addr[1] != PORT else (GROUP, PORT))
