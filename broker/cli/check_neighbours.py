"""What `sapwood node check` says of the nodes that this one dials: its parent, and the others of its mesh.

Law: warnings only, since what is wrong with a neighbour may be cured tomorrow; but no node is its own parent,
and the Python package for a way to it is installed here.
Over WebSocket the port is asked for its health, which shows whether a node is there and whether both speak
TLS; one that is slow to say so is taken as it is.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from typing import Final

from bridges.carriers.base import CarrierBroken
from bridges.carriers.registry import check_library
from bridges.dns.errors import LibraryMissing
from bridges.tls import TlsError, client_context, is_not_tls
from broker.cli.finding import SiteFinding
from broker.location.cores import finder_of
from broker.location.finder import Finder
from broker.location.ways import finders_of
from broker.settings import client_tls
from config.model import ClientTls, Site, TreeConnector
from config.schemes import DIRECT
from config.uris import LAN, Address, address
from sapwood.protocol.errors import SapwoodError

CONNECT_TIMEOUT: Final = 3.0
_ANSWER_WITHIN: Final = 1.0


def check_parent(site: Site) -> Iterator[SiteFinding]:
    """The parent: its name resolves and a node answers there."""
    connector = site.connector
    if connector is None:
        return
    for uri in connector.ways:
        way = address(uri)
        if way.looked_up:
            yield from _found(site, connector, uri)
        elif way.direct and _is_own(site, way):
            text = f"{way.host}:{way.port} is this node's own port: expected that of its parent; change {uri}"
            other = ", or give this node another one (listener, port)" if way.port == DIRECT.port else ""
            yield SiteFinding("parent", "failed", text + other)
        else:
            yield _reached("parent", way, connector.tls)


def _is_own(site: Site, way: Address) -> bool:
    """Does the node itself listen there?"""
    if way.port != site.listener.port:
        return False
    try:
        own, there = (_addresses(host, way.port) for host in (site.listener.host, way.host))
    except OSError:
        return False  # it has no address, and somebody else says so
    everywhere = {":" in host for host in own if ip_address(host).is_unspecified}
    return bool(own & there) or any(
        (":" in host) in everywhere and _is_of_this_machine(host) for host in there
    )


def _addresses(host: str, port: int) -> set[str]:
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return {str(where[0]).partition("%")[0] for *_, where in found}


def _is_of_this_machine(host: str) -> bool:
    """Nobody can bind an address of another one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def check_mesh(site: Site) -> Iterator[SiteFinding]:
    """The other nodes of the mesh, the same."""
    for core in site.mesh.cores:
        for uri in core.ways:
            yield _reached(f"mesh, {core.name}", address(uri), site.mesh.tls)
    finder = finder_of(site)
    if finder is not None:
        yield from _named(f"mesh {finder.domain}", finder, site.mesh.tls)


def _found(site: Site, connector: TreeConnector, uri: str) -> Iterator[SiteFinding]:
    """What DNS says of a parent, and whether somebody listens there."""
    subject, finder = f"parent {uri}", finders_of(site, connector)[uri]
    if uri == LAN and not connector.tls.ca:
        text = (
            "a secret proves the parent's name, not the line: whoever answers on the same network could "
            "hand it on and read all; name the tree's own authority as `ca` in tls"
        )
        yield SiteFinding(subject, "warning", text)
    elif uri != LAN and not (connector.secret_env or connector.secret_file):
        text = (
            "no secret proves the parent: whoever answers in DNS could be it; give secret_file to both ends"
        )
        yield SiteFinding(subject, "warning", text)
    yield from _named(subject, finder, connector.tls)


def _named(subject: str, finder: Finder, tls: ClientTls) -> Iterator[SiteFinding]:
    """What DNS names, and whether somebody listens there."""
    try:
        asyncio.run(finder.look())
    except SapwoodError as error:
        yield SiteFinding(subject, "failed" if isinstance(error, LibraryMissing) else "warning", str(error))
        return
    for note in finder.notes:
        yield SiteFinding(subject, "warning", note)
    places = sorted(finder.places, key=lambda place: (place.priority, place.uri))
    reached = [_reached(subject.partition(" ")[0], address(place.uri), tls) for place in places]
    one_goes = any(each.state != "failed" for each in reached)
    for place, found in zip(places, reached, strict=True):
        way = address(place.uri)
        names = [way.host] if tls.verify_hostname else []
        names += [place.node or "the node"] if finder.anybody else []
        must = f"its certificate must name {' and '.join(names)}" if names else "with TLS"
        name = must if way.tls else "without TLS"
        order = f"priority {place.priority}, weight {place.weight}"
        yield SiteFinding(subject, "ok", f"{place.uri} ({place.node or 'no name given'}, {order}; {name})")
        # DNS names ways for all nodes; this one may go over another.
        yield replace(found, state="warning") if one_goes and found.state == "failed" else found


def _reached(subject: str, way: Address, tls: ClientTls) -> SiteFinding:
    place = f"{way.host}:{way.port}"
    try:
        check_library(way)
    except CarrierBroken as error:
        return SiteFinding(subject, "failed", str(error))
    try:
        with socket.create_connection((way.host, way.port), timeout=CONNECT_TIMEOUT):
            pass
    except socket.gaierror as error:
        return SiteFinding(
            subject, "warning", f"{way.host} has no address ({error.strerror}): check the name"
        )
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        return SiteFinding(
            subject, "warning", f"{place} cannot be reached ({why}): does it run, and is the address right?"
        )
    wrong = "" if way.brokered else _wrong_there(way, tls)
    return SiteFinding(subject, "warning" if wrong else "ok", f"{place} {wrong or 'accepts connections'}")


def _wrong_there(way: Address, tls: ClientTls) -> str:
    """What is wrong with who listens there, '' if it is a node or is not known."""
    try:
        return _asked(way, tls)
    except TlsError:
        return ""  # said already of the files of this node
    except ssl.SSLCertVerificationError as error:
        if "match" in error.verify_message or "not valid for" in error.verify_message:
            return f"has another host's certificate ({error.verify_message}): dial the name that it carries"
        return f"has a certificate that is not trusted here ({error.verify_message}): see tls, ca"
    except ssl.SSLError as error:
        if is_not_tls(error):
            return "does not speak TLS: write ws://, or give its listener a certificate"
        return f"refuses TLS: {error.reason}"
    except TimeoutError:
        return ""
    except OSError:
        return "ended the connection" + ("" if way.tls else ": does its port speak TLS? Then write wss://")
    except HTTPException:
        return "is no node: it does not speak HTTP"


def _asked(way: Address, tls: ClientTls) -> str:
    if way.tls:
        context = client_context(client_tls(tls))
        asking: HTTPConnection = HTTPSConnection(way.host, way.port, timeout=_ANSWER_WITHIN, context=context)
    else:
        asking = HTTPConnection(way.host, way.port, timeout=_ANSWER_WITHIN)
    try:
        asking.request("GET", "/healthz")
        answer = asking.getresponse()
        if answer.status == 200 and answer.read(64).strip() == b"ok":
            return ""
        return f"answers, but not as a node does (HTTP {answer.status}): is the port right?"
    finally:
        asking.close()
