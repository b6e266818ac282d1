"""Sums over rows, in words that Spark and DuckDB share: whoever makes them, there is one text of each.

Law: rows are called `log`; a time is `log.at` in a text, since `at` is a word of DuckDB's own. `MACROS` teach
DuckDB the words that only Spark has. Hashes differ: those of one engine are compared with its own alone.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MACROS: Final = (
    "set TimeZone = 'UTC'",
    "create macro unix_micros(t) as epoch_us(t)",
    "create macro timestamp_micros(n) as make_timestamptz(n)",
    "create macro pmod(a, b) as ((a % b) + b) % b",
    "create macro shiftright(a, n) as a >> n",
    "create macro xxhash64(a) as (hash(a) >> 1)::bigint, (a, b, c) as (hash(a, b, c) >> 1)::bigint",
)


class Sums(NamedTuple):
    """`columns`: what is made of each row for which `where` holds. `keys`: those of them by which rows are
    put together. `sums`: what becomes of the others. `then`: what is made of each sum, if it does not stay as
    it is."""

    columns: Mapping[str, str]
    keys: tuple[str, ...]
    sums: Mapping[str, str]
    where: str = "true"
    then: Mapping[str, str] = {}

    def by_spark(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as F

        narrow = rows.alias("log").where(self.where).selectExpr(*_named(self.columns))
        sums = narrow.groupBy(*self.keys).agg(*(F.expr(text).alias(name) for name, text in self.sums.items()))
        return sums.selectExpr(*_named(self.then)) if self.then else sums

    def of_parts(self) -> "Sums":
        """Sums of these sums, of parts of the rows."""
        names = tuple(self.then) or (*self.keys, *self.sums)
        again = {
            name: f"{text[:3]}({name})" if text[:3] in ("min", "max") else f"cast(sum({name}) as bigint)"
            for name, text in self.sums.items()
        }
        return Sums({name: name for name in names}, tuple(name for name in names if name not in again), again)

    def text(self) -> str:
        """As a query of DuckDB's over `log`."""
        narrow = f"select {', '.join(_named(self.columns))} from log where {self.where}"  # noqa: S608
        cells = ", ".join((*self.keys, *_named(self.sums)))
        sums = f"select {cells} from ({narrow}) as log group by {', '.join(self.keys)}"  # noqa: S608
        return f"select {', '.join(_named(self.then))} from ({sums})" if self.then else sums  # noqa: S608


def _named(texts: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{text} as {name}" for name, text in texts.items())
