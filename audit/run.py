"""The whole audit: logs in, tables and report out. `audit` is what the command line calls."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit import capacity, population, scope, session, spillage, volume, waste, whatif
from audit.deployment import Tree, load_tree
from audit.errors import UsageError
from audit.findings import find, total
from audit.listing import Listing, list_all
from audit.output import Output
from audit.reading import COUNTS, Intake, read, totals
from audit.report import write_report
from audit.schema import structure
from audit.told import CONSUMER_KINDS
from audit.told import told as told_of
from audit.verdict import judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USAGE = structure("node string, kind string, destination string, messages long")
COUNTED = structure(
    "node string, kind string, destination string, messages long, since timestamp, whole boolean"
)
MANY: Final = 500_000
FEW: Final = 20_000
SMALL_TABLE: Final = 2**20
"""Sums of the log, and sites, up to which queries over them are small; and bytes of such a table of sites."""
SUSPECTS: Final = 1000
"""Pairs of node and origin up to which the log is searched for them by name."""
Few = Callable[[], AbstractContextManager[None]]
"""How to work out what is small beside the log."""
FIGURES = structure("node string, figure string, at timestamp, value long")


@dataclass(frozen=True, slots=True)
class Request:
    """What to audit. `rules`: a population for what-if, (role, 'own' or a group's name, count), instead of
    the consumers in the logs. `usage`, `figures`: tables that the advisory log cannot hold (see
    docs/audit.md). `source`: the broker that wrote the logs, if that was none of ours.
    `every_event`: each coming and going of a consumer gets its row, also of a large log."""

    logs: Sequence[str]
    deployment: str
    out: Path
    ttls: Sequence[int] = whatif.TTLS
    rules: Sequence[tuple[str, str, int]] = ()
    usage: str = ""
    figures: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    every_event: bool = False


class _Size(NamedTuple):
    """Of a log: how many sums there are of it, and comings and goings of consumers in it."""

    sums: int
    consumer_events: int

    @property
    def one_in(self) -> int:
        return volume.one_in(self.consumer_events)


def _size(rolled: DataFrame) -> _Size:
    came = F.when(F.col("event") == "consumer", F.col("rows")).otherwise(0)
    return _Size(*rolled.agg(F.count(F.lit(1)), F.coalesce(F.sum(came), F.lit(0))).collect()[0])


def audit(spark: "SparkSession", request: Request) -> dict[str, Any]:
    """Do it. Returns a summary; everything else is in `request.out`. Raises `UsageError` for wrong input."""
    began = time.monotonic()
    with session.small_queries(spark) if _few_sites(request.deployment) else nullcontext():
        tree = load_tree(spark, request.deployment)
    listing = list_all(spark, list(request.logs))
    usage, figures = _usage(spark, listing, request), _figures(spark, request)
    output = Output(request.out, small=listing.unpacked < session.TINY)
    if not request.logs:
        return _plan(spark, output, tree, read(spark, listing), request, began)
    intake = read(spark, listing, request.source)
    size = _size(intake.rolled)
    if not size.sums:
        return _plan(spark, output, tree, intake, request, began)
    told = told_of(intake.events).localCheckpoint()
    routes = capacity.routes(told, intake.events, intake.rolled).localCheckpoint()
    consumers = _consumers(output, intake, tree, told, 1 if request.every_event else size.one_in)
    if usage is not None:
        output.write("unused_routes", waste.unused_routes(waste.held_routes(intake.events), usage))
    small = tree.places < FEW and size.sums < MANY

    def few() -> AbstractContextManager[None]:
        return session.small_queries(spark) if small else nullcontext()

    _spillage(output, intake, tree, few)
    with few():
        output.write("links", waste.links(intake.rolled))
    changes = F.col("event").isin("link", "node") if output.tables["links"] else F.lit(False)
    links = intake.events.where(changes).localCheckpoint()
    with few():
        _waste(output, intake, tree, links)
        _volume(output, intake, tree)
        _what_if(spark, output, tree, consumers, request)
        output.write("scope_cost", scope.scope_cost(tree, consumers))
        output.write(
            "capacity", capacity.forecast(_all_figures(intake, routes, figures), dict(request.limits))
        )
        _intake(output, intake, tree)
    return _finish(output, tree, intake, request, time.monotonic() - began)


def _few_sites(path: str) -> bool:
    table = Path(path)
    return table.is_file() and table.stat().st_size < SMALL_TABLE


def _intake(output: Output, intake: Intake, tree: Tree) -> None:
    output.write("files", intake.files.orderBy(F.col("fault").isNull(), "file"))
    output.write("intake", totals(intake.files))
    output.write("clocks", intake.clocks.orderBy("node"))
    output.write("nodes", tree.nodes.orderBy("depth", "node"))


def _plan(
    spark: "SparkSession", output: Output, tree: Tree, intake: Intake, request: Request, began: float
) -> dict[str, Any]:
    """What it would cost, without any event: nothing is asked of what is not there."""
    if request.logs:
        _intake(output, intake, tree)
        output.write("silent", waste.silent(intake.rolled, tree.nodes))
    else:
        output.write("intake", totals(intake.files))
        output.write("nodes", tree.nodes.orderBy("depth", "node"))
    if request.rules or not request.logs:
        nobody = spark.createDataFrame([], "node string, kind string, destination string")
        _what_if(spark, output, tree, nobody, request)
    return _finish(output, tree, intake, request, time.monotonic() - began)


def _consumers(output: Output, intake: Intake, tree: Tree, told: DataFrame, one_in: int) -> DataFrame:
    """Returns every consumer that the logs name, whether or not it is still there."""
    caused = volume.consumer_events(intake.events, tree.roots, one_in)
    output.write("knowing", volume.knowing(output.keep("consumer_events", caused), tree.nodes, one_in))
    hours = volume.consumer_hours(intake.events).localCheckpoint()
    output.write("flapping_consumers", waste.flapping_consumers(hours))
    return output.keep("consumers", volume.consumers(hours, told)).select("node", "kind", "destination")


def _volume(output: Output, intake: Intake, tree: Tree) -> None:
    cube = output.keep("volume", volume.cube(intake.rolled))
    sums = volume.sums(volume.placed(cube, tree.nodes)).localCheckpoint()
    for table in volume.DIMENSIONS:
        output.write(f"volume_by_{table}", volume.by(sums, table))
    output.write("storms", waste.storms(cube))
    output.write("resyncs", waste.resyncs(cube))


def _spillage(output: Output, intake: Intake, tree: Tree, few: Few) -> None:
    with few():
        strange = output.keep("strange_links", spillage.strange_links(intake.rolled, tree))
        judged = output.keep("judged", spillage.judge(spillage.pairs(intake.rolled), tree, strange))
        output.write("spillage", spillage.summary(judged))
        output.write("spillage_regions", spillage.regions(judged))
        output.write("advise_down", spillage.advise_down(judged))
        suspects = _suspects(intake.events, judged)
    suspects = suspects.localCheckpoint()
    with few():
        rows = output.keep("spilled", spillage.spilled_rows(suspects, judged))
        output.write("spillage_reasons", spillage.reasons(rows))


def _suspects(events: DataFrame, judged: DataFrame) -> DataFrame:
    """The events that `spilled_rows` has to look at: those of the nodes that spilled advisories name."""
    bad = judged.where(F.col("verdict") == spillage.SPILLED).select("node", "origin").distinct()
    named = bad.limit(SUSPECTS + 1).collect()
    if len(named) > SUSPECTS:
        return events
    told = (F.col("event") == "advisory") & F.col("node").isin([row.node for row in named])
    came = (F.col("event") == "consumer") & F.col("node").isin([row.origin for row in named if row.origin])
    return events.where((told | came) if named else F.lit(False))


def _waste(output: Output, intake: Intake, tree: Tree, links: DataFrame) -> None:
    output.write("cut_off", waste.cut_off(links, intake.rolled, tree.nodes))
    output.write("strangers", waste.strangers(intake.rolled, tree.nodes))
    output.write("silent", waste.silent(intake.rolled, tree.nodes))


def _usage(spark: "SparkSession", listing: Listing, request: Request) -> DataFrame | None:
    """Messages by route: of the table that was given, else of the files that lie beside the logs."""
    if request.usage:
        given = read_table(spark, request.usage, COUNTED if _form(request.usage) == "json" else USAGE)
        return spark.createDataFrame([], COUNTED).unionByName(given, allowMissingColumns=True)
    if listing.usage:
        return spark.read.schema(COUNTED).json([file.pattern for file in listing.usage])
    return None


def _what_if(
    spark: "SparkSession", output: Output, tree: Tree, consumers: DataFrame, request: Request
) -> None:
    costs = whatif.per_consumer(tree, request.ttls).localCheckpoint()
    output.write("what_if_one", whatif.by_role(costs, tree))
    if request.rules:
        _check_roles(tree, request.rules)
        wanted = population.interests_by_role(spark, tree, request.rules)
    else:
        wanted = population.interests(consumers)
    kinds = output.tables["volume_by_kind"]
    ours = [row for row in kinds if row["kind"] in CONSUMER_KINDS and row["bytes"]]
    count = total(ours, "advisories")
    mean = total(ours, "bytes") / count if count else whatif.BYTES[whatif.TREE]
    output.write("what_if", population.cost(tree, wanted, costs, mean))
    output.write("domain_routes", whatif.domain_routes(tree))


def _check_roles(tree: Tree, rules: Sequence[tuple[str, str, int]]) -> None:
    """Raises `UsageError` that names a role that nobody has: it would cost nothing, and look like a plan."""
    roles = sorted({row["role"] or "" for row in tree.nodes.select("role").distinct().collect()})
    for role, sharing, count in rules:
        if role not in roles:
            raise UsageError(
                f"--consumers {role}:{sharing}:{count}: no site has the role {role!r}: expected one of"
                f" {', '.join(roles)}"
            )


def _figures(spark: "SparkSession", request: Request) -> DataFrame | None:
    if not request.figures:
        return None
    return read_table(spark, request.figures, FIGURES).withColumn("value", F.col("value").cast("double"))


def _all_figures(intake: Intake, routes: DataFrame, given: DataFrame | None) -> DataFrame:
    figures = capacity.figures(intake.rolled, routes)
    return figures if given is None else figures.unionByName(given)


def read_table(spark: "SparkSession", path: str, schema: Any) -> DataFrame:
    """A table that was given beside the logs: Parquet, JSON lines, or CSV with a header. Columns are known by
    their names; what is no such value is null."""
    form = _form(path)
    try:
        reader = spark.read.option("header", True).format(form)
        if form == "json":
            reader = reader.schema(structure(", ".join(f"{name} string" for name in schema.names)))
        given = reader.load(path)
    except Exception as error:
        raise UsageError(f"{path}: cannot be read: {session.reason(error)}") from None
    missing = [name for name in schema.names if name not in given.columns]
    if missing:
        raise UsageError(
            f"{path}: no column {', '.join(missing)}: expected a table with {', '.join(schema.names)}"
        )
    return given.select(*(F.col(field.name).try_cast(field.dataType) for field in schema))


def _form(path: str) -> str:
    if path.rstrip("/").endswith(".parquet"):
        return "parquet"
    return "json" if path.removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")) else "csv"


def _finish(output: Output, tree: Tree, intake: Intake, request: Request, seconds: float) -> dict[str, Any]:
    tables = output.tables
    verdict = judge(tables, tree.members)
    found, taken = find(tables), tables["intake"][0]
    verdicts = ("needed", "spilled", "moved", "unknown", "domain")
    summary = {
        "plan": not request.logs,
        "nodes": tree.members,
        "files": taken["files"],
        "ignored_files": len(intake.ignored),
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
    write_report(output.folder / "report.html", tables, summary, verdict, found)
    return summary
