"""`sapwood config acl`: the permissions that confine each child to its own topics or queues at a broker.

Surprise: it reads the parent's file, for that knows the brokers and the children; the lines are for whoever
administrates the brokers, and nothing is changed.
"""

from collections.abc import Iterator
from pathlib import Path

from bridges.carriers.brokered import permissions
from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.output import print_json
from config.credentials import children_secrets, permitted_children
from config.load import load
from config.model import LinkBroker, Site
from config.uris import address


def print_permissions(file: Path, children: list[str], *, dynamic_security: bool, as_json: bool) -> None:
    """Print the lines for every link broker of the site in `file`. `children`: beside those with permits."""
    site = load(file)
    if not site.listener.link_brokers:
        raise CommandError(
            f"{file}: no broker at which children may dial: name one in listener, link_brokers", WRONG_USE
        )
    names = sorted({*children, *(permitted_children(site, children_secrets(site)) or ())})
    found = {
        broker.uri: list(_lines(site, broker, names, dynamic_security=dynamic_security))
        for broker in site.listener.link_brokers
    }
    if as_json:
        print_json({"brokers": [{"uri": uri, "lines": lines} for uri, lines in found.items()]})
        return
    for uri, lines in found.items():
        print(f"# {uri}", *lines, sep="\n")


def _lines(site: Site, broker: LinkBroker, children: list[str], *, dynamic_security: bool) -> Iterator[str]:
    place = address(broker.uri)
    user = broker.user or site.name
    if place.protocol.carrier == "mqtt" and not dynamic_security:
        yield from permissions.acl_file(site.tree, user)
        return
    if not children:
        raise CommandError(
            f"which children? {site.name!r} has no permits: give their names with --child", WRONG_USE
        )
    if place.protocol.carrier == "mqtt":
        yield from permissions.dynamic_security(site.tree, user, children)
    elif place.protocol.carrier == "amqp":
        yield from permissions.rabbitmq(site.tree, place.vhost, user, children)
    else:
        raise CommandError(f"no permissions are known for a broker of {place.scheme}://", WRONG_USE)
