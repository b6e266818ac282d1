"""The receivers of a topic's message."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, table


def check(found: Fields) -> None:
    """Each node with its subscriptions, and why others get nothing."""
    made = table("Node", ">readers", "")
    for each in found["nodes"]:
        made.add_row(each["node"], "?" if each["readers"] is None else str(each["readers"]), each["error"])
    print_table(made)
    print(f"{found['topic']}, scope {found['scope']}: subscriptions that get it: {found['readers']}")
    for why in found["why"]:
        print(f"- {why}")


def check_failed(found: Fields) -> str:
    """Nobody gets it, as far as the nodes say that answered. A child that is not named gets it, too."""
    nodes = found["nodes"]
    if found["readers"] or any(each["lines"] for each in nodes):
        return ""
    missing = [each["node"] for each in nodes if each["readers"] is None]
    if missing:
        return f"whether anybody would get {found['topic']} is not known: no answer of {', '.join(missing)}"
    return f"nobody would get {found['topic']}"
