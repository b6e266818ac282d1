"""What other brokers say, as advisory logs: real snapshots of five NATS servers, and ActiveMQ's
advisories."""

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from audit_tables import rows, sites, summed, tree_of

from audit import spillage
from audit.accounts import totals
from audit.listing import list_local
from audit.queries import query
from audit.reading import read
from audit.schema import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = Path(__file__).parent / "data"
TREE = sites("hq - root", "north hq branch", "york north leaf", "durham north leaf", "bath north leaf")


def imported(spark: "SparkSession", kind: str, source: Path) -> tuple["DataFrame", Any]:
    """The events, and the sums of what became of the lines."""
    intake = read(spark, list_local([str(source)]), kind)
    return intake.events, rows(totals(intake.files))[0]


def verdicts(events: "DataFrame") -> dict[tuple[str, str], set[str]]:
    """(destination, verdict) -> the nodes that have it."""
    tree, rolled = tree_of(TREE), summed(events)
    judged = spillage.judge(spillage.pairs(rolled), tree, spillage.strange_links(rolled, tree))
    found: dict[tuple[str, str], set[str]] = {}
    placed = "select distinct destination, verdict, node from events join judged using (node, origin)"
    for row in rows(query(placed, events=events.toArrow(), judged=judged)):
        found.setdefault((row.destination, row.verdict), set()).add(row.node)
    return found


def test_leaf_nodes_tell_every_store_what_one_store_reads(spark: "SparkSession") -> None:
    """york came and went with two subjects, hq came with one; between four looks at each of five servers."""
    events, sums = imported(spark, "nats", DATA / "leafz.jsonl")
    assert (sums.lines, sums.rows, sums.faults) == (20, 20, 0)
    changes = {
        (row.destination, row.op): row["count"]
        for row in events.groupBy("destination", "op").count().collect()
    }
    gone = ("prices.york", "till.*")
    assert changes == {(name, op): 4 for name in gone for op in ("add", "remove")} | {("sales", "add"): 4}
    found = verdicts(events)
    for subject in ("prices.york", "till.*"):
        assert found[subject, "needed"] == {"north", "hq"}
        assert found[subject, "spilled"] == {"durham", "bath"}
    assert found["sales", "needed"] == {"north", "york", "durham", "bath"}


def advisory(
    broker: str, at: Any, destination: str, consumer: str, path: list[str] | None = None, gone: bool = False
) -> str:
    told = {"broker": broker, "at": at, "destination": f"ActiveMQ.Advisory.Consumer.{destination}",
            "originBrokerId": f"ID:{broker}", "originBrokerName": broker}  # fmt: skip
    if gone:
        return json.dumps(told | {"RemoveInfo": {"objectId": consumer}})
    info = {"consumerId": consumer, "networkSubscription": path is not None, "brokerPath": path or []}
    return json.dumps(told | {"ConsumerInfo": info})


def test_network_subscriptions_are_advisories_received(spark: "SparkSession", tmp_path: Path) -> None:
    path = ["ID:york", "ID:north"]
    lines = [
        advisory("york", 1_763_715_305_250, "Queue.prices", "c1"),
        advisory("north", 1_763_715_305_300, "Queue.prices", "n1", path[:1]),
        advisory("hq", "2025-11-21T08:55:05.400Z", "Queue.prices", "n2", path),
        advisory("durham", 1_763_715_305_410, "Queue.prices", "n3", path),
        advisory("durham", 1_763_715_399_000, "Queue.prices", "n3", gone=True),
        advisory("york", 1_763_715_398_000, "Queue.prices", "c1", gone=True),
        json.dumps({"broker": "york", "at": 1, "destination": "ActiveMQ.Advisory.Connection"}),
        '{"broker": "yo',
    ]
    source = tmp_path / "advisories.jsonl"
    source.write_text("\n".join(lines) + "\n")
    events, sums = imported(spark, "activemq", source)
    assert (sums.lines, sums.rows, sums.unknown, sums.half) == (8, 6, 1, 1)
    told = {(row.event, row.node, row.op): (row.origin, row.peer) for row in events.collect()}
    assert told == {
        ("consumer", "york", "add"): ("york", None),
        ("consumer", "york", "remove"): ("york", None),
        ("advisory", "north", "add"): ("york", "york"),
        ("advisory", "hq", "add"): ("york", "north"),
        ("advisory", "durham", "add"): ("york", "north"),
        ("advisory", "durham", "remove"): ("york", "north"),
    }
    assert verdicts(events.where("event = 'advisory'"))["prices", "spilled"] == {"durham"}


def test_what_went_without_having_come_is_no_consumer(spark: "SparkSession", tmp_path: Path) -> None:
    """The log begins while a consumer of york is there; the add of another at york is damaged."""
    gone = {"york": "c1", "north": "n1", "hq": "n2"}
    lines = [
        advisory(broker, 1_763_715_305_000, "Queue.prices", name, gone=True) for broker, name in gone.items()
    ]
    lines += [
        advisory("york", 1_763_715_305_250, "Queue.bread", "c2")[:-9],
        advisory("york", 1_763_715_305_900, "Queue.bread", "c2", gone=True),
    ]
    source = tmp_path / "advisories.jsonl"
    source.write_text("\n".join(lines) + "\n")
    events, sums = imported(spark, "activemq", source)
    assert (sums.rows, sums.half) == (4, 1)
    told = {(row.event, row.node, row.destination, row.op, row.origin, row.cause) for row in events.collect()}
    assert told == {
        ("advisory", node, name, "remove", None, None)
        for node, name in (*((node, "prices") for node in gone), ("york", "bread"))
    }
    tree, rolled = tree_of(TREE), summed(events)
    judged = spillage.judge(spillage.pairs(rolled), tree, spillage.strange_links(rolled, tree))
    assert {row.verdict for row in rows(judged)} == {"unknown"}


UNTIMED = {
    "nats": '{"server": "york", "now": "+294247-01-10T04:00:54Z", "leafs": []}',
    "activemq": '{"broker": "york", "at": 99999999999999999, "ConsumerInfo": {"consumerId": "c"},'
    ' "destination": "ActiveMQ.Advisory.Consumer.Queue.a"}',
}


@pytest.mark.parametrize("kind", ["nats", "activemq"])
def test_what_is_imported_is_a_log(spark: "SparkSession", kind: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f"nothing of this is JSON\n\n{UNTIMED[kind]}\n")
    events, sums = imported(spark, kind, tmp_path)
    assert (sums.lines, sums.malformed, sums.blank, sums.untimed) == (3, 1, 1, 1)
    assert events.dtypes == [(field.name, field.dataType.simpleString()) for field in EVENTS]
    assert events.count() == 0


@pytest.mark.parametrize("kind", ["nats", "activemq"])
def test_two_lines_of_another_broker_in_one_are_malformed(
    spark: "SparkSession", kind: str, tmp_path: Path
) -> None:
    one = {
        "nats": json.dumps({"server": "york", "now": "2026-03-14T08:00:00Z", "leafs": [{"name": "}{"}]}),
        "activemq": advisory("york", 1_763_715_305_250, "Queue.}{", "}{"),
    }[kind]
    (tmp_path / "x.jsonl").write_text(f"{one}\n{one}{one}\n")
    _, sums = imported(spark, kind, tmp_path)
    assert (sums.lines, sums.rows, sums.malformed) == (2, 1, 1)


def test_another_broker_s_files_are_taken_in_with_the_same_care(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """A copy, an older copy, a cut one, and Parquet, which no other broker writes."""
    whole = (DATA / "leafz.jsonl").read_bytes()
    alone, _ = imported(spark, "nats", DATA / "leafz.jsonl")
    lines = whole.splitlines(True)
    (tmp_path / "leafz.jsonl").write_bytes(whole)
    (tmp_path / "yesterday.jsonl").write_bytes(b"".join(lines[:12]) + lines[12][:99])
    (tmp_path / "copy.jsonl.gz").write_bytes(gzip.compress(whole))
    packed = gzip.compress(b"".join(line.replace(b"york", b"bath") for line in lines) * 50)
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[:-20])
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    intake = read(spark, list_local([str(tmp_path)]), "nats")
    files = {row.file.rsplit("/", 1)[-1]: row for row in rows(intake.files)}
    assert files["leafz.jsonl"].fault.endswith("copy.jsonl.gz")
    assert (files["leafz.jsonl"].rows, files["leafz.jsonl"].repeated) == (0, 20)
    assert (files["yesterday.jsonl"].rows, files["yesterday.jsonl"].repeated) == (0, 12)
    assert files["yesterday.jsonl"].half == 1
    assert "cut or damaged" in files["cut.jsonl.gz"].fault
    assert "another broker's lines" in files["table.parquet"].fault
    (tmp_path / "cut.jsonl.gz").unlink()
    again, sums = imported(spark, "nats", tmp_path)
    assert (sums.rows, sums.repeated) == (20, 32)
    assert again.drop("file").exceptAll(alone.drop("file")).count() == 0
    assert again.count() == alone.count()
