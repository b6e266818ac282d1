"""The names, options and help of the commands that look at routes and change them, here and elsewhere."""

from typing import Annotated

import typer

from broker.cli.options import Asked, Limit, Search, asks_a_node

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
    app.command()(holds)
    app.command("who-has")(who_has)
    app.command()(addresses)
    app.command()(announce)


@route_app.command("show")
@asks_a_node
def route_show(
    node: Node = "",
    search: Search = "",
    kind: Annotated[
        str, typer.Option("--kind", help="Only exact, alias, queue, topic, domain, default or dumpster.")
    ] = "",
    gateway: Annotated[str, typer.Option("--gateway", help="Only through 'local' or this neighbour.")] = "",
    limit: Limit = 100,
    *,
    asked: Asked,
) -> None:
    """Show a node's routing table. What consumers and links made, and what operators set."""
    from broker.cli.clients import show_routes

    show_routes(asked.api, search, kind, gateway, limit, node=node, as_json=asked.json)


@route_app.command("add")
@asks_a_node
def route_add(kind: Kind, words: Words, node: Node = "", *, asked: Asked) -> None:
    """Set a route. It is kept until it is removed, or its neighbour leaves; adding it twice is an error."""
    from broker.cli.routes import change_route

    change_route(asked.api, "POST", kind, words, node, as_json=asked.json)


@route_app.command("remove")
@asks_a_node
def route_remove(kind: Kind, words: Words, node: Node = "", *, asked: Asked) -> None:
    """Remove a route that was set. Removing one that is not there is an error."""
    from broker.cli.routes import change_route

    change_route(asked.api, "DELETE", kind, words, node, as_json=asked.json)


@asks_a_node
def ping(address: Address, *, asked: Asked) -> None:
    """Ask the node where a cell is whether it is there. Exit code 1 where nobody answers or reads it."""
    from broker.cli.routes import show_ping

    show_ping(asked.api, address, as_json=asked.json)


@asks_a_node
def traceroute(address: Address, *, asked: Asked) -> None:
    """Show the way that a message for a cell would take now. Each node with its time, and why it goes on."""
    from broker.cli.routes import show_traceroute

    show_traceroute(asked.api, address, as_json=asked.json)


@asks_a_node
def cells(node: Node = "", limit: Limit = 100, *, asked: Asked) -> None:
    """List the cells of a node. Its own, and the queues that applications have there."""
    from broker.cli.routes import show_cells

    show_cells(asked.api, node, limit, as_json=asked.json)


@asks_a_node
def links(node: Node = "", limit: Limit = 100, *, asked: Asked) -> None:
    """List the links of a node."""
    from broker.cli.routes import show_links

    show_links(asked.api, node, limit, as_json=asked.json)


@asks_a_node
def holds(
    link: Annotated[str, typer.Argument(metavar="NEIGHBOUR", help="Who has asked for it.")],
    node: Node = "",
    limit: Limit = 100,
    *,
    asked: Asked,
) -> None:
    """List what a neighbour has asked a node to keep. It has no room for that; all else goes on."""
    from broker.cli.routes import show_holds

    show_holds(asked.api, link, node, limit, as_json=asked.json)


@asks_a_node
def who_has(
    who: Annotated[str, typer.Argument(metavar="NAME|UUID", help="A node's name, or an incarnation.")],
    *,
    asked: Asked,
) -> None:
    """Say which node has a name or an incarnation. And where it can be dialled; the tree is asked for it."""
    from broker.cli.addresses import show_who_has

    show_who_has(asked.api, who, as_json=asked.json)


@asks_a_node
def addresses(node: Node = "", search: Search = "", limit: Limit = 100, *, asked: Asked) -> None:
    """List the names and incarnations that a node knows. Who said so, and who heard it from there."""
    from broker.cli.addresses import show_addresses

    show_addresses(asked.api, node, search, limit, as_json=asked.json)


@asks_a_node
def announce(
    uris: Annotated[list[str], typer.Argument(metavar="URI", help="Such as wss://HOST:7600/link.")],
    *,
    asked: Asked,
) -> None:
    """Tell the tree where this node can be dialled now. After a line has changed; until the node stops."""
    from broker.cli.addresses import announce_addresses

    announce_addresses(asked.api, uris, as_json=asked.json)
