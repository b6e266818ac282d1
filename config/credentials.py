"""Secrets: named in the configuration, read from the environment or a file when they are needed.

Law: a secret never stands in an error, a log line or a `repr`. A file of secrets that everyone on the
machine can read is used, with a warning.
"""

import hmac
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from config.errors import ConfigurationError, Problem
from config.files import open_plain
from config.kinds import Fault
from config.model import LinkBroker, Site
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name

MAX_SECRET: Final = 4096
MAX_TABLE: Final = 16 * 2**20

_log = logging.getLogger("sapwood.config")


class Secret:
    """A secret and where it came from. Equality takes the same time wherever the first difference is."""

    __slots__ = ("_text", "source")

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self.source = source

    def reveal(self) -> str:
        """The secret itself: use it, never show or keep it."""
        return self._text

    def __repr__(self) -> str:
        return f"<Secret from {self.source}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not to be stored or sent")


def resolve_secret(
    env: str | None, file: Path | None, *, what: str, environ: Mapping[str, str] = os.environ
) -> Secret | None:
    """Read the secret of `what` (for errors) from the variable or the file that is named; None if neither is.

    Raises `ConfigurationError` when it is named but cannot be had.
    """
    if env is not None:
        if env not in environ:
            raise ConfigurationError(f"{what}: the environment variable {env} is not set")
        return _secret(environ[env], f"environment variable {env}", what)
    if file is not None:
        return _secret(_read(file, MAX_SECRET, what), f"file {file}", what)
    return None


def connector_secret(site: Site) -> Secret | None:
    """What proves this node to its parent."""
    connector = site.connector
    if connector is None:
        return None
    return resolve_secret(connector.secret_env, connector.secret_file, what="secret for the parent")


def mesh_secret(site: Site) -> Secret | None:
    """What the nodes of this node's mesh prove to each other."""
    return resolve_secret(site.mesh.secret_env, site.mesh.secret_file, what="secret of the mesh")


def connector_password(site: Site) -> Secret | None:
    """The password at the parent's broker, where the link rides on one."""
    connector = site.connector
    if connector is None:
        return None
    what = "password at the parent's broker"
    return resolve_secret(connector.password_env, connector.password_file, what=what)


def link_broker_secret(broker: LinkBroker) -> Secret | None:
    """The password at a broker where children dial."""
    return resolve_secret(broker.secret_env, broker.secret_file, what=f"password at {broker.uri}")


def link_broker_secrets(site: Site) -> dict[str, Secret]:
    """The passwords at all brokers where children dial, by their URIs; of those that have one."""
    found = ((broker.uri, link_broker_secret(broker)) for broker in site.listener.link_brokers)
    return {uri: secret for uri, secret in found if secret}


def registration_key(site: Site) -> Secret | None:
    """The TSIG key that signs changes of this node's records in DNS."""
    registration = site.registration
    return resolve_secret(registration.key_env, registration.key_file, what="key of the registration in DNS")


def site_broker_secret(site: Site) -> Secret | None:
    """The password at the site broker."""
    broker = site.site_broker
    return resolve_secret(broker.secret_env, broker.secret_file, what="password of the site broker")


def token(site: Site) -> Secret | None:
    """The token for status and administration."""
    return resolve_secret(site.http.token_env, site.http.token_file, what="token of the HTTP interface")


def session_secret(site: Site) -> Secret | None:
    """What applications need to log in."""
    http = site.http
    return resolve_secret(http.session_secret_env, http.session_secret_file, what="secret of sessions")


def webhook_secrets(site: Site) -> tuple[Secret | None, Secret | None, Secret | None]:
    """Of the alarms' webhook: its address where that is a secret, its token, and the key to sign with."""
    webhook = site.alarms.webhook
    return (
        resolve_secret(webhook.uri_env, webhook.uri_file, what="address of the webhook"),
        resolve_secret(webhook.token_env, webhook.token_file, what="token of the webhook"),
        resolve_secret(webhook.key_env, webhook.key_file, what="key of the webhook"),
    )


def children_secrets(site: Site) -> dict[str, Secret]:
    """The secrets of all children that have one: those of the table, and over them those of `children`."""
    found = read_table(site.children_secrets) if site.children_secrets else {}
    for child in site.children:
        secret = resolve_secret(child.secret_env, child.secret_file, what=f"secret of child {child.name!r}")
        if secret:
            found[child.name] = secret
    return found


def account_passwords(site: Site) -> dict[str, Secret]:
    """The hashed passwords of all accounts: those of the table, and over them those of `accounts`."""
    found = read_table(site.account_passwords, what="hash") if site.account_passwords else {}
    for account in site.accounts:
        what = f"password of account {account.name!r}"
        hashed = resolve_secret(account.password_env, account.password_file, what=what)
        if hashed:
            found[account.name] = hashed
        elif account.name not in found:
            raise ConfigurationError(f"{what}: there is none, neither here nor in {site.account_passwords}")
    return found


def permitted_children(site: Site, secrets: Mapping[str, Secret]) -> frozenset[str] | None:
    """The names that may be children, from `children_secrets(site)`; None when any name may."""
    if not site.children and not site.children_secrets:
        return None
    return frozenset(secrets) | {child.name for child in site.children}


def read_table(path: Path, what: str = "secret") -> dict[str, Secret]:
    """Read a file with a line `NAME SECRET` for each child; empty lines and lines with `#` are skipped.

    `what`: stands there behind the name.
    """
    found: dict[str, Secret] = {}
    problems: list[Problem] = []
    for number, line in enumerate(_read(path, MAX_TABLE, f"table NAME {what.upper()}").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, space, text = line.strip().replace("\t", " ", 1).partition(" ")
        try:
            if not space:
                raise Fault(f"no {what} follows {name!r}: expected NAME {what.upper()}")
            if node_name(name) in found:
                raise Fault(f"{name!r} is listed twice")
            found[name] = _secret(text, f"file {path}", f"{what} of {name!r}")
        except (Fault, InvalidName, ConfigurationError) as error:
            problems.append(Problem(str(error), str(path), number))
    if problems:
        raise ConfigurationError(problems)
    return found


def _secret(text: str, source: str, what: str) -> Secret:
    stripped = text.strip()
    if not stripped:
        raise ConfigurationError(f"{what}: {source} is empty")
    if "\n" in stripped or "\0" in stripped or len(stripped) > MAX_SECRET:
        raise ConfigurationError(
            f"{what}: {source} holds more than one line of at most {MAX_SECRET} characters"
        )
    return Secret(stripped, source)


_seen_by_all: Final[set[Path]] = set()
"""Files that were warned of: some are read for each connection."""


def _read(path: Path, limit: int, what: str) -> str:
    try:
        with open_plain(path) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            data = opened.read(limit + 1)
    except OSError as error:
        raise ConfigurationError(f"{what}: cannot read {path}: {error.strerror or error}") from None
    if mode & stat.S_IROTH and path not in _seen_by_all:
        _seen_by_all.add(path)
        _log.warning("! %s: %s can be read by everyone on this machine: chmod o-r it", what, path)
    if len(data) > limit:
        raise ConfigurationError(f"{what}: {path} has more than {limit} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{what}: {path} is not UTF-8") from None
