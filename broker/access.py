"""Access to a node for children, applications and accounts, and their rights, as its file says.

The file may be read again while the node runs, and with it certificate and key of its port; all that it says
of others needs a restart.
"""

import logging
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from bridges.tls import TlsError
from broker.alarms.watch import AlarmWatch
from broker.alarms.webhook import Receiver, receiver_of
from broker.core.errors import SwitchError
from broker.entrance.certificates import holder
from broker.entrance.entrance import Entrance
from broker.entrance.operators import Operators
from broker.entrance.passwords import PasswordError
from broker.entrance.policy import EntrancePolicy, operators_of, policy_of
from broker.forwards.forwards import Forwards
from broker.grants import Grants
from broker.host import Host
from broker.link_secrets import LinkSecrets
from broker.settings import child_share, server_tls
from config.alarms import rules_of
from config.errors import ConfigurationError
from config.fields import differing
from config.model import Site
from sapwood.protocol.errors import Refusal
from treeconnector.identity import Shown

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry

_log = logging.getLogger("sapwood.node")

_Made = tuple[LinkSecrets, EntrancePolicy, Operators, Receiver | None]


class Access:
    """Of one node. `registry`: who decides who joins, where this node invites. `forwards`: what it offers.
    `alarms`: whom it tells of what, None = it takes no samples.

    `read`: reads its file, None = it was not started from one.
    """

    def __init__(
        self,
        host: Host,
        site: Site,
        secrets: LinkSecrets,
        grants: Grants,
        policy: EntrancePolicy,
        registry: "Registry | None",
        forwards: Forwards,
        alarms: AlarmWatch | None,
        read: Callable[[], Site] | None,
    ) -> None:
        core = host.core
        self.operators = operators_of(site)
        self._tls = server_tls(site) if registry is None else None
        self._host = host
        self.site = site
        self._secrets, self.grants = secrets, grants
        self._asks_for_names = secrets.closed
        self._read = read
        self.registry = registry
        self.forwards = forwards
        self.alarms = alarms
        self._ask_registry()
        if registry is not None:
            registry.on_out = self._end_link
        self.entrance = Entrance(
            site.name, policy, self._holder, core.permits.permit_of, core.switch.sessions.values
        )
        core.policies.add((self.entrance,))

    def __repr__(self) -> str:
        return f"<Access to {self.site.name}: {self._secrets!r} {self.grants!r}>"

    @property
    def port_tls(self) -> ssl.SSLContext | None:
        """To listen with at this node's port, None = without TLS."""
        if self.registry is not None:
            return self.registry.authority.context
        return self._tls.context if self._tls is not None else None

    def _ask_registry(self) -> None:
        """Children that joined by invitation are in no file."""
        self._secrets.office = self.registry
        if self.registry is not None:
            self.grants.invited = self.registry.role_of

    def _holder(self, shown: Shown) -> str:
        return holder(self.site.name, self._secrets.names, self.registry, shown)

    def _end_link(self, name: str, why: str) -> None:
        """The right of a child to its name is over, or another machine has joined under it."""
        self.entrance.permits_changed()
        core = self._host.core
        child = core.neighbours.get(name)
        if child is not None and child.link is not None:
            core.admission.handle(child.link, child.link.pause(why))
            self._host.wake()

    def read_again(self) -> tuple[list[str], list[str]]:
        """Read the file again; return the children that it names no more, or otherwise, whose links end, and
        the settings that it has changed and that count from the next start only.

        A link that stays keeps its secret until it comes up again. Raises `SwitchError`: nothing has changed.
        """
        if self._read is None:
            raise SwitchError("this node was not started from a file: there is nothing to read again")
        try:
            site = self._site_of(read := self._read())
            waiting = [name for name in differing(site, read) if name != "name"]
            secrets, policy, operators, receiver = self._made_of(site, read, waiting)
            fresh = self._tls.fresh() if self._tls is not None else None
        except (ConfigurationError, PasswordError, TlsError) as error:
            _log.warning("! the file was not read again, nothing has changed: %s", error)
            raise SwitchError(str(error)) from None
        self._become(site, secrets)
        self.entrance.configure(policy)
        self.operators.become(operators)
        if self._tls is not None and fresh is not None:
            self._tls.become(fresh)
        if self.alarms is not None:
            self.alarms.configure(rules_of(site.alarms), receiver, site.alarms.webhook.least)
        away = self._turn_away()
        self._host.wake()
        self._warn_of_locks()
        _log.info("= the file was read again%s", f"; turned away: {', '.join(away)}" if away else "")
        if waiting:
            _log.warning("! changed in the file, and not before the next start: %s", ", ".join(waiting))
        return away, waiting

    def _made_of(self, site: Site, read: Site, waiting: list[str]) -> _Made:
        """Raises `ConfigurationError`, `PasswordError`: of the file as it is, if that is wrong by itself."""
        try:
            return self._made(site)
        except (ConfigurationError, PasswordError) as error:
            self._made(read)
            names = ", ".join(waiting)
            text = f"so it is without the changes that wait for a start, {names}: start it anew"
            raise ConfigurationError(f"{error}; {text}") from None

    def _made(self, site: Site) -> _Made:
        secrets = LinkSecrets(site, closed=self._asks_for_names)
        return secrets, policy_of(site), operators_of(site), receiver_of(site)

    def _become(self, site: Site, secrets: LinkSecrets) -> None:
        """Let the children and channels of the file count from here on."""
        self.site, self._secrets, self.grants = site, secrets, Grants(site)
        self._asks_for_names = secrets.closed
        self._ask_registry()
        self._host.core.admission.configure(secrets.secret_of, secrets.secret_of_core)
        self._host.core.message_admission.child_share = child_share(site)
        self.grants.tell(self._host.core)
        self.forwards.configure(site.forwards, site.folders)
        self.forwards.applications.configure(site.channels)

    def _warn_of_locks(self) -> None:
        """Say who has no way in by the file as it is now."""
        self.grants.warn(_log)
        if self.operators.is_nobody:
            _log.warning(
                "! the file names neither a token nor an operator nor an issuer any more: nobody may look at"
                " this node or administrate it until it names one again, or the node is started anew"
            )
        if self._secrets.names_nobody:
            _log.warning(
                "! the file names no child any more: no further one links until it names one again. A node"
                " that is started with such a file asks for no names"
            )

    def _site_of(self, read: Site) -> Site:
        """The site as it was, with what counts at once of the file as it is. Raises `ConfigurationError`."""
        if read.name not in ("", self.site.name):
            raise ConfigurationError(f"the file is of {read.name!r}, this node is {self.site.name!r}")
        return replace(
            self.site,
            children=read.children,
            children_secrets=read.children_secrets,
            permits=read.permits,
            forwards=read.forwards,
            folders=read.folders,
            channels=read.channels,
            operators=read.operators,
            oidc=read.oidc,
            alarms=read.alarms,
            accounts=read.accounts,
            account_passwords=read.account_passwords,
        )

    def _turn_away(self) -> list[str]:
        core = self._host.core
        found: dict[str, tuple[Refusal, str]] = {}
        for child in core.context.children():
            role = child.detail.role
            why = core.permits.why_not_role(child.name, role) if role else ""
            if not self._secrets.names(child.name):
                text = f"{self.site.name!r} has no permit any more for its child {child.name!r}"
                found[child.name] = Refusal.SECRET, text
            elif why:
                found[child.name] = Refusal.ROLE, why
            if child.name in found and child.link is not None:
                core.admission.handle(child.link, child.link.refuse(*found[child.name]))
        return list(found)
