"""An audit is complete, or says of what it is not: trees, holes, nodes without a log, clocks, repeats."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from audit_tables import Begun, rows, table

from audit import cli, offsets, run, session
from audit.deployment import Tree, load_tree
from audit.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SITES = Path(__file__).parent / "data" / "stores.csv"
BEGIN = datetime(2026, 3, 14, 8, 0, tzinfo=UTC)
PARENTS = {"york": "north", "durham": "north", "bath": "south", "north": "hq", "south": "hq"}
ROLES = {"hq": "root", "north": "branch", "south": "branch"}
Row = dict[str, Any]


class Logs:
    """Writes each node's log below a folder, with numbers. `clocks`: seconds that a node's clock is ahead."""

    def __init__(self, tree: str = "acme", clocks: dict[str, float] | None = None) -> None:
        self.tree, self.clocks = tree, clocks or {}
        self.rows: dict[str, list[Row]] = {node: [] for node in ("hq", *PARENTS)}

    def row(self, node: str, event: str, op: str, seconds: float, **more: Any) -> None:
        at = BEGIN + timedelta(seconds=seconds + self.clocks.get(node, 0))
        given = {"event": event, "at": at.isoformat(), "tree": self.tree, "node": node, "op": op}
        place = {"role": ROLES.get(node, "leaf"), "schema": 2, "series": 1}
        self.rows[node].append(given | place | more | {"seq": len(self.rows[node]) + 1})

    def consumer(self, node: str, number: int, seconds: float, op: str = "add") -> None:
        """A consumer and what it costs: all above are told, and of one at the root all below."""
        what = {
            "kind": "queue",
            "destination": f"q{number}",
            "cause": f"{node}:{number}:{op}",
            "origin": node,
        }
        self.row(node, "consumer", op, seconds, **what)
        self._told(node, op, seconds, what)

    def _told(self, node: str, op: str, seconds: float, what: Row) -> None:
        told = {"bytes": 40, **what}
        above = node
        while above != "hq":
            seconds += 1
            parent = PARENTS[above]
            self.row(parent, "advisory", op, seconds, peer=above, direction="up", **told)
            above = parent
        if node == "hq":
            for child, parent in sorted(PARENTS.items(), key=lambda pair: pair[1] != "hq"):
                self.row(child, "advisory", op, seconds + 1, peer=parent, direction="down", **told)

    def write(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        for node, found in self.rows.items():
            (folder / f"{node}.advisories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
        return folder


def day(**more: Any) -> Logs:
    """Consumers come at every store and at the root, an hour apart."""
    logs = Logs(**more)
    for hour in range(3):
        for number, node in enumerate(("york", "durham", "bath", "hq")):
            logs.consumer(node, 10 * hour + number, 3600 * hour + 60 * number)
    return logs


def audited(spark: "SparkSession", folder: Path, out: Path, **more: Any) -> tuple[Row, Path]:
    request = run.Request([str(folder)], str(SITES), out, range(1, 3), **more)
    return run.audit(spark, request, load_tree(str(SITES))), out / "tables"


def of(tables: Path, name: str) -> list[Any]:
    from pyarrow import parquet

    return rows(parquet.read_table(tables / name))


def test_a_healthy_day_is_whole_and_its_silent_stores_are_told(spark: "SparkSession", tmp_path: Path) -> None:
    """Lancaster, exeter and winchester were off: nobody heard of them."""
    found, tables = audited(spark, day().write(tmp_path / "logs"), tmp_path / "out")
    assert found["judged"]["whole"]
    assert (found["judged"]["nodes_without_log"], found["judged"]["nodes_up_without_log"]) == (3, 0)
    assert found["judged"]["share_of_nodes"] == pytest.approx(6 / 9)
    assert not of(tables, "holes") + of(tables, "clocks") + of(tables, "trees")
    log = {row.node: row for row in of(tables, "logs")}["york"]
    assert (log.rows, log.numbered, log.first, log.last) == (6, 6, 1, 6)
    assert log.until == BEGIN + timedelta(hours=2, seconds=181)


def test_another_trees_logs_are_in_no_figure(spark: "SparkSession", tmp_path: Path) -> None:
    """The same stores in a tree for tests, with the same rows but for two consumers more."""
    day().write(tmp_path / "logs")
    alone, _ = audited(spark, tmp_path / "logs", tmp_path / "alone")
    other = day(tree="acme-test")
    other.consumer("york", 77, 5)
    other.consumer("bath", 78, 5)
    del other.rows["durham"]
    other.write(tmp_path / "logs" / "a-test")
    found, tables = audited(spark, tmp_path / "logs", tmp_path / "out")
    assert (found["advisories"], found["rows"]) == (alone["advisories"], alone["rows"])
    assert not found["judged"]["whole"]
    foreign = sum(map(len, other.rows.values()))
    assert found["judged"]["rows_of_other_trees"] == found["foreign"] == foreign
    assert [(row.tree, row.nodes, row.rows, row.audited) for row in of(tables, "trees")] == [
        ("acme", 6, alone["rows"], True),
        ("acme-test", 5, foreign, False),
    ]
    assert any("acme-test, lie in the folder" in finding["what"] for finding in found["findings"])
    named, _ = audited(spark, tmp_path / "logs", tmp_path / "named", tree="acme")
    assert named["judged"]["whole"]
    assert (named["advisories"], named["foreign"]) == (alone["advisories"], foreign)
    tests, _ = audited(spark, tmp_path / "logs", tmp_path / "tests", tree="acme-test")
    assert tests["rows"] == foreign
    with pytest.raises(UsageError, match=r"--tree asia: no row .* expected one of acme, acme-test"):
        audited(spark, tmp_path / "logs", tmp_path / "none", tree="asia")


def test_rows_that_were_removed_are_holes_with_a_name(spark: "SparkSession", tmp_path: Path) -> None:
    """Lines from the middle of one log, a whole file of another; a beginning that is gone is no hole."""
    logs = day()
    logs.row("hq", "node", "stop", 90_000)
    parts = {"hq": logs.rows["hq"], "york": logs.rows["york"], "bath": logs.rows["bath"]}
    hq, york, bath = (parts[node] for node in ("hq", "york", "bath"))
    del hq[4:6], york[0]
    logs.write(tmp_path / "logs")
    (tmp_path / "logs" / "bath.advisories.jsonl").unlink()
    for number, some in ((1, bath[:2]), (3, bath[4:])):
        text = "".join(json.dumps(row) + "\n" for row in some)
        (tmp_path / "logs" / f"bath.advisories-{number:06}.jsonl").write_text(text)
    found, tables = audited(spark, tmp_path / "logs", tmp_path / "out")
    holes = {row.node: row for row in of(tables, "holes")}
    assert {node: (row.first, row.last, row.missing) for node, row in holes.items()} == {
        "hq": (5, 6, 2),
        "bath": (3, 4, 2),
    }
    assert holes["bath"].before.endswith("bath.advisories-000001.jsonl")
    assert holes["bath"].after.endswith("bath.advisories-000003.jsonl")
    assert (holes["hq"].since, holes["hq"].until) == tuple(
        datetime.fromisoformat(row["at"]) for row in hq[3:5]
    )
    assert found["judged"]["rows_missing"] == 4
    assert not found["judged"]["whole"]


def test_a_log_that_began_anew_is_no_hole_and_hides_none(spark: "SparkSession", tmp_path: Path) -> None:
    """York's data folder was lost: its numbers begin again, and of those before one is missing."""
    logs = day()
    logs.rows["york"] = [
        *(row for row in logs.rows["york"] if row["seq"] != 2),
        *(row | {"series": 2, "at": f"2026-03-15T08:00:{row['seq']:02}Z"} for row in logs.rows["york"]),
    ]
    _, tables = audited(spark, logs.write(tmp_path / "logs"), tmp_path / "out")
    assert [(row.node, row.series, row.first, row.missing) for row in of(tables, "holes")] == [
        ("york", 1, 2, 1)
    ]


def test_two_nodes_of_one_name_are_told_by_their_numbers(spark: "SparkSession", tmp_path: Path) -> None:
    """Another york began an hour later. A copy of bath's folder runs since the second hour. Durham's folder
    was lost, which is no such case."""
    logs, other = day(), day()
    york, bath = other.rows["york"], other.rows["bath"][2:]
    hour, lost = timedelta(hours=1), {"series": 3, "at": "2026-03-14T18:00:00Z"}
    later = [
        row | {"series": 2, "at": (datetime.fromisoformat(row["at"]) + hour).isoformat()} for row in york
    ]
    logs.rows["durham"] += [row | lost for row in logs.rows["durham"]]
    logs.write(tmp_path / "logs")
    copies = {"york": later, "bath": [row | {"cause": "copy"} for row in bath]}
    for node, copied in copies.items():
        text = "".join(json.dumps(row) + "\n" for row in copied)
        (tmp_path / "logs" / f"{node}-2.advisories.jsonl").write_text(text)
    found, tables = audited(spark, tmp_path / "logs", tmp_path / "out")
    told = [
        (row.node, row.series, row.other, row.twice, row.since, row.until) for row in of(tables, "doubles")
    ]
    times = [datetime.fromisoformat(row["at"]) for row in bath]
    assert told == [
        ("bath", 1, 1, 4, min(times), max(times)),
        ("york", 2, 1, None, BEGIN + hour, datetime.fromisoformat(york[-1]["at"])),
    ]
    assert (found["judged"]["nodes_with_two_logs"], found["judged"]["whole"]) == (2, False)
    assert any("2 logs written beside another of the same name" in one["what"] for one in found["findings"])


def test_rows_without_numbers_are_read_as_ever(spark: "SparkSession", tmp_path: Path) -> None:
    logs = day()
    for found in logs.rows.values():
        for row in found[:3]:
            del row["seq"], row["series"]
            row["schema"] = 1
        for row in found[3:]:
            row["seq"] -= 3
    found, tables = audited(spark, logs.write(tmp_path / "logs"), tmp_path / "out")
    assert found["judged"]["whole"]
    assert found["newer"] == 0
    assert {row.numbered - row.rows for row in of(tables, "logs")} == {-3}


def test_a_node_that_was_up_must_have_a_log(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = day()
    logs.row("south", "link", "up", 0, peer="exeter", direction="up")
    logs.write(tmp_path / "logs")
    (tmp_path / "logs" / "bath.advisories.jsonl").unlink()
    found, tables = audited(spark, tmp_path / "logs", tmp_path / "out")
    heard = {row.node: row.heard for row in of(tables, "silent")}
    assert heard == {
        "bath": BEGIN + timedelta(hours=2, seconds=121),
        "exeter": BEGIN,
        "lancaster": None,
        "winchester": None,
    }
    assert (found["judged"]["nodes_up_without_log"], found["judged"]["whole"]) == (2, False)

    done: list[tuple[run.Request, Row]] = []
    audit = run.audit

    def once(_: object, request: run.Request, tree: Tree) -> Row:
        """The options that differ below are about the exit code alone: all ask for one audit."""
        if not done:
            done.append((request, audit(spark, request, tree)))
        assert request == done[0][0]
        return done[0][1]

    monkeypatch.setattr(session, "Starting", lambda *_: Begun(spark))
    monkeypatch.setattr(run, "audit", once)
    arguments = [str(tmp_path / "logs"), "--deployment", str(SITES), "--out", str(tmp_path / "cli")]
    assert cli.main([*arguments, "--strict"]) == 1
    assert "2 nodes up without a log" in capsys.readouterr().err
    assert cli.main([*arguments, "--require-share", "55%"]) == 0
    assert cli.main([*arguments, "--require-share", "0.6"]) == 1
    assert "of 55.6% of the sites there is a log: expected 60.0%" in capsys.readouterr().err
    assert cli.main([*arguments, "--require-all"]) == 1
    assert cli.main([*arguments, "--require-share", "half"]) == 2


@pytest.mark.parametrize("node", ["york", "south", "hq"])
@pytest.mark.parametrize("ahead", [7200.0, -86_400.0])
def test_a_clock_unlike_the_others_is_told_and_spoils_no_time(
    spark: "SparkSession", tmp_path: Path, node: str, ahead: float
) -> None:
    logs = day(clocks={node: ahead})
    for number, (child, parent) in enumerate([("york", "north"), ("south", "hq")]):
        for op, seconds in (("up", -60), ("down", 5000), ("up", 5100 + 100 * number), ("down", 9000)):
            logs.row(parent, "link", op, seconds, peer=child, direction="up")
            logs.row(child, "link", op, seconds, peer=parent, direction="down")
        logs.row(child, "node", "stop", 9001)
    found, tables = audited(spark, logs.write(tmp_path / "logs"), tmp_path / "out")
    cut_off = [(row.node, row.seconds, row.since) for row in of(tables, "cut_off")]
    assert cut_off == [("south", pytest.approx(200, abs=4), None), ("york", pytest.approx(100, abs=4), None)]
    ((told, off),) = [(row.node, row.off_s) for row in of(tables, "clocks") if row.off_s is not None]
    assert (told, off) == (node, pytest.approx(ahead, abs=2.0))
    assert any(f"that of {node} is about" in finding["what"] for finding in found["findings"])
    knowing = [row for row in of(tables, "knowing") if row.role == "leaf"]
    assert all(row.root_p99_s in (None, 2.0) for row in knowing)
    assert {"york": 3, "south": 0, "hq": 9}[node] == sum(row.clocks_differ for row in knowing)


def test_a_line_that_was_cut_is_no_clock_and_a_steady_delay_is() -> None:
    """Three nodes of which nothing comes back; microseconds."""
    columns = ("node", "ups", "up_least", "up_usual", "downs", "down_least", "down_usual")
    delays = [
        ("cut", 5, 300_000_000, 900_000_000, 0, None, None),
        ("steady", 5, 3_600_000_000, 3_600_100_000, 0, None, None),
        ("once", 1, 3_600_000_000, 3_600_000_000, 0, None, None),
        ("well", 5, 20_000, 30_000, 5, 20_000, 30_000),
    ]
    found = [(row.node, row.off_s) for row in rows(offsets.offsets(table(columns, delays), "hq"))]
    assert found == [("steady", -3600.0)]


def test_the_same_add_again_and_again_is_waste(spark: "SparkSession", tmp_path: Path) -> None:
    """Its consumer came once. What was told after the link came up anew, or by a resync, is none of it."""
    logs = day()
    told = {"kind": "queue", "origin": "york", "peer": "york", "direction": "up", "bytes": 40}
    for number in range(6):
        seconds = 9000 + 10 * number
        logs.row("north", "advisory", "add", seconds, destination="q0", cause=f"y:{number}", **told)
        logs.row("north", "advisory", "add", seconds, destination="q10", cause="resync", **told)
        logs.row("south", "link", "up", seconds, peer="bath", direction="up")
        bath = told | {"origin": "bath", "peer": "bath"}
        logs.row("south", "advisory", "add", seconds, destination="q2", cause=f"b:{number}", **bath)
    found, tables = audited(spark, logs.write(tmp_path / "logs"), tmp_path / "out")
    (again,) = of(tables, "repeated_adds")
    assert (again.node, again.peer, again.destination, again.origin) == ("north", "york", "q0", "york")
    assert (again.adds, again.removes, again.again) == (7, 0, 6)
    assert any("york told north of queue:q0 7 times" in finding["what"] for finding in found["findings"])
