"""The report: one HTML file that needs nothing else, with the charts inside.

Law: every text that comes from a log or a table is escaped; names of nodes and destinations are not ours.
"""

import csv
import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, Final

from audit import charts
from audit.findings import Finding, Tables, total
from audit.regular import growth

SHOWN: Final = 15
A_REGION: Final = 40
_STYLE: Final = """
:root { --ink:#22302a; --soft:#5d6b64; --line:#e1e7e3; --leaf:#1b7f4d; --bad:#b3261e; --warn:#a15c00;
--back:#f6f8f6 } * { box-sizing:border-box } body { margin:0; background:var(--back); color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif }
main { max-width:1060px; margin:0 auto; padding:32px 20px 80px } h1 { font-size:28px; margin:0 0 2px }
h2 { font-size:20px; margin:0 0 4px } .sub { color:var(--soft); margin:0 0 20px }
section { background:#fff; border:1px solid var(--line); border-radius:10px; padding:20px 24px; margin:0 0
18px } section>p { color:var(--soft); margin:0 0 12px } svg { max-width:100%; height:auto;
font-family:inherit } .verdict { border-left:8px solid var(--leaf) } .verdict.bad {
border-left-color:var(--bad) } .verdict.unsure { border-left-color:var(--warn) } .verdict h2 { font-size:24px
} .tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px; margin:0 0 18px }
.tile { background:#fff; border:1px solid var(--line); border-radius:10px; padding:12px 16px }
.tile b { display:block; font-size:23px;
 line-height:1.25; white-space:nowrap } .tile span { color:var(--soft); font-size:14px }
table { border-collapse:collapse; width:100%; font-size:14px } .wide { overflow-x:auto }
th { text-align:left; color:var(--soft); font-weight:600; border-bottom:2px solid var(--line); padding:5px
10px 5px 0 } td { border-bottom:1px solid var(--line); padding:5px 10px 5px 0; vertical-align:top;
overflow-wrap:anywhere } .n { text-align:right; white-space:nowrap; font-variant-numeric:tabular-nums }
ol.findings { list-style:none; margin:0; padding:0 } ol.findings li { padding:9px 0 9px 14px; margin:0 0 6px;
 border-left:4px solid var(--line) } li.bad { border-color:var(--bad)!important } li.good {
 border-color:var(--leaf)!important }
li.doubtful,li.costly { border-color:var(--warn)!important } li div { color:var(--soft) }
tr.ours td { font-weight:700; color:var(--leaf) } .none { color:var(--soft); font-style:italic }
"""


def write_report(path: Path, tables: Tables, summary: Mapping[str, Any], findings: Sequence[Finding]) -> None:
    """Write the report of an audit. `tables`: the small ones, by name, as `run.audit` wrote them."""
    parts = [
        _verdict(summary),
        _tiles(tables, summary),
        _findings(findings),
        _volume(tables),
        _spillage(tables),
        _what_if(tables),
        _growth(tables),
        _consumers(tables),
        _waste(tables),
        _scope(tables),
        _capacity(tables),
        _intake(tables, summary),
    ]
    span = _span(tables)
    body = "\n".join(part for part in parts if part)
    missing = (
        ""
        if charts.available()
        else "<p class=sub>Charts need the package matplotlib, which is not here.</p>"
    )
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Sapwood audit</title><style>{_STYLE}</style></head><body><main>"
        "<h1>Audit of advisories</h1><p"
        f" class=sub>{_text(span)}</p>{missing}\n{body}\n</main></body></html>\n"
    )
    path.write_text(text, "utf-8")


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"
    return html.escape("" if value is None else str(value))


def _table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], ours: str = "") -> str:
    """`columns`: heading by column. `ours`: the value of the first column whose row stands out."""
    lines = list(rows)
    if not lines:
        return "<p class=none>None.</p>"
    numbers = {
        name
        for name in columns
        if any(isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in lines)
    }
    head = "".join(
        f"<th{' class=n' if name in numbers else ''}>{_text(title)}</th>" for name, title in columns.items()
    )
    first = next(iter(columns))
    body = "".join(
        f"<tr{' class=ours' if ours and row[first] == ours else ''}>"
        + "".join(f"<td{' class=n' if name in numbers else ''}>{_text(row[name])}</td>" for name in columns)
        + "</tr>"
        for row in lines[:SHOWN]
    )
    more = f"<p class=none>and {len(lines) - SHOWN:,} more: see csv/</p>" if len(lines) > SHOWN else ""
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>{more}"


def _section(title: str, text: str, *content: str) -> str:
    return f"<section><h2>{_text(title)}</h2><p>{_text(text)}</p>{''.join(content)}</section>"


def _span(tables: Tables) -> str:
    hours = [row["hour"] for row in tables["volume_by_hour"] if row["hour"] is not None]
    return (
        f"{_text(min(hours))} to {_text(max(hours))} UTC, by the hour"
        if hours
        else "no advisories with a time"
    )


def _verdict(summary: Mapping[str, Any]) -> str:
    verdicts = summary["verdicts"]
    spilled, judged = verdicts["spilled"], verdicts["needed"] + verdicts["spilled"]
    unsure = verdicts["unknown"] + verdicts["moved"]
    kind, line = "", "0 advisories spilled"
    if spilled:
        kind, line = " bad", f"{spilled:,} advisories spilled"
    elif not judged:
        kind, line = " unsure", "No advisory of a consumer could be judged"
    rest = (
        f"{verdicts['needed']:,} of {judged:,} consumers' advisories reached nodes that can use them:"
        " ancestors"
        " of the consumer's node, and nodes below it."
    )
    if unsure:
        rest += f" {verdicts['moved']:,} were needed where their node stood before it moved;"
        rest += f" {verdicts['unknown']:,} could not be judged."
    rest += f" {verdicts['domain']:,} domain routes are counted apart."
    return f'<section class="verdict{kind}"><h2>{_text(line)}</h2><p>{_text(rest)}</p></section>'


def _tiles(tables: Tables, summary: Mapping[str, Any]) -> str:
    consumers = tables["consumers"]
    tiles = {
        "nodes in the deployment": f"{summary['nodes']:,}",
        "advisories received": f"{summary['advisories']:,}",
        "bytes of advisories": _bytes(summary["bytes"]),
        "consumers that came": f"{total(consumers, 'came'):,}" + ("+" if len(consumers) > 10_000 else ""),
        "log files": f"{summary['files']:,}",
        "lines not used": f"{sum(summary[name] for name in ('half', 'malformed', 'unknown', 'untimed')):,}",
    }
    made = "".join(
        f"<div class=tile><b>{_text(value)}</b><span>{_text(name)}</span></div>"
        for name, value in tiles.items()
    )
    return f"<div class=tiles>{made}</div>"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def _findings(findings: Sequence[Finding]) -> str:
    items = "".join(
        f"<li class={one.kind}>{_text(one.what)}<div>{_text(one.do)}</div></li>" for one in findings
    )
    return _section(
        "What to look at", "The most telling first, each with what to do.", f"<ol class=findings>{items}</ol>"
    )


def _volume(tables: Tables) -> str:
    return _section(
        "Volume over the day",
        "Advisories received, by the level of the node that received them. Hours are UTC, by the nodes' own"
        " clocks.",
        charts.volume_over_time(tables["volume_by_hour_level"]) or "<p class=none>Nothing with a time.</p>",
        _table(
            tables["volume_by_kind"],
            {
                "kind": "kind",
                "op": "operation",
                "advisories": "advisories",
                "bytes": "bytes",
                "restored": "of these by a resync",
            },
        ),
    )


def _spillage(tables: Tables) -> str:
    regions = [row["region"] for row in tables["volume_by_region"] if row["region"]]
    chart = charts.spillage_map(tables["spillage_regions"], regions)
    reasons = {
        "reason": "reason",
        "node": "node",
        "region": "region",
        "role": "role",
        "advisories": "advisories",
        "bytes": "bytes",
    }
    content = (
        [chart, _table(tables["spillage_reasons"], reasons)]
        if chart
        else ["<p>No region told another anything.</p>"]
    )
    spared = tables["advise_down"]
    topics, none = (total(spared, "advisories", advise_down=less) for less in ("topics", "none"))
    saved = f"Needed, but spared with advise_down: topics, {topics:,} advisories; with none, {none:,}."
    return _section(
        "Spillage by region",
        "An advisory is spilled at a node that is neither above the consumer's node nor below it.",
        *content,
        f"<p>{_text(saved)}</p>",
    )


def _what_if(tables: Tables) -> str:
    columns = {
        "scheme": "scheme",
        "added": "when all come",
        "closed": "when all go",
        "held": "held elsewhere",
        "bytes_added": "bytes, coming",
        "root_knows": "the root learns it",
    }
    leaf = [row for row in tables["what_if_one"] if row["role"] == "leaf"]
    one = {
        "scheme": "one consumer at a store",
        "depth": "depth",
        "added_mean": "comes",
        "closed_mean": "goes",
    }
    return _section(
        "This tree against the alternatives",
        "The same consumers at the same sites under other networks of brokers, by the laws measured on them."
        " Log scale.",
        charts.alternatives(tables["what_if"]),
        _table(sorted(tables["what_if"], key=lambda row: row["added"] or 0), columns, "tree"),
        "<p>Where the root does not learn of a consumer, it costs little and gets no messages from there."
        " Static bridges need no advisories, but every message crosses every line.</p>",
        _table(sorted(leaf, key=lambda row: (row["depth"], row["added_mean"])), one, "tree"),
        "<p>The laws beside what was measured on real brokers:</p>",
        _table(measured(), _MEASURED),
    )


_MEASURED: Final = {
    "scheme": "scheme",
    "brokers": "brokers",
    "consumers": "consumers",
    "added": "came",
    "closed": "went",
    "system": "measured on",
}


def measured() -> list[dict[str, Any]]:
    """What was counted on networks of real brokers: the rows of measured.csv."""
    text = (files("audit") / "measured.csv").read_text("utf-8")
    return [
        {name: int(cell) if cell.isdigit() else cell for name, cell in row.items()}
        for row in csv.DictReader(text.splitlines())
    ]


def _growth(tables: Tables) -> str:
    sizes = [row["below"] for row in tables["nodes"] if row["depth"] == 1 and row["below"]]
    a_region = round(median(sizes)) if sizes else A_REGION
    stores = sum(1 for row in tables["nodes"] if row["role"] == "leaf")
    text = f"One consumer of its own at every store, in regions of {a_region:,} stores. Both axes are log."
    return _section("As the chain grows", text, charts.growth(growth(a_region), stores))


def _consumers(tables: Tables) -> str:
    columns = {
        "destination": "destination",
        "kind": "kind",
        "node": "at",
        "came": "times",
        "added": "came: advisories",
        "closed": "went: advisories",
    }
    knowing = {
        "role": "consumer at",
        "depth": "depth",
        "op": "operation",
        "events": "events",
        "nodes_mean": "nodes told",
        "nodes_most": "most",
        "root_p50_s": "root knew, median s",
        "root_p99_s": "99 of 100, s",
    }
    return _section(
        "What consumers cost",
        "Advisories in the whole tree because of one consumer, counted by their cause.",
        _table(tables["knowing"], knowing),
        "<br>",
        _table(
            sorted(tables["consumers"], key=lambda row: (-row["added"], row["node"], row["destination"])),
            columns,
        ),
    )


def _waste(tables: Tables) -> str:
    parts = []
    for name, title, columns in _WASTE:
        if tables.get(name):
            rows = [row for row in tables[name] if name != "links" or row["downs"]]
            if rows:
                parts += [f"<h3>{_text(title)}</h3>", _table(rows, columns)]
    return _section("Waste", "What costs and brings nothing.", *(parts or ["<p class=none>None found.</p>"]))


_WASTE: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    (
        "storms",
        "Storms",
        {"node": "node", "hour": "hour", "advisories": "advisories", "baseline": "usual", "times": "times"},
    ),
    (
        "flapping_consumers",
        "Consumers that flap",
        {
            "node": "node",
            "kind": "kind",
            "destination": "destination",
            "came": "came",
            "went": "went",
            "most_in_an_hour": "most in an hour",
        },
    ),
    (
        "links",
        "Links that went down",
        {
            "node": "node",
            "peer": "peer",
            "direction": "direction",
            "downs": "downs",
            "blocked": "blocked",
            "flaps": "flaps",
        },
    ),
    (
        "cut_off",
        "Subtrees cut off",
        {
            "node": "node",
            "parent": "parent",
            "below": "nodes below",
            "downs": "times",
            "seconds": "seconds",
            "since": "still since",
        },
    ),
    (
        "resyncs",
        "Restored after a link came up",
        {
            "node": "node",
            "peer": "peer",
            "direction": "direction",
            "advisories": "advisories",
            "bytes": "bytes",
        },
    ),
    (
        "unused_routes",
        "Routes that no message used",
        {"node": "node", "held": "held", "unused": "unused", "share": "share", "examples": "such as"},
    ),
)


def _scope(tables: Tables) -> str:
    if not tables["scope_cost"]:
        return ""
    columns = {
        "destination": "topic",
        "readers": "readers",
        "publishers": "stores",
        "crossed": "lines crossed upward",
        "vain": "in vain",
        "share": "share",
    }
    return _section(
        "What scope tree adds to topics",
        "If each store published one message with scope tree: lines upward that it crosses although nobody"
        " beyond reads it.",
        _table(tables["scope_cost"], columns),
    )


def _capacity(tables: Tables) -> str:
    rows = [row for row in tables["capacity"] if row["days_left"] is not None]
    columns = {
        "node": "node",
        "figure": "figure",
        "now": "now",
        "a_day": "a day more",
        "limit": "limit",
        "days_left": "days left",
        "full_at": "full",
    }
    return _section(
        "Capacity", "When a limit is reached if things go on as in this log.", _table(rows, columns)
    )


def _intake(tables: Tables, summary: Mapping[str, Any]) -> str:
    faults = [
        row
        for row in tables["files"]
        if row["fault"] or row["half"] or row["malformed"] or row["unknown"] or row["untimed"]
    ]
    counts = ", ".join(
        f"{summary[name]:,} {name}" for name in ("rows", "blank", "half", "malformed", "unknown", "untimed")
    )
    text = (
        f"{summary['lines']:,} lines in {summary['files']:,} files: {counts}. {summary['newer']:,} rows have"
        " a"
        f" newer schema; {summary['ignored_files']:,} files in the folders are no logs."
    )
    columns = {
        "file": "file",
        "lines": "lines",
        "rows": "rows",
        "half": "half",
        "malformed": "malformed",
        "unknown": "unknown",
        "untimed": "no time",
        "fault": "fault",
    }
    clocks = {
        "node": "clock of",
        "unset": "rows before 2000",
        "ahead": "rows ahead",
        "backwards": "set back, times",
        "largest_step_back_s": "by s, at most",
    }
    return _section("What was read", text, _table(faults, columns), "<br>", _table(tables["clocks"], clocks))
