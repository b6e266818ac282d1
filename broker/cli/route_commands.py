"""The names, options and help of the commands that look at routes and change them, here and elsewhere."""

from typing import Annotated

import typer

from broker.cli.options import (
    DEFAULT_URL,
    Authorities,
    Certificate,
    Json,
    Key,
    Limit,
    Search,
    Token,
    Url,
)
from broker.cli.tls import Tls

route_app = typer.Typer(
    help="Routes of a node, of this one or of one below it.", no_args_is_help=True, rich_markup_mode=None
)

Node = Annotated[str, typer.Option("--node", help="The node whose it is; the one that is asked if absent.")]
Kind = Annotated[str, typer.Argument(metavar="KIND", help="exact, alias, default or dumpster.")]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[ADDRESS] TO",
        help="exact ADDRESS NEIGHBOUR, alias ADDRESS ADDRESS, default NEIGHBOUR, dumpster QUEUE;"
        " an ADDRESS is CELL or CELL@NODE.",
    ),
]
Address = Annotated[str, typer.Argument(metavar="CELL@NODE", help="Or a well-known CELL by its name alone.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.add_typer(route_app, name="route")
    app.command()(ping)
    app.command()(traceroute)
    app.command()(cells)
    app.command()(links)


@route_app.command("show")
def route_show(
    node: Node = "",
    search: Search = "",
    kind: Annotated[
        str, typer.Option("--kind", help="Only exact, alias, queue, topic, domain, default or dumpster.")
    ] = "",
    gateway: Annotated[str, typer.Option("--gateway", help="Only through 'local' or this neighbour.")] = "",
    limit: Limit = 100,
    url: Url = DEFAULT_URL,
    token: Token = "",
    ca: Authorities = None,
    certificate: Certificate = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Show a node's routing table: what consumers and links made, and what operators set."""
    from broker.cli.clients import show_routes
    from broker.cli.node_api import NodeApi

    api = NodeApi(url, token, Tls(ca, certificate, key))
    show_routes(api, search, kind, gateway, limit, node=node, as_json=json)


@route_app.command("add")
def route_add(
    kind: Kind,
    words: Words,
    node: Node = "",
    url: Url = DEFAULT_URL,
    token: Token = "",
    ca: Authorities = None,
    certificate: Certificate = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Set a route; it is kept until it is removed, or its neighbour leaves. Adding it twice is an error."""
    from broker.cli.node_api import NodeApi
    from broker.cli.routes import change_route

    change_route(NodeApi(url, token, Tls(ca, certificate, key)), "POST", kind, words, node, as_json=json)


@route_app.command("remove")
def route_remove(
    kind: Kind,
    words: Words,
    node: Node = "",
    url: Url = DEFAULT_URL,
    token: Token = "",
    ca: Authorities = None,
    certificate: Certificate = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Remove a route that was set. Removing one that is not there is an error."""
    from broker.cli.node_api import NodeApi
    from broker.cli.routes import change_route

    change_route(NodeApi(url, token, Tls(ca, certificate, key)), "DELETE", kind, words, node, as_json=json)


def ping(
    address: Address,
    url: Url = DEFAULT_URL,
    token: Token = "",
    ca: Authorities = None,
    certificate: Certificate = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Ask the node where a cell is whether it is there. Exit code 1 where nobody answers or reads it."""
    from broker.cli.node_api import NodeApi
    from broker.cli.routes import show_ping

    show_ping(NodeApi(url, token, Tls(ca, certificate, key)), address, as_json=json)


def traceroute(
    address: Address,
    url: Url = DEFAULT_URL,
    token: Token = "",
    ca: Authorities = None,
    certificate: Certificate = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Show the way that a message for a cell would take now: each node with its time, and why it goes on."""
    from broker.cli.node_api import NodeApi
    from broker.cli.routes import show_traceroute

    show_traceroute(NodeApi(url, token, Tls(ca, certificate, key)), address, as_json=json)


def cells(
    node: Node = "",
    url: Url = DEFAULT_URL,
    token: Token = "",
    ca: Authorities = None,
    certificate: Certificate = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """List the cells of a node: its own, and the queues that applications have there."""
    from broker.cli.node_api import NodeApi
    from broker.cli.routes import show_cells

    show_cells(NodeApi(url, token, Tls(ca, certificate, key)), node, as_json=json)


def links(
    node: Node = "",
    url: Url = DEFAULT_URL,
    token: Token = "",
    ca: Authorities = None,
    certificate: Certificate = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """List the links of a node, as its location manager tells them."""
    from broker.cli.node_api import NodeApi
    from broker.cli.routes import show_links

    show_links(NodeApi(url, token, Tls(ca, certificate, key)), node, as_json=json)
