"""Alarms on a node's figures."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, printable, table
from treeconnector.wording import counted


def alarms(found: Fields) -> None:
    """Print all alarms, those that are raised first, and how the webhook is."""
    made = table("Alarm", "State", "Severity", "Raised by", ">now", "since")
    for each in found["alarms"]:
        now, since = each["now"] or "", each["since"] or ""
        made.add_row(each["name"], each["state"], each["severity"], each["condition"], now, since)
    print_table(made)
    print(printable(_webhook(found["webhook"])))


def _webhook(webhook: Fields | None) -> str:
    if webhook is None:
        return "no webhook: nobody is told"
    text = f"webhook {webhook['host']}: {counted(webhook['sent'], 'event')} taken, {webhook['waiting']} wait"
    for name in ("refused", "dropped"):
        text += f", {webhook[name]} {name}" if webhook[name] else ""
    return text + (f"; {webhook['error']}" if webhook["error"] else "")


def test(found: Fields) -> None:
    """Print which event is on its way."""
    event = f"event {found['id']} waits for the webhook"
    print(printable(f"{found['node']}: {event}; `sapwood alarms` shows whether it was taken"))
