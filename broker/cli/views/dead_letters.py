"""Dead letters."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, say_more, table
from broker.cli.queues import payload
from broker.cli.status import duration, size


def listed(found: Fields) -> None:
    """Print dead letters, newest first."""
    made = table("Letter", "Destination", "Reason", ">age", ">size", "From", "Payload")
    for letter in found["letters"]:
        made.add_row(
            letter["id"],
            letter["destination"],
            letter["reason"],
            duration(letter["age_s"]),
            str(letter["size"]),
            letter["origin"],
            payload(letter),
        )
    print_table(made)
    say_more(found)
    print(f"{found['messages']} dead letters in all, {size(found['bytes'])}")
