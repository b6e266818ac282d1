"""Which secret a link is proven with, and who may connect at all.

A node that has permits accepts only the children that are named in them. A node without permits accepts
children without a secret from this machine only, unless the site says otherwise, asks each child for a
certificate, or invites its children. Law: a secret proves the name of its child; where certificates are asked
for, a child without a secret has one that names it, or a stolen store could be any other. A child that dials
at a broker is the one whose topics or queues it uses there; where the broker's permissions ensure that, its
name is proven.
Law: who was found by multicast named the host himself that TLS has checked. So a certificate there names the
node, also beside a secret, which whoever stands between could hand on; without a secret there is one.
"""

from typing import TYPE_CHECKING, Final

from bridges.tls import is_certified
from config.credentials import children_secrets, connector_secret, permitted_children
from config.model import Site
from sapwood.protocol.errors import LinkRefused, Refusal
from treeconnector.identity import Shown

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry

_LISTED: Final = 5
_MOST_TEXT: Final = 200
_NOTHING: Final = Shown()


class LinkSecrets:
    """The secrets of one site, read once at the start. Raises `ConfigurationError` if one cannot be read.

    `office`: who knows the children that joined by invitation, where this node invites.
    """

    def __init__(self, site: Site, *, closed: bool = False) -> None:
        self._site = site
        self._own = connector_secret(site)
        self._children = children_secrets(site)
        self._cores = frozenset(core.name for core in site.mesh.cores)
        self._permitted = permitted_children(site, self._children)
        if self._permitted is None and closed:
            self._permitted = frozenset()
        self.office: Registry | None = None

    def __repr__(self) -> str:
        return f"<LinkSecrets of {self._site.name} children={len(self._children)}>"

    @property
    def closed(self) -> bool:
        """Does the file say who may be a child? `closed` at the start: it did before."""
        return self._permitted is not None

    @property
    def names_nobody(self) -> bool:
        """Did the file say who may be a child, and says of nobody now?"""
        return self._permitted is not None and not self._permitted

    def secret_of(self, name: str, dials: bool, shown: Shown = _NOTHING, role: str = "leaf") -> bytes | None:
        """The secret of the link to `name`, None if none is asked for. Raises `LinkRefused`.

        `role`: what a child says that it is.
        """
        if dials:
            if shown.anybody and (shown.certified or self._own is None):
                self._demand_certificate(name, shown.certified)
            return self._own.reveal().encode() if self._own else None
        self._demand_place(name, shown)
        if not self.names(name):
            raise LinkRefused(
                Refusal.SECRET,
                f"{self._site.name!r} has no permit for a child {name!r}: name it in <children> or in the"
                " file of children's secrets",
            )
        return self._proof_of(name, shown, role)

    def secret_of_core(
        self, name: str, dials: bool, shown: Shown = _NOTHING, role: str = "root"
    ) -> bytes | None:
        """The same for a node of a mesh without a secret: who is listed there needs no permit as a child."""
        if dials or name not in self._cores:
            return self.secret_of(name, dials, shown, role)
        self._demand_place(name, shown)
        return self._proof_of(name, shown, role)

    def _proof_of(self, name: str, shown: Shown, role: str) -> bytes | None:
        """How one proves its name that may be linked."""
        secret = self._children.get(name)
        if secret is not None:
            return secret.reveal().encode()
        if shown.place:
            self._demand_voucher(name, shown)
        elif self.office is not None:
            self.office.admit_link(name, shown, role)
        elif self._site.listener.tls.client_ca:
            self._demand_certificate(name, shown.certified)
        else:
            self._allow_anonymous(name)
        return None

    def names(self, name: str) -> bool:
        """May a node of that name be a child at all? Who joined by invitation needs no further permit."""
        if self._permitted is None or name in self._permitted:
            return True
        return self.office is not None and self.office.is_member(name)

    @staticmethod
    def _demand_place(name: str, shown: Shown) -> None:
        if shown.place and shown.place != name:
            raise LinkRefused(
                Refusal.SECRET,
                f"{name!r} came over the topics or queues of {shown.place!r}: each child has its own",
            )

    def _demand_voucher(self, name: str, shown: Shown) -> None:
        if not (shown.vouched or self._site.listener.allow_anonymous):
            raise LinkRefused(
                Refusal.SECRET,
                f"{self._site.name!r} accepts children without a secret at no broker: give {name!r} a permit"
                " with a secret, or say proves_names at the link broker if its permissions keep each child to"
                " its own topics or queues",
            )

    def _demand_certificate(self, name: str, certified: frozenset[str]) -> None:
        if not is_certified(name, certified):
            found = ", ".join(sorted(certified)[:_LISTED])[:_MOST_TEXT] or "no name at all"
            raise LinkRefused(
                Refusal.SECRET,
                f"the certificate that {name!r} shows {self._site.name!r} is for {found}: give it one for"
                f" {name!r} (common name or DNS name), or a permit with a secret",
            )

    def _allow_anonymous(self, name: str) -> None:
        listener = self._site.listener
        if not (listener.loopback or listener.allow_anonymous):
            raise LinkRefused(
                Refusal.SECRET,
                f"{self._site.name!r} accepts children without a secret from its own machine only: give"
                f" {name!r} a permit with a secret, or say allow_anonymous at the listener",
            )
