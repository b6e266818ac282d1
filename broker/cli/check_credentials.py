"""Certificates, keys and secrets of a site, as `sapwood node check` looks at them before its node runs.

Law: a finding names a file and never says what is in it.
"""

import contextlib
import grp
import os
import pwd
import ssl
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from broker.cli.finding import SiteFinding
from broker.cli.status import duration
from config.credentials import (
    Secret,
    account_passwords,
    children_secrets,
    connector_password,
    connector_secret,
    link_broker_secrets,
    mesh_secret,
    registration_key,
    session_secret,
    site_broker_secret,
    token,
)
from config.model import ClientTls, Site
from sapwood.protocol.errors import SapwoodError

_OF_LINKS: Final = (connector_secret, mesh_secret, children_secrets)
_SHORTEST: Final = 16
_SYSTEMD: Final = 10
_GUESSED: Final = (
    f"fewer than {_SHORTEST} characters: whoever hears a handshake, or is taken for the other end, can guess"
    " it and ask nobody; make another one, as `openssl rand -base64 24` does"
)


def check_tls(site: Site) -> Iterator[SiteFinding]:
    """Certificates, keys and authorities: can be read, belong together."""
    from bridges.tls import TlsSettings, client_context, server_context

    listener = site.listener.tls
    if listener.certificate:
        yield _tls(
            "TLS of the port",
            listener.certificate,
            lambda: server_context(listener.certificate, listener.key, listener.client_ca),
        )
    renewed = [connector.tls.certificate for connector in site.tree_connectors if connector.renew]
    for subject, tls in _dialled(site):
        if tls.ca or tls.certificate:
            settings = TlsSettings(tls.ca, tls.certificate, tls.key, tls.verify_hostname)
            lasting = None if tls.certificate in renewed else tls.certificate
            yield _tls(subject, lasting, lambda settings=settings: client_context(settings))  # type: ignore[misc]


def _dialled(site: Site) -> list[tuple[str, ClientTls]]:
    """All that this node dials, and with which TLS."""
    ends = [("TLS to the parent", connector.tls) for connector in site.tree_connectors]
    ends += [("TLS to the mesh", site.mesh.tls)]
    ends += [(f"TLS to {broker.uri}", broker.tls) for broker in site.listener.link_brokers]
    return [*ends, ("TLS to the site broker", site.site_broker.tls)]


def _tls(subject: str, certificate: Path | None, make: Callable[[], object]) -> SiteFinding:
    try:
        make()
    except SapwoodError as error:
        return SiteFinding(subject, "failed", str(error))
    if certificate and (wrong := _untimely(certificate)):
        return SiteFinding(subject, "failed", f"the certificate {certificate} {wrong}")
    return SiteFinding(subject, "ok", "certificates and keys can be read and belong together")


def _untimely(certificate: Path) -> str:
    """Why it does not hold now, '' if it does. Python itself has no other reader of a file's certificate."""
    found = ssl._ssl._test_decode_cert(str(certificate))  # type: ignore[attr-defined]
    begins, ends = (ssl.cert_time_to_seconds(found[name]) for name in ("notBefore", "notAfter"))
    now = time.time()
    if ends < now:
        return f"ended on {_day(ends)}: renew it (is the clock here right?)"
    return f"begins on {_day(begins)}: is the clock here right?" if begins > now else ""


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def check_secrets(site: Site) -> Iterator[SiteFinding]:
    """Every secret that the file names: there, and for the node's eyes only."""
    from broker.alarms.webhook import receiver_of

    readers: list[tuple[str, Callable[[Site], object]]] = [
        ("secret for the parent", connector_secret),
        ("secret of the mesh", mesh_secret),
        ("password at the parent's broker", connector_password),
        ("password of the site broker", site_broker_secret),
        ("passwords at link brokers", link_broker_secrets),
        ("key of the registration", registration_key),
        ("token", token),
        ("session secret", session_secret),
        ("passwords of accounts", account_passwords),
        ("secrets of children", children_secrets),
        ("webhook of alarms", receiver_of),
    ]
    for subject, read in readers:
        try:
            found = read(site)
        except SapwoodError as error:
            yield SiteFinding(subject, "failed", str(error))
            continue
        if found:
            yield SiteFinding(subject, "ok", f"{len(found)} found" if isinstance(found, dict) else "found")
        if read in _OF_LINKS and any(len(each.reveal()) < _SHORTEST for each in _secrets(found)):
            yield SiteFinding("weak secret", "warning", f"{subject}: {_GUESSED}")
    owner = _owner(site)
    for path in _secret_files(site):
        yield from _permissions(path, owner)


def _secrets(found: object) -> list[Secret]:
    several = list(found.values()) if isinstance(found, dict) else [found]
    return [each for each in several if isinstance(each, Secret)]


def _secret_files(site: Site) -> Iterator[Path]:
    named = [site.site_broker.secret_file]
    named += [connector.secret_file for connector in site.tree_connectors]
    named += [connector.password_file for connector in site.tree_connectors]
    named += [broker.secret_file for broker in site.listener.link_brokers]
    named += [child.secret_file for child in site.children]
    named += [site.registration.key_file, site.mesh.secret_file, site.mesh.tls.key]
    named += [site.http.token_file, site.http.session_secret_file, site.children_secrets]
    named += [site.account_passwords, *(account.password_file for account in site.accounts)]
    named += [site.listener.tls.key, site.site_broker.tls.key, *(one.tls.key for one in site.tree_connectors)]
    named += [broker.tls.key for broker in site.listener.link_brokers]
    webhook = site.alarms.webhook
    named += [webhook.uri_file, webhook.token_file, webhook.key_file]
    authority = site.enrolment.authority
    named += [authority / "authority.key"] if authority else []
    yield from sorted({path for path in named if path})


def _owner(site: Site) -> os.stat_result:
    """Of the store, or of what is nearest to where it will be made: the node is this user's."""
    place = site.data_directory / "node.db"
    return next(path for path in (place, *place.parents) if os.path.exists(path)).stat()


def _called(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user id {user}"


def _permissions(path: Path, owner: os.stat_result) -> Iterator[SiteFinding]:
    try:
        found = path.stat()
    except OSError:
        return  # said already by whoever reads it
    # A file of root's, say, is read by way of its group; root itself needs none.
    foreign = bool(owner.st_uid) and found.st_uid != owner.st_uid
    allowed = stat.S_IRWXU | (stat.S_IRGRP if foreign else 0)
    if (mode := stat.S_IMODE(found.st_mode)) & ~allowed:
        cure = f"chown it to {_called(owner.st_uid)} and chmod 600 it" if foreign else "chmod 600 it"
        yield SiteFinding("permissions", "warning", f"{path} is open to others (mode {mode:04o}): {cure}")


def check_reading(site: Site, file: Path) -> Iterator[SiteFinding]:
    """Where root asks about another user's node: whether that user can read what root can."""
    owner = _owner(site)
    if os.geteuid() or not owner.st_uid:
        return
    user = _called(owner.st_uid)
    named = [file, *_secret_files(site)]
    port = site.listener.tls
    more = [path for _, tls in _dialled(site) for path in (tls.certificate, tls.ca)]
    named += [path for path in (port.certificate, port.client_ca, *more) if path]
    paths = sorted({path.absolute() for path in named if path.exists()})
    for path in _unreadable(paths, owner, _groups_of_units()):
        text = (
            f"{path} cannot be read by {user}, as whom the node runs: chown it, open its folder, or give the"
            " node's unit its group (SupplementaryGroups=)"
        )
        yield SiteFinding("permissions", "failed", text)


def _unreadable(paths: list[Path], owner: os.stat_result, more: Iterable[int] = ()) -> list[str]:
    """Asked by a process of that user: no other knows its groups and all folders on the way. That user may
    take it over, so it has nothing of root's, the terminal least of all. `more`: groups of that process.
    """
    try:
        entry = pwd.getpwuid(owner.st_uid)
        groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    except KeyError:
        groups = [owner.st_gid]
    groups += more
    script = 'for path; do [ -r "$path" ] || printf "%s\\0" "$path"; done'
    try:
        done = subprocess.run(  # noqa: S603 - words of ours, and paths as such
            ["/bin/sh", "-c", script, "sh", *map(str, paths)],
            user=owner.st_uid,
            group=groups[0],
            extra_groups=groups,
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            capture_output=True,
            text=True,
        )
    except OSError:  # root that may not be another user, as in some containers
        return []
    return done.stdout.split("\0")[:-1]


def _groups_of_units() -> Iterator[int]:
    """That systemd gives nodes beside those of their user."""
    show = ["systemctl", "show", "--property=SupplementaryGroups", "--value", "sapwood*.service"]
    try:
        said = subprocess.run(show, capture_output=True, text=True, timeout=_SYSTEMD)  # noqa: S603 - our words
    except (OSError, subprocess.SubprocessError):
        return
    for name in said.stdout.split():
        with contextlib.suppress(KeyError):
            yield int(name) if name.isdigit() else grp.getgrnam(name).gr_gid


def check_certificate(site: Site) -> Iterator[SiteFinding]:
    """What joining by invitation needs: its library, and a certificate whose end is known."""
    connector = site.connector
    renewed = connector.tls.certificate if connector and connector.renew else None
    if renewed is None and site.enrolment.authority is None:
        return
    try:
        from bridges.certificates import CertificateError, facts
    except ModuleNotFoundError as error:
        text = f"the Python package {error.name!r} is missing: pip install 'sapwood-node[join]'"
        yield SiteFinding("certificates", "failed", text)
        return
    if site.enrolment.authority is not None:
        yield _authority(site.enrolment.authority)
    if renewed is not None:
        try:
            left = facts(renewed.read_bytes()).ends - time.time()
        except (OSError, CertificateError) as error:
            yield SiteFinding("own certificate", "failed", f"{renewed}: {error}")
            return
        if left > 0:
            yield SiteFinding("own certificate", "ok", f"good for {duration(left)}; the node renews it")
        else:
            text = (
                f"ended {duration(-left)} ago: the node asks for a new one, which its parent's grace allows"
            )
            yield SiteFinding("own certificate", "warning", text)


def _authority(folder: Path) -> SiteFinding:
    from broker.enrolment.authority import look_at

    try:
        return SiteFinding("certificate authority", "ok", f"{folder}: {look_at(folder)}")
    except SapwoodError as error:
        return SiteFinding("certificate authority", "failed", str(error))
