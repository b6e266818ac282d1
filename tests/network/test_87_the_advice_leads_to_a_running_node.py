"""Stores that are damaged in every way: the error is read, its advice is followed, and the node runs again.

A log that somebody removed after a kill is noticed, and both ends of a link count the gap.
"""

import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from commands import ran
from harness import Network

PAGE = 4096
Damage = Callable[[Path], None]


async def sapwood(*words: object) -> tuple[int, str]:
    """Run a command as an operator does; its exit code and all that it printed."""
    code, said, _ = await ran(*words, together=True)
    return code, " ".join(said.decode().split())


def without_log(data: Path) -> None:
    (data / "node.db-wal").unlink()


def with_an_empty_log(data: Path) -> None:
    os.truncate(data / "node.db-wal", 0)


def used_bytes_of_the_log(data: Path) -> int:
    (frames,) = struct.unpack_from("=I", (data / "node.db-shm").read_bytes(), 16)
    return 32 + int(frames) * (24 + PAGE)


def with_half_a_log(data: Path) -> None:
    os.truncate(data / "node.db-wal", used_bytes_of_the_log(data) // 2)


def with_zeros_at_the_end_of_the_log(data: Path) -> None:
    with (data / "node.db-wal").open("r+b") as log:
        log.seek(used_bytes_of_the_log(data) - PAGE)
        log.write(bytes(PAGE))


def used_bytes_of_the_journal(data: Path) -> int:
    (used,) = struct.unpack_from(">Q", (data / "node.journal-index").read_bytes(), 8)
    return int(used)


def without_journal(data: Path) -> None:
    (data / "node.journal").unlink()


def without_any_journal(data: Path) -> None:
    """As whoever keeps the database's own files only."""
    without_journal(data)
    (data / "node.journal-index").unlink()


def with_half_a_journal(data: Path) -> None:
    os.truncate(data / "node.journal", used_bytes_of_the_journal(data) // 2)


def with_zeros_at_the_end_of_the_journal(data: Path) -> None:
    with (data / "node.journal").open("r+b") as journal:
        journal.seek(used_bytes_of_the_journal(data) - 100)
        journal.write(bytes(100))


def without_database(data: Path) -> None:
    (data / "node.db").unlink()


def without_both(data: Path) -> None:
    without_log(data)
    without_database(data)


def cut(data: Path) -> None:
    os.truncate(data / "node.db", (data / "node.db").stat().st_size // 2)


def emptied(data: Path) -> None:
    os.truncate(data / "node.db", 0)


def overwritten(data: Path) -> None:
    with (data / "node.db").open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\xa5" * (4 * PAGE))


def without_first_page(data: Path) -> None:
    with (data / "node.db").open("r+b") as file:
        file.write(b"\xa5" * PAGE)


def replaced_by_a_foreign_one(data: Path) -> None:
    (data / "node.db").unlink()
    with closing(sqlite3.connect(data / "node.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def half_recovered(data: Path) -> None:
    """As a power cut leaves it behind that strikes when the damaged file has just been set aside."""
    without_first_page(data)
    (data / "node.db").rename(data / "node.db.broken-1")


def recovered_before(data: Path) -> None:
    """An older recovery's file lies there, which ended; then the database goes, and its log stays."""
    shutil.copyfile(data / "node.db", data / "node.db.broken-1")
    without_database(data)


KILLED: dict[str, tuple[Damage, str]] = {
    "its log is removed": (without_log, r"had confirmed state \d+ of .*its log node.db-wal was removed"),
    "its log is emptied": (
        with_an_empty_log,
        r"had confirmed state \d+ of .*its log node.db-wal was removed",
    ),
    "its log is cut": (with_half_a_log, r"its log node.db-wal was cut short .*: of \d+ pages"),
    "the end of its log is zeroed": (with_zeros_at_the_end_of_the_log, "its log node.db-wal was cut short"),
    "its journal is removed": (
        without_journal,
        "its journal node.journal was removed .*: of [1-9][0-9]* bytes",
    ),
    "its journal and the index": (without_any_journal, "its journal node.journal was removed"),
    "its journal is cut": (with_half_a_journal, "its journal node.journal was cut short"),
    "the end of its journal is zeroed": (
        with_zeros_at_the_end_of_the_journal,
        "its journal node.journal was cut short",
    ),
    "the database is gone": (without_database, "it is gone while its log node.db-wal is there"),
    "the database and an old copy": (recovered_before, "it is gone while its log node.db-wal is there"),
    "both are gone": (without_both, "it is gone, and node.mark says that it was in use at"),
}
STOPPED: dict[str, tuple[Damage, str]] = {
    "it is cut": (cut, "is damaged"),
    "it is empty": (emptied, r"does not begin as a database does \(0 bytes long\)"),
    "pages are overwritten": (overwritten, "is damaged"),
    "the first page is overwritten": (without_first_page, "does not begin as a database does"),
    "it is a foreign one": (replaced_by_a_foreign_one, "it is a database, but not one of Sapwood's"),
    "a recovery was cut short": (half_recovered, "a recovery of node.db.broken-1 has not ended"),
}


async def works(network: Network, payload: bytes) -> None:
    await network.send("hq", "queue:after", [payload])
    assert payload in await network.collect("hq", "queue:after", 1)


async def refused(network: Network, error: str) -> None:
    """The node does not start, and `node check` knows why before it is tried."""
    await network.launch("hq")
    assert await network.nodes["hq"].exited() == 1
    words = " ".join(network.nodes["hq"].last_words().split())
    for said in (words, (await sapwood("node", "check", network.nodes["hq"].file))[1]):
        assert re.search(error, said), said
        assert "`sapwood node recover`" in said


@pytest.mark.parametrize("what", [*KILLED, *STOPPED])
async def test_the_advised_command_ends_with_a_running_node(network: Network, what: str) -> None:
    network.add("hq")
    await network.start()
    await network.send("hq", "queue:before", [b"x" * 300 for _ in range(200)])
    killed = what in KILLED
    damage, error = KILLED[what] if killed else STOPPED[what]
    if killed:
        network.kill("hq")
    else:
        assert await network.stop("hq") == 0
    damage(network.data("hq"))
    await refused(network, error)
    code, said = await sapwood("node", "recover", network.nodes["hq"].file)
    assert code == 0, said
    assert "`gaps` and `gap_bundles`" in said
    assert not (network.data("hq") / "node.mark").exists()
    await network.start()
    await works(network, b"recovered")
    if what in ("the database is gone", "the database and an old copy", "the first page is overwritten"):
        assert len(await network.collect("hq", "queue:before", 200)) == 200


async def test_whoever_folds_the_log_in_raises_no_alarm(network: Network) -> None:
    """An operator looks with a program of his own, after a kill: the log goes, and nothing is lost.

    The message is in the journal, which that program does not know.
    """
    network.add("hq")
    await network.start()
    await network.send("hq", "queue:before", [b"kept"])
    network.kill("hq")
    data = network.data("hq")
    with closing(sqlite3.connect(data / "node.db")) as connection:
        assert connection.execute("SELECT count(*) FROM bundle").fetchone() == (0,)
    assert not (data / "node.db-wal").exists()
    assert (data / "node.mark").exists()
    assert (await sapwood("node", "recover", network.nodes["hq"].file))[1].count("is sound") == 1
    await network.start()
    assert await network.collect("hq", "queue:before", 1) == [b"kept"]
    assert await network.stop("hq") == 0
    assert not (data / "node.mark").exists()


async def test_a_store_in_use_and_another_nodes_store_say_how_to_go_on(network: Network) -> None:
    network.add("hq")
    network.add("other")
    await network.start("hq")
    file = network.nodes["other"].file
    text = file.read_text(encoding="utf-8")
    shared = text.replace("data/other", "data/hq")
    file.write_text(shared, encoding="utf-8")
    await network.launch("other")
    assert await network.nodes["other"].exited() == 1
    words = network.nodes["other"].last_words()
    assert f"in use by process {network.nodes['hq'].pid}" in words
    assert "stop that one, or use another folder (data)" in words
    assert await network.stop("hq") == 0
    await network.launch("other")
    assert await network.nodes["other"].exited() == 1
    assert "use another folder (data), or the name" in network.nodes["other"].last_words()
    file.write_text(text, encoding="utf-8")
    await network.start("other", "hq")


async def test_both_ends_count_what_a_removed_log_took_with_it(network: Network) -> None:
    """Exactly: what the child had confirmed and does not know, and no gap more at the starts after that."""
    network.add("hq")
    network.add("york", "hq")
    await network.start()
    for number in range(5):
        await network.send("hq", "queue:old@york", [b"%d" % number])
        await network.collect("york", "queue:old", 1)
    assert await network.stop("york") == 0
    await network.start("york")
    before = (await network.until_drained("hq"))["children"][0]
    for number in range(7):
        await network.send("hq", "queue:new@york", [b"%d" % number])
        await network.until("hq", lambda status: not status["children"][0]["outbox"], "rid of it")
    after = (await network.until_drained("hq"))["children"][0]
    missing = after["deleted"] - before["deleted"]
    assert missing >= 7
    network.kill("york")
    without_log(network.data("york"))
    without_any_journal(network.data("york"))
    await network.launch("york")
    assert await network.nodes["york"].exited() == 1
    code, said = await sapwood("node", "recover", network.nodes["york"].file)
    assert code == 0, said
    assert "which is not there: all that was committed after" in said
    for _ in range(2):
        await network.start("york")
        status = await network.until("hq", lambda status: status["children"][0]["gaps"], "aware of the gap")
        child, parent = status["children"][0], (await network.status("york"))["parent"]
        assert (child["gaps"], child["gap_bundles"]) == (1, missing)
        assert (parent["gaps"], parent["gap_bundles"]) == (1, missing)
        await network.send("york", "queue:sales", [b"sold"])
        assert await network.collect("hq", "queue:sales", 1) == [b"sold"]
        assert await network.stop("york") == 0
