"""The routing table."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, say_more, table


def show(found: Fields) -> None:
    """Print the routing table of a node."""
    made = table("Kind", "Destination", "Through", "Which is", "State", "For")
    for route in found["routes"]:
        state = "dormant" if not route["live"] else "live" if route["up"] else "down"
        made.add_row(
            route["kind"], route["destination"], route["gateway"], route["via"], state, route["origin"]
        )
    print_table(made)
    say_more(found)
