"""`sapwood sessions`, `consumers`, `routes`: who is there, what they want, and which way it goes."""

import asyncio

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.messages import Login
from broker.cli.node_api import Fields, NodeApi
from broker.cli.output import patience, print_json, print_table, table
from broker.cli.queues import say_more
from broker.cli.status import duration, size


def show_sessions(api: NodeApi, limit: int, *, as_json: bool) -> None:
    """Print sessions with their connections; tokens are masked. Raises `CommandError`."""
    found = api.pages("/api/sessions", "sessions", limit)
    if as_json:
        print_json(found)
        return
    made = table("Session", "Connection", ">heard", ">in", ">out", ">bytes in", ">bytes out", "Reads")
    for session in found["sessions"]:
        _add_session(made.add_row, session)
    print_table(made)
    say_more(found)


def _add_session(add_row: object, session: Fields) -> None:
    assert callable(add_row)
    reads = ", ".join(session["subscriptions"][:5])
    more = session["subscriptions_total"] - 5
    reads += f" and {more} more" if more > 0 else ""
    for number, connection in enumerate(session["connections"]):
        add_row(
            session["session"] if not number else "",
            f"{connection['address']} ({connection['kind']})",
            duration(connection["heard_s"]),
            str(connection["in"]),
            str(connection["out"]),
            size(connection["bytes_in"]),
            size(connection["bytes_out"]),
            reads if not number else "",
        )


def show_consumers(api: NodeApi, search: str, limit: int, *, as_json: bool) -> None:
    """Print who wants something at this node. Raises `CommandError`."""
    found = api.pages("/api/consumers", "consumers", limit, search=search)
    if as_json:
        print_json(found)
        return
    made = table("Wants", "Session", "Durable", "State", ">messages", ">not acknowledged")
    for consumer in found["consumers"]:
        state = "recovering" if consumer["recovering"] else "reads" if consumer["attached"] else "away"
        made.add_row(
            consumer["destination"],
            consumer["session"] or "",
            consumer["durable"],
            state,
            str(consumer["messages"]),
            str(consumer["outstanding"]),
        )
    print_table(made)
    say_more(found)


def show_routes(
    api: NodeApi, search: str, kind: str, gateway: str, limit: int, *, node: str = "", as_json: bool
) -> None:
    """Print the routing table of a node. Raises `CommandError`."""
    found = api.pages("/api/routes", "routes", limit, search=search, kind=kind, gateway=gateway, node=node)
    if as_json:
        print_json(found)
        return
    made = table("Kind", "Destination", "Through", "Which is", "State", "For")
    for route in found["routes"]:
        state = "dormant" if not route["live"] else "live" if route["up"] else "down"
        made.add_row(
            route["kind"], route["destination"], route["gateway"], route["via"], state, route["origin"]
        )
    print_table(made)
    say_more(found)


def end_subscription(login: Login, name: str, *, as_json: bool) -> None:
    """End a session's durable subscription for good. Raises `CommandError` or `ClientError`."""
    if not login.session:
        raise CommandError("whose subscription? Say it with --session SESSION", WRONG_USE)
    with patience(f"asking {login.url}"):
        asyncio.run(_end(login, name))
    if as_json:
        print_json({"ended": name})
    else:
        print(f"the durable subscription {name} is ended, and what waited for it is gone")


async def _end(login: Login, name: str) -> None:
    async with login.client() as client:
        await client.end_subscription(name)
