"""Volume by cause, waste, scope and capacity, on logs small enough to reckon by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from audit_tables import events, rows, summed, table, tree_of
from pyarrow import Table, parquet

from audit import capacity, causes, offsets, scope, volume, waste
from audit import told as routes
from audit.deployment import Tree
from audit.errors import UsageError
from audit.given import COUNTED, USAGE, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 3, 14, 8, 0, tzinfo=UTC)
Row = dict[str, Any]
CONSUMER = ("node", "kind", "destination")


def row(event: str, node: str, op: str, minutes: float = 0, **more: Any) -> Row:
    return {"event": event, "node": node, "op": op, "at": START + timedelta(minutes=minutes)} | more


def told(node: str, minutes: float, cause: str = "york:1", **more: Any) -> Row:
    given = {"kind": "queue", "destination": "prices", "peer": "below", "direction": "up", "cause": cause,
             "origin": "york", "bytes": 30}  # fmt: skip
    return row("advisory", node, "add", minutes, **given | more)


LOG: list[Row] = [
    row("consumer", "york", "add", 0, kind="queue", destination="prices", cause="york:1", origin="york"),
    told("north", 0.01),
    told("hq", 0.05),
    row("consumer", "bath", "add", 10, kind="queue", destination="bread", cause="bath:1", origin="bath"),
    told("hq", 9, "bath:1", destination="bread", origin="bath"),  # by clocks that differ, before it happened
    *(
        row("consumer", "york", op, 60 + n, kind="topic", destination="till/+", cause=f"y{n}{op}")
        for n in range(4)
        for op in ("add", "remove")
    ),
    *(told("durham", 60 * hour, f"c{hour}{n}") for hour in range(5) for n in range(1)),
    *(told("durham", 301, f"s{n}", destination=f"d{n}") for n in range(150)),
    told("south", 20, "resync", kind="topic", destination="offers/#"),
    told("south", 20, "resync", kind="domain", destination="bath"),
    *(
        row("link", "north", op, minutes, peer="york", direction="up")
        for op, minutes in (
            ("up", 1),
            ("down", 2),
            ("up", 3),
            ("down", 4),
            ("up", 4.5),
            ("down", 5),
            ("up", 6),
        )
    ),
    *(
        row("link", "hq", op, minutes, peer="south", direction="up")
        for op, minutes in (("up", 0), ("down", 241))
    ),
    row("link", "boot", "down", -30_000_000, peer="x", direction="up", clock="unset"),
]


@pytest.fixture(scope="module")
def log(spark: "SparkSession") -> "DataFrame":
    return events(spark, LOG).localCheckpoint()


@pytest.fixture(scope="module")
def rolled(log: "DataFrame") -> Table:
    return summed(log)


@pytest.fixture(scope="module")
def cube(rolled: Table) -> Table:
    return volume.cube(rolled)


@pytest.fixture(scope="module")
def hours(log: "DataFrame") -> Table:
    return routes.HOURS.by_spark(log).toArrow()


@pytest.fixture(scope="module")
def sums(log: "DataFrame") -> Table:
    return routes.TOLD.by_spark(log).toArrow()


def test_each_event_tells_how_many_heard_and_when_the_root_knew(log: "DataFrame", demo_tree: Tree) -> None:
    caused = causes.consumer_events(log, demo_tree.roots).toArrow()
    found = {
        each.cause: (each.nodes, each.advisories, each.bytes, each.root_knew_after_s) for each in rows(caused)
    }
    assert found["york:1"] == (2, 2, 60, 3.0)
    assert found["bath:1"] == (1, 1, 30, -60.0)
    assert found["y0add"] == (0, 0, 0, None)
    knowing = {each.op: each for each in rows(volume.knowing(caused, demo_tree.nodes, offsets.NONE, "hq"))}
    assert (knowing["add"].events, knowing["add"].clocks_differ, knowing["add"].root_p50_s) == (6, 1, 3.0)


def test_of_many_events_one_in_so_many_is_looked_at_and_what_it_says_is_whole(
    log: "DataFrame", demo_tree: Tree
) -> None:
    def looked(one_in: int) -> set[str]:
        some = causes.chosen(log, one_in)
        return {str(row) for row in causes.consumer_events(some, demo_tree.roots).collect()}

    assert 0 < len(looked(2)) < len(looked(1))
    assert looked(2) < looked(1)
    limit = causes.EVENTS_SHOWN
    assert [causes.one_in(count) for count in (0, limit, limit + 1, 10 * limit)] == [1, 1, 2, 10]


def test_what_a_consumer_cost_is_a_sum_over_all_that_was_told_of_it(hours: Table, sums: Table) -> None:
    found = {row.destination: row for row in rows(volume.consumers(hours, sums))}
    prices, bread = found["prices"], found["bread"]
    assert (prices.came, prices.added, prices.closed, prices.bytes) == (1, 7, 0, 210)
    assert (bread.added, bread.bytes) == (1, 30)
    assert (found["till/+"].came, found["till/+"].went, found["till/+"].added) == (4, 4, 0)


def test_consumers_that_come_and_go_flap(hours: Table) -> None:
    (found,) = rows(waste.flapping_consumers(hours))
    assert (found.node, found.destination, found.came, found.went, found.most_in_an_hour) == (
        "york",
        "till/+",
        4,
        4,
        4,
    )


def test_a_storm_is_far_above_the_node_s_own_usual_hour(cube: Table) -> None:
    (found,) = rows(waste.storms(cube))
    assert (found.node, found.advisories, found.baseline, found.times) == ("durham", 150, 1.0, 150.0)


def test_an_hour_that_is_rounded_to_ten_times_the_usual_one_is_no_storm() -> None:
    hours = [("hq", START + timedelta(hours=n), 51) for n in range(3)]
    hours += [("hq", START + timedelta(hours=3), 508), ("hq", START + timedelta(hours=4), 510)]
    assert [each.advisories for each in rows(waste.storms(table(("node", "hour", "advisories"), hours)))] == [
        510
    ]


def test_resyncs_are_counted_with_what_of_them_is_consumers(cube: Table) -> None:
    (found,) = rows(waste.resyncs(cube))
    assert (found.node, found.advisories, found.bytes, found.consumer_advisories) == ("south", 2, 60, 1)


def test_links_that_go_down_often_flap_and_their_subtrees_are_cut_off(
    log: "DataFrame", rolled: Table, demo_tree: Tree
) -> None:
    flaps = {(each.node, each.peer): (each.downs, each.flaps) for each in rows(waste.links(rolled))}
    assert flaps["north", "york"] == (3, True)
    assert flaps["hq", "south"] == (1, False)
    cut = {each.node: each for each in rows(waste.cut_off(log.toArrow(), rolled, demo_tree.nodes))}
    assert (cut["york"].downs, cut["york"].seconds, cut["york"].longest_s, cut["york"].since) == (
        3,
        150.0,
        60.0,
        None,
    )
    assert (cut["south"].below, cut["south"].seconds) == (3, 3600.0)
    assert cut["south"].since.replace(tzinfo=UTC) == START + timedelta(minutes=241)


def ends(writer: str, op: str, peer: str, minutes: float) -> list[Row]:
    """What both ends write, or one of them, of the link of `peer` with `writer` above it."""
    return [
        row("link", writer, op, minutes, peer=peer, direction="up"),
        row("link", peer, op, minutes, peer=writer, direction="down"),
    ]


def stop(node: str, minutes: float) -> Row:
    return row("node", node, "stop", minutes)


LINKED = [*ends("hq", "up", "north", 0), *ends("north", "up", "york", 0), row("node", "hq", "start", 60)]
LOST = ends("north", "down", "york", 10)
SEEN_BELOW = LOST[1:]
CLOSED = [*LOST, stop("york", 10)]
ROOT_FIRST = [*ends("hq", "down", "north", 5), stop("hq", 5), *LOST, stop("north", 10), stop("york", 15)]
ROOT_LAST = [*CLOSED, *ends("hq", "down", "north", 40), stop("north", 40), stop("hq", 50)]
BACK = ends("north", "up", "york", 20)
MOVED = ends("south", "up", "york", 12)
LOST_AGAIN = ends("north", "down", "york", 30)
NEVER_UP = ends("north", "down", "durham", 50)


@pytest.mark.parametrize(
    ("log", "found"),
    [
        pytest.param(LOST, {"york": (3000, 10)}, id="a line that stays broken"),
        pytest.param([*LOST, *MOVED], {"york": (120, None)}, id="a store that moves"),
        pytest.param(CLOSED, {}, id="a store that closes"),
        pytest.param([*LOST, stop("york", 6)], {}, id="a store that closes, with a clock that is late"),
        pytest.param(ROOT_FIRST, {}, id="all stop, the root first"),
        pytest.param(ROOT_LAST, {}, id="all stop, the root last"),
        pytest.param([*LOST, stop("north", 10)], {"york": (3000, 10)}, id="only the parent stops"),
        pytest.param(SEEN_BELOW, {"york": (3000, 10)}, id="the parent was killed"),
        pytest.param([*SEEN_BELOW, stop("york", 12)], {}, id="the parent was killed, and the store closes"),
        pytest.param([*SEEN_BELOW, *BACK], {}, id="the parent was killed, and is back"),
        pytest.param([*LOST, stop("york", 40)], {"york": (1800, None)}, id="a broken line, later it stops"),
        pytest.param(
            [*CLOSED, *BACK, *LOST_AGAIN], {"york": (600 + 1800, 30)}, id="a log that ends before it was back"
        ),
        pytest.param([*NEVER_UP, stop("durham", 45)], {}, id="a link that the log does not see come up"),
        pytest.param(
            [*NEVER_UP, stop("durham", -99)], {"durham": (600, 50)}, id="such a link, and an old log"
        ),
    ],
)
def test_who_has_stopped_in_good_order_is_not_cut_off(
    spark: "SparkSession", demo_tree: Tree, log: list[Row], found: dict[str, tuple[float, float | None]]
) -> None:
    told = events(spark, LINKED + log)
    cut = rows(waste.cut_off(told.toArrow(), summed(told), demo_tree.nodes))
    minutes = timedelta(minutes=1)
    assert {
        each.node: (each.seconds, each.since and (each.since.replace(tzinfo=UTC) - START) / minutes)
        for each in cut
    } == found


def test_routes_held_while_it_was_counted_that_no_message_used(spark: "SparkSession") -> None:
    """Also such as went; but not those that went before, or of a node that did not count."""
    log = [
        told("hq", 1, destination="stands"),
        told("hq", 1, destination="went"),
        told("hq", 30, destination="went") | {"op": "remove"},
        told("hq", 1, destination="used"),
        told("hq", 30, destination="used") | {"op": "remove"},
        told("hq", 31, destination="used") | {"op": "dormant"},
        told("hq", 1, destination="before"),
        told("hq", 2, destination="before") | {"op": "remove"},
        told("hq", 1, destination="elsewhere"),
        told("hq", 1, destination="elsewhere", peer="south"),
        told("hq", 2, destination="elsewhere") | {"op": "remove"},
        row("consumer", "hq", "add", 3, kind="topic", destination="offers/#"),
        told("north", 1, destination="used"),
    ]
    since = START + timedelta(minutes=10)
    usage = [
        ("hq", None, None, 0, since + timedelta(days=1), None),
        ("hq", None, None, 0, since, True),
        ("hq", "queue", "used", 7, None, None),
    ]

    held = routes.held_routes(events(spark, log)).toArrow()

    def found(given: list[Any]) -> dict[str, tuple[Any, ...]]:
        unused = rows(waste.unused_routes(held, spark.createDataFrame(given, COUNTED).toArrow()))
        return {each.node: (each.held, each.unused, each.share, each.examples) for each in unused}

    assert found(usage) == {"hq": (5, 4, 0.8, "queue:elsewhere queue:stands queue:went")}
    more = ("hq", None, None, 0, since, False)
    assert found([*usage, more]) == {"hq": (5, None, None, "")}, "others were used that are not listed"
    ever = [(*each[:4], None, None) for each in usage]
    assert found(ever)["hq"][:2] == (6, 5), "a table of somebody's own does not say since when"


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_table_beside_the_logs_is_read_by_the_names_of_its_columns(
    spark: "SparkSession", tmp_path: Path, form: str
) -> None:
    given = [{"whole": "yes", "messages": "7", "node": "hq", "destination": "sales", "kind": "queue"}]
    given.append(given[0] | {"messages": "many"})
    path = tmp_path / f"usage.{form}"
    if form == "parquet":
        parquet.write_table(Table.from_pylist(given), path)
    elif form == "csv":
        lines = [",".join(row) for row in (given[0], *(row.values() for row in given))]
        path.write_text("\n".join(lines))
    else:
        path.write_text("\n".join(map(json.dumps, given)))
    found = [tuple(row) for row in read_table(spark, str(path), USAGE).collect()]
    assert found == [("hq", "queue", "sales", 7), ("hq", "queue", "sales", None)]


def test_a_table_without_a_column_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text("node,destination,uses\n")
    with pytest.raises(UsageError, match=r"usage.csv: no column kind, messages: expected a table"):
        read_table(spark, str(path), USAGE)


def test_who_is_silent_and_who_is_a_stranger(rolled: Table, demo_tree: Tree) -> None:
    assert [each.node for each in rows(waste.strangers(rolled, demo_tree.nodes))] == ["boot"]
    silent = {each.node for each in rows(waste.silent(rolled, demo_tree.nodes))}
    assert silent == {"lancaster", "exeter", "winchester"}


def test_scope_tree_is_in_vain_above_the_lowest_node_that_has_all_readers(demo_tree: Tree) -> None:
    readers = {
        "one": ["york"],
        "region": ["york", "durham"],
        "both": ["york", "bath"],
        "hq": ["hq"],
        "branch": ["north"],
    }
    read = [(node, "topic", name) for name, nodes in readers.items() for node in nodes] + [
        ("york", "queue", "q")
    ]
    consumers = table(CONSUMER, read)
    found = {
        each.destination: (each.publishers, each.crossed, each.vain, each.needed, each.asked)
        for each in rows(scope.scope_cost(demo_tree, consumers))
    }
    # one: york's own line and, for all three of the region, the line from north to hq
    assert found == {
        "one": (6, 12, 4, 8, 8),
        "region": (6, 12, 3, 9, 8),
        "both": (6, 12, 0, 12, 8),
        "hq": (6, 12, 0, 12, 8),
        "branch": (6, 12, 3, 9, 8),
    }


@pytest.mark.parametrize("mesh", [(None,), ("core", "core")])
def test_where_no_line_is_crossed_none_is_in_vain(mesh: tuple[str | None, ...]) -> None:
    alone = tree_of([(f"hq-{place}", None, "root", word) for place, word in enumerate(mesh)])
    (found,) = rows(scope.scope_cost(alone, table(CONSUMER, [("hq-0", "topic", "offers")])))
    assert tuple(found) == ("offers", 1, len(mesh), 0, 0, None, 0, 0)


def test_a_trend_needs_three_points_and_must_rise() -> None:
    days = [
        *(("full", "routes", START + timedelta(days=n), 100.0 * n) for n in range(5)),
        *(("empties", "routes", START + timedelta(days=n), 100.0 - n) for n in range(5)),
        *(("young", "links", START + timedelta(days=n), 10.0 * n) for n in range(2)),
        *(("cellars", "casks", START + timedelta(days=n), 10.0 * n) for n in range(5)),
    ]
    figures = table(("node", "figure", "at", "value"), days)
    found = {each.node: each for each in rows(capacity.forecast(figures, {"routes": 1400.0}))}
    assert (found["full"].now, found["full"].a_day, found["full"].days_left) == pytest.approx(
        (400.0, 100.0, 10.0)
    )
    assert found["full"].full_at.replace(tzinfo=UTC) == datetime(2026, 3, 28, tzinfo=UTC)
    assert (found["empties"].days_left, found["empties"].full_at) == (None, None)
    assert (found["young"].points, found["young"].days_left) == (2, None)
    assert (found["cellars"].limit, found["cellars"].days_left, found["cellars"].full_at) == (
        None,
        None,
        None,
    )


def test_a_link_that_comes_up_twice_without_having_gone_is_one() -> None:
    ups = [("hq", "york", hour, "up") for hour in range(5)] + [("hq", "york", 6, "down")]
    told = table(
        ("node", "peer", "hour", "event", "op", "rows", "clock"),
        [(node, peer, START + timedelta(hours=hour), "link", op, 1, None) for node, peer, hour, op in ups],
    )
    steps = {row.at.hour: row.step for row in rows(capacity.links(told))}
    assert [step for _, step in sorted(steps.items())] == [1, 0, 0, 0, 0, -1]


def test_figures_are_what_was_there_at_the_end_of_an_hour(
    spark: "SparkSession", log: "DataFrame", rolled: Table, sums: Table
) -> None:
    adrift = capacity.adrift(rolled, sums)
    assert [row.node for row in rows(adrift)] == ["durham"], "which was told of one route again and again"
    few = log.join(spark.createDataFrame(adrift), "node", "left_semi")
    said = routes.SAID_BY_HOUR.by_spark(few).toArrow()
    figures = capacity.figures(rolled, capacity.routes(rolled, adrift, said))
    found = {(each.node, each.figure, each.at.hour): each.value for each in rows(figures)}
    assert found["hq", "routes", 8] == 2.0
    assert (found["durham", "routes", 12], found["durham", "routes", 13]) == (1.0, 151.0)
    assert (found["hq", "links", 8], found["hq", "links", 12]) == (1.0, 0.0)


def test_a_day_without_a_change_is_a_day_of_the_trend() -> None:
    """Three days of growth and twenty of quiet are no trend of three days; nor has a morning less routes than
    the evening before."""
    steps = [(0, 100), (24, 100), (48, 100), (100, -250)]
    told = table(("node", "figure", "at", "step"), [("hq", "routes", START + timedelta(hours=h), n)
                 for h, n in steps])  # fmt: skip
    ends = table(("event", "op", "node", "peer", "hour", "rows", "clock", "last"),
                 [("node", "start", "york", None, START, 1, None, START + timedelta(days=20))])  # fmt: skip
    figures = capacity.figures(ends, told)
    most: dict[int, float] = {}
    for each in rows(figures):
        day = (each.at.date() - START.date()).days
        most[day] = max(most.get(day, 0.0), each.value)
    assert [most[day] for day in sorted(most)] == [100.0, 200.0, 300.0, 300.0, 300.0, *[50.0] * 16]
    (found,) = rows(capacity.forecast(figures))
    assert (found.points, found.now, found.days_left) == (21, 50.0, None)


def test_a_route_that_is_told_again_is_one_and_none_is_less_than_none(spark: "SparkSession") -> None:
    """What a resync told at 9 goes at 10; the remove at 11 is of a route from before the log."""

    def told(hour: int, op: str, destination: str, peer: str, cause: str = "york:1") -> dict[str, object]:
        return {"event": "advisory", "op": op, "kind": "queue", "destination": destination, "peer": peer,
                "node": "north", "cause": cause, "at": START + timedelta(hours=hour)}  # fmt: skip

    log = events(
        spark,
        [
            told(0, "add", "a", "york"),
            told(1, "add", "a", "york", "resync"),
            told(1, "add", "b", "york", "resync"),
            told(1, "add", "a", "durham", "resync"),
            told(1, "dormant", "a", "durham"),
            told(2, "remove", "b", "york"),
            told(2, "remove", "a", "york"),
            told(3, "remove", "c", "york"),
            told(4, "remove", "a", "durham"),
        ],
    )
    log = log.unionByName(events(spark, [told(0, "add", "a", "york") | {"node": "south"}]))
    rolled = summed(log)
    adrift = capacity.adrift(rolled, routes.TOLD.by_spark(log).toArrow())
    assert [row.node for row in rows(adrift)] == ["north"]
    few = log.join(spark.createDataFrame(adrift), "node", "left_semi")
    said = routes.SAID_BY_HOUR.by_spark(few).toArrow()
    steps = {
        (row.node, row.at.hour - START.hour): row.step for row in rows(capacity.routes(rolled, adrift, said))
    }
    north = {0: 1, 1: 2, 2: -2, 3: 0, 4: -1}
    assert steps == {("north", hour): step for hour, step in north.items()} | {("south", 0): 1}
