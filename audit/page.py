"""The page: what a report is made of as HTML. Tables, sections, and how values are written.

Law: every text that comes from a log or a table is escaped; names of nodes and destinations are not ours.
"""

import html
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

SHOWN: Final = 15
STYLE: Final = """
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
18px 5px 0 } td { border-bottom:1px solid var(--line); padding:5px 18px 5px 0; vertical-align:top;
overflow-wrap:anywhere } .n { text-align:right; white-space:nowrap; font-variant-numeric:tabular-nums }
ol.findings { list-style:none; margin:0; padding:0 } ol.findings li { padding:9px 0 9px 14px; margin:0 0 6px;
 border-left:4px solid var(--line) } li.bad { border-color:var(--bad)!important } li.good {
 border-color:var(--leaf)!important }
li.doubtful,li.costly { border-color:var(--warn)!important } li div { color:var(--soft) }
tr.ours td { font-weight:700; color:var(--leaf) } .wide+p { margin-top:12px }
th:last-child,td:last-child { padding-right:0 } .none { color:var(--soft); font-style:italic }
"""


def as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"
    return html.escape("" if value is None else str(value))


def table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], ours: str = "") -> str:
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
        f"<th{' class=n' if name in numbers else ''}>{as_text(title)}</th>" for name, title in columns.items()
    )
    first = next(iter(columns))
    body = "".join(
        f"<tr{' class=ours' if ours and row[first] == ours else ''}>"
        + "".join(f"<td{' class=n' if name in numbers else ''}>{as_text(row[name])}</td>" for name in columns)
        + "</tr>"
        for row in lines[:SHOWN]
    )
    more = f"<p class=none>and {len(lines) - SHOWN:,} more: see csv/</p>" if len(lines) > SHOWN else ""
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>{more}"


def section(title: str, text: str, *content: str) -> str:
    return f"<section><h2>{as_text(title)}</h2><p>{as_text(text)}</p>{''.join(content)}</section>"


def as_size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
