"""What was handled before is told apart from what is new, in memory and in the application's database."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from sapwood.deduplication import Seen, SeenInDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(tmp_path / "till.db")
    made.execute("CREATE TABLE booking (sale TEXT)")
    yield made
    made.close()


@pytest.fixture(params=["memory", "database"])
def seen(request: pytest.FixtureRequest, database: sqlite3.Connection) -> Seen | SeenInDatabase:
    return Seen(3) if request.param == "memory" else SeenInDatabase(database, most=3)


def test_a_key_is_new_once(seen: Seen | SeenInDatabase) -> None:
    assert [seen.add(key) for key in ("a", "b", "a", "b", "c")] == [True, True, False, False, True]
    assert "a" in seen
    assert "d" not in seen
    assert len(seen) == 3


def test_the_oldest_are_forgotten(seen: Seen | SeenInDatabase) -> None:
    for key in "abcde":
        assert seen.add(key)
    assert len(seen) == 3
    assert [key in seen for key in "abcde"] == [False, False, True, True, True]
    assert "at most 3" in repr(seen)


def test_an_answer_is_kept_with_its_key(seen: Seen | SeenInDatabase) -> None:
    seen.add("a")
    assert seen.note("a") == seen.note("unknown") == ""
    seen.put_note("a", "reservation 7")
    seen.put_note("unknown", "lost")
    assert (seen.note("a"), seen.note("unknown")) == ("reservation 7", "")


def test_what_failed_is_forgotten_in_memory() -> None:
    seen = Seen()
    assert seen.add("a")
    seen.discard("a")
    assert seen.add("a")


def test_key_and_work_are_kept_together_or_not_at_all(database: sqlite3.Connection, tmp_path: Path) -> None:
    seen = SeenInDatabase(database)

    def book(key: str, *, fail: bool) -> None:
        with database:
            if seen.add(key):
                database.execute("INSERT INTO booking VALUES (?)", (key,))
                if fail:
                    raise RuntimeError("the power goes")

    with pytest.raises(RuntimeError):
        book("sale-1", fail=True)
    assert "sale-1" not in seen
    book("sale-1", fail=False)
    book("sale-1", fail=True)
    database.close()
    again = sqlite3.connect(tmp_path / "till.db")
    assert not SeenInDatabase(again).add("sale-1")
    assert again.execute("SELECT sale FROM booking").fetchall() == [("sale-1",)]
    again.close()


@pytest.mark.parametrize("table", ["", "a b", "seen; DROP TABLE booking", "1st", "x" * 65])
def test_a_table_has_a_plain_name(database: sqlite3.Connection, table: str) -> None:
    with pytest.raises(ValueError, match="no name of a table"):
        SeenInDatabase(database, table=table)


def test_there_is_room_for_one_key_at_least(database: sqlite3.Connection) -> None:
    for make in (lambda: Seen(0), lambda: SeenInDatabase(database, most=0)):
        with pytest.raises(ValueError, match="1 or more"):
            make()
