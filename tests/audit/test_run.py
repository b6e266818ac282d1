"""The whole audit, on the real log of the retail demo: 0 spilled, and the demo's own table confirmed."""

import csv
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import Table

from audit import capacity, causes, passes, volume
from audit.deployment import load_tree
from audit.listing import list_local
from audit.reading import read
from audit.run import Request, audit, plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def summary(spark: "SparkSession", out: Path) -> dict[str, Any]:
    """With the use of routes as nodes write it beside their logs, and figures of an operator's own."""
    usage = out / "hq.usage-20261121.jsonl"
    used = [
        {"node": "hq", "since": "2026-11-21T00:00:00.000000Z", "until": "2026-11-21T23:00:00.000000Z"},
        {"node": "hq", "kind": "topic", "destination": "offers/north", "messages": 120},
        {"node": "north", "kind": None, "destination": None, "messages": 0},
    ]
    usage.write_text("".join(json.dumps(row) + "\n" for row in used))
    spools = out / "spools.csv"
    days = [f"hq,spool_bytes,2026-11-{day:02}T12:00:00Z,{day * 2**30}\n" for day in (1, 2, 3, 4)]
    spools.write_text("node,figure,at,value\n" + "".join(days))
    request = Request(
        [str(DATA / "demo"), str(usage)],
        str(DATA / "stores.csv"),
        out / "found",
        range(1, 4),
        figures=str(spools),
    )
    return audit(spark, request)


def table(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "found" / "csv" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_demo_spills_nothing(summary: dict[str, Any]) -> None:
    assert summary["verdicts"] == {"needed": 44, "spilled": 0, "moved": 0, "unknown": 0, "domain": 14}
    assert (summary["nodes"], summary["files"], summary["files_with_faults"]) == (9, 9, 0)
    assert summary["rows"] == 110


def test_spark_counts_for_each_consumer_what_the_demo_counted(out: Path, summary: dict[str, Any]) -> None:
    demo = json.loads((DATA / "demo-consumers.json").read_text())
    told = {(row["node"], row["destination"]): (row["added"], row["closed"] or 0) for row in demo}
    found = {
        (row["node"], f"{row['kind']}:{row['destination']}"): (int(row["added"]), int(row["closed"]))
        for row in table(out, "consumers")
    }
    assert found == told


def test_what_the_demo_would_have_cost_elsewhere_is_what_the_demo_says(
    out: Path, summary: dict[str, Any]
) -> None:
    demo = json.loads((DATA / "demo-consumers.json").read_text())
    costs = {(row["role"], row["scheme"]): row for row in table(out, "what_if_one")}
    for row in demo:
        role = "root" if row["node"] == "hq" else "leaf"
        for ttl in (2, 3):
            cost = costs[role, f"connectors, TTL {ttl}"]
            assert int(cost["added_most"]) == row[f"ttl_{ttl}_added"]
            assert int(cost["closed_most"]) == row[f"ttl_{ttl}_closed"]


def test_sums_agree_whichever_way_one_looks(out: Path, summary: dict[str, Any]) -> None:
    for name in ("hour", "level", "hour_level", "region", "node", "link", "direction", "kind"):
        assert (
            sum(int(row["advisories"]) for row in table(out, f"volume_by_{name}"))
            == summary["advisories"]
            == 58
        ), name
        assert sum(int(row["bytes"]) for row in table(out, f"volume_by_{name}")) == summary["bytes"], name
    assert sum(int(row["advisories"]) for row in table(out, "spillage")) == 58


def test_tables_are_parquet_with_the_columns_of_their_summaries(
    spark: "SparkSession", out: Path, summary: dict[str, Any]
) -> None:
    tables = sorted(path.name for path in (out / "found" / "tables").iterdir() if path.is_dir())
    assert tables == sorted(path.stem for path in (out / "found" / "csv").iterdir())
    for name in ("volume", "consumers", "what_if", "spilled"):
        frame = spark.read.parquet(str(out / "found" / "tables" / name))
        header = (out / "found" / "csv" / f"{name}.csv").read_text().splitlines()[0]
        assert frame.columns == header.split(",")


def test_the_report_needs_nothing_else_and_says_what_was_found(out: Path, summary: dict[str, Any]) -> None:
    page = (out / "found" / "report.html").read_text()
    assert not re.search(
        r"""(src|href)\s*=\s*["']?(https?:|//)|@import|url\((?!['"]?#)""",
        re.sub(r'xmlns(:\w+)?="[^"]*"', "", page),
    )
    assert "0 advisories spilled" in page
    assert page.count("<svg") == 4  # volume, alternatives, laws, growth; nothing was spilled: no map
    for text in (
        "Volume over the day",
        "2,200 stores in 25 regions",
        "All agree to the last advisory",
        "offers/north",
        "connectors, TTL 3",
    ):
        assert text in page


def test_routes_that_no_message_used_and_spools_that_fill_are_found(
    out: Path, summary: dict[str, Any]
) -> None:
    unused = {
        row["node"]: (row["held"], row["unused"], row["examples"]) for row in table(out, "unused_routes")
    }
    prices = "queue:prices-{} queue:prices-{} queue:prices-{}"
    assert unused == {
        "hq": ("8", "7", prices.format("bath", "durham", "exeter")),
        "north": ("5", "5", prices.format("durham", "lancaster", "york")),
    }
    spool = next(row for row in table(out, "capacity") if row["figure"] == "spool_bytes")
    assert (spool["node"], spool["points"], spool["now"]) == ("hq", "4", str(4.0 * 2**30))
    assert (float(spool["a_day"]), float(spool["days_left"])) == pytest.approx((2**30, 4.0))
    assert spool["full_at"].startswith("2026-11-08 00:00")


def test_sums_that_do_not_fit_the_driver_are_reduced_further_and_say_the_same(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root is told each route anew by a resync, so that its adds less removes are not what it holds."""
    rows = (DATA / "demo" / "hq.advisories.jsonl").read_text().splitlines()
    again = [row | {"cause": "resync"} for row in map(json.loads, rows) if row["op"] == "add"]
    (tmp_path / "hq.jsonl").write_text("\n".join([*rows, *map(json.dumps, again)]) + "\n")
    log = passes.Passes(spark, read(spark, list_local([str(tmp_path)])))
    rolled, hours = log.intake.rolled, log.consumer_hours()

    def found(told: Table) -> tuple[list[str], list[str]]:
        consumers, adrift = volume.consumers(hours, told), capacity.adrift(rolled, told)
        return sorted(map(str, consumers.to_pylist())), sorted(map(str, adrift.to_pylist()))

    whole = log.told()
    monkeypatch.setattr(passes, "FIT", 0)
    less = log.told()
    assert found(less) == found(whole)
    assert all(found(whole)), "the test shows nothing otherwise"
    assert less.column("consumer").null_count, "only nodes that are adrift are left of the routes"


def test_of_a_large_log_both_passes_by_cause_look_at_rows_that_were_chosen_once(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causes, "EVENTS_SHOWN", 3)
    log = passes.Passes(spark, read(spark, list_local([str(DATA / "demo")])))
    looked: list[int] = []
    choose = causes.chosen

    def counted(events: "DataFrame", one_in: int) -> "DataFrame":
        looked.append(one_in)
        return choose(events, one_in)

    monkeypatch.setattr(causes, "chosen", counted)
    with ThreadPoolExecutor(2) as pool:
        both = pool.submit(log.delays, "hq"), pool.submit(log.consumer_events, ["hq"], log.one_in)
        delays, events = (asked.result() for asked in both)
    assert looked == [log.one_in]
    assert log.one_in > 1
    assert (delays.column_names[0], events.column_names[0]) == ("node", "cause")


def test_a_plan_needs_no_log_and_no_spark_and_tells_of_none(tmp_path: Path) -> None:
    request = Request(
        [],
        str(DATA / "stores.csv"),
        tmp_path,
        rules=[("leaf", "own", 2, "queue"), ("root", "own", 1, "queue")],
    )
    summary = plan(request, load_tree(str(DATA / "stores.csv")))
    stores, others = 6, 8
    assert summary["what_if"]["tree"] == 2 * 2 * stores + others
    assert summary["what_if"]["leaf nodes"] == (2 * stores + 1) * others
    read, lines = 2 * stores + 1, others
    assert summary["crossed"]["static bridges"] == read * lines, "all data crosses every line"
    assert summary["crossed"]["tree"] == 2 * 2 * stores
    assert summary["crossed"]["connectors, TTL 1"] is None, "the root does not know of the stores"
    assert sorted(path.stem for path in (tmp_path / "csv").iterdir()) == sorted(
        ("domain_routes", "intake", "nodes", "what_if", "what_if_one")
    )
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "What it would cost" in page
    text = page.partition("</head>")[2]
    assert "judged" not in text  # no verdict: nothing was read
    assert "when all consumers come; other networks take up to" in text
    assert "would be spilled by ActiveMQ connectors, TTL 2" in text
