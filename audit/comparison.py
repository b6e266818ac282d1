"""The report's sections on what else one could build: this tree beside other networks of brokers."""

import csv
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from statistics import median
from typing import Any, Final

from audit import charts, regular
from audit.findings import Tables, total
from audit.page import section, table

Row = dict[str, Any]
A_REGION: Final = 40
"""Stores in a region, for the growth curve where the deployment has no region."""
_MESHED: Final = (
    "<p>This deployment has meshes: this tree is counted at each node of them, the others as if one broker"
    " stood where a mesh stands.</p>"
)


def alternatives(tables: Tables) -> str:
    """This tree against what one could build instead."""
    columns = {
        "scheme": "scheme",
        "added": "when all come",
        "closed": "when all go",
        "held": "held elsewhere",
        "crossed": "data: lines crossed",
        "root_knows": "the root learns it",
    }
    sizes = {
        "scheme": "bytes, as measured",
        "bytes_added": "coming",
        "bytes_again": "of these, further ones",
        "bytes_topics": "of these, topics",
        "bytes_closed": "going",
    }
    costs = sorted(tables["what_if"], key=lambda row: row["added"] or 0)
    leaf = [row for row in tables["what_if_one"] if row["role"] == "leaf"]
    one = {
        "scheme": "one consumer at a store",
        "depth": "depth",
        "added_mean": "comes",
        "closed_mean": "goes",
    }
    return section(
        "This tree against the alternatives",
        "The same consumers at the same sites under other networks of brokers, by the laws measured on them."
        " Those are lower bounds: under load brokers sent up to twice as much. Log scale.",
        charts.alternatives(tables["what_if"]),
        table(costs, columns, "tree"),
        "<p>Where the root does not learn of a consumer, it costs little and gets no messages from there."
        " Lines crossed: by data, if the root sends one message to each destination. Static bridges need no"
        " advisories, and every message crosses every line.</p>",
        table([row for row in costs if row["bytes_added"]], sizes, "tree"),
        _MESHED if any(row["node"] != row["place"] for row in tables["nodes"]) else "",
        table(sorted(leaf, key=lambda row: (row["depth"], row["added_mean"])), one, "tree"),
    )


def growth(tables: Tables) -> str:
    """How the cost grows with the number of stores, in regions as large as this deployment's."""
    sizes = [row["below"] for row in tables["nodes"] if row["depth"] == 1 and row["below"]]
    a_region = round(median(sizes)) if sizes else A_REGION
    stores = total(tables["what_if_one"], "nodes", role="leaf", scheme="tree")
    text = f"One consumer of its own at every store, in regions of {a_region:,} stores. Both axes are log."
    chart = _growth_chart(a_region, stores) if charts.available() else ""
    return section("As the chain grows", text, chart)


@cache
def _growth_chart(a_region: int, stores: int) -> str:
    return charts.growth(regular.growth(a_region), stores)


# --- the laws beside what was counted

SHOWN: Final = ((1, 1000, 1), (25, 88, 55_000))
"""Chains that the report draws: regions, stores in each, consumers of a destination of their own."""


def counted() -> list[Row]:
    """What was counted on networks of real brokers (measured.csv) and in the simulation (simulated.csv)."""
    rows = []
    for how in ("simulated", "measured"):
        text = (files("audit") / f"{how}.csv").read_text("utf-8")
        for row in csv.DictReader(text.splitlines()):
            rows.append({name: int(cell) if cell.isdigit() else cell for name, cell in row.items()})
            rows[-1]["how"] = how
    return rows


def beside_the_laws() -> list[Row]:
    """Each row of `counted` with what the laws say: law_added, law_closed."""
    rows = sorted(counted(), key=lambda row: (-row["brokers"], row["consumers"]))
    for row in rows:
        laws = regular.one_consumer(row["branches"], row["leaves_a_branch"])[row["scheme"]]
        row["law_added"], row["law_closed"] = (law * row["consumers"] for law in laws)
        row["stores"] = f"{row['branches'] * row['leaves_a_branch']:,} in {_regions(row['branches'])}"
    return rows


def _regions(count: int) -> str:
    return "one region" if count == 1 else f"{count} regions"


def reference() -> str:
    """The laws for two chains of known size, beside every count that there is."""
    rows = beside_the_laws()
    differ = sum((row["added"], row["closed"]) != (row["law_added"], row["law_closed"]) for row in rows)
    verdict = f"{differ} of them differ." if differ else "All agree to the last advisory."
    columns = {
        "scheme": "scheme",
        "stores": "stores",
        "consumers": "consumers",
        "law_added": "law: come",
        "added": "counted",
        "law_closed": "law: go",
        "closed": "counted",
        "system": "counted in",
    }
    return section(
        "The laws, beside simulation and measurement",
        "What the what-if says of two chains, and what was counted: in the simulation, which runs the code of"
        f" real nodes, and on networks of real brokers. {len(rows)} counts. {verdict}",
        _reference_chart() if charts.available() else "",
        table(rows, columns),
    )


@cache
def _reference_chart() -> str:
    """It hangs on no log: a process that writes several reports draws it once."""
    rows = beside_the_laws()
    return charts.reference([_panel(rows, *shape) for shape in SHOWN])


def _panel(rows: Sequence[Row], regions: int, a_region: int, consumers: int) -> charts.Panel:
    stores = f"{regions * a_region:,} stores in {_regions(regions)}"
    readers = "1 consumer comes" if consumers == 1 else f"{consumers:,} consumers come"
    here = (regions, a_region, consumers)
    found = {
        (row["scheme"], row["how"]): row["added"]
        for row in rows
        if (row["branches"], row["leaves_a_branch"], row["consumers"]) == here
    }
    laws = {name: each[0] * consumers for name, each in regular.one_consumer(regions, a_region).items()}
    return charts.Panel(f"{stores}\n{readers}", laws, found)
