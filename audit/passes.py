"""The passes over the log, each one job of Spark's, and the tables that they give.

Law: a log is gone through four times, however many tables there are and however many rows: for the sums of
`rollup`, which `reading` makes, by route (`TOLD`), by consumer (`HOURS`) and by cause (`causes`).
Rows that are rare in a healthy log, such as links that drop and advisories that spill, are fetched from it by
themselves, and only if the sums say that there are any.
"""

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyarrow import Table
from pyspark.sql import Column
from pyspark.sql import functions as F

from audit import causes, holes
from audit import told as routes
from audit.queries import query, rows, value
from audit.reading import Intake
from audit.schema import EVENTS, arrow_schema
from audit.session import fetch
from audit.sums import Sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIT: Final = 2_000_000
"""Sums of one pass that come to the driver as they are: about 200 MiB. More are reduced further on Spark."""
SUSPECTS: Final = 1000
"""Pairs of node and origin up to which the log is searched for them by name."""


class Passes:
    """Over one log; `intake` is the first of them."""

    def __init__(self, spark: "SparkSession", intake: Intake) -> None:
        self._spark = spark
        self.intake = intake
        self._events = self.intake.events
        self._chosen: dict[int, DataFrame] = {}
        self._choosing = Lock()

    def __repr__(self) -> str:
        return f"<Passes rolled={len(self.intake.rolled)}>"

    @property
    def one_in(self) -> int:
        """Of so many comings and goings of consumers one has a row of its own, unless all are wanted."""
        came = """select coalesce(sum("rows"), 0) from rolled where event = 'consumer'"""
        return causes.one_in(value(query(came, rolled=self.intake.rolled)))

    def told(self) -> Table:
        """`told.TOLD`; of more than `FIT`, `told.reduced`."""
        told = """select coalesce(sum("rows"), 0) from rolled where event = 'advisory'"""
        if value(query(told, rolled=self.intake.rolled)) <= FIT:
            return self._sums(routes.TOLD)
        direct = self.intake.direct
        if direct:
            sums = routes.TOLD.of_parts().by_spark(direct.parts(routes.TOLD))
        else:
            sums = routes.TOLD.by_spark(self._events)
        sums = sums.localCheckpoint()
        return fetch(routes.reduced(sums) if sums.count() > FIT else sums)

    def consumer_hours(self) -> Table:
        """Comings and goings of each consumer: `told.HOURS`."""
        return self._sums(routes.HOURS)

    def _sums(self, sums: Sums, nodes: Table | None = None) -> Table:
        """Of the log; of some nodes, or of all."""
        if self.intake.direct:
            return query(sums.of_parts().text(), log=fetch(self.intake.direct.parts(sums, nodes)))
        few = self._events
        if nodes is not None:
            few = few.join(F.broadcast(self._spark.createDataFrame(nodes)), "node", "left_semi")
        return fetch(sums.by_spark(few))

    def consumer_events(self, roots: Sequence[str], one_in: int) -> Table:
        """The cost of comings and goings: `causes.consumer_events`."""
        return fetch(causes.consumer_events(self._of_causes(one_in), roots))

    def delays(self, root: str) -> Table:
        """How long adds took between each node and the root: `causes.delays`. Where no consumer came, no
        clock can be compared with the root's."""
        if not len(query(_CAME, rolled=self.intake.rolled)):
            return causes.NO_DELAYS
        return fetch(causes.delays(self._of_causes(self.one_in), root))

    def _of_causes(self, one_in: int) -> "DataFrame":
        """`causes.chosen`, once for the two passes that ask for it, which may be at the same time."""
        with self._choosing:
            if one_in not in self._chosen:
                self._chosen[one_in] = causes.chosen(self._events, one_in)
            return self._chosen[one_in]

    def holes(self) -> Table:
        """Rows that are missing from the logs, if the sums say that there are any: `holes.holes`."""
        few = self._of_suspects
        return fetch(holes.holes(few)) if few else holes.NONE

    def doubles(self) -> Table:
        """Logs that two nodes of one name wrote, if the sums say that there may be any: `holes.doubles`."""
        few = self._of_suspects
        return holes.doubles(fetch(holes.spans(few))) if few else holes.NO_DOUBLES

    @cached_property
    def _of_suspects(self) -> "DataFrame | None":
        """The rows of the nodes whose numbers are not one series without a gap."""
        nodes = [row["node"] for row in rows(holes.suspects(self.intake.rolled))]
        if not nodes:
            return None
        return self._events.where(F.col("node").isin(nodes)) if len(nodes) <= SUSPECTS else self._events

    def told_again(self, nodes: Table) -> Table:
        """Adds that some nodes were told again and again: `told.again`."""
        return fetch(routes.again(self._events, self._spark.createDataFrame(nodes)))

    def said_by_hour(self, nodes: Table) -> Table:
        """The routes of some nodes, hour by hour: `told.SAID_BY_HOUR`."""
        return self._sums(routes.SAID_BY_HOUR, nodes)

    def held_routes(self) -> Table:
        """Routes that each node ever had: `told.held_routes`."""
        return fetch(routes.held_routes(self._events))

    def changes(self) -> Table:
        """Each row that tells of a link, or of a node's start or stop, if there is any of a link."""
        counted = query("select 1 from rolled where event = 'link' limit 1", rolled=self.intake.rolled)
        return self._some(F.col("event").isin("link", "node")) if len(counted) else _NONE

    def suspects(self, judged: Table) -> Table:
        """The rows that `spillage.spilled_rows` has to look at: those of the nodes that spilled advisories
        name, if there are any. `judged`: by `spillage.judge`."""
        bad = query("select distinct node, origin from judged where verdict = 'spilled'", judged=judged)
        if not len(bad):
            return _NONE
        if len(bad) > SUSPECTS:
            return self._some(F.col("event").isin("advisory", "consumer"))
        names = rows(bad)
        told = (F.col("event") == "advisory") & F.col("node").isin({row["node"] for row in names})
        origins = {row["origin"] for row in names if row["origin"]}
        return self._some(told | (F.col("event") == "consumer") & F.col("node").isin(origins))

    def _some(self, which: Column) -> Table:
        return fetch(self._events.where(which))


_NONE: Final = arrow_schema(EVENTS).empty_table()
_CAME: Final = "select 1 from rolled where event = 'consumer' limit 1"
