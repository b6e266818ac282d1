"""The use of routes in its files: a day each, gone on with after a restart, never in the node's way."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.core.policies import usage
from broker.core.policy import Policies
from broker.usage import UsageLog, UsageRow
from sapwood.protocol.destinations import parse
from treeconnector.routes import Route, RoutingTable

DAY = 86_400.0
NOON = 20_000 * DAY + DAY / 2  # 2024-10-04
_decoder = msgspec.json.Decoder(UsageRow)


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class Core:
    """What of a core is used: its table, and who is told what goes where."""

    def __init__(self) -> None:
        self.table = RoutingTable()
        self.table.add(Route(parse("queue:sales"), "store"))
        self.policies = Policies()

    def message(self, count: int) -> None:
        for policy in self.policies.routed:
            policy.routed(parse("queue:sales"), "store", count)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def followed(folder: Path, clock: Clock, most_files: int = 10) -> tuple[UsageLog, Any]:
    log, core = UsageLog(folder, "hq", most_files, clock), Core()
    log.follow(core)  # type: ignore[arg-type]
    return log, core


def rows(folder: Path) -> dict[str, list[UsageRow]]:
    return {path.name: _decoder.decode_lines(path.read_bytes()) for path in sorted(folder.glob("*.jsonl"))}


async def test_a_node_that_starts_says_that_it_counts_and_at_its_end_what(
    tmp_path: Path, clock: Clock
) -> None:
    log, core = followed(tmp_path, clock)
    ((head,),) = rows(tmp_path).values()
    assert (head.node, head.kind, head.since) == ("hq", None, "2024-10-04T12:00:00.000000Z")
    core.message(3)
    clock.now += 60
    log.close()
    assert list(rows(tmp_path)) == ["hq.usage-20241004.jsonl"]
    ((head, row),) = rows(tmp_path).values()
    assert head.until == "2024-10-04T12:01:00.000000Z"
    assert (row.kind, row.destination, row.messages) == ("queue", "sales", 3)


async def test_a_restart_goes_on_with_the_days_file(tmp_path: Path, clock: Clock) -> None:
    for count in (3, 4):
        log, core = followed(tmp_path, clock)
        core.message(count)
        log.close()
        clock.now += 60
    ((head, row),) = rows(tmp_path).values()
    assert (head.since, row.messages) == ("2024-10-04T12:00:00.000000Z", 7)


async def test_a_route_that_has_gone_keeps_its_line_until_the_days_end(tmp_path: Path, clock: Clock) -> None:
    log, core = followed(tmp_path, clock)
    core.message(3)
    core.table.remove_gateway("store")
    log.write()
    clock.now += DAY
    log.write()
    log.close()
    found = rows(tmp_path)
    assert [row.messages for row in found["hq.usage-20241004.jsonl"][1:]] == [3]
    assert len(found["hq.usage-20241005.jsonl"]) == 1


async def test_that_there_were_too_many_routes_is_kept_over_a_restart(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, core = followed(tmp_path, clock)
    monkeypatch.setattr(usage, "_MOST_USED", 0)
    core.message(3)
    for _ in range(2):
        log.close()
        ((head,),) = rows(tmp_path).values()
        assert not head.whole
        log, core = followed(tmp_path, clock)


async def test_a_file_that_tells_of_another_day_begins_anew(tmp_path: Path, clock: Clock) -> None:
    row = '{"node":"hq","kind":"queue","destination":"sales","messages":3}'
    for since in ("2024-10-03T23:00:00Z", "9999-12-31T23:59:59-14:00"):
        (tmp_path / "hq.usage-20241004.jsonl").write_text(f'{{"node":"hq","since":"{since}"}}\n{row}')
        followed(tmp_path, clock)
        ((head,),) = rows(tmp_path).values()
        assert head.since == "2024-10-04T12:00:00.000000Z"


async def test_each_day_has_its_file_and_the_oldest_goes(tmp_path: Path, clock: Clock) -> None:
    log, core = followed(tmp_path, clock, most_files=2)
    for count in (1, 2, 3):
        core.message(count)
        clock.now += DAY
        log.write()
    log.close()
    found = rows(tmp_path)
    assert list(found) == ["hq.usage-20241006.jsonl", "hq.usage-20241007.jsonl"]
    assert [row.messages for row in found["hq.usage-20241006.jsonl"][1:]] == [3]


async def test_a_damaged_file_begins_anew(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "hq.usage-20241004.jsonl").write_text('{"node":"hq"}\n{"no')
    log, core = followed(tmp_path, clock)
    core.message(5)
    log.close()
    ((_, row),) = rows(tmp_path).values()
    assert row.messages == 5


async def test_a_folder_that_was_removed_is_made_again(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "advisories"
    folder.mkdir()
    log, core = followed(folder, clock)
    shutil.rmtree(folder)
    core.message(3)
    log.close()
    assert log.last_error == ""
    assert [row.messages for row in next(iter(rows(folder).values()))] == [0, 3]


async def test_what_cannot_be_written_stays_counted_and_stops_nobody(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "here"
    folder.write_text("a file where the folder should be")
    log, core = followed(folder, clock)
    core.message(2)
    log.write()
    assert "hq.usage-20241004.jsonl" in log.last_error
    folder.unlink()
    core.message(2)
    log.close()
    assert log.last_error == ""
    ((_, row),) = rows(folder).values()
    assert row.messages == 4
