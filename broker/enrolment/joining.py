"""A fresh machine's side: from a token to a folder with a configuration, a certificate and its key.

    DIR/NAME.yaml             the site's file
    DIR/tls/node.pem          certificate and private key, only its owner reads it
    DIR/tls/authorities.pem   whom this node trusts as its parent
    DIR/tls/joining.pem       the key, while joining has not ended

Law: the key is on disk before anybody is asked, and is the same in every attempt, so that an answer that was
lost is given again. Nothing that is there already is overwritten, but certificate, key and authorities of a
node that joins again.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Final

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential,
    wait_random,
)

from bridges import certificates
from bridges.dns.errors import LocationError
from broker.enrolment import proofs
from broker.enrolment.contact import ask, trusted_authority
from broker.enrolment.errors import (
    EnrolmentError,
    EnrolmentRefused,
    FolderError,
    ParentUnreachable,
    TokenError,
)
from broker.enrolment.files import made_folder, private_folder
from broker.enrolment.messages import JOIN_PATH, Granted, Join
from broker.enrolment.tokens import Invitation, read_token
from broker.location.ways import finders_of
from config.kinds import Fault
from config.load import load
from config.model import ClientTls, Enrolment, Listener, Site, SiteBroker, TreeConnector
from config.rules import check
from config.schemes import DIRECT, shows_certificate
from config.uris import EMBEDDED, LINK_URI, address
from config.whole_files import PRIVATE, PUBLIC, put
from config.write import to_yaml

_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - a branch is dialled from elsewhere
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
_NODE, _AUTHORITIES, _JOINING = (
    Path("tls", "node.pem"),
    Path("tls", "authorities.pem"),
    Path("tls", "joining.pem"),
)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Joined:
    """What is there now. `ends`: of the certificate, seconds since 1970."""

    site: Site
    file: Path
    parent: str
    ends: float


async def join(
    token: str,
    folder: Path,
    *,
    site_broker: str = EMBEDDED,
    public_uri: str = "",
    patience: float = 60.0,
    again: bool = False,
    say: Say = print,
) -> Joined:
    """Join as the node that the token names, into `folder`. Raises `EnrolmentError`, `ConfigurationError`.

    `public_uri`: where a branch is reached; it listens there then. `patience`: seconds for which a parent
    that does not answer is asked again. `again`: the node has joined there before, and its file stays. `say`
    is told of each failure.
    """
    invitation = read_token(token)
    if public_uri and invitation.role == "leaf":
        raise EnrolmentError(f"{invitation.name!r} is invited as a leaf, which nobody dials: no public URI")
    site = _site(invitation, site_broker)
    if public_uri:
        listener = Listener(host=_EVERYWHERE, port=address(public_uri).port, public_uri=public_uri)
        site = check(replace(site, listener=listener))
    file = folder / f"{invitation.name}.yaml"
    if again:
        _check_joined(file, site, say)
    elif file.exists():
        raise EnrolmentError(
            f"{file} is there already: this machine has joined; sapwood node run {quote(str(file))}; "
            "with --again a new invitation brings it a new certificate"
        )
    try:
        key = _own_key(folder)
        granted = await _persist(lambda: _ask_all(invitation, site, key), patience, say)
        return _write(folder, file, "" if again else _text(site, invitation), site, invitation, key, granted)
    except OSError as error:
        raise EnrolmentError(f"cannot write {error.filename}: {error.strerror or error}") from None


def _site(invitation: Invitation, site_broker: str) -> Site:
    """The configuration. Its values came from outside, so they are checked as those of a file.

    Raises `TokenError`, `ConfigurationError`.
    """
    try:
        first, *more = (LINK_URI.parse(way) for way in invitation.ways)
    except Fault as error:
        raise TokenError(f"the token names a way to the parent that is none: {error}") from None
    connector = TreeConnector(
        nodetype=invitation.role,
        uri=first,
        uris=tuple(more),
        tls=ClientTls(ca=_AUTHORITIES, certificate=_NODE, key=_NODE, verify_hostname=False),
        renew=True,
    )
    enrolment = Enrolment(authority=Path("authority")) if invitation.role == "branch" else Enrolment()
    return check(
        Site(
            name=invitation.name,
            tree=invitation.tree,
            site_broker=SiteBroker(uri=site_broker),
            tree_connectors=(connector,),
            enrolment=enrolment,
        )
    )


def _check_joined(file: Path, invited: Site, say: Say) -> None:
    """Is this the file of the node that is invited, and is its certificate the one that joining brings?"""
    site = load(file)
    connector, asked = site.connector, invited.connector
    assert asked is not None
    certificate = connector.tls.certificate if connector is not None and connector.renew else None
    if connector is None or certificate is None or certificate.resolve() != (file.parent / _NODE).resolve():
        raise EnrolmentError(
            f"{file} is of no node that has joined: it has no connector with {_NODE} and renew"
        )
    if (site.name, site.tree, site.role) != (invited.name, invited.tree, invited.role):
        raise EnrolmentError(
            f"{file} is of the {site.role} {site.name!r} of tree {site.tree!r}, and the invitation for the "
            f"{invited.role} {invited.name!r} of {invited.tree!r}"
        )
    if not {*connector.ways} & {*asked.ways}:
        here, there = ", ".join(connector.ways), ", ".join(asked.ways)
        say(f"{file} leads to {here}, the invitation to {there}: is the file right?")


def _own_key(folder: Path) -> bytes:
    try:
        private_folder(made_folder(folder) / "tls")
    except OSError as error:
        raise FolderError(f"{folder} cannot be made: {error.strerror or error}") from None
    file = folder / _JOINING
    if not file.exists():
        put(file, certificates.make_key(), PRIVATE)
    return file.read_bytes()


async def _persist(attempt: Callable[[], Awaitable[Granted]], patience: float, say: Say) -> Granted:
    """Ask again while nobody answers; a refusal is final."""

    def failed(state: RetryCallState) -> None:
        say(f"{state.outcome.exception() if state.outcome else None}; trying again")

    async for each in AsyncRetrying(
        wait=wait_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE) + wait_random(0, _FIRST_PAUSE),
        retry=retry_if_exception_type(ParentUnreachable),
        stop=stop_after_delay(patience),
        before_sleep=failed,
        reraise=True,
    ):
        with each:
            return await attempt()
    raise AssertionError("it returns or raises")


async def _ask_all(invitation: Invitation, site: Site, key: bytes) -> Granted:
    """One attempt at each way; the first refusal counts, a way that leads elsewhere only if all do."""
    request = certificates.make_request(key, invitation.name, invitation.tree)
    der = certificates.read_request(request).der
    proof = proofs.prove(invitation.secret, invitation.id, der)
    body = Join(invitation=invitation.id, request=request, proof=proof)
    failures: list[EnrolmentError] = []
    for way in await ways_of(site):
        try:
            context = await trusted_authority(way, invitation.fingerprint)
            return await ask(way, JOIN_PATH, body, context)
        except EnrolmentRefused:
            raise
        except EnrolmentError as error:
            failures.append(error)
    unreachable = [error for error in failures if isinstance(error, ParentUnreachable)]
    raise (unreachable or failures)[0]


async def ways_of(site: Site) -> Sequence[str]:
    """The ways to the parent where a node can join, those from DNS too. Raises `ParentUnreachable`."""
    connector = site.connector
    assert connector is not None
    finders = finders_of(site, connector)
    found: list[str] = []
    error = ""
    for uri in connector.ways:
        if uri in finders:
            try:
                await finders[uri].look()
                found += finders[uri].ways()
            except LocationError as failed:
                error = str(failed)
        else:
            found.append(uri)
    found = [*filter(shows_certificate, found)]
    if not found:
        raise ParentUnreachable(error or f"no way to the parent is {DIRECT.tls_scheme}://")
    return found


def _write(
    folder: Path, file: Path, text: str, site: Site, invitation: Invitation, key: bytes, granted: Granted
) -> Joined:
    """The site's file comes last: where it is, all is. `text`: '' = it is there, and stays."""
    certificate = granted.certificate.encode()
    found = certificates.facts(certificate)
    if found.key != certificates.public_key(key) or found.name != invitation.name:
        raise EnrolmentError(
            f"{invitation.parent!r} gave a certificate for {found.name!r} or for another key"
        )
    certificates.split(granted.authorities.encode())
    put(folder / _AUTHORITIES, granted.authorities.encode(), PUBLIC)
    put(folder / _NODE, certificate + key, PRIVATE)
    if text:
        put(file, text.encode(), PUBLIC)
    (folder / _JOINING).unlink(missing_ok=True)
    return Joined(site, file, invitation.parent, found.ends)


def _text(site: Site, invitation: Invitation) -> str:
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return (
        f"# {site.name}, a {invitation.role} below {invitation.parent}: it joined by invitation on {day}.\n"
        "# Every setting with its meaning: `sapwood config reference`. Paths begin at this folder.\n"
        "# tls/node.pem holds the private key and is this node's alone; the node renews the certificate.\n"
        + to_yaml(site)
    )
