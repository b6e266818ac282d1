"""The ring on disk: of fixed size, in order, whole rows only, whatever happened to the file."""

import math
import os
from pathlib import Path

import pytest

from broker.history.ring import Level, Ring, Row

LEVELS = (Level(10.0, 4), Level(60.0, 3))


def ring_of(
    path: Path, names: tuple[str, ...] = ("waiting", "in"), levels: tuple[Level, ...] = LEVELS
) -> Ring:
    return Ring(path / "ring", names, levels)


def row(number: float) -> Row:
    return Row(number, (number, number / 2))


def test_the_latest_rows_are_there_in_order_and_the_file_does_not_grow(tmp_path: Path) -> None:
    ring = ring_of(tmp_path)
    ring.add(0, row(1))
    size = (tmp_path / "ring").stat().st_size
    for number in range(2, 12):
        ring.add(0, row(number))
        ring.add(1, row(100 + number))
    assert ring.rows(0) == [row(8), row(9), row(10), row(11)]
    assert ring.latest() == row(11)
    assert ring.rows(1) == [row(109), row(110), row(111)]
    assert (tmp_path / "ring").stat().st_size == size == 4096 + 7 * (16 + 2 * 4)
    assert (tmp_path / "ring").stat().st_mode & 0o777 == 0o600
    ring.close()


def test_another_process_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    first = ring_of(tmp_path)
    for number in range(6):
        first.add(0, row(number))
    second = ring_of(tmp_path)  # the first is not closed: its process was killed
    second.add(0, row(6))
    assert second.rows(0) == [row(3), row(4), row(5), row(6)]
    first.close()
    second.close()


@pytest.mark.parametrize("offset", [0, 4, 8, 16, 23])
def test_a_row_that_is_spoilt_is_not_there_and_all_others_are(tmp_path: Path, offset: int) -> None:
    ring = ring_of(tmp_path)
    for number in range(1, 5):
        ring.add(0, row(number))
    ring.close()
    with (tmp_path / "ring").open("r+b") as file:
        file.seek(4096 + 2 * 24 + offset)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes((byte[0] ^ 1,)))
    again = ring_of(tmp_path)
    again.load()
    assert again.rows(0) == [row(1), row(2), row(4)]
    again.close()


@pytest.mark.parametrize("found", [b"", b"{}", b"\x00" * 5000, b"[" * 5000, b'{"format": 2}'])
def test_a_file_that_is_none_of_ours_begins_anew(tmp_path: Path, found: bytes) -> None:
    (tmp_path / "ring").write_bytes(found)
    ring = ring_of(tmp_path)
    assert ring.rows(0) == []
    ring.add(0, row(1))
    assert ring.rows(0) == [row(1)]
    ring.close()


def test_after_an_upgrade_series_go_on_by_their_names(tmp_path: Path) -> None:
    old = ring_of(tmp_path)
    for number in range(1, 4):
        old.add(0, row(number))
        old.add(1, row(60 * number))
    old.close()
    new = ring_of(tmp_path, ("in", "cpu", "waiting"), (Level(5.0, 9), Level(60.0, 2)))
    new.load()
    assert new.rows(0) == []
    (_, before), (at, latest) = new.rows(1)
    assert (at, latest[0], latest[2], before[2]) == (180, 90, 180, 120)
    assert math.isnan(latest[1])
    new.close()
    assert [each.name for each in tmp_path.iterdir()] == ["ring"]


def test_a_cut_file_has_the_rows_that_are_whole(tmp_path: Path) -> None:
    ring = ring_of(tmp_path)
    for number in range(1, 4):
        ring.add(0, row(number))
    ring.close()
    os.truncate(tmp_path / "ring", 4096 + 2 * 24 + 7)
    again = ring_of(tmp_path)
    again.load()
    assert again.rows(0) == [row(1), row(2)]
    again.add(0, row(9))
    assert again.rows(0) == [row(1), row(2), row(9)]
    again.close()
