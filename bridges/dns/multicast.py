"""Asks the networks of this machine, by multicast, who could be a parent, and answers there (RFC 6762, 6763).

The question is for `_sapwood._tcp.local`, from a port of its own, so that answers come to this port alone. An
answer has for each way to a node a PTR, a SRV and a TXT record; TXT says all that is used, as in DNS.

Law: whatever comes is bounded in time, number and bytes before it is read, and proves nothing: whoever
answers is proved in the link's handshake. Questions of the same network are answered, so many a second.
Law: one host takes nothing from the others. Its answers and its questions are counted by its address, and of
the ways that are found the first of each host come before the second of any.
"""

import asyncio
import socket
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import zip_longest
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
from bridges.dns.records import SERVICE, NamedParent, Notes, place_of, read_text, shown
from config.kinds import Fault

GROUP: Final = "224.0.0.251"
PORT: Final = 5353
MOST: Final = 32
"""Ways, of all hosts and of one node."""
MOST_PACKETS: Final = 256
MOST_OF_ONE: Final = 8
LARGEST_PACKET: Final = 4096
"""Answers to one question, those of one host, and bytes of each."""
MOST_WAYS_OF_ONE: Final = 8
MOST_ANSWERS: Final = 20
MOST_ANSWERS_TO_ONE: Final = 4
"""In a second."""
_WINDOW: Final = 1.5
_TIMES: Final = 2
_TTL: Final = 10
"""Seconds, as RFC 6762 says for whoever asks from a port of its own."""
_NAME: Final = dns.name.from_text(f"{SERVICE}.local.")
_NAME_BYTES: Final = _NAME.to_digestable()
_ASKED: Final = frozenset(each.to_bytes(2, "big") for each in (dns.rdatatype.PTR, dns.rdatatype.ANY))
_HEAD: Final = 12
_RESPONSE: Final = 0x80
_OPCODE: Final = 0x78
"""Bytes before the question; bits of the third of them (RFC 1035, 4.1.1)."""
_MULTICAST_ALL: Final = getattr(socket, "IP_MULTICAST_ALL", 49)

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
    found = asker.in_turn()
    if not found:
        why = "; ".join(asker.notes.all()) or "nobody answers"
        raise NotThere(f"{SERVICE}.local, asked by multicast: {why} (a parent says discoverable: true)")
    return LookupResult(found, LONGEST_TTL, asker.notes.all())


async def _endpoint(make: Callable[[], asyncio.DatagramProtocol], sock: socket.socket) -> Any:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(make, sock=sock)
    return transport


def _asking(line: str) -> socket.socket:
    """Raises `LocationError`."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        _stays_here(made)
        if line:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(line))
        made.bind((line, 0))
    except OSError as error:
        made.close()
        raise LocationError(f"cannot ask by multicast from {line or 'this machine'}: {error}") from None
    made.setblocking(False)
    return made


def _stays_here(made: socket.socket) -> None:
    """Nothing goes beyond the next router, and nothing comes of a group that another program has joined."""
    made.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_IP, _MULTICAST_ALL, 0)


class Asker(asyncio.DatagramProtocol):
    """One question, and what has come of it. `found`: by the host that answered, then by URI."""

    def __init__(self) -> None:
        self._question = dns.message.make_query(_NAME, dns.rdatatype.PTR)
        self._packets: Counter[str] = Counter()
        self.transports: list[asyncio.DatagramTransport] = []
        self.found: dict[str, dict[str, NamedParent]] = {}
        self.notes = Notes()

    def __repr__(self) -> str:
        return f"<Asker found={len(self.in_turn())} packets={self._packets.total()}>"

    def in_turn(self) -> tuple[NamedParent, ...]:
        """The first way that each host named, with the best priority; then the second of each."""
        rows = zip_longest(*(ways.values() for ways in self.found.values()))
        turns = ((turn, way) for turn, row in enumerate(rows) for way in row if way is not None)
        return tuple(replace(way, priority=turn) for turn, way in turns)[:MOST]

    def ask(self) -> None:
        for transport in self.transports:
            transport.sendto(self._question.to_wire(), (GROUP, PORT))

    def error_received(self, exc: Exception) -> None:
        self.notes.add(f"a line does not carry it: {shown(exc)}")

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        if data[:2] != self._question.id.to_bytes(2, "big"):
            return
        host = str(addr[0])
        few = self._packets[host] < MOST_OF_ONE and self._packets.total() < MOST_PACKETS
        if not few or len(data) > LARGEST_PACKET:
            self.notes.add(
                f"left out answers of {shown(host)}: more than {MOST_OF_ONE} of it, {MOST_PACKETS} of all, or"
                f" one of more than {LARGEST_PACKET} bytes"
            )
            return
        self._packets[host] += 1
        try:
            answer = dns.message.from_wire(data)
        except (dns.exception.DNSException, ValueError) as error:
            self.notes.add(f"left out an answer of {shown(addr[0])}: {shown(error)}")
            return
        if answer.flags & dns.flags.QR:
            for rrset in (*answer.answer, *answer.additional):
                if rrset.rdtype == dns.rdatatype.TXT and rrset.name.is_subdomain(_NAME):
                    self._take(host, [each.strings for each in rrset if isinstance(each, TXT)])

    def _take(self, host: str, texts: list[Sequence[bytes]]) -> None:
        ways = self.found.setdefault(host, {})
        for strings in texts:
            try:
                place = place_of(read_text(strings))
            except Fault as fault:
                self.notes.add(f"left out {shown(fault)}")
                continue
            if len(ways) >= MOST_WAYS_OF_ONE and place.uri not in ways:
                self.notes.add(
                    f"more than {MOST_WAYS_OF_ONE} ways of {shown(host)}: the others were left out"
                )
                return
            ways[place.uri] = place


def may_be_asked(data: bytes) -> bool:
    """Is this a question for parents, and nothing beside? A look at its head, before anything is parsed."""
    end = _HEAD + len(_NAME_BYTES)
    return (
        len(data) <= LARGEST_PACKET
        and len(data) >= end
        and not data[2] & (_RESPONSE | _OPCODE)
        and data[4:6] == b"\0\1"
        and data[_HEAD:end].lower() == _NAME_BYTES
        and data[end : end + 2] in _ASKED
    )


def answer_to(data: bytes, parents: Callable[[], Sequence[NamedParent]]) -> bytes:
    """The answer to a question for parents, b'' to anything else. It has as many ways as fit."""
    if not may_be_asked(data):
        return b""
    try:
        asked = dns.message.from_wire(data, question_only=True)
    except (dns.exception.DNSException, ValueError):
        return b""
    ways = list(parents()[:MOST])
    while ways:
        try:
            return _answer(asked, ways).to_wire(max_size=LARGEST_PACKET)
        except (dns.exception.DNSException, ValueError):
            ways.pop()
    return b""


def _answer(asked: dns.message.Message, ways: Sequence[NamedParent]) -> dns.message.Message:
    answer = dns.message.make_response(asked)
    answer.flags |= dns.flags.AA
    for number, parent in enumerate(ways):
        name = dns.name.Name((f"{parent.node}-{number}".encode()[:63], *_NAME.labels))
        strings = " ".join(f'"{each}"' for each in parent.text)
        place = parent.service
        answer.answer.append(dns.rrset.from_text(_NAME, _TTL, "IN", "PTR", name.to_text()))
        host = place.host if not place.host.replace(".", "").isdecimal() else f"{parent.node}.local"
        answer.additional += [
            dns.rrset.from_text(name, _TTL, "IN", "SRV", f"0 0 {place.port} {host}."),
            dns.rrset.from_text(name, _TTL, "IN", "TXT", strings),
        ]
    return answer


class Answerer(asyncio.DatagramProtocol):
    """Answers whoever asks for parents. `answers`: how many were given."""

    def __init__(self, parents: Parents) -> None:
        self._parents = parents
        self._transport: asyncio.DatagramTransport | None = None
        self._second = 0
        self._read: Counter[str] = Counter()
        self.answers = 0

    def __repr__(self) -> str:
        return f"<Answerer answers={self.answers}>"

    async def open(self, host: str) -> None:
        """Hear questions on the network of an own IPv4 address, '' = the one that the system chooses.

        Raises `OSError`.
        """
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            _stays_here(made)
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
        """A question costs a look; one that may be meant is read, so many of a host and of all."""
        if self._transport is None or not may_be_asked(data):
            return
        second, host = int(asyncio.get_running_loop().time()), str(addr[0])
        if second != self._second:
            self._second = second
            self._read.clear()
        if self._read[host] >= MOST_ANSWERS_TO_ONE or self._read.total() >= MOST_ANSWERS:
            return
        self._read[host] += 1
        if answer := answer_to(data, lambda: self._parents(host)):
            self.answers += 1
            self._transport.sendto(answer, addr if addr[1] != PORT else (GROUP, PORT))
