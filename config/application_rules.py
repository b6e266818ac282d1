"""Applications and their accounts that cannot be; and a port that lets in nobody knows whom."""

from collections.abc import Iterator

from config.contradictions import Contradiction, listed_twice
from config.fields import Path, Spelling
from config.model import Site
from config.oidc import Oidc, is_safe_issuer
from config.operators import RESERVED
from config.permit_rules import rules_of_patterns

_PROOFS: tuple[Path, ...] = (
    ("applications",),
    ("accounts",),
    ("account_passwords",),
    ("http",),
    ("http", "session_secret_env"),
    ("http", "session_secret_file"),
    ("listener", "tls"),
    ("listener", "tls", "client_ca"),
    ("enrolment",),
    ("enrolment", "authority"),
)


def has_secret(site: Site) -> bool:
    """Is there a session secret?"""
    return bool(site.http.session_secret_env or site.http.session_secret_file)


def has_accounts(site: Site) -> bool:
    return bool(site.accounts or site.account_passwords)


def has_certificates(site: Site) -> bool:
    """Are clients asked for a certificate?"""
    return bool(site.listener.tls.client_ca or site.enrolment.authority)


def applications(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    yield from listed_twice("accounts", "account", (account.name for account in site.accounts))
    yield from _operators(site)
    yield from _oidc(site, spell)
    for i, account in enumerate(site.accounts):
        if not (account.password_env or account.password_file or site.account_passwords):
            message = (
                f"account {account.name!r} has no password: write {spell('password_file')!r} or "
                f"{spell('password_env')!r}, or a line of the file {spell('account_passwords')!r}"
            )
            yield Contradiction(("accounts", i, "name"), message, (("account_passwords",),))
        yield from rules_of_patterns(("accounts", i), account, ("consume", "send"))
    word = spell("applications")
    if site.applications == "open" and (has_secret(site) or has_accounts(site)):
        message = f"{word!r} open lets in everybody: leave it out, or the secret and the accounts"
        yield Contradiction(("applications",), message, _PROOFS)
    yield from _unguarded(site, spell)


def _operators(site: Site) -> Iterator[Contradiction]:
    """A name in the trail means one of them, and a token is of one."""
    yield from listed_twice("operators", "operator", (each.name for each in site.operators))
    hashes = (each.token_hash for each in site.operators)
    yield from listed_twice("operators", "the hashed token", hashes, "token_hash")
    for i, each in enumerate(site.operators):
        if each.name in RESERVED:
            message = f"{each.name!r} means {RESERVED[each.name]} in the trail of changes: name it otherwise"
            yield Contradiction(("operators", i, "name"), message)


def _oidc(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    """All that it takes to let somebody in, or nothing; keys of an issuer come over no open line."""
    section: Path = ("oidc",)
    given, issuer = site.oidc, (*section, "issuer")
    if given.issuer is None:
        for name in ("audience", "claim", "ca", "roles"):
            if getattr(given, name) != getattr(Oidc(), name):
                message = f"{spell(name)!r} needs {spell('issuer')!r} beside it"
                yield Contradiction((*section, name), message, (issuer,))
        return
    for name in ("audience", "roles"):
        if not getattr(given, name):
            message = f"{spell('issuer')!r} needs {spell(name)!r} beside it, or it lets in nobody"
            yield Contradiction(issuer, message, ((*section, name),))
    if not is_safe_issuer(given.issuer):
        message = f"{given.issuer!r}: whoever is on the way could give keys of his own: write https://"
        yield Contradiction(issuer, message)
    for each in listed_twice("roles", "the value", (each.name for each in given.roles)):
        yield Contradiction((*section, *each.path), each.message)


def _unguarded(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    """Law: a port that other machines reach either knows how applications prove themselves, or says aloud
    that it asks for nothing, or for none of them.
    """
    proven = has_secret(site) or has_accounts(site) or has_certificates(site)
    if site.listener.loopback or proven or site.applications != "proven":
        return
    doors = "this port and the one for MQTT" if site.mqtt.port is not None else "this port"
    message = (
        f"other machines reach {doors}, and nothing says how their applications prove themselves: write"
        f" {spell('accounts')!r}, a session secret ({spell('http')!r}, {spell('session_secret_file')!r}) or"
        f" {spell('client_ca')!r} in {spell('tls')!r}; or {spell('applications')!r} local, if only this"
        f" machine's may log in, or {spell('applications')!r} open, if everybody may read and send everything"
    )
    yield Contradiction(("listener", "host"), message, _PROOFS)
