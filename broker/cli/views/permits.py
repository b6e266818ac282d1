"""What children may do, and what they were refused."""

from typing import Final

from broker.cli.node_api import Fields
from broker.cli.output import print_table, say_more, table

NOT_HERE: Final = "unknown"


def show(found: Fields) -> None:
    """Print what the children of a node may do."""
    if found["granted"]:
        print(f"{found['node']} itself may do what all of these allow:")
        _print_grants(found["granted"])
    if not found["enforced"]:
        print(f"the file of {found['node']} is open: of itself it lets its children do everything")
    for each in found["children"]:
        change(each)
    say_more(found)


def change(child: Fields) -> None:
    """One child."""
    how = ", set by an operator" if child["set"] else ""
    state = "not here yet" if child["state"] == NOT_HERE else child["state"]
    print(f"{child['name']} ({state}{how})")
    if child["grants"]:
        _print_grants(child["grants"])
    else:
        print("  may do everything")
    if child["refused"]:
        print(f"  refused {child['refused']} times; lately:")
    for refusal in child["refusals"]:
        what = f", the last: {refusal['what']}" if refusal["what"] else ""
        print(f"    {refusal['times']} x {refusal['rule']}{what}")


def _print_grants(grants: list[Fields]) -> None:
    made = table("By", "Consume", "Send", "Nodes below")
    for grant in grants:
        made.add_row(grant["by"], *("\n".join(grant[name]) for name in ("consume", "send", "nodes")))
    print_table(made)


def reload(found: Fields) -> None:
    """A file that was read again."""
    away = f"; turned away: {', '.join(found['turned_away'])}" if found["turned_away"] else ""
    print(f"{found['node']} has read its file again{away}")
