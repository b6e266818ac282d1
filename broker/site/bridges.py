"""Which bridge speaks with which broker."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from bridges.site_brokers.base import Bridge, Setup
from bridges.tls import client_context
from broker.settings import client_tls
from config.credentials import site_broker_secret
from config.model import Site
from config.uris import address
from treeconnector.errors import SapwoodError

_MODULES: Final = {
    "mqtt": ("bridges.site_brokers.mosquitto", "mqtt"),
    "amqp": ("bridges.site_brokers.rabbitmq", "amqp"),
}


def make_bridge(site: Site, store: str) -> Bridge:
    """The bridge to this site's broker. Raises `SapwoodError` that says what to install or to change."""
    where = address(site.site_broker.uri)
    module, extra = _MODULES[where.scheme.removesuffix("s")]
    try:
        make: Callable[[Setup], Bridge] = import_module(module).make
    except ModuleNotFoundError as error:
        raise SapwoodError(
            f"the bridge to {site.site_broker.uri} needs {error.name}: pip install 'sapwood[{extra}]'"
        ) from None
    secret = site_broker_secret(site)
    return make(
        Setup(
            tree=site.tree,
            node=site.name,
            store=store,
            directory=site.data_directory / "site-broker",
            settings=site.site_broker,
            password=secret.reveal() if secret else None,
            tls=client_context(client_tls(site.site_broker.tls)) if where.tls else None,
            timeout=site.link.connect_timeout,
            max_message=site.limits.max_message,
            max_consumers=site.limits.max_routes_per_link,
        )
    )
