"""The first screen of a report: a sentence, a small linear chart of this network beside others, and a map of
the tree that leads to its worst sites.

Law: the page is one file that needs nothing else. Its only program is `report.js`, which the page's own
policy names by its hash; names from a log come to it as data, and become text.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from audit.churn import when_all_come
from audit.findings import Tables, as_duration, every, total
from audit.page import as_text

Row = Mapping[str, Any]
MOST_MAPPED: Final = 5000
"""Sites that a map shows, the worst first."""
SPOKEN: Final = 3
"""Alternatives that the sentence names; the chart shows all."""
A_DAY: Final = 86_400.0
_COLUMNS: Final = (
    "site",
    "region",
    "role",
    "parent",
    "advisories",
    "bytes",
    "spilled",
    "minutes",
    "times",
    "since",
    "log",
)


@cache
def resource(name: str) -> str:
    """A file that lies beside this module, also inside a zip."""
    return (files("audit") / name).read_text("utf-8")


def policy() -> str:
    """The rights of the page in a browser: it runs `report.js` and nothing else, and loads nothing."""
    digest = base64.b64encode(hashlib.sha256(resource("report.js").encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def against_others(tables: Tables, *, plan: bool) -> str:
    """One sentence and one chart: this network beside each other one, on the same comings and goings."""
    rows, days = (when_all_come(tables["what_if"]), 1.0) if plan else _a_day(tables)
    ours = next((row for row in rows if row["scheme"] == "tree"), None)
    if ours is None or not ours["advisories"]:
        return ""
    when = "when all consumers come" if plan else "a day" if days >= 1 else f"in {as_duration(days * A_DAY)}"
    return f"<p class=lead>{as_text(_sentence(ours, rows, when, plan=plan))}</p>{_chart(rows, when)}"


def _a_day(tables: Tables) -> tuple[list[Row], float]:
    """The churn of a day; of a shorter log that of all of it. And how many days the log has."""
    logs = [row for row in every(tables["logs"]) if row["since"] is not None]
    if not logs:
        return [], 0.0
    span = max(row["until"] for row in logs) - min(row["since"] for row in logs)
    days = span.total_seconds() / A_DAY
    part = max(days, 1.0)
    names = ("advisories", "spilled", "bytes")
    return [
        {**row, **{name: row[name] and row[name] / part for name in names}} for row in tables["same_churn"]
    ], days


def _sentence(ours: Row, rows: Sequence[Row], when: str, *, plan: bool) -> str:
    spill, take = ("spills", "takes") if plan else ("spilled", "took")
    own = f"This tree {spill} {_count(ours['spilled'])} advisories"
    own += f" and {take} {_kilobytes(ours['bytes'])} {when}"
    others = [row for row in _beside(rows) if row is not ours and row["spilled"]][:SPOKEN]
    if not others:
        return f"{own}."
    first, *rest = (f"{_count(row['spilled'])} of {_count(row['advisories'])}" for row in others)
    would = "would be spilled" if plan else "would have been spilled"
    told = [f"{first} {would} by {others[0]['product']}"]
    told += [f"{count} by {row['product']}" for count, row in zip(rest, others[1:], strict=True)]
    return f"{own}; for the same consumers at least {'; '.join(told)}."


def _beside(rows: Sequence[Row]) -> list[Row]:
    """This tree, then the others, the cheapest first. Whoever does not reach the root is not beside them."""
    reached = (row for row in rows if row["root_knows"])
    return sorted(reached, key=lambda row: (row["scheme"] != "tree", row["advisories"]))


def _chart(rows: Sequence[Row], when: str) -> str:
    """Bars on a linear scale, one row a network."""
    shown = _beside(rows)
    most = {name: max((row[name] or 0 for row in shown), default=0) or 1 for name in ("spilled", "bytes")}
    made = [f"<b></b><b>spilled {as_text(when)}</b><b>bytes {as_text(when)}</b>"]
    for row in shown:
        ours = " ours" if row["scheme"] == "tree" else ""
        texts = {"spilled": _count(row["spilled"]), "bytes": _kilobytes(row["bytes"])}
        cells = (
            f'<span class="bar{ours}" style="--w:{100 * (row[name] or 0) / most[name]:.1f}%"><i></i>'
            f"{text}</span>"
            for name, text in texts.items()
        )
        made.append(f'<span class="name{ours}">{as_text(row["product"])}</span>{"".join(cells)}')
    return (
        f"<div class=bars>{''.join(made)}</div><p class=none>Others by their laws, at least."
        " Their bytes as measured of a coming, a further one of a queue, a topic's, a going.</p>"
    )


def _count(count: float) -> str:
    return f"{count / 1e6:,.1f} million" if count >= 1e6 else f"{count:,.0f}"


def _kilobytes(count: float | None) -> str:
    if count is None:
        return "not measured"
    for unit, size, least in (("GB", 1e9, 1e10), ("MB", 1e6, 1e7), ("kB", 1e3, 1e4)):
        if count >= least:
            return f"{count / size:,.0f} {unit}"
    return f"{count / 1000:,.1f} kB"


def sites_map(tables: Tables) -> str:
    """The map of the tree, by region, and the table of its sites, worst first."""
    rows = _sites(tables)
    if not rows:
        return ""
    measure = next((name for name in ("spilled", "minutes") if any(row[name] for row in rows)), "advisories")
    rows.sort(key=lambda row: (-row[measure], -row["advisories"], row["site"]))
    left = len(rows) - MOST_MAPPED
    some = f" The {MOST_MAPPED:,} worst of {len(rows):,} are shown." if left > 0 else ""
    data = {
        "measure": measure,
        "columns": _COLUMNS,
        "rows": [[row[name] for name in _COLUMNS] for row in rows[:MOST_MAPPED]],
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return _MAP.format(some=some, data=text, program=resource("report.js"))


_MAP: Final = """<section class=long><h2>The tree, worst sites first</h2>
<p>A square is a site, a block a region; a dashed one has no log. Cut off is a site without a
line to its parent. Choose a region, then a site.{some}</p>
<div class=controls><span class=crumbs id=crumbs></span>
<label>colour by <select id=measure><option value=advisories>advisories received</option>
<option value=minutes>minutes cut off</option><option value=spilled>spilled</option></select></label>
<label>find <input id=find type=search placeholder="site, region or role"></label>
<span class=scale>0 <i></i> <span id=most></span></span></div>
<div class=map id=map></div><div class=site id=site></div>
<div class=wide><table id=table></table></div><p class=more id=more></p>
<noscript><p>The map needs the script of this page; csv/volume_by_node.csv and csv/cut_off.csv have the
same.</p></noscript>
<script id=sites type="application/json">{data}</script><script>{program}</script></section>"""


def _sites(tables: Tables) -> list[dict[str, Any]]:
    """A row a site, with `_COLUMNS`."""
    volume = {row["node"]: row for row in every(tables["volume_by_node"])}
    away: dict[str, list[Row]] = {}
    for row in every(tables["cut_off"]):
        away.setdefault(row["node"], []).append(row)
    spilled: dict[str, int] = {}
    for row in every(tables["spillage_reasons"]):
        spilled[row["node"]] = spilled.get(row["node"], 0) + row["advisories"]
    logs = {row["node"]: row for row in every(tables["logs"])}
    found = []
    for node in every(tables["nodes"]):
        name, cut = node["node"], away.get(node["node"], [])
        log = logs.get(name)
        found.append(
            {
                "site": name,
                "region": node["region"],
                "role": node["role"],
                "parent": node["parent"],
                "advisories": volume[name]["advisories"] if name in volume else 0,
                "bytes": volume[name]["bytes"] if name in volume else 0,
                "spilled": spilled.get(name, 0),
                "minutes": round(sum(row["seconds"] for row in cut) / 60, 1),
                "times": total(cut, "downs"),
                "since": next((as_text(row["since"]) for row in cut if row["since"]), None),
                "log": f"{as_text(log['since'])} to {as_text(log['until'])}" if log else "",
            }
        )
    return found
