"""Both ends of enrolment, made at the start of a node, as far as the site's file asks for them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from broker.core.node import NodeCore
from broker.core.rows import InvitationRow, MemberRow, MetaRow, Transaction
from broker.enrolment.errors import without_library
from broker.host import Host
from config.model import Site

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry
    from broker.enrolment.renewal import CertificateRenewal
    from broker.enrolment.sharing import Sharing
    from broker.store.loaded import Loaded


def registry_of(
    site: Site,
    loaded: "Loaded",
    commit: Callable[[Transaction], Awaitable[None]],
    now: Callable[[], float],
) -> "Registry | None":
    """What decides who joins, where the site's file names an authority. Raises `EnrolmentError`."""
    if site.enrolment.authority is None:
        return None
    try:
        from broker.enrolment.authority import KeptAuthority
        from broker.enrolment.registrar import Registry
    except ModuleNotFoundError as error:
        raise without_library(error) from None
    authority = KeptAuthority(site.enrolment.authority, site)
    return Registry(site, authority, loaded.rows(InvitationRow), loaded.rows(MemberRow), commit, now)


def sharing_of(host: Host, registry: "Registry | None", rows: Iterable[MetaRow]) -> "Sharing | None":
    """What tells the other nodes of the mesh of those who joined here, where this node invites."""
    if registry is None:
        return None
    from broker.enrolment.sharing import Sharing

    return Sharing(host, registry, rows)


def renewal_of(site: Site, core: NodeCore) -> "CertificateRenewal | None":
    """What renews the node's certificate, where its connector says so. Raises `EnrolmentError`."""
    connector = site.connector
    if connector is None or not connector.renew:
        return None
    try:
        from broker.enrolment.renewal import CertificateRenewal
    except ModuleNotFoundError as error:
        raise without_library(error) from None
    renewal = CertificateRenewal(site)
    renewal.ways_beside = lambda: [way for ways in core.mesh.parents_to_dial().values() for way in ways]
    core.policies.add((renewal,))
    return renewal
