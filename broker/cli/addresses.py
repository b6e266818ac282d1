"""`sapwood who-has`, `addresses`, `announce`: names, incarnations, and where they can be dialled."""

from broker.cli.node_api import NodeApi
from broker.cli.output import note, print_json, print_table, table
from broker.cli.queues import say_more
from broker.cli.status import duration


def show_who_has(api: NodeApi, key: str, *, as_json: bool) -> None:
    """Print who has a name or an incarnation. Raises `CommandError` if nobody has it."""
    found = api.get("/api/who-has", key=key)
    if as_json:
        print_json(found)
        return
    print(f"{found['name']} is {found['incarnation']}: {found['via']} says so, {found['ms']:.1f} ms")
    for uri in found["addresses"]:
        print(f"  {uri}")


def show_addresses(api: NodeApi, node: str, search: str, limit: int, *, as_json: bool) -> None:
    """Print what a node knows. Raises `CommandError`."""
    found = api.pages("/api/addresses", "known", limit, node=node, search=search)
    if as_json:
        print_json(found)
        return
    print(f"{found['node']} is {found['incarnation']}; it knows {found['size']} of at most {found['most']}")
    made = table("Node", "Incarnation", "said by", ">good for", "told to", "can be dialled at")
    for each in found["known"]:
        made.add_row(
            each["name"],
            each["incarnation"],
            each["via"],
            "" if each["left_s"] is None else duration(each["left_s"]),
            ", ".join(each["told"]),
            ", ".join(each["addresses"]),
        )
    print_table(made)
    say_more(found)
    if found["asking"]:
        note(f"{found['asking']} questions have no answer yet; {found['waiting']} messages wait for one")


def announce_addresses(api: NodeApi, uris: list[str], *, as_json: bool) -> None:
    """Announce other addresses. Raises `CommandError`."""
    done = api.change("POST", "/api/announce", {"addresses": uris})
    if as_json:
        print_json(done)
    else:
        print(f"{done['node']} can be dialled at {', '.join(done['addresses'])}; until it stops")
