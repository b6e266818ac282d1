"""Links, and what neighbours have asked to keep."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, printable, say_more, table
from broker.cli.status import duration


def links(found: Fields) -> None:
    """Print a node's links."""
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
    if found.get("wanted"):
        wanted = table("Wants", "Relation", "State", "Why", "At")
        for each in found["wanted"]:
            name, ways = each["name"] or "any parent", ", ".join(each["uris"])
            wanted.add_row(name, each["relation"], each["state"], each["why"], ways)
        print_table(wanted)


def holds(found: Fields, given: Fields) -> None:
    """Print what a neighbour of a node has asked it to keep."""
    for hold in found["holds"]:
        print(printable(hold or "everything"))
    if not found["holds"]:
        print(f"{given['link']} takes everything")
    say_more(found)
