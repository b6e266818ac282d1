"""The end of the demo: what was sent and arrived, and what the consumers cost, as data and as tables."""

from typing import Any, Final

from rich.console import Console

from broker.cli.demo.costs import MEASURED_ON, Cost
from broker.cli.demo.ledger import Ledger
from broker.cli.output import table
from treeconnector.wording import counted

Report = dict[str, Any]
COSTS: Final = ("added", "closed", "ttl_2_added", "ttl_2_closed", "ttl_3_added", "ttl_3_closed")
FIGURES: Final = (
    "sent",
    "to_deliver",
    "delivered",
    "on_the_way",
    "lost",
    "duplicated",
    "given_again",
    "not_sent",
)


def make_report(
    ledger: Ledger, costs: list[Cost], seconds: float, exit_codes: dict[str, int], *, kept: bool
) -> Report:
    """Everything that was counted. `well`: nothing missing, nothing twice, all nodes stopped properly.

    `seconds`: how long the demo took. `exit_codes`: of the nodes, at their SIGTERM. `kept`: nodes keep
    messages, or did not say; then those that have not arrived are on their way, and none is lost.
    """
    rows: list[dict[str, Any]] = [
        {
            "what": account.title,
            "sent": len(account.confirmed),
            "to_deliver": len(account.expected),
            "delivered": account.delivered,
            "on_the_way": account.missing if kept else 0,
            "lost": 0 if kept else account.missing,
            "duplicated": account.duplicated,
            "given_again": account.again,
            "not_sent": account.unsent,
        }
        for account in ledger.accounts
    ]
    return {
        "well": ledger.complete and not any(exit_codes.values()),
        "messages": rows,
        "total": {key: sum(row[key] for row in rows) for key in FIGURES},
        "strange": ledger.strange,
        "consumers": [_cost_row(cost) for cost in costs],
        "compared_with": MEASURED_ON,
        "nodes_that_failed_to_stop": sorted(name for name, code in exit_codes.items() if code),
        "seconds": round(seconds, 1),
    }


def _cost_row(cost: Cost) -> dict[str, Any]:
    row: dict[str, Any] = {"node": cost.node, "destination": cost.destination}
    row |= {"added": cost.added, "closed": cost.closed if cost.gone else None}
    for ttl, (added, closed) in cost.flooded.items():
        row |= {f"ttl_{ttl}_added": added, f"ttl_{ttl}_closed": closed}
    return row


def print_report(report: Report, console: Console) -> None:
    """Print the two tables and the verdict."""
    _print_messages(report, console)
    _print_consumers(report, console)
    if report["strange"]:
        console.print(f"{counted(report['strange'], 'message')} arrived that nobody sent")
    if report["nodes_that_failed_to_stop"]:
        console.print(f"failed to stop: {', '.join(report['nodes_that_failed_to_stop'])}")
    verdict = "[green]every message arrived, once[/green]" if report["well"] else "[red]not well[/red]"
    console.print(f"{verdict} · {report['seconds']} s")


def _print_messages(report: Report, console: Console) -> None:
    made = table(
        "Messages", ">sent", ">to deliver", ">delivered", ">on their way", ">lost", ">duplicated",
        title="What was sent",
    )  # fmt: skip
    for row in (*report["messages"], {"what": "together", **report["total"]}):
        figures = (row[key] for key in FIGURES[:6])
        made.add_row(row["what"], *map(str, figures))
    console.print(made)
    if not_sent := report["total"]["not_sent"]:
        console.print(f"{counted(not_sent, 'message', 'was', 'were')} not taken by their node")
    if again := report["total"]["given_again"]:
        console.print(f"{counted(again, 'message', 'was', 'were')} given again, and known by their id")


def _print_consumers(report: Report, console: Console) -> None:
    made = table(
        "Consumer", "at", ">came", ">went", ">TTL 2: came", ">went", ">TTL 3: came", ">went",
        title="Advisories that each consumer cost, and what networkTTL 2 and 3 would have cost in this tree",
    )  # fmt: skip
    for row in report["consumers"]:
        made.add_row(row["destination"], row["node"], *(_figure(row[key]) for key in COSTS))
    sums = (sum(row[key] or 0 for row in report["consumers"] if row["closed"] is not None) for key in COSTS)
    stays = any(row["closed"] is None for row in report["consumers"])
    made.add_row("those that came and went" if stays else "together", "", *map(str, sums))
    console.print(made)
    if stays:
        console.print("stays: a durable subscription outlives its reader, so its route is not withdrawn")
    console.print(f"came, went: read from the nodes' advisory logs; TTL: the law {report['compared_with']}")


def _figure(value: int | None) -> str:
    return "stays" if value is None else str(value)
