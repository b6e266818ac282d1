"""From a site's configuration to what the cores, links and HTTP need of it."""

import socket
from pathlib import Path
from typing import Final

from bridges.tls import ChangingContext, TlsSettings, server_context
from broker.core.settings import CoreSettings, MeshSettings, Overflow, QueuePolicy
from broker.entrance.operators import Operators
from broker.http.settings import HttpSettings
from broker.intake import Bounds, most_files
from broker.metrics.label_limit import Labels
from config.credentials import mesh_secret
from config.model import ClientTls, DestinationPolicy, Listener, Site
from config.schemes import DIRECT
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Kind
from treeconnector.link import LinkSettings

_EVERYWHERE: Final = ("0.0.0.0", "::", "[::]")  # noqa: S104 (nothing is bound here)


_WITHOUT_TOPICS: Final = {"all": "queues", "topics": "none", "none": "none"}
"""dCache's cores keep their topic routes from the satellites, whose topics come to a core in any case."""
_IN_A_STAR: Final = (QueuePolicy(kind=Kind.TOPIC, scope=Scope.TREE),)


def core_settings(site: Site) -> CoreSettings:
    """The rules of one node."""
    advisories, delivery, limits = site.advisories, site.delivery, site.limits
    core = site.scheme == "core"
    return CoreSettings(
        advise_down=_WITHOUT_TOPICS[advisories.advise_down] if core else advisories.advise_down,
        linger=advisories.linger,
        dormant_after=advisories.dormant_after,
        reattach_time=advisories.reattach_time,
        route_retention=advisories.route_retention,
        subscription_retention=delivery.subscription_retention,
        hold_time=delivery.hold_time,
        dedup_window=delivery.dedup_window,
        probe_time=site.link.dead_after,
        max_deliveries=delivery.max_deliveries,
        max_message=limits.max_message,
        max_routes=limits.max_routes_per_link,
        max_filter_length=limits.max_filter_length,
        max_levels=limits.max_levels,
        address_cache=limits.addresses.max_entries or 0,
        address_lifetime=limits.addresses.lifetime,
        address_waiting=limits.addresses.max_waiting,
        queue_quota=limits.queue_quota,
        spool_up=limits.spool.up,
        spool_down=limits.spool.down,
        spool_rerouted=limits.spool.rerouted,
        child_waiting=child_share(site),
        dead_messages=limits.dead_letter.max_messages,
        dead_bytes=limits.dead_letter.max_bytes,
        dead_age=limits.dead_letter.max_age,
        trace_events=site.trace.events,
        deliver_twice=site.debug.deliver_twice,
        seed=site.debug.seed,
        policies=(
            *(_policy(site, policy) for policy in delivery.destinations),
            *(_IN_A_STAR if site.scheme else ()),
        ),
    )


def child_share(site: Site) -> int:
    """Most bytes that may wait here of what one child sent."""
    return site.permits.max_waiting or site.limits.spool.up // 4


def _policy(site: Site, given: DestinationPolicy) -> QueuePolicy:
    kind, _, pattern = given.pattern.partition(":")
    scope = given.scope or ("tree" if site.scheme else "vertical")
    plain = QueuePolicy()
    return QueuePolicy(
        kind=Kind(kind),
        pattern=pattern,
        scope=Scope[scope.upper()],
        max_messages=given.max_messages or plain.max_messages,
        max_bytes=given.max_bytes or plain.max_bytes,
        overflow=Overflow(given.policy),
        home=given.home == site.name,
    )


def mesh_settings(site: Site) -> MeshSettings:
    """The mesh that a node is in. Raises `ConfigurationError` if its secret cannot be read."""
    secret = mesh_secret(site)
    return MeshSettings(
        members={core.name: core.ways for core in site.mesh.cores},
        secret=secret.reveal().encode() if secret else None,
        ways=site.connector.ways if site.connector else (),
    )


def link_settings(site: Site) -> LinkSettings:
    """What both ends of a link must keep to."""
    return LinkSettings(
        max_frame=site.limits.max_frame,
        max_message=site.limits.max_message,
        window_bundles=site.limits.send_window_bundles,
        window_bytes=site.limits.send_window_bytes,
        keep_alive=site.link.keep_alive,
        dead_after=site.link.dead_after,
        handshake_timeout=site.link.connect_timeout,
        max_frames_per_second=site.limits.max_frames_per_second,
    )


def http_settings(site: Site, operators: Operators) -> HttpSettings:
    """What the HTTP side needs."""
    return HttpSettings(
        operators=operators,
        children=site.role != "leaf",
        certificates=site.listener.tls.client_ca is not None,
        max_frame=site.limits.max_frame,
        max_message=site.limits.max_message,
        labels=Labels(site.metrics.max_queues, site.metrics.max_links, site.metrics.max_sessions),
        subscribe_creates=site.http.subscribe_creates,
    )


def intake_bounds(site: Site) -> Bounds:
    """How many connections there may be: as the file says, and as many as this process may open files."""
    limits = site.limits
    wanted = Bounds(limits.connections, limits.strangers, limits.strangers_per_address)
    return wanted.within(most_files())


def server_tls(site: Site) -> ChangingContext | None:
    """TLS of the node's own port, None where the site's file names no certificate."""
    tls = site.listener.tls
    if not tls.certificate:
        return None
    return ChangingContext(lambda: server_context(tls.certificate, tls.key, tls.client_ca))


def announced(site: Site, port: int) -> list[str]:
    """Where this node can be dialled: as its file says, else at the host and port where it listens."""
    listener = site.listener
    if listener.announced:
        return list(listener.announced)
    host = socket.gethostname() if listener.host in _EVERYWHERE else listener.host
    scheme = DIRECT.tls_scheme if listener.tls.certificate or site.enrolment.authority else DIRECT.scheme
    return [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{DIRECT.path}"]


def dashboard(listener: Listener, port: int) -> str:
    """Where a browser on this machine finds the node."""
    host = "localhost" if listener.host in _EVERYWHERE else listener.host
    scheme = "https" if listener.tls.certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/dashboard"


def client_tls(tls: ClientTls) -> TlsSettings:
    return TlsSettings(
        ca=_path(tls.ca),
        certificate=_path(tls.certificate),
        key=_path(tls.key),
        verify_hostname=tls.verify_hostname,
    )


def _path(path: Path | None) -> Path | None:
    return Path(path) if path else None
