import asyncio
import errno
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from broker import advisory_files
from broker.advisory_log import AdvisoryLog, LogError, LogRow, iso_time, read_log
from sapwood.protocol.destinations import Kind
from treeconnector.frames import Advice

COLUMNS = {
    "event": str,
    "at": str,
    "tree": str,
    "node": str,
    "role": str,
    "depth": int,
    "region": str,
    "op": str,
    "kind": str,
    "destination": str,
    "peer": str,
    "direction": str,
    "cause": str,
    "origin": str,
    "bytes": int,
    "schema": int,
    "series": int,
    "seq": int,
}
ADVICES = [
    Advice("add", Kind.QUEUE, "prices", "store-7", "store-7:1:4"),
    Advice("remove", Kind.TOPIC, "sales/#", "store-9", "store-9:2:1"),
]
WALL = 1_795_251_305.25


@pytest.fixture
def make(tmp_path):
    logs = []

    def make_log(directory: Path = tmp_path, **options) -> AdvisoryLog:
        settings = {"tree": "acme", "node": "north", "role": "branch", "clock": lambda: WALL} | options
        logs.append(AdvisoryLog(directory, **settings))
        return logs[-1]

    yield make_log
    for log in logs:
        log.close()


def current(directory: Path) -> Path:
    return directory / "north.advisories.jsonl"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fill(log: AdvisoryLog, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        log.write_consumer("add", "queue", f"q{number}", f"north:1:{number}")
        log.flush()


def test_each_event_is_a_row_with_every_column(make, tmp_path):
    log = make()
    log.set_chain(["north", "hq"])
    log.write_node("start")
    log.write_consumer("add", "queue", "prices", "north:1:1")
    log.write_advisories("store-7", "up", ADVICES)
    log.write_link("down", "store-7", "up")
    log.close()
    rows = [json.loads(line) for line in current(tmp_path).read_text().splitlines()]
    assert all(list(row) == list(COLUMNS) for row in rows)
    always = {
        "at": "2026-11-21T08:55:05.250000Z",
        "tree": "acme",
        "node": "north",
        "role": "branch",
        "depth": 1,
        "region": "north",
        "schema": 2,
        "series": int(WALL),
    }
    nothing = dict.fromkeys(set(COLUMNS) - set(always))
    mine = {"cause": "north:1:1", "origin": "north", "kind": "queue", "destination": "prices"}
    come = {"event": "advisory", "peer": "store-7", "direction": "up"}
    first = {
        "op": "add",
        "kind": "queue",
        "destination": "prices",
        "cause": "store-7:1:4",
        "origin": "store-7",
    }
    second = {
        "op": "remove",
        "kind": "topic",
        "destination": "sales/#",
        "cause": "store-9:2:1",
        "origin": "store-9",
    }
    told = [
        always | nothing | {"event": "node", "op": "start"},
        always | nothing | {"event": "consumer", "op": "add"} | mine,
        always | nothing | come | first | {"bytes": 39},
        always | nothing | come | second | {"bytes": 43},
        always | nothing | {"event": "link", "op": "down", "peer": "store-7", "direction": "up"},
    ]
    assert rows == [row | {"seq": number} for number, row in enumerate(told, 1)]
    assert all(row[name] is None or type(row[name]) is kind for row in rows for name, kind in COLUMNS.items())


def test_the_columns_are_frozen():
    assert list(LogRow.__struct_fields__) == list(COLUMNS)


def test_sizes_are_those_of_the_encoded_advice(make, tmp_path):
    log = make()
    log.write_advisories("hq", "down", ADVICES)
    log.close()
    small, large = [row.bytes for row in read_log(tmp_path)]
    assert len("queueprices") < small < 64
    assert len("topicsales/#") < large < 64


@pytest.mark.parametrize(
    ("role", "chain", "depth", "region"),
    [
        ("root", ["north"], 0, None),
        ("leaf", ["north"], None, None),
        ("branch", ["north", "hq"], 1, "north"),
        ("leaf", ["north", "uk", "hq"], 2, "uk"),
        ("leaf", ["north", "city", "uk", "hq"], 3, "uk"),
    ],
)
def test_depth_and_region_come_from_the_chain(make, tmp_path, role, chain, depth, region):
    log = make(role=role)
    log.set_chain(chain)
    log.write_node("start")
    log.close()
    (row,) = read_log(tmp_path)
    assert (row.depth, row.region) == (depth, region)


def test_depth_is_not_known_before_the_chain_is_but_at_the_root(make, tmp_path):
    make(tmp_path / "a").write_node("start")
    make(tmp_path / "b", role="root").write_node("start")
    make(tmp_path / "c").close()
    for log in make(tmp_path / "a"), make(tmp_path / "b", role="root"):
        log.write_node("stop")
        log.close()
    assert [row.depth for row in read_log(tmp_path / "a")] == [None]
    assert [row.depth for row in read_log(tmp_path / "b")] == [0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-5, "1970-01-01T00:00:00.000000Z"),
        (WALL, "2026-11-21T08:55:05.250000Z"),
        (1_795_251_305.000001, "2026-11-21T08:55:05.000001Z"),
    ],
)
def test_time_always_has_six_digits_and_is_utc(seconds, text):
    assert iso_time(seconds) == text
    assert datetime.fromisoformat(text).timestamp() == max(seconds, 0)


def test_nothing_is_written_before_the_flush(make, tmp_path):
    log = make()
    log.write_node("start")
    assert current(tmp_path).read_bytes() == b""
    log.flush()
    assert (len(current(tmp_path).read_text().splitlines()), log.written) == (1, 1)


async def test_in_a_loop_rows_are_written_when_the_turn_ends(make, tmp_path):
    log = make()
    for _ in range(3):
        log.write_node("start")
    assert current(tmp_path).read_bytes() == b""
    await asyncio.sleep(0)
    assert len(current(tmp_path).read_text().splitlines()) == 3


def test_files_are_begun_anew_compressed_and_the_oldest_goes(make, tmp_path):
    log = make(max_bytes=1000, max_files=3)
    fill(log, 40)
    log.settle()
    log.close()
    found = names(tmp_path)
    assert found[0] == "north.advisories-000009.jsonl.gz"
    assert found[1:] == ["north.advisories-000010.jsonl.gz", "north.advisories.jsonl"]
    with gzip.open(tmp_path / found[0]) as file:
        assert len(file.read()) >= 1000
    rows = [row.destination for row in read_log(tmp_path)]
    assert rows == [f"q{number}" for number in range(40 - len(rows), 40)]


def test_a_file_that_is_removed_while_it_is_compressed_stays_gone(make, tmp_path, monkeypatch):
    copy = advisory_files._Compressor._copy

    def removed_behind(self, path: Path, part: Path) -> bool:
        done = copy(self, path, part)
        path.unlink(missing_ok=True)  # as the oldest
        return done

    monkeypatch.setattr(advisory_files._Compressor, "_copy", removed_behind)
    log = make(max_bytes=1000, max_files=3)
    fill(log, 20)
    log.settle()
    assert names(tmp_path) == ["north.advisories.jsonl"]


def test_without_gzip_files_stay_as_they_are(make, tmp_path):
    log = make(max_bytes=1000, max_files=4, gzip=False)
    fill(log, 30)
    assert len(names(tmp_path)) == 4
    assert not [name for name in names(tmp_path) if name.endswith(".gz")]
    rows = [row.destination for row in read_log(tmp_path)]
    assert rows == [f"q{number}" for number in range(30 - len(rows), 30)]


def test_one_file_at_most_keeps_one(make, tmp_path):
    fill(make(max_bytes=1000, max_files=1, gzip=False), 30)
    assert names(tmp_path) == ["north.advisories.jsonl"]


def test_numbers_go_on_after_a_restart(make, tmp_path):
    for first in (0, 20):
        log = make(max_bytes=1000, max_files=100)
        fill(log, 20, first)
        log.settle()
        log.close()
    assert [row.destination for row in read_log(tmp_path)] == [f"q{number}" for number in range(40)]


def test_what_a_crash_left_half_made_is_cleared_up(make, tmp_path):
    log = make(max_bytes=1000, max_files=100, gzip=False)
    fill(log, 20)
    log.close()
    plain = tmp_path / "north.advisories-000001.jsonl"
    (tmp_path / "north.advisories-000001.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / ".north.advisories-000002.jsonl.part").write_bytes(b"half")
    again = make(max_bytes=1000, max_files=100)
    again.settle()
    assert [row.destination for row in read_log(tmp_path)] == [f"q{number}" for number in range(20)]
    assert not list(tmp_path.glob(".*"))
    assert not plain.exists()
    assert len(list(tmp_path.glob("*.gz"))) == len(names(tmp_path)) - 1


@pytest.mark.parametrize("torn", [b'{"event":"consu', b"\x00" * 5000, b"x" * 600_000])
def test_a_torn_last_line_is_cut_at_the_next_start(make, tmp_path, torn):
    log = make()
    fill(log, 3)
    log.close()
    with current(tmp_path).open("ab") as file:
        file.write(torn)
    assert len(list(read_log(tmp_path))) == 3
    again = make()
    fill(again, 1, 3)
    again.close()
    assert [row.destination for row in read_log(tmp_path)] == ["q0", "q1", "q2", "q3"]


def test_a_file_that_is_nothing_but_a_torn_line_is_emptied(make, tmp_path):
    current(tmp_path).write_bytes(b'{"event"')
    fill(make(), 1)
    assert len(list(read_log(tmp_path))) == 1


def test_two_nodes_may_share_a_directory(make, tmp_path):
    fill(make(max_bytes=1000), 20)
    fill(make(max_bytes=1000, node="north.advisories-000001"), 10)
    assert [row.node for row in read_log(tmp_path)] == ["north"] * 20 + ["north.advisories-000001"] * 10
    assert [row.node for row in read_log(tmp_path, "north")] == ["north"] * 20


def test_a_file_that_is_compressed_as_it_is_opened_is_read(make, tmp_path, monkeypatch):
    def late(path: Path, mode: str):
        if "advisories-" in path.name:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        return open(path, mode)

    fill(make(max_bytes=1000, gzip=False), 20)
    monkeypatch.setattr("broker.advisory_log.open", late, raising=False)
    assert [row.destination for row in read_log(tmp_path)] == [f"q{number}" for number in range(20)]


def test_a_full_disk_drops_whole_rows_and_counts_them(make, tmp_path, monkeypatch):
    log = make()
    fill(log, 2)
    write, room = os.write, [100]

    def full(descriptor: int, data) -> int:
        taken = min(room[0], len(data))
        if taken == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        room[0] -= taken
        return write(descriptor, bytes(data[:taken]))

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        fill(log, 3, 2)
        assert (log.written, log.dropped) == (2, 3)
        assert "No space left on device" in log.last_error
    fill(log, 1, 5)
    assert (log.written, log.dropped, log.last_error) == (3, 3, "")
    assert [row.destination for row in read_log(tmp_path)] == ["q0", "q1", "q5"]
    assert repr(log) == f"<AdvisoryLog {current(tmp_path)} written=3 dropped=3>"


def test_a_real_full_disk(make, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting needs root; the test above covers the rest")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], check=True)
    try:
        log = make(place, max_bytes=1 << 20)
        fill(log, 1000)
        assert log.dropped > 0
        assert log.written + log.dropped == 1000
        log.close()
        assert [row.destination for row in read_log(place)] == [f"q{number}" for number in range(log.written)]
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_directory_that_cannot_be_made_does_not_stop_the_node(make, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    log = make(tmp_path / "file" / "inside")
    fill(log, 2)
    fill(log, 1)
    assert (log.written, log.dropped) == (0, 3)
    assert "Not a directory" in log.last_error
    (said,) = [record.getMessage() for record in caplog.records]
    assert "the advisory log cannot be written" in said
    assert "Not a directory" in said


def test_a_directory_that_comes_later_is_used(make, tmp_path):
    (tmp_path / "place").write_text("")
    log = make(tmp_path / "place")
    fill(log, 1)
    (tmp_path / "place").unlink()
    fill(log, 1, 1)
    assert [row.destination for row in read_log(tmp_path / "place")] == ["q1"]


@pytest.mark.parametrize("way", ["folder removed", "file removed", "file moved", "another in its place"])
def test_a_file_that_is_taken_away_is_begun_anew(make, tmp_path, caplog, way):
    place = tmp_path / "place"
    log = make(place)
    fill(log, 2)
    match way:
        case "folder removed":
            shutil.rmtree(place)
        case "file removed":
            current(place).unlink()
        case "file moved":
            current(place).rename(place / "old")
        case _:
            other = tmp_path / "other"
            other.touch()
            other.rename(current(place))
    fill(log, 2, 2)
    assert [(row.destination, row.seq) for row in read_log(place)] == [("q2", 3), ("q3", 4)]
    assert (log.written, log.dropped, log.last_error) == (4, 0, "")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == f"! {current(place)} was removed or moved: the advisory log begins it anew"


def test_a_folder_that_cannot_be_made_again_is_said(make, tmp_path, caplog):
    place = tmp_path / "place"
    log = make(place)
    fill(log, 1)
    shutil.rmtree(place)
    place.write_text("")
    fill(log, 2, 1)
    assert (log.written, log.dropped) == (1, 2)
    assert "the advisory log cannot be written" in caplog.text
    place.unlink()
    fill(log, 1, 3)
    assert [row.destination for row in read_log(place)] == ["q3"]


def test_a_file_that_was_emptied_is_not_filled_with_zeros_by_a_full_disk(make, tmp_path, monkeypatch):
    log = make()
    fill(log, 2)
    os.truncate(current(tmp_path), 0)

    def full(descriptor: int, data) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        fill(log, 1, 2)
    assert current(tmp_path).read_bytes() == b""
    fill(log, 1, 3)
    assert [row.destination for row in read_log(tmp_path)] == ["q3"]


def numbers(directory: Path) -> list[tuple[int | None, int | None]]:
    return [(row.series, row.seq) for row in read_log(directory)]


@pytest.mark.parametrize("gzip", [False, True])
def test_numbers_go_on_over_files_and_starts(make, tmp_path, gzip):
    """The second start finds an empty current file: the last number stands in the finished one."""
    for start in range(2):
        log = make(max_bytes=1000, gzip=gzip, clock=lambda now=WALL + 100 * start: now)
        count = 0
        while not count or current(tmp_path).stat().st_size:
            fill(log, 1)
            count += 1
        log.settle()
        log.close()
    found = numbers(tmp_path)
    assert len(names(tmp_path)) == 3, "two files are finished, and a third is begun"
    assert found == [(int(WALL), number) for number in range(1, len(found) + 1)]


def test_a_row_that_is_dropped_leaves_a_hole(make, tmp_path):
    log = make()
    fill(log, 1)
    log.write_consumer("add", "queue", "\udc80", "c")
    fill(log, 1)
    assert [seq for _, seq in numbers(tmp_path)] == [1, 3]


@pytest.mark.parametrize("last", ["", "[\n", "{}\n"])
def test_a_log_without_numbers_begins_a_series(make, tmp_path, last):
    log = make()
    log.write_node("start")
    log.close()
    row = json.loads(current(tmp_path).read_text())
    old = json.dumps({name: row[name] for name in list(COLUMNS)[:-2]} | {"schema": 1}) + "\n"
    current(tmp_path).write_text(old + last)
    log = make(clock=lambda: WALL + 60)
    log.write_node("start")
    log.close()
    row = json.loads(current(tmp_path).read_text().splitlines()[-1])
    assert (row["series"], row["seq"]) == (int(WALL) + 60, 1)


def test_a_name_that_is_no_text_is_dropped_and_counted(make, tmp_path):
    log = make()
    log.write_consumer("add", "queue", "\udc80", "c")
    fill(log, 1)
    assert (log.written, log.dropped) == (1, 1)


def test_after_close_rows_are_counted_as_dropped(make, tmp_path):
    log = make()
    log.close()
    log.write_node("stop")
    assert log.dropped == 1


def test_many_rows_without_a_flush_are_written_by_themselves(make, tmp_path):
    log = make()
    for _ in range(2000):
        log.write_node("start")
    assert log.written > 0


@pytest.mark.parametrize(
    ("line", "text"), [("{}", "missing required field"), ("[", "Expected `object`"), ("\x00", "")]
)
def test_a_line_that_is_no_row_is_named(tmp_path, line, text):
    current(tmp_path).write_text(line + "\n")
    with pytest.raises(LogError, match=rf"north\.advisories\.jsonl, line 1: not a row.*{text}"):
        list(read_log(tmp_path))


def test_a_damaged_compressed_file_is_named(tmp_path):
    (tmp_path / "north.advisories-000001.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(LogError, match=r"000001\.jsonl\.gz cannot be read"):
        list(read_log(tmp_path))


def test_later_columns_are_ignored(make, tmp_path):
    log = make()
    log.write_node("start")
    log.close()
    row = json.loads(current(tmp_path).read_text())
    current(tmp_path).write_text(json.dumps(row | {"schema": 2, "weather": "fine"}) + "\n")
    assert [found.schema for found in read_log(tmp_path)] == [2]


PROGRAM = """
import sys
from broker.advisory_log import AdvisoryLog
log = AdvisoryLog(sys.argv[1], tree="acme", node="north", role="branch", max_bytes=20_000, max_files=10_000)
number = int(sys.argv[2])
while True:
    log.write_consumer("add", "queue", str(number), "c")
    log.flush()
    print(number, flush=True)
    number += 1
"""


def test_kill_at_any_moment_loses_no_row_that_was_flushed(tmp_path):
    first = 0
    for lines in (1, 150, 400, 777, 1200):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(first)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        said += [line for line in child.stdout if line.endswith("\n")]
        child.stdout.close()
        child.wait()
        rows = [int(row.destination) for row in read_log(tmp_path)]
        assert rows == list(range(len(rows)))
        assert len(rows) > int(said[-1])
        first = len(rows)
