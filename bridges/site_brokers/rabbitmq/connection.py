"""From a site's file to where its RabbitMQ is, and where that one's management API is."""

from bridges.amqp.server import Server
from bridges.site_brokers.base import Setup
from bridges.site_brokers.rabbitmq.management import PORT, TLS_PORT, Management
from config.uris import address


def server_of(setup: Setup) -> Server:
    """Without a user, RabbitMQ's own `guest`, whom it lets in from its own machine only."""
    settings = setup.settings
    name = f"sapwood {setup.node}"
    if settings.user is None:
        return Server(settings.uri, tls=setup.tls, name=name, timeout=setup.timeout)
    return Server(settings.uri, settings.user, setup.password or "", setup.tls, name, setup.timeout)


def management_of(setup: Setup) -> Management:
    """At the port of RabbitMQ's own choice on the broker's host, unless the file says otherwise."""
    server = server_of(setup)
    host = f"[{server.host}]" if ":" in server.host else server.host
    usual = f"https://{host}:{TLS_PORT}" if address(server.uri).tls else f"http://{host}:{PORT}"
    return Management(
        setup.settings.management or usual, server.user, server.password, setup.tls, setup.timeout
    )
