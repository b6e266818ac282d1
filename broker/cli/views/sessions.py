"""Sessions and consumers."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, say_more, table
from broker.cli.status import duration, size
from treeconnector.wording import counted


def listed(found: Fields) -> None:
    """Print sessions with their connections; tokens are masked."""
    made = table("Session", "Connection", ">heard", ">in", ">out", ">bytes in", ">bytes out", "Reads")
    for session in found["sessions"]:
        _add_session(made.add_row, session)
    print_table(made)
    say_more(found)


def close(found: Fields) -> None:
    """A session whose connections are closed."""
    print(f"{found['closed']} is closed: {counted(found['connections'], 'connection')}")


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


def consumers(found: Fields) -> None:
    """Print who wants something at this node."""
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
