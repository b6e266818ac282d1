"""The report: one HTML file that needs nothing else, with the charts inside."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from audit import charts, comparison, first_screen
from audit.findings import MOST_ROWS, UNUSED, Finding, Tables, counted, every, once, total
from audit.page import as_size, as_text, section, table
from audit.verdict import Verdict


def write_report(
    path: Path,
    tables: Tables,
    summary: Mapping[str, Any],
    verdict: Verdict,
    findings: Sequence[Finding],
) -> None:
    """Write the report of an audit. `tables`: the small ones, by name, as `run.audit` wrote them."""
    costs = [comparison.alternatives(tables), comparison.reference(), comparison.growth(tables)]
    if summary["plan"]:
        title, span = "What it would cost", f"{summary['nodes']:,} nodes as planned, without any log"
        parts = [_plan(tables), *costs, _scope(tables)]
    elif not summary["rows"]:
        title, span = "Audit of advisories", "no row of any log could be used"
        planned = costs if tables["what_if"] else []
        parts = [_verdict(verdict, summary), _findings(findings), _intake(tables, summary), *planned]
    else:
        title, span = "Audit of advisories", _span(tables)
        parts = [
            _verdict(verdict, summary, first_screen.against_others(tables, plan=False)),
            _tiles(tables, summary),
            first_screen.sites_map(tables),
            _findings(findings),
            _volume(tables),
            _spillage(tables),
            *costs,
            _consumers(tables),
            _waste(tables),
            _scope(tables),
            _capacity(tables),
            _intake(tables, summary),
        ]
    body = "\n".join(part for part in parts if part)
    missing = (
        ""
        if charts.available()
        else "<p class=sub>Charts need the package matplotlib, which is not here.</p>"
    )
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{first_screen.policy()}">'
        f"<title>Sapwood audit</title><style>{first_screen.resource('report.css')}</style></head><body><main>"
        f"<h1>{title}</h1><p class=sub>{as_text(span)}</p>{missing}\n{body}\n</main></body></html>\n"
    )
    path.write_text(text, "utf-8")


def _span(tables: Tables) -> str:
    hours = [row["hour"] for row in every(tables["volume_by_hour"]) if row["hour"] is not None]
    return (
        f"{as_text(min(hours))} to {as_text(max(hours) + timedelta(hours=1))} UTC, by the hour"
        if hours
        else "no advisories with a time"
    )


def _plan(tables: Tables) -> str:
    """The headline of a page without a log: what this tree takes, and how many times that the others."""
    costs = {row["scheme"]: row["added"] for row in tables["what_if"] if row["root_knows"]}
    ours, others = costs.pop("tree", 0), {name: cost for name, cost in costs.items() if "tree" not in name}
    if not ours:
        return ""
    dearest = max(others.values(), default=ours)
    title = f"{counted(ours, 'advisory')} when all consumers come; other networks take up to"
    title += f" {dearest / ours:,.0f} times as many"
    compared = first_screen.against_others(tables, plan=True)
    return f'<section class="verdict"><h2>{as_text(title)}</h2>{compared}</section>'


def _verdict(verdict: Verdict, summary: Mapping[str, Any], compared: str = "") -> str:
    rest = (
        f"{verdict.needed:,} of {verdict.judged:,} consumers' advisories that were judged reached nodes that"
        " can use them: ancestors of the consumer's node, and nodes below it."
    )
    if verdict.moved:
        rest += f" {verdict.moved:,} were needed where their node stood before it moved."
    rest += f" {summary['verdicts']['domain']:,} domain routes are counted apart."
    doubts = verdict.doubts()
    unsure = f"<p>Not judged: {as_text('; '.join(doubts))}.</p>" if doubts else ""
    kind = f" {verdict.kind}" if verdict.kind else ""
    return (
        f'<section class="verdict{kind}"><h2>{as_text(verdict.headline())}</h2>{compared}'
        f"<p>{as_text(rest)}</p>{unsure}</section>"
    )


def _tiles(tables: Tables, summary: Mapping[str, Any]) -> str:
    consumers = tables["consumers"]
    tiles = {
        "nodes in the deployment": f"{summary['nodes']:,}",
        "advisories received": f"{summary['advisories']:,}",
        "bytes of advisories": as_size(summary["bytes"]),
        "consumers that came": f"{total(consumers, 'came'):,}" + ("+" if len(consumers) > MOST_ROWS else ""),
        "log files": f"{summary['files']:,}",
        "lines not used": f"{sum(summary[name] for name in UNUSED):,}",
    }
    made = "".join(
        f"<div class=tile><b>{as_text(value)}</b><span>{as_text(name)}</span></div>"
        for name, value in tiles.items()
    )
    return f"<div class=tiles>{made}</div>"


def _findings(findings: Sequence[Finding]) -> str:
    items = "".join(
        f"<li class={one.kind}>{as_text(one.what)}<div>{as_text(one.do)}</div></li>" for one in findings
    )
    return section(
        "What to look at", "The most telling first, each with what to do.", f"<ol class=findings>{items}</ol>"
    )


def _volume(tables: Tables) -> str:
    chart = charts.volume_over_time(every(tables["volume_by_hour_level"]))
    return section(
        "Volume over the day",
        "Advisories received, by the level of the node that received them. Hours are UTC, by the nodes' own"
        " clocks.",
        chart or "<p class=none>Nothing with a time.</p>",
        table(
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
        [f"<div class=heat>{chart}</div>", table(tables["spillage_reasons"], reasons)]
        if chart
        else ["<p>No region told another anything.</p>"]
    )
    spared = tables["advise_down"]
    topics, none = (total(spared, "advisories", advise_down=less) for less in ("topics", "none"))
    saved = f"Needed, but spared with advise_down: topics, {topics:,} advisories; with none, {none:,}."
    return section(
        "Spillage by region",
        "An advisory is spilled at a node that is neither above the consumer's node nor below it.",
        *content,
        f"<p>{as_text(saved)}</p>",
    )


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
    one_in = max((row.get("one_in", 1) for row in tables["knowing"]), default=1)
    some = f" The first table looks at one coming or going in {one_in:,}." if one_in > 1 else ""
    return section(
        "What consumers cost",
        f"Advisories in the whole tree because of one consumer.{some}",
        table(tables["knowing"], knowing),
        "<br>",
        table(
            sorted(tables["consumers"], key=lambda row: (-row["added"], row["node"], row["destination"])),
            columns,
        ),
    )


def _waste(tables: Tables) -> str:
    parts = []
    for name, title, columns in _WASTE:
        if tables.get(name):
            rows = tables[name]
            if name == "links":
                rows = [row for row in once(every(rows)) if row["downs"]]
            if rows:
                parts.append(_titled(title, rows, columns))
    return section("Waste", "What costs and brings nothing.", *(parts or ["<p class=none>None found.</p>"]))


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
        "repeated_adds",
        "The same add, again and again",
        {
            "node": "node",
            "peer": "told by",
            "kind": "kind",
            "destination": "destination",
            "origin": "consumer at",
            "adds": "adds",
            "again": "for nothing",
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
        "crossed": "lines up to the root",
        "vain": "in vain",
        "share": "share",
        "needed": "lines where interest is asked for",
        "asked": "lines of the question, once",
    }
    return section(
        "What scope tree adds to topics",
        "If each store published one message with scope tree. Before: lines up to the root, and those that it"
        " crosses although nobody beyond reads it. After: lines that it crosses since a node that publishes"
        " asks who wants it, and those that the question crosses, once for all messages.",
        table(tables["scope_cost"], columns),
    )


def _capacity(tables: Tables) -> str:
    rows = [row for row in every(tables["capacity"]) if row["days_left"] is not None]
    columns = {
        "node": "node",
        "figure": "figure",
        "now": "now",
        "a_day": "a day more",
        "limit": "limit",
        "days_left": "days left",
        "full_at": "full",
    }
    return section(
        "Capacity", "When a limit is reached if things go on as in this log.", table(rows, columns)
    )


_NOT_USED: Final = ("repeated", *UNUSED)


def _intake(tables: Tables, summary: Mapping[str, Any]) -> str:
    faults = [row for row in every(tables["files"]) if row["fault"] or any(row[name] for name in _NOT_USED)]
    counts = ", ".join(f"{summary[name]:,} {name}" for name in ("rows", "blank", *_NOT_USED))
    text = (
        f"{counted(summary['lines'], 'line')} in {counted(summary['files'], 'file')}: {counts}."
        f" {counted(summary['newer'], 'row')} of a newer schema;"
        f" {counted(summary['ignored_files'], 'file')} in the folders that are no logs."
    )
    parts = (
        _titled("Files of which something could not be used", faults, _FAULTS),
        _titled("Rows that are missing", tables["holes"], _HOLES),
        _titled("Logs that two nodes of one name wrote", tables["doubles"], _DOUBLES),
        _titled("Clocks that are wrong", tables["clocks"], _CLOCKS),
    )
    return section("What was read", text, *parts)


def _titled(title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """A table with its title; nothing where it has no row."""
    return f"<h3>{as_text(title)}</h3>{table(rows, columns)}" if rows else ""


_FAULTS: Final = {
    "file": "file",
    "lines": "lines",
    "rows": "rows",
    "repeated": "elsewhere too",
    "half": "half",
    "malformed": "malformed",
    "unknown": "unknown",
    "untimed": "no time",
    "unread": "not read",
    "fault": "fault",
}
_HOLES: Final = {
    "node": "node",
    "first": "from number",
    "last": "to",
    "missing": "rows",
    "since": "after",
    "until": "before",
    "before": "file before",
    "after": "file after",
}
_DOUBLES: Final = {
    "node": "node",
    "series": "series",
    "other": "beside series",
    "twice": "numbers twice",
    "since": "from",
    "until": "until",
}
_CLOCKS: Final = {
    "node": "clock of",
    "unset": "rows before 2000",
    "ahead": "rows ahead",
    "backwards": "set back, times",
    "largest_step_back_s": "by s, at most",
    "off_s": "ahead of most, s",
}
