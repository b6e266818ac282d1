"""Channels that go through a node."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, say_more, table
from broker.cli.status import duration


def channels(found: Fields) -> None:
    """Print the channels of a node."""
    counted = ", ".join(f"{found[name]} {name}" for name in ("opened", "refused", "broken", "bytes"))
    print(f"{found['node']} offers {', '.join(found['offers']) or 'nothing'}; since its start {counted}")
    made = table("Origin", "To", "State", ">for", ">there", ">back", ">waiting", "Near", "Far", "Channel")
    for each in found["channels"]:
        made.add_row(
            each["origin"],
            f"{each['name']}@{each['to']}",
            each["state"],
            duration(each["for_s"]),
            str(each["there"]),
            str(each["back"]),
            str(each["waiting"]),
            each["near"],
            each["far"],
            each["channel"],
        )
    print_table(made)
    say_more(found)
