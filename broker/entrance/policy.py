"""What a site's file says of its applications: who gets in, by which proof, and what each account may do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.entrance.operators import IssuerPort, Operators
from broker.entrance.passwords import Hashed, read
from config.accounts import Account, Applications
from config.application_rules import applications, has_certificates
from config.credentials import account_passwords, session_secret, token
from config.errors import ConfigurationError, Problem
from config.fields import YAML
from config.model import Site


class Known(NamedTuple):
    """An account."""

    hashed: Hashed
    consume: tuple[str, ...] = ()
    send: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class EntrancePolicy:
    """`secret`: the session secret, '' = none. `certificates`: clients are asked for one."""

    mode: Applications = "proven"
    secret: str = ""
    accounts: Mapping[str, Known] = field(default_factory=dict)
    certificates: bool = False

    def __repr__(self) -> str:
        secret = " secret" if self.secret else ""
        return f"<EntrancePolicy {self.mode}{secret} accounts={len(self.accounts)}>"

    @property
    def is_open(self) -> bool:
        return self.mode == "open"

    @property
    def knows_words(self) -> bool:
        """Is there a secret, or an account?"""
        return bool(self.secret or self.accounts)


def policy_of(site: Site) -> EntrancePolicy:
    """Raises `ConfigurationError` or `PasswordError`; also for a port that nobody guards."""
    wrong = list(applications(site, YAML))
    if wrong:
        raise ConfigurationError(Problem(each.message, site.name) for each in wrong)
    secret = session_secret(site)
    written = {account.name: account for account in site.accounts}
    accounts = {
        name: _known(hashed.reveal(), name, written.get(name))
        for name, hashed in account_passwords(site).items()
    }
    return EntrancePolicy(
        site.applications, secret.reveal() if secret else "", accounts, certificates=has_certificates(site)
    )


def operators_of(site: Site) -> Operators:
    """Raises `ConfigurationError` if the token cannot be read, or a library is missing."""
    found = token(site)
    return Operators(found.reveal() if found else "", site.operators, issuer_of(site))


def issuer_of(site: Site) -> IssuerPort | None:
    """The one that the file names. Raises `ConfigurationError`.

    Wrinkle: its libraries, an extra, are loaded where it names one.
    """
    if site.oidc.issuer is None:
        return None
    try:
        from broker.entrance.issuer import Issuer
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"tokens of an issuer ('oidc') need the Python package {error.name!r}:"
            " pip install 'sapwood-node[oidc]'"
        ) from None
    return Issuer(site.oidc)


def _known(hashed: str, name: str, written: Account | None) -> Known:
    found = read(hashed, f"password of account {name!r}")
    return Known(found, written.consume, written.send) if written is not None else Known(found)
