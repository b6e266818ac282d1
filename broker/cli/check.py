"""`sapwood node check`: everything that would keep a node from running here, found before it runs.

Law: checking changes nothing: no folder is made, no database is opened for writing, a running node is not
disturbed. What only the parent or the network can cure is a warning, because it may be cured tomorrow.
"""

import asyncio
import errno
import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bridges.site_brokers.base import SiteBrokerError, SiteBrokerRefused
from broker.cli.check_credentials import check_certificate, check_reading, check_secrets, check_tls
from broker.cli.check_issuer import check_issuer
from broker.cli.check_neighbours import CONNECT_TIMEOUT, check_mesh, check_parent
from broker.cli.errors import FAILED, WELL, WRONG_USE
from broker.cli.finding import SiteFinding
from broker.cli.output import patience, print_json, print_lines, print_table, table
from broker.cli.status import size
from broker.cli.tls import Untrusting
from broker.grants import Grants
from broker.naming import named
from broker.site.bridges import make_bridge
from config.credentials import token
from config.errors import ConfigurationError
from config.load import load
from config.model import LinkBroker, Site
from config.uris import EMBEDDED
from sapwood.protocol.errors import SapwoodError
from treeconnector.wording import counted

_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red"}


Check = Callable[[Site], Iterator[SiteFinding]]


def check_file(file: Path, *, as_json: bool) -> int:
    """Print what was found about a site's file and this machine; return the exit code."""
    with patience(f"checking {file}"), _quiet():
        findings, exit_code = examine(file)
    if as_json:
        print_json(
            {"file": str(file), "exit_code": exit_code, "findings": [asdict(found) for found in findings]}
        )
    else:
        _print(findings)
    return exit_code


def examine(file: Path) -> tuple[list[SiteFinding], int]:
    """Return all findings and the exit code: 2 for a wrong configuration, 1 where something else failed."""
    try:
        site = load(file)
    except ConfigurationError as error:
        return [SiteFinding("configuration", "failed", str(problem)) for problem in error.problems], WRONG_USE
    called = repr(site.name) if site.name else "without a name in the file"
    site = named(site)
    summary = f"{site.role} {called} of tree {site.tree!r}"
    if site.mesh.cores:
        summary += f", in a mesh with {', '.join(core.name for core in site.mesh.cores)}"
    findings = [SiteFinding("configuration", "ok", summary)]
    findings += check_reading(site, file)
    for check in CHECKS:
        findings += check(site)
    failed = any(found.state == "failed" for found in findings)
    return findings, FAILED if failed else WELL


def _nearest(folder: Path) -> Path:
    """The folder itself, or the closest above it that can be seen to be there."""
    return next(path for path in (folder, *folder.parents) if os.path.exists(path))


def check_data(site: Site) -> Iterator[SiteFinding]:
    """The data folder: can be written, has space."""
    folder = site.data_directory
    nearest = _nearest(folder)
    if not nearest.is_dir():
        yield SiteFinding(
            "data folder", "failed", f"{nearest} is no folder: expected one for the durable store"
        )
        return
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield SiteFinding(
            "data folder", "failed", f"{nearest} cannot be written by user id {os.getuid()}: chown it"
        )
        return
    exists = nearest == folder
    yield SiteFinding("data folder", "ok", str(folder) if exists else f"{folder} (will be made)")
    yield _space(site, nearest)


def _space(site: Site, folder: Path) -> SiteFinding:
    free, reserve = shutil.disk_usage(folder).free, site.limits.disk_reserve
    text = f"{size(free)} free on the disk of {folder}"
    if free < reserve:
        return SiteFinding(
            "disk", "failed", f"{text}: less than the reserve of {size(reserve)} (limits, disk_reserve)"
        )
    if free < site.limits.spool.max_bytes:
        limit = size(site.limits.spool.max_bytes)
        return SiteFinding(
            "disk", "warning", f"{text}: less than the spool may use, {limit} (limits, spool, max_bytes)"
        )
    return SiteFinding("disk", "ok", text)


def check_folders(site: Site) -> Iterator[SiteFinding]:
    """Folders whose files others may copy."""
    for folder in site.folders:
        needed = os.R_OK * bool(folder.read) | os.W_OK * bool(folder.write) | os.X_OK
        if not folder.path.is_dir():
            yield SiteFinding("folders", "failed", f"{folder.path} ({folder.name}) is not there: make it")
        elif not os.access(folder.path, needed):
            deed = "written" if os.access(folder.path, os.R_OK | os.X_OK) else "read"
            text = f"{folder.path} ({folder.name}) cannot be {deed} by user id {os.getuid()}"
            yield SiteFinding("folders", "failed", text)
        else:
            yield SiteFinding("folders", "ok", f"{folder.path} ({folder.name})")


def check_advisory_log(site: Site) -> Iterator[SiteFinding]:
    """Where the advisory log is to be written; a node runs without it, so warnings only."""
    if not site.advisory_log.enabled:
        return
    folder = site.advisory_directory
    nearest = _nearest(folder)
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        yield SiteFinding("advisory log", "ok", str(folder))
        return
    why = f"cannot be written by user id {os.getuid()}" if nearest.is_dir() else "is no folder"
    advice = "change advisory_log, directory, or who owns it"
    yield SiteFinding("advisory log", "warning", f"{nearest} {why}: the node would run without it; {advice}")


def check_store(site: Site) -> Iterator[SiteFinding]:
    """The durable store, if there is one already."""
    from broker.cli.recover import look_at_store

    try:
        yield SiteFinding("store", "ok", look_at_store(site))
    except SapwoodError as error:
        yield SiteFinding("store", "failed", str(error))


def check_port(site: Site) -> Iterator[SiteFinding]:
    """The node's port, and the one for MQTT: free, or taken by this very node."""
    yield from _port(site, site.listener.port)
    if site.mqtt.port is not None:
        yield from _port(site, site.mqtt.port)


def _port(site: Site, port: int) -> Iterator[SiteFinding]:
    host = site.listener.host
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        yield _taken(site, f"{host}:{port}", error)
        return
    yield SiteFinding("port", "ok", f"{host}:{port} is free")


def _taken(site: Site, place: str, error: OSError) -> SiteFinding:
    elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    running = "" if elsewhere else _running_node(site)  # another machine is not shown the token
    if running == site.name:
        return SiteFinding("port", "ok", f"{place} is in use by this node, which is running")
    if running:
        text = f"{place} is in use by the node {running!r}: stop that one, or start it again with this file"
        return SiteFinding("port", "warning", text)
    low = isinstance(error, PermissionError)
    advice = "ports below 1024 are root's: change" if low else "stop what listens there (ss -ltnp), or change"
    return SiteFinding(
        "port", "failed", f"{place} cannot be used: {error.strerror or error}; {advice} listener, port"
    )


def _running_node(site: Site) -> str:
    """The name of the node that answers on this site's port, with TLS or without, '' if none does."""
    from broker.cli.errors import CommandError
    from broker.cli.http import ask

    host = f"[{site.listener.host}]" if ":" in site.listener.host else site.listener.host
    for scheme in ("http", "https"):
        with suppress(CommandError, SapwoodError):
            own = token(site)
            answer = ask(
                f"{scheme}://{host}:{site.listener.port}",
                "/api/status",
                token=own.reveal() if own else "",
                tls=Untrusting(),
                timeout=CONNECT_TIMEOUT,
            )
            return str(answer.get("name", "")) if isinstance(answer, dict) else ""
    return ""


def check_permits(site: Site) -> Iterator[SiteFinding]:
    """Whether children may do everything."""
    for warning in Grants(site).warnings:
        yield SiteFinding("permits", "warning", warning)


def check_applications(site: Site) -> Iterator[SiteFinding]:
    """Which applications get in, and whether what proves them travels in the clear."""
    from broker.entrance.entrance import OPEN
    from broker.entrance.policy import policy_of

    try:
        policy = policy_of(site)
    except SapwoodError as error:
        yield SiteFinding("applications", "failed", str(error))
        return
    if policy.is_open:
        yield SiteFinding("applications", "warning", OPEN)
        return
    encrypted = site.listener.tls.certificate or site.enrolment.authority
    if policy.knows_words and not (site.listener.loopback or encrypted or site.applications == "local"):
        text = "passwords and the session secret travel in the clear: give the listener a certificate (tls)"
        yield SiteFinding("applications", "warning", text)
    ways = ["a session secret"] * bool(policy.secret) + [counted(len(policy.accounts), "account")] * bool(
        policy.accounts
    )
    ways += ["client certificates"] * policy.certificates
    near = "" if policy.knows_words else "this machine's own; "
    yield SiteFinding("applications", "ok", f"{policy.mode}: {near}{', '.join(ways) or 'nobody else'}")


def check_link_brokers(site: Site) -> Iterator[SiteFinding]:
    """The brokers at which children may dial: log in there and listen, for a moment. Warnings only."""
    for settings in site.listener.link_brokers:
        subject = f"link broker {settings.uri}"
        try:
            yield asyncio.run(_listen(site, settings, subject))
        except SapwoodError as error:
            yield SiteFinding(subject, "warning", str(error))


async def _listen(site: Site, settings: LinkBroker, subject: str) -> SiteFinding:
    """When it listens, or knows who does. Raises `SapwoodError`."""
    from bridges.carriers.brokered.envelopes import HALF
    from bridges.carriers.brokered.listener import AnotherParent, Listener
    from broker.link_brokers import broker_of

    listening = asyncio.Event()
    gives_way = b"\xff" * HALF
    listener = Listener(broker_of(site, settings), site.name, lambda _child, _knock: None, gives_way)
    running = asyncio.create_task(listener.run(listening.set))
    waiting = asyncio.create_task(listening.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    heard = running.exception() if running.done() else None
    running.cancel()
    waiting.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    if isinstance(heard, AnotherParent) and heard.node != site.name:
        return SiteFinding(subject, "failed", str(heard))
    if heard is None and not listener.hears_itself:
        text = (
            "the node may listen there, but it would not hear of a second parent of the tree:"
            " `sapwood config acl` prints the permissions"
        )
        return SiteFinding(subject, "warning", text)
    if heard is not None and not isinstance(heard, AnotherParent):
        raise heard
    return SiteFinding(subject, "ok", "the node may listen there")


def check_site_broker(site: Site) -> Iterator[SiteFinding]:
    """The site's broker: there, with all that the bridge needs. One that is away may be back tomorrow."""
    if site.site_broker.uri == EMBEDDED:
        return
    subject = "site broker"
    try:
        bridge = make_bridge(site, "")
        found = asyncio.run(bridge.inspect())
    except SiteBrokerRefused as error:
        yield SiteFinding(subject, "failed", str(error))
    except SiteBrokerError as error:
        yield SiteFinding(subject, "warning", str(error))
    except SapwoodError as error:
        yield SiteFinding(subject, "failed", str(error))
    else:
        for one in found:
            yield SiteFinding(subject, "failed" if one.fatal else "warning", one.text, one.lines)
        if not found:
            yield SiteFinding(subject, "ok", f"{site.site_broker.uri} has all that the bridge needs")
        if not bridge.retains:
            yield SiteFinding("retained", "ok", _retained_by_the_node(site))


def _retained_by_the_node(site: Site) -> str:
    topics = [source for source in site.site_broker.sources if source.startswith("topic:")]
    said = f"the topics under sources ({', '.join(topics)})" if topics else "no topic (none is under sources)"
    return (
        "the broker retains nothing; of values that an application retains there while nobody elsewhere"
        f" wants them, the node keeps those of {said}"
    )


def check_registration(site: Site) -> Iterator[SiteFinding]:
    """The zone's server: answers, and knows the key. Whether the key may change anything shows later."""
    if not site.registration.domain:
        return
    from broker.location.registrar import zone_of

    try:
        records = asyncio.run(zone_of(site).read())
    except SapwoodError as error:
        yield SiteFinding("registration", "warning", str(error))
        return
    known = f"{counted(len(records.services), 'record')} there for {site.registration.domain}"
    yield SiteFinding("registration", "ok", f"{site.registration.server} knows the key; {known}")


CHECKS: Final[tuple[Check, ...]] = (
    check_data,
    check_advisory_log,
    check_store,
    check_port,
    check_tls,
    check_secrets,
    check_permits,
    check_folders,
    check_applications,
    check_issuer,
    check_certificate,
    check_site_broker,
    check_parent,
    check_mesh,
    check_link_brokers,
    check_registration,
)


@contextmanager
def _quiet() -> Iterator[None]:
    """What readers of secrets log, the table says already."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _print(findings: list[SiteFinding]) -> None:
    from rich.text import Text

    made = table("", "What", "Finding")
    for found in findings:
        made.add_row(Text(found.state, style=_COLOURS[found.state]), found.subject, found.text)
    print_table(made)
    for found in findings:
        if found.lines:
            print_lines(f"{found.subject}: to be added or run", found.lines)
