"""The page: what a report is made of as HTML. Tables, sections, and how values are written.

Law: every text that comes from a log or a table is escaped; names of nodes and destinations are not ours.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from audit.findings import how_many

SHOWN: Final = 15


def as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:,.3g}"
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
        + "".join(f"<td{_kind(row[name], name in numbers)}>{as_text(row[name])}</td>" for name in columns)
        + "</tr>"
        for row in lines[:SHOWN]
    )
    rest = (how_many(rows) if isinstance(rows, Sequence) else len(lines)) - SHOWN
    more = f"<p class=none>and {rest:,} more: see csv/</p>" if rest > 0 else ""
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>{more}"


def _kind(value: Any, number: bool) -> str:
    return " class=n" if number else " class=t" if isinstance(value, datetime) else ""


def section(title: str, text: str, *content: str) -> str:
    return f"<section><h2>{as_text(title)}</h2><p>{as_text(text)}</p>{''.join(content)}</section>"


def as_size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
