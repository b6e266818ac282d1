"""Statements that make views of a history's tables, for DuckDB and Spark.

`sapwood_runs` has of each day its last whole run, `sapwood_TABLE` what these runs found. `sapwood_counts` has
what followers counted: of each day, of the follower that began last.
"""

from typing import Final

RUNS: Final = "runs"
COUNTS: Final = "counts"
DIALECTS: Final = ("duckdb", "spark")
_UNITED: Final = "hive_partitioning = true, union_by_name = true"
_LAST: Final = "(tree, day, run) in (select tree, day, max(run) from {source} group by tree, day)"
_VIEW: Final = "create or replace {kind}view sapwood_{name} as select * from {source} where {which};"
_WHOLE: Final = "run in (select run from sapwood_runs)"


def views(names: list[str], root: str, dialect: str, form: str) -> str:
    """`names`: the tables that are there. `form`: of `options.FORMATS`."""
    made = ["-- Made anew with each day that is added."]
    kind = "" if dialect == "duckdb" else "temporary "
    for name in names:
        folder = RUNS if name == RUNS else f"tables/{name}"
        path = f"{root}/{folder}".replace("'", "''")
        source = f"sapwood_all_{name}"
        if dialect == "duckdb":
            source = f"delta_scan('{path}')"
            if form == "parquet":
                source = f"read_parquet('{path}/*/*/*.parquet', {_UNITED})"
        else:
            options = ", mergeSchema 'true'" if form == "parquet" else ""
            made.append(
                f"create or replace temporary view {source} using {form} options (path '{path}'{options});"
            )
        which = (_LAST if name in (RUNS, COUNTS) else _WHOLE).format(source=source)
        made.append(_VIEW.format(kind=kind, name=name, source=source, which=which))
    return "\n".join(made) + "\n"
