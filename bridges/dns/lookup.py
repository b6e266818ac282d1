"""Asks DNS for the ways to a node: SRV and TXT of `_sapwood._tcp.DOMAIN`.

Law: an answer is bounded in time, in number and in what it may say; whatever a server sends is a
`LookupResult` or a `LocationError`.
Wrinkle: where TXT has no records the SRV records count alone, but where the question for TXT fails the whole
look-up does: else a lost packet would change the carrier.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.resolver
from dns.rdtypes.ANY.TXT import TXT
from dns.rdtypes.IN.SRV import SRV

from bridges.dns.errors import LocationError, NotThere
from bridges.dns.records import SERVICE, NamedParent, Notes, Service, places, shown

SHORTEST_TTL: Final = 5.0
LONGEST_TTL: Final = 86_400.0
_PORT: Final = 53
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The answer of DNS.

    `ttl`: seconds until it is to be asked again. `notes`: what was left out, and why.
    """

    places: tuple[NamedParent, ...]
    ttl: float
    notes: tuple[str, ...] = ()


async def look_up(domain: str, *, servers: Sequence[str] = (), timeout: float) -> LookupResult:
    """Ask `servers` (ADDRESS or ADDRESS:PORT; the system's, if there are none) within `timeout` seconds.

    Raises `NotThere` where DNS says that there is nothing, else `LocationError`.
    """
    owner = f"{SERVICE}.{domain}"
    try:
        async with asyncio.timeout(timeout):
            name = dns.name.from_text(f"{owner}.")
            resolver = _resolver(servers, timeout)
            services = await cancellable(resolver.resolve(name, "SRV", search=False))
            texts = await cancellable(_texts(resolver, name))
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        raise NotThere(f"{owner} has no SRV record in DNS: check the domain's name") from None
    except (TimeoutError, dns.exception.Timeout):
        raise LocationError(f"{owner}: DNS did not answer within {timeout:g} s") from None
    except dns.resolver.NoNameservers as error:
        raise LocationError(f"{owner}: {_refusals(error)}") from None
    except (dns.exception.DNSException, OSError, ValueError) as error:
        raise LocationError(f"{owner}: DNS gives no answer that can be used: {shown(error)}") from None
    return _answer(owner, services, texts)


async def cancellable(work: Coroutine[Any, Any, T]) -> T:
    """Its result; a cancellation always arrives.

    Wrinkle: dnspython waits by `asyncio.wait_for`, which until Python 3.12 may swallow one: a node that is
    told to stop would wait for ever.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait((task,))
    finally:
        task.cancel()
    return task.result()


async def _texts(resolver: dns.asyncresolver.Resolver, name: dns.name.Name) -> dns.resolver.Answer | None:
    try:
        return await resolver.resolve(name, "TXT", search=False)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return None


def _refusals(error: dns.resolver.NoNameservers) -> str:
    """The last answer of each server."""
    said = {shown(server).removeprefix("Do53:"): why for server, _, _, why, _ in error.kwargs["errors"]}
    return "; ".join(f"the DNS server {server} answered {shown(why)}" for server, why in said.items())


def _resolver(servers: Sequence[str], timeout: float) -> dns.asyncresolver.Resolver:
    resolver = dns.asyncresolver.Resolver(configure=not servers)
    if servers:
        resolver.nameservers = [dns.nameserver.Do53Nameserver(*server_place(server)) for server in servers]
    resolver.lifetime = timeout
    resolver.timeout = min(resolver.timeout, timeout)
    resolver.cache = None
    return resolver


def server_place(server: str) -> tuple[str, int]:
    """Host and port of `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`."""
    if server.startswith("["):
        host, _, rest = server[1:].partition("]")
        return host, int(rest.lstrip(":") or _PORT)
    host, colon, port = server.partition(":")
    return (host, int(port)) if colon else (host, _PORT)


def _answer(owner: str, services: dns.resolver.Answer, texts: dns.resolver.Answer | None) -> LookupResult:
    notes = Notes()
    found = places(
        [service_of(each) for each in services if isinstance(each, SRV)],
        [each.strings for each in texts or () if isinstance(each, TXT)],
        notes,
    )
    if not found:
        raise NotThere(f"{owner} names no way that can be used: {'; '.join(notes.all())}")
    ttls = [each.chaining_result.minimum_ttl for each in (services, texts) if each is not None]
    return LookupResult(tuple(found), min(max(min(ttls), SHORTEST_TTL), LONGEST_TTL), notes.all())


def service_of(record: SRV) -> Service:
    """The record without its dots."""
    host = record.target.to_text(omit_final_dot=True)
    return Service(record.priority, record.weight, record.port, "" if host in (".", "@") else host)
