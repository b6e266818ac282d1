"""Children that join by invitation, and certificates that are renewed: both ends of it.

`tokens` what travels by hand; `proofs` how a secret is proven that only its hash is kept of; `authority` the
inviting node's files; `office` what the inviting node decides; `messages` what is said; `contact` how the
parent is asked; `joining` a fresh machine's side; `renewal` a running node's; `sharing` what the inviting
nodes of a mesh tell each other.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.core.rows import InvitationRow, MemberRow, MetaRow
from broker.enrolment.errors import without_library

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry
    from broker.enrolment.renewal import CertificateRenewal
    from broker.enrolment.sharing import Sharing
    from broker.node import Node
    from broker.store.loaded import Loaded

__all__ = ["office_of", "renewal_of", "sharing_of"]


def office_of(node: "Node", loaded: "Loaded") -> "Registry | None":
    """What decides who joins, where the site's file names an authority. Raises `EnrolmentError`."""
    site = node.site
    if site.enrolment.authority is None:
        return None
    try:
        from broker.enrolment.authority import KeptAuthority
        from broker.enrolment.registrar import Registry
    except ModuleNotFoundError as error:
        raise without_library(error) from None
    return Registry(
        site,
        KeptAuthority(site.enrolment.authority, site),
        loaded.rows(InvitationRow),
        loaded.rows(MemberRow),
        node.committer.commit,
        node.now,
    )


def sharing_of(node: "Node", rows: Iterable[MetaRow]) -> "Sharing | None":
    """What tells the other nodes of the mesh of those who joined here, where this node invites."""
    if node.enrolment is None:
        return None
    from broker.enrolment.sharing import Sharing

    return Sharing(node, node.enrolment, rows)


def renewal_of(node: "Node") -> "CertificateRenewal | None":
    """What renews the node's certificate, where its connector says so. Raises `EnrolmentError`."""
    connector = node.site.connector
    if connector is None or not connector.renew:
        return None
    try:
        from broker.enrolment.renewal import CertificateRenewal
    except ModuleNotFoundError as error:
        raise without_library(error) from None
    renewal = CertificateRenewal(node.site)
    renewal.ways_beside = lambda: [way for ways in node.core.mesh.parents_to_dial().values() for way in ways]
    node.core.policies.add((renewal,))
    return renewal
