"""Dead letters."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, say_more, table
from broker.cli.queues import payload
from broker.cli.status import duration, size
from treeconnector.wording import counted


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
    print(f"{counted(found['messages'], 'dead letter')} in all, {size(found['bytes'])}")


def give_back(found: Fields) -> None:
    """Dead letters that were routed again."""
    print(f"{counted(found['returned'], 'message')} routed again")
    if found["kept"] and not found.get("why"):
        print(f"{found['kept']} cannot be and stay: nobody wants them, or they are no messages at all")


def give_back_failed(found: Fields) -> str:
    """Some stayed for lack of room. A node of an older version does not say so."""
    why = found.get("why")
    return f"{counted(found['kept'], 'dead letter')} stayed: {why}" if why else ""


def give_back_wrong(given: Fields) -> str:
    """Whoever means all says so."""
    if any(given[name] for name in ("ids", "reason", "destination", "all")):
        return ""
    return "which dead letters? Give their ids, --reason, --destination, or --all"


def delete(found: Fields) -> None:
    """Dead letters that are gone."""
    print(f"{counted(found['messages'], 'dead letter')} thrown away")


delete_wrong = give_back_wrong
