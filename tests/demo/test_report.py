"""The report: what it counts, and that it is only well when everything is."""

import json

import pytest
from rich.console import Console

from broker.cli.demo.costs import Cost
from broker.cli.demo.ledger import Ledger
from broker.cli.demo.plan import Parcel
from broker.cli.demo.report import make_report, print_report

COSTS = [
    Cost("york", "queue:prices", 2, 2, True, {2: (4, 9), 3: (5, 13)}),
    Cost("york", "topic:offers", 1, 0, False, {2: (4, 9), 3: (5, 13)}),
]


def ledger(*, arrived: bool = True, twice: bool = False) -> Ledger:
    parcel = Parcel("one", "hq", "queue:prices", json.dumps({"id": "one"}).encode(), ("york",))
    made = Ledger({"prices": [parcel]})
    made.confirm(parcel)
    for message_id in ["m1"] * arrived + ["m2"] * twice:
        made.handle("york", message_id, parcel.payload)
    return made


def test_all_is_well_when_all_has_arrived_once() -> None:
    report = make_report(ledger(), COSTS, 12.34, {"hq": 0})
    assert report["well"]
    assert report["total"] == {
        "sent": 1, "to_deliver": 1, "delivered": 1, "lost": 0, "duplicated": 0, "given_again": 0,
        "not_sent": 0,
    }  # fmt: skip
    json.dumps(report)


@pytest.mark.parametrize(
    ("made", "codes"),
    [(ledger(arrived=False), {}), (ledger(twice=True), {}), (ledger(), {"hq": 0, "york": 1})],
    ids=["lost", "duplicated", "a node failed to stop"],
)
def test_it_is_not_well_when_anything_is_wrong(made: Ledger, codes: dict[str, int]) -> None:
    assert not make_report(made, COSTS, 1.0, codes)["well"]


def test_what_stays_is_told_apart_and_not_summed() -> None:
    console = Console(width=110, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - closed below
    with console.file:
        print_report(make_report(ledger(), COSTS, 1.0, {}), console)
        text = console.export_text()
    rows = {
        line.split()[0]: line.split()[2:]
        for line in text.splitlines()
        if line.strip().startswith(("queue", "topic"))
    }
    assert rows == {
        "queue:prices": ["2", "2", "4", "9", "5", "13"],
        "topic:offers": ["1", "stays", "4", "9", "5", "13"],
    }
    assert [line.split()[-6:] for line in text.splitlines() if "came and went" in line] == [
        rows["queue:prices"]
    ]
    assert "measured on ActiveMQ Classic 5.17.2" in text
