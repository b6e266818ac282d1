"""The bridge to a site's broker, made as the site's file says."""

from functools import partial

from bridges.site_brokers import registry
from bridges.site_brokers.base import Bridge, Setup
from bridges.tls import client_context
from broker.settings import client_tls
from config.credentials import site_broker_secret
from config.model import Site
from config.uris import address


def make_bridge(site: Site, store: str) -> Bridge:
    """Raises `SapwoodError` that says what to install or to change."""
    secret, where = site_broker_secret(site), address(site.site_broker.uri)
    tls = partial(client_context, client_tls(site.site_broker.tls)) if where.tls else None
    if tls is not None:
        tls()  # whether the files can be used is said at the start
    return registry.make_bridge(
        Setup(
            tree=site.tree,
            node=site.name,
            store=store,
            directory=site.data_directory / "site-broker",
            settings=site.site_broker,
            password=partial(_password, site) if secret else None,
            tls=tls,
            timeout=site.link.connect_timeout,
            max_message=site.limits.max_message,
            max_consumers=site.limits.max_routes_per_link,
        )
    )


def _password(site: Site) -> str | None:
    secret = site_broker_secret(site)
    return secret.reveal() if secret else None
