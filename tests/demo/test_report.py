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
    report = make_report(ledger(), COSTS, 12.34, {"hq": 0}, kept=False)
    assert report["well"]
    assert report["total"] == {
        "sent": 1, "to_deliver": 1, "delivered": 1, "on_the_way": 0, "lost": 0, "duplicated": 0,
        "given_again": 0, "not_sent": 0,
    }  # fmt: skip
    json.dumps(report)


@pytest.mark.parametrize(
    ("made", "codes"),
    [(ledger(arrived=False), {}), (ledger(twice=True), {}), (ledger(), {"hq": 0, "york": 1})],
    ids=["lost", "duplicated", "a node failed to stop"],
)
def test_it_is_not_well_when_anything_is_wrong(made: Ledger, codes: dict[str, int]) -> None:
    assert not make_report(made, COSTS, 1.0, codes, kept=False)["well"]


@pytest.mark.parametrize(("kept", "on_the_way", "lost"), [(True, 1, 0), (False, 0, 1)])
def test_a_message_that_a_node_keeps_is_on_its_way_and_only_else_lost(
    kept: bool, on_the_way: int, lost: int
) -> None:
    report = make_report(ledger(arrived=False), COSTS, 1.0, {}, kept=kept)
    assert (report["total"]["on_the_way"], report["total"]["lost"]) == (on_the_way, lost)
    assert not report["well"]


def test_what_stays_is_told_apart_and_not_summed() -> None:
    console = Console(width=110, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - closed below
    with console.file:
        print_report(make_report(ledger(), COSTS, 1.0, {}, kept=False), console)
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
