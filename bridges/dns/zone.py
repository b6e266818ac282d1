"""The records of one domain at the zone's own server: read, and changed by RFC 2136 updates with TSIG.

Law: both the question and its answer are signed, so nobody else says what is to be removed. A change is one
update message: all of it or nothing.
"""

import asyncio
import base64
import binascii
import contextlib
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.update
from dns.rdtypes.ANY.TXT import TXT
from dns.rdtypes.IN.SRV import SRV

from bridges.dns.errors import LocationError
from bridges.dns.lookup import cancellable, server_place, service_of
from bridges.dns.records import SERVICE, NamedParent, Notes, places, read_text, shown
from config.kinds import Fault

_MOST: Final = 256
_MOST_ADDRESSES: Final = 4


@dataclass(frozen=True, slots=True)
class ZoneAccess:
    """Where a domain's records are changed, and with which key. `secret`: base64, as in the server's file."""

    domain: str
    zone: str
    server: str
    key_name: str
    secret: str = field(repr=False)
    algorithm: str = "hmac-sha256"
    timeout: float = 5.0


@dataclass(frozen=True, slots=True)
class Registered:
    """One TXT record of the domain and its way; `place` is None where it cannot be understood."""

    record: TXT
    place: NamedParent | None


@dataclass(frozen=True, slots=True)
class Records:
    """All that is there now."""

    services: tuple[SRV, ...]
    texts: tuple[Registered, ...]

    def serving(self, gone: Iterable[Registered], staying: Iterable[NamedParent]) -> list[SRV]:
        """The SRV records that only `gone` needs: of its targets, those that nothing else names."""
        leaving = list(gone)
        targets = {each.place.service.target for each in leaving if each.place is not None}
        targets -= {
            each.place.service.target for each in self.texts if each.place is not None and each not in leaving
        }
        kept = {place.service for place in staying}
        services = [(each, service_of(each)) for each in self.services]
        return [each for each, said in services if said.target in targets and said not in kept]


class Zone:
    """Reads and changes. Making it raises `LocationError` for a key or name that cannot be."""

    def __init__(self, access: ZoneAccess) -> None:
        self._access = access
        try:
            secret = base64.b64decode(access.secret, validate=True)
            self._key = dns.tsig.Key(f"{access.key_name}.", secret, access.algorithm)
            self._owner = dns.name.from_text(f"{SERVICE}.{access.domain}.")
            self._zone = dns.name.from_text(f"{access.zone}.")
        except (binascii.Error, ValueError):
            raise LocationError(
                f"the key {access.key_name!r}: expected base64, as `tsig-keygen` prints it"
            ) from None
        except dns.exception.DNSException as error:
            raise LocationError(
                f"{access.domain} in {access.zone}: no name of DNS ({shown(error)})"
            ) from None

    def __repr__(self) -> str:
        return f"<Zone {self._access.zone} at {self._access.server}>"

    async def read(self) -> Records:
        """The records that the server holds for the domain now. Raises `LocationError`."""
        services = [each for each in await self._ask("SRV") if isinstance(each, SRV)][:_MOST]
        texts = [each for each in await self._ask("TXT") if isinstance(each, TXT)][:_MOST]
        return Records(tuple(services), tuple(understood(each, services) for each in texts))

    async def change(self, remove: Iterable[dns.rdata.Rdata], add: Iterable[NamedParent], ttl: int) -> None:
        """Remove these records and add these ways, in one. Raises `LocationError`."""
        update = dns.update.UpdateMessage(self._zone)
        for record in remove:
            update.delete(self._owner, record)
        for place in add:
            for made in records_of(place):
                update.add(self._owner, ttl, made)
        if not update.update:
            return
        self._check(await self._exchange(update))

    async def _ask(self, kind: str) -> Sequence[dns.rdata.Rdata]:
        question = dns.message.make_query(self._owner, kind)
        question.flags &= ~dns.flags.RD
        answer = await self._exchange(question)
        if answer.rcode() != dns.rcode.NXDOMAIN:
            self._check(answer)
        found = answer.get_rrset(answer.answer, self._owner, dns.rdataclass.IN, dns.rdatatype.from_text(kind))
        return list(found) if found is not None else []

    async def _exchange(self, message: dns.message.Message) -> dns.message.Message:
        """Of the server's addresses that which answers, each in its share of the time."""
        access = self._access
        message.use_tsig(self._key, algorithm=access.algorithm)
        try:
            async with asyncio.timeout(access.timeout):
                *others, last = await _addresses(access.server)
                share = access.timeout / (len(others) + 1)
                for host, port in others:
                    with contextlib.suppress(OSError, EOFError, dns.exception.Timeout):
                        return await cancellable(dns.asyncquery.tcp(message, host, share, port))
                return await cancellable(dns.asyncquery.tcp(message, last[0], share, last[1]))
        except (TimeoutError, dns.exception.Timeout):
            raise LocationError(f"{access.server} did not answer within {access.timeout:g} s") from None
        except (dns.exception.DNSException, OSError, EOFError, ValueError) as error:
            raise LocationError(f"{access.server}: {self._explain(error)}") from None

    def _explain(self, error: BaseException) -> str:
        key = self._access.key_name
        match error:
            case dns.tsig.PeerBadKey():
                return f"does not know the key {key!r}: add it there, under this very name and algorithm"
            case dns.tsig.PeerBadSignature() | dns.tsig.BadSignature():
                return f"has another secret for the key {key!r}: give the same to both"
            case dns.tsig.PeerBadTime() | dns.tsig.BadTime():
                return "its clock and this machine's are minutes apart: set them"
            case dns.exception.DNSException():
                return f"the answer cannot be used: {shown(error) or type(error).__name__}"
            case OSError():
                return f"cannot be reached ({error.strerror or error})"
        return f"the answer cannot be used: {shown(error) or type(error).__name__}"

    def _check(self, answer: dns.message.Message) -> None:
        access, code = self._access, answer.rcode()
        if code == dns.rcode.NOERROR:
            return
        advice = {
            dns.rcode.REFUSED: f"let the key {access.key_name!r} change {self._owner} there (update-policy)",
            dns.rcode.NOTAUTH: f"it is not the server of the zone {access.zone!r}",
            dns.rcode.NOTZONE: f"{access.domain!r} is not in the zone {access.zone!r}",
            dns.rcode.SERVFAIL: "see that server's log; may it write its zone's journal?",
        }.get(code, "see that server's log")
        raise LocationError(f"{access.server} refuses ({dns.rcode.to_text(code)}): {advice}")


async def _addresses(server: str) -> list[tuple[str, int]]:
    host, port = server_place(server)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(str(each[4][0]), port) for each in found[:_MOST_ADDRESSES]]


def records_of(place: NamedParent) -> tuple[dns.rdata.Rdata, ...]:
    """The SRV and the TXT record of one way."""
    service = place.service
    host = dns.name.from_text(f"{service.host}.")
    said = f"{service.priority} {service.weight} {service.port} {host}"
    return (
        dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.SRV, said),
        TXT(dns.rdataclass.IN, dns.rdatatype.TXT, [each.encode() for each in place.text]),
    )


def understood(record: TXT, services: Sequence[SRV]) -> Registered:
    """A TXT record belongs to a way if it names the target of an SRV record that is there."""
    try:
        target = read_text(record.strings).get("target", "").lower()
    except Fault:
        return Registered(record, None)
    named = [each for each in map(service_of, services) if each.target == target]
    found = places(named, [record.strings], Notes())
    return Registered(record, found[-1] if found else None)
