"""The audit while logs arrive: Structured Streaming over the pieces that a `Feeder` cuts.

Two queries run beside each other, each with a checkpoint of its own, so that a restart counts nothing twice:

- `alerts` looks at each row by itself: spilled advisories, links that went down, lines that are no rows.
- `counts` counts by node and window, leaves out rows that came twice, and tells storms. A window is closed,
  and written once, when the watermark has passed it.

Law: what comes later than the watermark allows is not counted in its window, but in `late`, and told.

Wrinkle: a store's clock that runs years ahead must not make everybody else late: for windows and watermark a
row is never later than its own arrival. Rows from before 2000 have no window; they are told as an alert.
"""

import fcntl
import os
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.alerts import Alert, Alerts, Receiver
from audit.checkpoint import Checkpoint
from audit.deployment import Tree, relations
from audit.errors import AuditError
from audit.feeder import Feeder
from audit.history import Counts, new_name
from audit.lines import parse
from audit.listing import results
from audit.session import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MOST_ALERTS: Final = 1000
"""Alerts of one batch; what is beyond is one alert that says how many."""
A_LOOK: Final = 0.2
PATIENCE: Final = 60.0
"""Seconds: between two looks whether to end, and how long a batch may go on then."""
_UNSET: Final = "2000-01-01"


@dataclass(frozen=True, slots=True)
class Following:
    """How to follow. `window`, `late`: as Spark writes intervals. `storm`: advisories in a window at one node
    that are one. `receivers`: where alerts go beside their files. `tree`: rows of others are left out; '' =
    none are. `history`: where the counts of this tree go, instead of to `out`, and in which of
    `options.FORMATS`. `files_a_batch`: pieces read at once."""

    source: Path
    out: Path
    window: str = "5 minutes"
    late: str = "10 minutes"
    storm: int = 1000
    receivers: tuple[Receiver, ...] = ()
    tree: str = ""
    history: tuple[str, str] = ("", "")
    files_a_batch: int = 200


class Follower:
    """Runs both queries. Caller's duty: `stop`, or end the process; either way the next start goes on.

    Surprise: what is there already is fed before they start, so that it is one batch. Piece by piece the rows
    of one node would be too late for those of another that had been read before.
    """

    def __init__(self, spark: "SparkSession", tree: Tree, how: Following) -> None:
        self._state = results(how.out / "follow")
        self._lock = _locked(self._state)
        self._failed = ""
        self.feeder = Feeder(how.source, self._state)
        self.alerts = Alerts(how.out / "alerts", how.receivers)
        self._told: set[tuple[str, str]] = set()
        self._taken: set[str] = set()
        self._checkpoints = [Checkpoint(self._state / name) for name in ("alerts", "counts")]
        root, form = how.history
        self._kept = Counts(root, how.tree, self._stream(), form) if root else None
        self._feed()
        rows = _of_tree(_pieces(spark, self.feeder.pieces, how.files_a_batch), how.tree)
        alerts, counts = row_alerts(rows, tree), windows(rows, how.window, how.late)
        self._queries: list[StreamingQuery] = [
            self._start(alerts, "alerts", self._alert),
            self._start(counts, "counts", lambda frame, batch: self._count(frame, batch, how)),
        ]

    def __repr__(self) -> str:
        return f"<Follower {self.feeder!r} {self.alerts!r}>"

    def step(self) -> int:
        """Feed what is new, and wait until both queries have taken it. Returns how many bytes that was."""
        fed = self._feed()
        for query in self._queries:
            query.processAllAvailable()
        return fed

    def _feed(self) -> int:
        """Feed, tell once of each log that cannot be followed, and delete what both queries have taken."""
        fed = self.feeder.feed()
        self._clear()
        for path, why in self.feeder.faults.items() - self._told:
            self._told.add((path, why))
            number = zlib.crc32(f"{path}\n{why}".encode())
            alert = {"id": number, "alert": "not followed", "text": f"{path}: {why}"}
            self.alerts.take("logs", number, [alert])
        return fed

    def _clear(self) -> None:
        for checkpoint in self._checkpoints:
            done = checkpoint.done()
            self.feeder.forget(done & self._taken)
            self._taken ^= done

    def run(self, ended: Callable[[], bool], pause: float = 2.0) -> None:
        """Go on until `ended` says so, or until a query fails: then raises `AuditError` with its reason."""
        while all(query.isActive for query in self._queries):
            self._feed()
            again = time.monotonic() + pause
            while time.monotonic() < again:
                if ended():
                    return
                time.sleep(A_LOOK)
        for query in self._queries:
            error = query.exception()
            if error is not None:
                raise AuditError(f"{query.name} stopped: {self._failed or reason(error)}")

    @property
    def late(self) -> int:
        """Rows since the start that came too late for their window."""
        return sum(
            int(operator.get("numRowsDroppedByWatermark", 0))
            for progress in self._queries[1].recentProgress
            for operator in _dictionary(progress).get("stateOperators", [])
        )

    def stop(self, patience: float = PATIENCE) -> None:
        """Let a batch that is under way end, then stop.

        Wrinkle: a query that is stopped in the middle of a batch complains wherever it can, and does the
        batch again at the next start.
        """
        until = time.monotonic() + patience
        for query in self._queries:
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
                time.sleep(A_LOOK)
            query.stop()
        self._lock.close()

    def _stream(self) -> str:
        """The name of the stream that these checkpoints are of, from its first start on."""
        place = self._state / "stream"
        if not place.exists():
            part = place.with_suffix(".part")
            with part.open("w") as file:
                file.write(new_name())
                file.flush()
                os.fsync(file.fileno())
            part.replace(place)
        return place.read_text().strip()

    def _start(self, frame: DataFrame, name: str, take: Callable[[DataFrame, int], None]) -> "StreamingQuery":
        """Wrinkle: Spark looks through the text of an error for an interrupt, and dies of the stack of Java
        that is in it, without a word. So it is told the first line alone."""

        def taken(rows: DataFrame, batch: int) -> None:
            try:
                take(rows, batch)
            except Exception as error:
                self._failed = self._failed or reason(error)
                raise AuditError(self._failed) from None

        writer = frame.writeStream.queryName(name).outputMode("append").foreachBatch(taken)
        return writer.option("checkpointLocation", str(self._state / name)).start()

    def _alert(self, frame: DataFrame, batch: int) -> None:
        rows = [row.asDict() for row in frame.limit(MOST_ALERTS + 1).collect()]
        self.alerts.take("rows", batch, _bounded(rows))

    def _count(self, frame: DataFrame, batch: int, how: Following) -> None:
        """A batch that is repeated writes the same folder again, and the history knows it.

        Wrinkle: the frame is only written. Each action on it would run the counting again; and it may have a
        row for each node, so that it is not collected either.
        """
        target = results(how.out / "counts") / f"batch={batch}"
        frame.write.mode("overwrite").parquet(url(target))
        kept = frame.sparkSession.read.schema(frame.schema).parquet(url(target))
        if kept.isEmpty():
            shutil.rmtree(target)
            return
        storms = storm_alerts(kept, how.storm).limit(MOST_ALERTS + 1)
        self.alerts.take("storms", batch, _bounded([row.asDict() for row in storms.collect()]))
        if self._kept:
            self._kept.take(batch, target)
            shutil.rmtree(target)


def _locked(folder: Path) -> TextIO:
    """The lock of a folder, held until it is closed or this process ends. Raises `AuditError`."""
    lock = (folder / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise AuditError(f"{folder}: another follower is at work there: expected an --out for each") from None
    return lock


def url(path: Path) -> str:
    """A path of this machine as Spark takes it: with its scheme, and not quoted."""
    return f"file://{path.absolute()}"


def _dictionary(progress: Any) -> dict[str, Any]:
    return progress if isinstance(progress, dict) else dict(progress.jsonValue)


def _bounded(rows: list[Alert]) -> list[Alert]:
    if len(rows) <= MOST_ALERTS:
        return rows
    more = {"id": 0, "alert": "more", "text": f"more than {MOST_ALERTS} alerts at once; run the whole audit"}
    return [*rows[:MOST_ALERTS], more]


def _pieces(spark: "SparkSession", folder: Path, files: int) -> DataFrame:
    reader = spark.readStream.format("text").option("lineSep", "\n").option("maxFilesPerTrigger", files)
    return parse(reader.load(str(folder)).select("value"))


def _of_tree(rows: DataFrame, tree: str) -> DataFrame:
    """Rows of one tree, and lines that are none."""
    return rows.where(F.col("tree").isNull() | (F.col("tree") == tree)) if tree else rows


def row_alerts(rows: DataFrame, tree: Tree) -> DataFrame:
    """What each row by itself gives reason to say: (id, alert, at, node, peer, origin, destination, text)."""
    broken = rows.where(~F.col("fate").isin("rows", "blank"))
    told = rows.where(F.col("fate") == "rows")
    spilled = _spilled(told.where(F.col("event") == "advisory"), tree)
    down = told.where((F.col("event") == "link") & (F.col("op") == "down") & (F.col("direction") == "up"))
    unset = told.where((F.col("at") < F.lit(_UNSET).cast("timestamp")) & (F.col("event") == "node"))
    lost = " and all below it" if not tree.meshed else ""
    parts = (
        (spilled, "spilled", F.concat(F.lit("can never use this advisory, told by "), "peer")),
        (down, "link down", F.concat(F.lit("lost the link to "), "peer", F.lit(lost))),
        (unset, "clock", F.lit("has a clock that is not set")),
        (broken, "unreadable", F.concat(F.lit("a line was not used: "), "fate")),
    )
    frames = [_alerts(frame, name, text) for frame, name, text in parts]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _alerts(frame: DataFrame, name: str, text: Column) -> DataFrame:
    what = F.concat_ws(":", "kind", "destination").alias("destination")
    return frame.select(
        F.xxhash64(F.lit(name), "mark").alias("id"),
        F.lit(name).alias("alert"),
        F.col("at").cast("string").alias("at"),
        "node",
        "peer",
        "origin",
        what,
        text.alias("text"),
    )


def _spilled(advisories: DataFrame, tree: Tree) -> DataFrame:
    """By the law of `spillage`, against the deployment alone."""
    consumers = advisories.where(F.col("kind").isin("queue", "topic"))
    spark = advisories.sparkSession
    nodes = spark.createDataFrame(tree.nodes.select(["node", "place"]))
    here = F.broadcast(nodes)
    there = F.broadcast(nodes.select(F.col("node").alias("origin"), F.col("place").alias("origin_place")))
    related = spark.createDataFrame(relations(tree)).select(
        F.col("node").alias("place"), F.col("other").alias("origin_place"), F.lit(True).alias("near")
    )
    placed = consumers.join(here, "node").join(there, "origin")
    judged = placed.join(F.broadcast(related), ["place", "origin_place"], "left")
    return judged.where(F.col("near").isNull() | (F.col("node") == F.col("origin")))


def windows(rows: DataFrame, window: str, late: str) -> DataFrame:
    """Counts of closed windows: (since, node, event, kind, op, rows, bytes)."""
    told = rows.where((F.col("fate") == "rows") & (F.col("at") >= F.lit(_UNSET).cast("timestamp")))
    timed = told.withColumn("when", F.least("at", F.current_timestamp()))
    once = timed.withWatermark("when", late).dropDuplicatesWithinWatermark(["node", "mark"])
    return (
        once.groupBy(F.window("when", window), "node", "event", "kind", "op")
        .agg(F.count(F.lit(1)).alias("rows"), F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"))
        .select(F.col("window.start").alias("since"), "node", "event", "kind", "op", "rows", "bytes")
    )


def storm_alerts(counts: DataFrame, storm: int) -> DataFrame:
    """Nodes that received more advisories in a window than is usual anywhere."""
    hourly = counts.where(F.col("event") == "advisory").groupBy("since", "node").agg(F.sum("rows").alias("n"))
    nothing = F.lit(None).cast("string")
    return hourly.where(F.col("n") >= storm).select(
        F.xxhash64(F.lit("storm"), "since", "node").alias("id"),
        F.lit("storm").alias("alert"),
        F.col("since").cast("string").alias("at"),
        "node",
        nothing.alias("peer"),
        nothing.alias("origin"),
        nothing.alias("destination"),
        F.concat("n", F.lit(" advisories in one window")).alias("text"),
    )
