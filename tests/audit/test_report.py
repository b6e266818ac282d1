"""Findings and report from tables alone: what comes first, what to do, and nothing of a log that a browser
obeys."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest

from audit import charts, comparison
from audit.findings import find
from audit.listing import TWIN
from audit.report import write_report
from audit.verdict import judge

HOUR = datetime(2026, 3, 14, 8, tzinfo=UTC)
EVIL = "<script>alert(1)</script>"
NAMES = (
    "files intake clocks nodes volume_by_hour volume_by_hour_level volume_by_kind volume_by_region spillage"
    " spillage_reasons spillage_regions spilled advise_down strange_links storms flapping_consumers"
    " links resyncs cut_off strangers silent trees holes doubles repeated_adds what_if what_if_one scope_cost"
    " capacity consumers knowing logs volume_by_node same_churn"
)
VERDICTS = {"needed": 90, "spilled": 10, "moved": 0, "unknown": 0, "domain": 5}


COUNTS = dict.fromkeys(("repeated", "half", "malformed", "unknown", "untimed", "unread"), 0)
FILE = {"file": "file:/log", "lines": 100, "rows": 100, "fault": None} | COUNTS


def tables(**given: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [] for name in NAMES.split()} | {"intake": [COUNTS], "files": [FILE]} | given


def spillage(spilled: int) -> list[dict[str, Any]]:
    return [
        {"verdict": "needed", "kind": "queue", "direction": "up", "advisories": 90, "bytes": 2700},
        {
            "verdict": "spilled",
            "kind": "queue",
            "direction": "down",
            "advisories": spilled,
            "bytes": 30 * spilled,
        },
    ]


REASON = {
    "reason": "peer of a leaf",
    "node": EVIL,
    "region": "north",
    "role": "leaf",
    "advisories": 10,
    "bytes": 300,
}
STORM = {"node": "hq", "hour": HOUR, "advisories": 9000, "baseline": 3.0, "times": 3000.0}
SILENT = {"node": "york", "region": "north", "role": "leaf", "heard": None}
HOLE = {
    "node": "york",
    "first": 7,
    "last": 9,
    "missing": 3,
    "since": HOUR,
    "until": HOUR,
    "before": "file:/old",
    "after": "file:/log",
}
REGION = {"origin_region": "north", "region": "south", "advisories": 10, "bytes": 300}
SUMMARY = {
    "plan": False,
    "nodes": 9,
    "files": 3,
    "ignored_files": 0,
    "lines": 100,
    "rows": 100,
    "blank": 0,
    "repeated": 0,
    "half": 0,
    "malformed": 0,
    "unknown": 0,
    "untimed": 0,
    "unread": 0,
    "newer": 0,
    "advisories": 105,
    "bytes": 5000,
    "verdicts": VERDICTS,
}


def test_what_breaks_the_law_comes_before_doubts_and_these_before_costs() -> None:
    found = find(tables(spillage=spillage(10), spillage_reasons=[REASON], storms=[STORM], silent=[SILENT]))
    assert [one.kind for one in found] == ["bad", "doubtful", "costly"]
    assert "can never use: peer of a leaf" in found[0].what
    assert "its neighbour" in found[0].do


def test_of_many_that_received_spilled_advisories_it_is_said_that_there_are_more() -> None:
    found = find(tables(spillage=spillage(10), spillage_reasons=[REASON] * 8))
    assert len(found) == 4
    assert found[-1].what == "5 other cases of advisories that a node can never use."


def test_what_to_do_about_a_spool_is_not_what_to_do_about_routes() -> None:
    full = [
        {"node": "hq", "figure": name, "limit": 9.0, "days_left": 3.0} for name in ("spool_bytes", "routes")
    ]
    spool, routes = find(tables(capacity=full))
    assert spool.what == "spool_bytes of hq reach 9 in 3 days, if they go on as now."
    assert "what waits there" in spool.do
    assert "Put a branch" in routes.do


def test_the_neighbour_that_spilled_most_is_named() -> None:
    told = [{"node": EVIL, "peer": peer} for peer in ("south", "north", "north", None)]
    (found,) = find(tables(spillage=spillage(10), spillage_reasons=[REASON], spilled=told))
    assert "Most came from north" in found.do


def test_a_link_that_flaps_is_told_once_though_both_ends_write_it_down() -> None:
    ends = [{"node": node, "peer": peer, "downs": 9, "flaps": True} for node, peer in ("ab", "ba", "ac")]
    (found,) = find(tables(links=ends))
    assert found.what == "2 links that went down again and again, that of a with b 9 times."


def test_a_region_that_was_cut_off_for_a_while_is_told_and_a_blink_is_not() -> None:
    def away(node: str, below: int, longest: float) -> dict[str, Any]:
        cut = {"node": node, "below": below, "downs": 2, "longest_s": longest, "seconds": 1260.0}
        return cut | {"since": None}

    rows = [away("york", 0, 1200.0), away("north", 20, 1200.0), away("south", 30, 59.0)]
    (found,) = find(tables(cut_off=rows))
    assert found.what == (
        "1 subtree cut off for a while: north, with 20 nodes below it, 2 times, 21 minutes in all."
    )


def test_a_healthy_tree_is_told_so() -> None:
    (found,) = find(tables(spillage=spillage(0)))
    assert (found.kind, found.what) == (
        "good",
        "No advisory was spilled of 90 that were judged: nodes that can use them got them.",
    )


def test_a_log_without_consumers_is_not_called_healthy() -> None:
    assert find(tables()) == []


def test_a_plan_without_logs_misses_none() -> None:
    assert find(tables(silent=[SILENT], files=[])) == []


def test_there_are_ten_findings_at_most() -> None:
    many = tables(
        spillage=spillage(30),
        spillage_reasons=[REASON] * 5,
        storms=[STORM] * 5,
        silent=[SILENT],
        strangers=[SILENT],
        clocks=[SILENT | {"unset": 1, "ahead": 0, "backwards": 0, "off_s": None}],
        resyncs=[{"node": "hq", "peer": "north", "advisories": 5}],
        cut_off=[{"node": "n", "below": 3, "since": HOUR}] * 5,
        capacity=[{"node": "n", "figure": "links", "limit": 9.0, "days_left": 3.0}] * 5,
    )
    assert len(find(many)) == 10


def test_names_from_logs_are_never_markup(tmp_path: Path) -> None:
    told = tables(
        spillage=spillage(10),
        spillage_reasons=[REASON],
        spillage_regions=[REGION | {"region": EVIL}],
        nodes=[
            {
                "node": EVIL,
                "region": EVIL,
                "role": "leaf",
                "parent": None,
                "place": EVIL,
                "depth": 1,
                "below": 0,
            }
        ],
    )
    write_report(tmp_path / "report.html", told, SUMMARY, judge(told, 9), find(told))
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert "10 advisories spilled, of 100 judged" in page
    assert page.count("&lt;script&gt;") >= 3  # finding, table, map


UNKNOWN = {"verdict": "unknown", "kind": "queue", "direction": "up", "advisories": 1, "bytes": 30}


@pytest.mark.parametrize(
    ("given", "said", "kind"),
    [
        ({}, "0 advisories spilled, of 90 judged", ""),
        ({"silent": [SILENT]}, "0 advisories spilled, of 90 judged", ""),
        ({"silent": [SILENT | {"heard": HOUR}]}, "0 spilled of 90 judged, but not everything was", "unsure"),
        ({"holes": [HOLE]}, "0 spilled of 90 judged, but not everything was", "unsure"),
        ({"spillage": [*spillage(0), UNKNOWN]}, "0 spilled of 90 judged, but not everything was", "unsure"),
        ({"intake": [COUNTS | {"untimed": 1}]}, "0 spilled of 90 judged, but not everything was", "unsure"),
        ({"intake": [COUNTS | {"half": 1, "repeated": 9}]}, "0 advisories spilled, of 90 judged", ""),
        ({"files": [FILE | {"fault": "cut"}]}, "0 spilled of 90 judged, but not everything was", "unsure"),
        ({"files": [FILE | {"fault": f"{TWIN}x"}]}, "0 advisories spilled, of 90 judged", ""),
        ({"spillage": [*spillage(1), UNKNOWN]}, "1 advisory spilled, of 91 judged", "bad"),
        ({"spillage": [UNKNOWN]}, "No advisory of a consumer could be judged", "unsure"),
    ],
)
def test_no_more_is_claimed_than_was_judged(
    given: dict[str, list[dict[str, Any]]], said: str, kind: str, tmp_path: Path
) -> None:
    told = tables(**{"spillage": spillage(0)} | given)
    verdict = judge(told, 9)
    write_report(tmp_path / "report.html", told, SUMMARY, verdict, find(told))
    assert said in (tmp_path / "report.html").read_text()
    assert (verdict.kind, verdict.whole) == (kind, kind == "")


def test_what_was_not_judged_is_told_beside_the_verdict(tmp_path: Path) -> None:
    told = tables(spillage=[*spillage(0), UNKNOWN], silent=[SILENT], intake=[COUNTS | {"malformed": 2}])
    write_report(tmp_path / "report.html", told, SUMMARY, judge(told, 9), find(told))
    page = (tmp_path / "report.html").read_text()
    assert "Not judged: 1 advisory of consumers could not be judged; 2 lines could not be used;" in page
    assert "of 1 of 9 nodes there is no log" in page


def test_a_log_goes_to_the_end_of_its_last_hour(tmp_path: Path) -> None:
    """One of a single hour would else go from eight to eight."""
    hour = {"hour": HOUR, "advisories": 5, "bytes": 150}
    told = tables(spillage=spillage(0), volume_by_hour=[hour])
    write_report(tmp_path / "report.html", told, SUMMARY, judge(told, 9), find(told))
    page = (tmp_path / "report.html").read_text()
    assert "2026-03-14 08:00 to 2026-03-14 09:00 UTC, by the hour" in page


def test_missing_rows_and_clocks_that_differ_are_in_the_report(tmp_path: Path) -> None:
    clock = SILENT | {"unset": 0, "ahead": 0, "backwards": 0, "largest_step_back_s": None, "off_s": 7200.0}
    told = tables(spillage=spillage(0), holes=[HOLE], clocks=[clock])
    write_report(tmp_path / "report.html", told, SUMMARY, judge(told, 9), find(told))
    _, found = (tmp_path / "report.html").read_text().split("What was read", 1)
    missing, clocks = found.split("Clocks that are wrong")
    assert "file:/old" in missing
    assert "2026-03-14 08:00" in missing
    assert "7,200" in clocks
    assert "None." not in found, "nobody knows of what there is none"


def test_without_matplotlib_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "available", lambda: False)
    told = tables(spillage=spillage(0))
    write_report(tmp_path / "report.html", told, SUMMARY, judge(told, 9), find(told))
    page = (tmp_path / "report.html").read_text()
    assert "<svg" not in page
    assert "Charts need the package matplotlib" in page


def test_the_same_tables_draw_the_same_picture() -> None:
    rows = [{"hour": HOUR, "depth": depth, "advisories": 5} for depth in (0, 1, None)]
    assert charts.volume_over_time(rows) == charts.volume_over_time(rows) != ""


def test_a_year_is_drawn_by_days_and_no_label_of_time_is_long() -> None:
    """Eight thousand hours took half a minute, and five megabytes of a page; long labels hid each other."""
    rows = [{"hour": HOUR + n * charts.AN_HOUR, "depth": 0, "advisories": 5} for n in range(8760)]
    year, days = charts.volume_over_time(rows), charts.volume_over_time(rows[:100])
    assert ("advisories a day" in year, "advisories an hour" in days) == (True, True)
    assert len(year) < 500_000
    assert "14 Mar" in days
    assert not re.findall(r">\d\d \w+ \d\d:\d\d<", days)


def test_a_deep_tree_has_a_legend_that_fits() -> None:
    """Matplotlib warns, and a warning is an error, where a chart has no room beside its legend."""
    rows = [{"hour": HOUR, "depth": depth, "advisories": 5} for depth in (*range(31), None)]
    drawn = charts.volume_over_time(rows)
    assert all(drawn.count(name) == 1 for name in (*charts.LEVEL_NAMES[1:], "not in the deployment"))


def test_a_log_scale_is_labelled_with_plain_text() -> None:
    """Formulas, which matplotlib writes there by itself, take a third of a chart's time."""
    chart = charts.growth({"tree": [(10, 20), (100_000, 2_000_000)]}, 0)
    assert {"10²", "10⁵", "10⁶"} <= set(re.findall(">(10[^<]*)<", chart))


def test_a_chart_that_hangs_on_no_log_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several reports of one process have it."""
    first = comparison.reference()
    assert "<svg" in first

    def refuse(_panels: object) -> NoReturn:
        raise AssertionError("drawn again")

    monkeypatch.setattr(charts, "reference", refuse)
    assert comparison.reference() == first
