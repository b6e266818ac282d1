"""Names, incarnations, and where they can be dialled."""

from broker.cli.node_api import Fields
from broker.cli.output import note, print_table, say_more, table
from broker.cli.status import duration
from treeconnector.wording import counted


def addresses(found: Fields) -> None:
    """Print what a node knows."""
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
        asking = counted(found["asking"], "question", "has", "have")
        note(f"{asking} no answer yet; {counted(found['waiting'], 'message', 'waits', 'wait')} for one")


def who_has(found: Fields) -> None:
    """Print who has a name or an incarnation."""
    print(f"{found['name']} is {found['incarnation']}: {found['via']} says so, {found['ms']:.1f} ms")
    for uri in found["addresses"]:
        print(f"  {uri}")


def announce(found: Fields) -> None:
    """Where the node can be dialled now."""
    print(f"{found['node']} can be dialled at {', '.join(found['addresses'])}; until it stops")
