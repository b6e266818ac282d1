"""Which bridge a site broker's address leads to: the package that its row in `config.schemes` names."""

from collections.abc import Callable
from importlib import import_module

from bridges.site_brokers.base import Bridge, Setup, SiteBrokerRefused
from config.uris import address


def make_bridge(setup: Setup) -> Bridge:
    """The bridge of a site. Raises `SiteBrokerRefused` where its library is not installed."""
    uri = setup.settings.uri
    protocol = address(uri).protocol
    try:
        package = import_module(f"bridges.site_brokers.{protocol.site_broker}")
        make: Callable[[Setup], Bridge] = package.make
        return make(setup)
    except ModuleNotFoundError as error:
        raise SiteBrokerRefused(f"the bridge to {uri} needs {error.name}: {protocol.install}") from None
