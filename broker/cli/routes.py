"""`sapwood route …`, `ping`, `traceroute`, `cells`, `links`: which way it goes, and who is there."""

from typing import Final

from broker.cli.errors import FAILED, WRONG_USE, CommandError
from broker.cli.node_api import Fields, NodeApi
from broker.cli.output import print_json, print_table, printable, table
from broker.cli.queues import say_more
from broker.cli.status import duration

_FORMS: Final = {
    "exact": "exact ADDRESS NEIGHBOUR",
    "alias": "alias ADDRESS ADDRESS",
    "default": "default NEIGHBOUR",
    "dumpster": "dumpster QUEUE",
}


def change_route(api: NodeApi, method: str, kind: str, words: list[str], node: str, *, as_json: bool) -> None:
    """Add or remove a route. Raises `CommandError`."""
    if kind not in _FORMS:
        raise CommandError(f"{kind!r} is no kind of route: expected {', '.join(_FORMS)}", WRONG_USE)
    if len(words) != len(_FORMS[kind].split()) - 1:
        raise CommandError(f"expected {_FORMS[kind]}, found {kind} {' '.join(words)}", WRONG_USE)
    *destination, gateway = words
    body = {"kind": kind, "destination": "".join(destination), "gateway": gateway, "node": node}
    done = api.change(method, "/api/routes", body)
    if as_json:
        print_json(done)
        return
    said = "is set" if method == "POST" else "is removed"
    what = " ".join(filter(None, (done["kind"], done["destination"], "->", done["gateway"])))
    print(f"at {done['node']} the route {what} {said}")


def show_ping(api: NodeApi, address: str, *, as_json: bool) -> None:
    """Print whether a cell is there. Raises `CommandError` if it is not."""
    found = api.get("/api/ping", address=address)
    if as_json:
        print_json(found)
    elif found["here"]:
        print(f"{found['cell']}@{found['node']} is there: {found['ms']:.1f} ms, {found['at']} by its clock")
    if not found["here"]:
        raise CommandError(
            f"{found['node']} answers in {found['ms']:.1f} ms, but nobody reads {found['cell']!r} there",
            FAILED,
        )


def show_traceroute(api: NodeApi, address: str, *, as_json: bool) -> None:
    """Print the way hop by hop. Raises `CommandError` if it does not end where the cell is."""
    found = api.get("/api/traceroute", address=address)
    if as_json:
        print_json(found)
    else:
        _print_hops(found)
    if not found["complete"]:
        raise CommandError(
            f"the way to {address} ends at {found['hops'][-1]['node']}: {found['why']}", FAILED
        )


def _print_hops(found: Fields) -> None:
    made = table(">", "Node", ">ms", "its clock", "by", "goes to", "as")
    for number, hop in enumerate(found["hops"], 1):
        ways = [f"{name} (down)" if name in hop["down"] else name for name in hop["gateways"]]
        made.add_row(
            str(number),
            hop["node"],
            "*" if hop["ms"] is None else f"{hop['ms']:.1f}",
            hop["at"] or "",
            hop["how"] or "no answer",
            ", ".join(ways),
            hop["address"],
        )
    print_table(made)


def show_cells(api: NodeApi, node: str, limit: int, *, as_json: bool) -> None:
    """Print a node's cells. Raises `CommandError`."""
    found = api.pages("/api/cells", "cells", limit, node=node)
    if as_json:
        print_json(found)
        return
    made = table("Cell", "What it is", ">readers", ">messages", "also read behind")
    for cell in found["cells"]:
        name = f"{cell['name']}@{found['node']}"
        what = "the node's" if cell["own"] else "queue"
        figures = str(cell["readers"]), str(cell["messages"])
        made.add_row(name, what, *figures, ", ".join(cell["also"]))
    print_table(made)
    say_more(found)


def show_links(api: NodeApi, node: str, limit: int, *, as_json: bool) -> None:
    """Print a node's links. Raises `CommandError`."""
    found = api.pages("/api/links", "links", limit, node=node)
    if as_json:
        print_json(found)
        return
    print(f"{found['node']}, below {' < '.join(found['chain'][1:]) or 'nobody'}")
    figures = (">for", ">routes", ">set", ">refused")
    made = table("Neighbour", "Relation", "State", *figures, "Zone", "Incarnation", "Proven by", "Why")
    for link in found["links"]:
        made.add_row(
            link["name"],
            link["relation"],
            link["state"],
            duration(link["since_s"]),
            str(link["routes"]),
            str(link["set"]),
            str(link.get("refused", 0) + link.get("refused_us", 0)),
            link["zone"],
            link["incarnation"],
            link.get("proof", ""),
            link["error"],
        )
    print_table(made)
    say_more(found)


def show_holds(api: NodeApi, link: str, node: str, limit: int, *, as_json: bool) -> None:
    """Print what a neighbour of a node has asked it to keep. Raises `CommandError`."""
    found = api.pages("/api/holds", "holds", limit, link=link, node=node)
    if as_json:
        print_json(found)
        return
    for hold in found["holds"]:
        print(printable(hold or "everything"))
    if not found["holds"]:
        print(f"{link} takes everything")
    say_more(found)
