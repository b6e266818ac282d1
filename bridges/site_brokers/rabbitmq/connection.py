"""From a site's file to its RabbitMQ: where it is, its management API, its exchanges of topics."""

from bridges.amqp.server import Server
from bridges.site_brokers.base import Setup
from bridges.site_brokers.rabbitmq.exchanges import Exchanges
from bridges.site_brokers.rabbitmq.management import PORT, TLS_PORT, Management
from config.uris import address


def server_of(setup: Setup) -> Server:
    """Without a user, RabbitMQ's own `guest`, whom it lets in from its own machine only. Raises
    `SiteBrokerError` where the files of `tls`, or of the secret, cannot be used."""
    settings, tls = setup.settings, setup.context()
    name = f"sapwood {setup.node}"
    if settings.user is None:
        return Server(settings.uri, tls=tls, name=name, timeout=setup.timeout)
    return Server(settings.uri, settings.user, setup.secret() or "", tls, name, setup.timeout)


def exchanges_of(setup: Setup) -> Exchanges:
    settings = setup.settings
    return Exchanges(settings.exchange, ((each.name, each.prefix) for each in settings.exchanges))


def management_of(setup: Setup, server: Server) -> Management:
    """At the port of RabbitMQ's own choice on the broker's host, unless the file says otherwise."""
    host = f"[{server.host}]" if ":" in server.host else server.host
    usual = f"https://{host}:{TLS_PORT}" if address(server.uri).tls else f"http://{host}:{PORT}"

    def password() -> str:
        return server.password if setup.settings.user is None else setup.secret() or ""

    return Management(setup.settings.management or usual, server.user, password, server.tls, setup.timeout)
