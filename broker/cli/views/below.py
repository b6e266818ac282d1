"""The nodes below a node, and which of them are down."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, printable, say_more, table
from broker.cli.status import below_line, duration


def below(found: Fields, given: Fields) -> None:
    """Print how many are below, by child, and the nodes themselves."""
    print(printable(f"{found['node']}: {below_line(found)}"))
    if found["children"]:
        made = table("Child", "Link", ">for", ">nodes", ">down")
        for child in found["children"]:
            down = str(child["down"] or "")
            made.add_row(child["name"], child["state"], duration(child["since_s"]), str(child["nodes"]), down)
        print_table(made)
    if found["children_more"]:
        print(f"and {found['children_more']} more children")
    if found["below"]:
        made = table("Node", "below", "State", ">for")
        for each in found["below"]:
            made.add_row(each["name"], each["via"], *state(each))
        print_table(made)
    say_more(found)


def state(node: Fields) -> tuple[str, str]:
    """How a node is, and for how long."""
    if node["since_s"] is None:
        return "up", ""
    return "down", ("at least " if node["at_least"] else "") + duration(node["since_s"])
