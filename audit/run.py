"""The whole audit: logs in, tables and report out. `audit` and `plan` are what the command line calls.

Law: Spark goes over the log, and gives sums; every table is a query over these (`queries`). A plan has no
log, and needs no Spark.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as arrow
from pyarrow import Table

from audit import capacity, churn, comparison, offsets, population, scope, spillage, volume, waste, whatif
from audit.accounts import COUNTS, FILES, totals
from audit.beside import work_beside
from audit.deployment import Tree, load_tree
from audit.findings import find, total
from audit.output import Output
from audit.queries import query
from audit.report import write_report
from audit.verdict import judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from audit.passes import Passes
    from audit.places import Near


@dataclass(frozen=True, slots=True)
class Request:
    """What to audit. `rules`: a population for what-if, (role, 'own' or a group's name, count, kind), instead
    of the consumers in the logs. `usage`, `figures`: tables that the advisory log cannot hold (see
    docs/audit.md). `source`: the broker that wrote the logs, if that was none of ours.
    `every_event`: each coming and going of a consumer gets its row, also of a large log. `tree`: the one to
    audit; '' = that of most sites. `period`: from when until when; None = not bounded. `named`: the summary
    is to have the tree's name."""

    logs: Sequence[str]
    deployment: str
    out: Path
    ttls: Sequence[int] = whatif.TTLS
    rules: Sequence[tuple[str, str, int, str]] = ()
    usage: str = ""
    figures: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    every_event: bool = False
    tree: str = ""
    period: tuple[datetime | None, datetime | None] = (None, None)
    named: bool = False


def plan(request: Request, tree: Tree) -> dict[str, Any]:
    """Plan without any log. Returns a summary; everything else is in `request.out`. Raises
    `UsageError` for wrong input."""
    began = time.monotonic()
    output = Output(request.out)
    output.write("intake", totals(FILES.empty_table()))
    _nodes(output, tree)
    _what_if(output, tree, population.NOBODY, request, _laws(output, tree, request))
    return _finish(output, tree, 0, request, time.monotonic() - began)


def audit(spark: "SparkSession", request: Request, tree: Tree | None = None) -> dict[str, Any]:
    """Audit logs. Returns a summary; everything else is in `request.out`. Raises `UsageError` for wrong
    input. `tree`: of the table of sites, if it has been read already."""
    from audit import given, places

    began = time.monotonic()
    wanted = (*request.logs, "" if tree else request.deployment, request.usage, request.figures)
    with places.near(spark, wanted) as brought:
        tree = tree or load_tree(brought.path(request.deployment), given.far(spark))
        if not request.logs:
            return plan(request, tree)
        return _audit(spark, request, tree, brought, began)


def _audit(
    spark: "SparkSession", request: Request, tree: Tree, brought: "Near", began: float
) -> dict[str, Any]:
    from audit import given, holes, period
    from audit.listing import list_all, refuse_changed
    from audit.passes import Passes
    from audit.reading import read, renamed
    from audit.trees import told_apart

    logs = [brought.path(log) for log in request.logs]
    output, listing = Output(request.out), list_all(spark, logs)
    with work_beside() as pool:
        asked_usage = pool.submit(given.usage, spark, listing, brought.path(request.usage))
        asked_figures = pool.submit(given.figures, spark, brought.path(request.figures))
        taken = renamed(read(spark, listing, request.source), brought.renamed)
        usage, figures = asked_usage.result(), asked_figures.result()
        whole, trees = told_apart(taken, tree.nodes, request.tree)
        intake = period.within(whole, request.period)
        passes = Passes(spark, intake)
        asked = _ask(pool, passes, tree, request, used=usage is not None) if len(intake.rolled) else None
        output.write("trees", trees)
        output.write("files", query("from files order by fault is null, file", files=intake.files))
        output.write("intake", totals(intake.files))
        output.write("logs", holes.logs(intake.rolled))
        missing = passes if intake is whole else Passes(spark, whole)
        output.write("holes", period.of_time(missing.holes(), request.period))
        output.write("doubles", period.of_time(missing.doubles(), request.period))
        _nodes(output, tree)
        output.write("silent", waste.silent(intake.rolled, tree.nodes))
        if asked:
            _tables(output, passes, asked, tree, request, usage, figures)
        else:
            output.write("clocks", offsets.with_offsets(intake.clocks, offsets.NONE))
            if request.rules:
                _what_if(output, tree, population.NOBODY, request, _laws(output, tree, request))
    refuse_changed(listing, list_all(spark, logs))
    name = period.tree_of(intake) if request.named and not request.tree else request.tree
    return _finish(output, tree, len(intake.ignored), request, time.monotonic() - began, name)


class _Asked(NamedTuple):
    """Tables that were asked of `Passes`, once they are there. `one_in`: with which `caused` was asked."""

    told: "Future[Table]"
    hours: "Future[Table]"
    changes: "Future[Table]"
    delays: "Future[Table]"
    caused: "Future[Table]"
    held: "Future[Table] | None"
    one_in: int


def _ask(pool: ThreadPoolExecutor, passes: "Passes", tree: Tree, request: Request, *, used: bool) -> _Asked:
    """Ask for all passes over a log. `used`: whether it is known which routes messages used."""
    one_in = 1 if request.every_event else passes.one_in
    return _Asked(
        told=pool.submit(passes.told),
        hours=pool.submit(passes.consumer_hours),
        changes=pool.submit(passes.changes),
        delays=pool.submit(passes.delays, tree.roots[0]),
        caused=pool.submit(passes.consumer_events, tree.roots, one_in),
        held=pool.submit(passes.held_routes) if used else None,
        one_in=one_in,
    )


def _tables(
    output: Output,
    passes: "Passes",
    asked: _Asked,
    tree: Tree,
    request: Request,
    usage: Table | None,
    figures: Table | None,
) -> None:
    """All tables of a log that has rows; first those that need the sums alone, then those of the passes, in
    the order of these."""
    rolled = passes.intake.rolled
    _volume(output, rolled, tree)
    _spillage(output, passes, tree)
    costs = _laws(output, tree, request)
    comparison.growth(output.tables)  # its chart is drawn while Spark works, and kept
    output.write("links", waste.links(rolled))
    output.write("strangers", waste.strangers(rolled, tree.nodes))
    hours, told = asked.hours.result(), asked.told.result()
    consumers = output.write("consumers", volume.consumers(hours, told))
    output.write("flapping_consumers", waste.flapping_consumers(hours))
    output.write("scope_cost", scope.scope_cost(tree, consumers))
    _what_if(output, tree, consumers, request, costs)
    again = waste.told_again(told, rolled)
    if len(again):
        output.write("repeated_adds", waste.repeated_adds(passes.told_again(again), rolled))
    held = _figures(passes, told)
    if figures is not None:
        held = arrow.concat_tables([held, figures])
    output.write("capacity", capacity.forecast(held, request.limits))
    _by_clocks(output, rolled, asked, tree, passes.intake.clocks)
    if usage is not None and asked.held:
        output.write("unused_routes", waste.unused_routes(asked.held.result(), usage))


def _nodes(output: Output, tree: Tree) -> None:
    output.write("nodes", tree.nodes.drop_columns(["number"]))


def _off(asked: _Asked, tree: Tree) -> Table:
    """The clocks that differ from the others'."""
    return offsets.offsets(asked.delays.result(), tree.roots[0])


def _volume(output: Output, rolled: Table, tree: Tree) -> None:
    cube = output.write("volume", volume.cube(rolled))
    for table in volume.DIMENSIONS:
        output.write(f"volume_by_{table}", volume.by(cube, tree.nodes, table))
    output.write("storms", waste.storms(cube))
    output.write("resyncs", waste.resyncs(cube))


def _spillage(output: Output, passes: "Passes", tree: Tree) -> None:
    rolled = passes.intake.rolled
    strange = output.write("strange_links", spillage.strange_links(rolled, tree))
    judged = output.write("judged", spillage.judge(spillage.pairs(rolled), tree, strange))
    output.write("spillage", spillage.summary(judged))
    output.write("spillage_regions", spillage.regions(judged))
    output.write("advise_down", spillage.advise_down(judged))
    spilled = output.write("spilled", spillage.spilled_rows(passes.suspects(judged), judged))
    output.write("spillage_reasons", spillage.reasons(spilled))


def _by_clocks(output: Output, rolled: Table, asked: _Asked, tree: Tree, clocks: Table) -> None:
    """Clocks, and the tables that hang on them: they come last, since the pass that compares clocks does."""
    off = output.write("clocks", offsets.with_offsets(clocks, _off(asked, tree)))
    wrong = query("select node, off_s from clocks where off_s is not null", clocks=off)
    changes = offsets.set_right(asked.changes.result(), wrong, "at")
    output.write("cut_off", waste.cut_off(changes, offsets.set_right(rolled, wrong, "last"), tree.nodes))
    caused = output.write("consumer_events", asked.caused.result())
    output.write("knowing", volume.knowing(caused, tree.nodes, wrong, tree.roots[0], asked.one_in))


def _figures(passes: "Passes", told: Table) -> Table:
    rolled = passes.intake.rolled
    adrift = capacity.adrift(rolled, told)
    said = passes.said_by_hour(adrift) if len(adrift) else capacity.SAID.empty_table()
    return capacity.figures(rolled, capacity.routes(rolled, adrift, said))


def _laws(output: Output, tree: Tree, request: Request) -> Table:
    """The cost of one consumer at each node, under each scheme; no log is needed for that."""
    costs = whatif.per_consumer(tree, request.ttls)
    output.write("what_if_one", whatif.by_role(costs, tree))
    output.write("domain_routes", whatif.domain_routes(tree))
    return costs


def _what_if(output: Output, tree: Tree, consumers: Table, request: Request, costs: Table) -> None:
    """All consumers together. `costs`: by `_laws`."""
    if request.rules:
        wanted = population.interests_by_role(tree, request.rules)
    else:
        wanted = population.interests(tree, consumers)
    own = [row for row in output.tables["volume_by_kind"] if row["kind"] in ("queue", "topic")]
    sizes = {(row["kind"], row["op"]): row["bytes"] / row["advisories"] for row in own if row["bytes"]}
    output.write("what_if", population.cost(tree, wanted, costs, sizes))
    if len(consumers):
        counted = {name: total(own, name) for name in ("advisories", "bytes")}
        counted["spilled"] = total(output.tables["spillage"], "advisories", verdict="spilled")
        output.write("same_churn", churn.same_churn(tree, consumers, costs, counted, sizes))


def _finish(
    output: Output, tree: Tree, ignored: int, request: Request, seconds: float, name: str = ""
) -> dict[str, Any]:
    tables = output.tables
    verdict = judge(tables, tree.members, named=bool(request.tree))
    found, taken = find(tables), tables["intake"][0]
    verdicts = ("needed", "spilled", "moved", "unknown", "domain")
    summary = {
        "plan": not request.logs,
        "tree": name,
        "since": request.period[0] and request.period[0].isoformat(),
        "until": request.period[1] and request.period[1].isoformat(),
        "nodes": tree.members,
        "files": taken["files"],
        "ignored_files": ignored,
        **{name: taken[name] for name in COUNTS},
        "files_with_faults": taken["faults"],
        "advisories": total(tables["volume_by_direction"], "advisories"),
        "bytes": total(tables["volume_by_direction"], "bytes"),
        "verdicts": {name: total(tables["spillage"], "advisories", verdict=name) for name in verdicts},
        "judged": verdict.as_json(),
        "what_if": {row["scheme"]: row["added"] for row in tables["what_if"]},
        "crossed": {row["scheme"]: row["crossed"] for row in tables["what_if"]},
        "findings": [{"kind": one.kind, "what": one.what, "do": one.do} for one in found],
        "seconds": round(seconds, 1),
        "report": str(output.folder / "report.html"),
    }
    with output.writing():
        write_report(output.folder / "report.html", tables, summary, verdict, found)
    return summary
