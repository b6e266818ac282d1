"""The trail of changes."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, table


def changes(found: Fields) -> None:
    """Print the changes at a node, the latest first."""
    made = table("When", "Operator", "Role", "From", "Operation", "Said", "Result")
    for each in found["changes"]:
        said = " ".join(f"{name}={value}" for name, value in each["said"].items() if value not in ("", None))
        made.add_row(
            each["at"], each["who"], each["role"], each["address"], each["operation"], said, each["result"]
        )
    print_table(made)
    if found["more"]:
        print("and older ones: --limit")
