"""Which rows have to be compared because two files tell of one time."""

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pytest
from audit_tables import rows as rows_of
from audit_tables import table

from audit import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START: Final = datetime(2026, 3, 14, tzinfo=UTC)
SPAN: Final = ("node", "file", "since", "until")
Span = tuple[str, str, int, int]
"""A node, a file, and the first and the last second of which it tells."""


def _spans(chance: random.Random, of_node: int, seconds: int, longest: int) -> list[Span]:
    found = []
    for node in ("bath", "york"):
        for number in range(of_node):
            since = chance.randrange(seconds)
            found.append((node, f"{number}", since, since + chance.randrange(longest)))
    return found


def _told_twice(spans: list[Span], node: str, second: int) -> bool:
    return sum(one == node and since <= second <= until for one, _, since, until in spans) > 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("of_node", "longest"), [(8, 40), (30, 12), (3 * files.MOST_TIMES, 8), (12, 500)])
def test_rows_are_looked_at_wherever_two_files_tell_of_their_time(
    spark: "SparkSession", seed: int, of_node: int, longest: int
) -> None:
    """And nowhere else, as long as the times of a node are few."""
    spans = _spans(random.Random(seed), of_node, 400, longest)
    seconds = range(400 + longest)
    rows = spark.createDataFrame(
        [(node, second, _at(second)) for node in ("bath", "york", "exeter") for second in seconds],
        "node string, second long, at timestamp",
    )
    times = files.overlapping(
        table(SPAN, [(node, file, _at(since), _at(until)) for node, file, since, until in spans])
    )
    found = files.of_times(rows, times).collect()
    assert sorted(found) == sorted(files.of_times(files.skipping(rows, times), times).collect())
    asked = {(row.node, row.second) for row in found}
    due = {
        (node, second) for node in ("bath", "york") for second in seconds if _told_twice(spans, node, second)
    }
    assert due, "the test shows nothing otherwise"
    assert due <= asked
    if of_node <= files.MOST_TIMES:
        assert asked == due


def _at(second: int) -> datetime:
    return _START + timedelta(seconds=second)


def test_files_that_follow_each_other_have_nothing_to_compare(spark: "SparkSession") -> None:
    spans = [("york", name, _at(since), _at(since + 9)) for name, since in (("a", 0), ("b", 10), ("c", 20))]
    rows = spark.createDataFrame([(node, since) for node, _, since, _ in spans], "node string, at timestamp")
    times = files.overlapping(table(SPAN, spans))
    assert len(times) == 0
    assert files.of_times(rows, times).isEmpty()
    assert files.skipping(rows, times).isEmpty()


def test_times_that_touch_are_one() -> None:
    """Else many nodes in many files, in no order, have more of them than memory holds."""
    spans = [("york", f"{number}", _at(number), _at(100 + number)) for number in range(20)]
    spans += [("york", f"later-{number}", _at(500), _at(510)) for number in range(3)]
    found = rows_of(files.overlapping(table(SPAN, spans)))
    assert {(row.since.timestamp(), row.until.timestamp()) for row in found} == {
        (_at(1).timestamp(), _at(118).timestamp()),
        (_at(500).timestamp(), _at(510).timestamp()),
    }
