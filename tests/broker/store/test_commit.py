import asyncio
import threading
from collections.abc import Iterable, Iterator

import pytest

from broker.core.rows import BundleRow, QueueRow, Transaction
from broker.store import GroupCommit, StoreFull, StoreIOFailed, commit
from broker.store.commit import merge
from broker.store.store import AFTER_COMMIT, BEFORE_COMMIT
from sapwood.protocol.errors import StoreError


def put(*rows) -> Transaction:
    transaction = Transaction()
    for row in rows:
        transaction.put(row)
    return transaction


def without(rows: Iterable[int]) -> Transaction:
    transaction = Transaction()
    for row in rows:
        transaction.delete(BundleRow, row)
    return transaction


class Fsync:
    """A clock that makes each commit seem to take `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._now, self._ends = seconds, 0.0, False

    def __call__(self) -> float:
        self._now += self.seconds if self._ends else 0.0
        self._ends = not self._ends
        return self._now


def watch_threads(store) -> list[bool]:
    """Notes for each commit whether it ran on this thread."""
    here, seen = threading.get_ident(), []
    store.hook = lambda moment: (
        seen.append(threading.get_ident() == here) if moment == BEFORE_COMMIT else None
    )
    return seen


def test_merge_keeps_the_last_word_on_each_key():
    gone = put(QueueRow("c", 1))
    gone.delete(QueueRow, "a")
    merged = merge([put(QueueRow("a", 0), QueueRow("b", 0)), put(QueueRow("b", 1)), gone])
    assert merged.changes[QueueRow] == {"a": None, "b": QueueRow("b", 1), "c": QueueRow("c", 1)}


def test_merge_keeps_the_body_of_a_bundle_whose_header_changes():
    merged = merge(
        [put(BundleRow(1, b"h1", b"body")), put(BundleRow(1, b"h2", None), BundleRow(2, b"h", None))]
    )
    assert merged.changes[BundleRow] == {1: BundleRow(1, b"h2", b"body"), 2: BundleRow(2, b"h", None)}


def test_merge_forgets_a_bundle_that_came_and_went():
    assert merge([put(BundleRow(1, b"h", b"b")), without([1])]).changes[BundleRow] == {1: None}


def test_merge_leaves_what_it_was_given_as_it_is():
    first, second = put(QueueRow("a", 0)), put(QueueRow("a", 1))
    merge([first, second])
    assert first.changes[QueueRow] == {"a": QueueRow("a", 0)}


async def test_what_gathers_in_one_turn_is_one_commit_and_is_on_disk_when_reported(opened):
    store = opened()
    committer = GroupCommit(store, clock=Fsync(0.0))
    await asyncio.gather(*(committer.commit(put(QueueRow(f"q{number}", 0))) for number in range(50)))
    assert (committer.commits, committer.transactions) == (1, 50)
    await committer.close()
    store.close()
    assert len(opened().load().rows(QueueRow)) == 50


async def test_callbacks_come_after_the_commit_and_in_order(opened):
    store, said = opened(), []
    store.hook = lambda moment: said.append(moment) if moment == AFTER_COMMIT else None
    committer = GroupCommit(store, clock=Fsync(0.0))
    for number in range(3):
        committer.submit(
            put(QueueRow(str(number), 0)), lambda error, number=number: said.append((number, error))
        )
    assert said == []
    await committer.flush()
    assert said == [AFTER_COMMIT, (0, None), (1, None), (2, None)]
    await committer.close()


async def test_what_is_to_be_committed_at_once_does_not_wait_for_the_loop(opened):
    store, said = opened(), []
    committer = GroupCommit(store, clock=Fsync(0.0))
    committer.submit(put(QueueRow("before", 0)), lambda error: said.append(("before", error)))
    committer.submit(put(QueueRow("now", 0)), lambda error: said.append(("now", error)), at_once=True)
    assert said == [("before", None), ("now", None)]
    assert committer.commits == 1
    await committer.close()


async def test_a_fast_disk_keeps_commits_on_the_loop(opened):
    store = opened()
    seen = watch_threads(store)
    committer = GroupCommit(store, clock=Fsync(0.0009))
    for number in range(40):
        await committer.commit(put(QueueRow(str(number), 0)))
    assert seen == [True] * 40
    assert "on=loop" in repr(committer)
    await committer.close()


async def test_a_slow_disk_moves_commits_to_one_thread(opened):
    store = opened()
    seen = watch_threads(store)
    committer = GroupCommit(store, clock=Fsync(0.02))
    for number in range(70):
        await committer.commit(put(QueueRow(str(number), 0)))
    assert seen == [True] + [False] * 69
    assert "on=thread fsync=20.00ms commits=70 transactions=70 gathered=0" in repr(committer)
    await committer.close()


async def test_a_disk_in_doubt_is_measured_on_the_loop_and_may_come_back(opened):
    store, fsync = opened(), Fsync(0.004)
    seen = watch_threads(store)
    committer = GroupCommit(store, clock=fsync)
    for number in range(70):
        await committer.commit(put(QueueRow(str(number), 0)))
    assert seen.count(True) == 3
    fsync.seconds = 0.0002
    for number in range(40):
        await committer.commit(put(QueueRow(str(number), 0)))
    assert seen[-3:] == [True] * 3
    await committer.close()


async def test_what_comes_while_a_commit_is_under_way_waits_for_the_next_one(opened):
    store, going, go_on = opened(), threading.Event(), threading.Event()
    committer = GroupCommit(store, clock=Fsync(1.0))
    await committer.commit(put(QueueRow("first", 0)))

    def hold(moment: str) -> None:
        if moment == BEFORE_COMMIT:
            going.set()
            go_on.wait(60)

    store.hook = hold
    held = asyncio.ensure_future(committer.commit(put(QueueRow("held", 0))))
    await asyncio.to_thread(going.wait, 60)
    later = [asyncio.ensure_future(committer.commit(put(QueueRow(str(number), 0)))) for number in range(20)]
    await asyncio.sleep(0)
    assert committer.commits == 1
    assert not held.done()
    go_on.set()
    await asyncio.gather(held, *later)
    assert (committer.commits, committer.transactions) == (3, 22)
    await committer.close()


@pytest.mark.parametrize("seconds", [0.0, 1.0])
async def test_a_failure_reaches_everybody_once_and_nothing_is_accepted_after_it(opened, seconds):
    store, failures = opened(), []
    committer = GroupCommit(store, clock=Fsync(seconds), on_failure=failures.append)
    await committer.commit(put(QueueRow("kept", 0)))

    def fail(_moment: str) -> None:
        raise OSError(5, "Input/output error")

    store.hook = fail
    results = await asyncio.gather(
        *(committer.commit(put(QueueRow(str(number), 0))) for number in range(3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [StoreIOFailed] * 3
    with pytest.raises(StoreIOFailed, match="Input/output error"):
        await committer.commit(put(QueueRow("late", 0)))
    assert failures == [results[0]]
    await committer.close()
    store.close()
    assert opened().load().rows(QueueRow) == [QueueRow("kept", 0)]


async def test_one_callers_mistake_does_not_keep_the_others_waiting(opened):
    contexts: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: contexts.append(context))
    committer = GroupCommit(opened())
    committer.submit(put(QueueRow("a", 0)), lambda _error: 1 / 0)
    await committer.commit(put(QueueRow("b", 0)))
    assert isinstance(contexts[0]["exception"], ZeroDivisionError)
    await committer.close()


async def test_close_commits_what_was_handed_over_and_refuses_more(opened):
    store, said = opened(), []
    committer = GroupCommit(store)
    committer.submit(put(QueueRow("a", 0)), said.append)
    await committer.close()
    assert said == [None]
    with pytest.raises(StoreError, match="is closed"):
        await committer.commit(put(QueueRow("b", 0)))
    assert store.load().rows(QueueRow) == [QueueRow("a", 0)]


async def test_a_waiter_that_was_cancelled_does_not_disturb(opened):
    store = opened()
    committer = GroupCommit(store)
    waiter = asyncio.ensure_future(committer.commit(put(QueueRow("a", 0))))
    await asyncio.sleep(0)
    waiter.cancel()
    await committer.commit(put(QueueRow("b", 0)))
    assert len(store.load().rows(QueueRow)) == 2
    await committer.close()


async def test_an_idle_store_is_tidied(opened, make):
    store = opened()
    committer = GroupCommit(store, idle_after=0.001)
    for number in range(15):
        await committer.commit(make(1 + number * 100, 100, b"x" * 1000))
    log = store.path.with_name("node.db-wal")
    async with asyncio.timeout(60):
        while log.stat().st_size >= 1024 * 1024:
            await asyncio.sleep(0.001)
    await committer.close()
    assert not store.untidy()


def pages(store):
    return store._reading().execute("PRAGMA page_count").fetchone()[0]


async def test_bundles_that_went_in_the_journal_are_given_back_to_the_disk(opened):
    """A disk that is nearly full would stay so: the node takes nothing that would fill the journal."""
    store = opened()
    committer = GroupCommit(store, idle_after=0.001)
    await committer.commit(put(*(BundleRow(row, b"h", b"x" * 50_000) for row in range(200))))
    await committer.commit(without(range(200)))
    assert pages(store) > 2_000
    async with asyncio.timeout(60):
        while store.path.stat().st_size > 5_000_000 or pages(store) > 1_200:
            await asyncio.sleep(0.05)  # each look reads, and what finds a reader is tried again seconds later
    await committer.close()
    assert store.bodies(range(200)) == {}


async def test_a_disk_without_room_for_tidying_is_tidied_later(opened, monkeypatch):
    monkeypatch.setattr(commit, "_FULL_PAUSE", 0.001)
    store, failures = opened(), [StoreFull("no room"), StoreFull("no room")]
    put_rows = store._put

    def fail(*given: object) -> None:
        if failures:
            raise failures.pop()
        put_rows(*given)

    committer = GroupCommit(store, idle_after=0.001)
    await committer.commit(put(*(BundleRow(row, b"h", b"x" * 50_000) for row in range(200))))
    monkeypatch.setattr(store, "_put", fail)
    await committer.commit(without(range(200)))
    assert pages(store) > 2_000
    async with asyncio.timeout(60):
        while pages(store) > 1_200:
            await asyncio.sleep(0.001)
    await committer.commit(put(QueueRow("a", 0)))
    await committer.close()
    assert not failures


def test_a_file_that_others_made_longer_is_not_tidied_without_end(opened):
    store = opened()
    store.close()
    with store.path.open("ab") as file:
        file.write(bytes(3_000_000))
    store = opened()
    assert store.untidy()
    assert not store.tidy()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sapwood-commit")]


async def test_a_slow_commit_needs_no_thread_that_was_not_there_before(opened, monkeypatch):
    store = opened()
    commits = GroupCommit(store, threshold=0.0)

    def fail(thread: threading.Thread) -> None:
        raise MemoryError

    monkeypatch.setattr(threading.Thread, "start", fail)
    seen = watch_threads(store)
    for number in range(3):
        await commits.commit(put(QueueRow("a", number)))
    assert False in seen
    monkeypatch.undo()
    await commits.close()


async def test_a_commit_that_does_not_end_is_told_from_many_that_do(opened, monkeypatch):
    store = opened()
    committer = GroupCommit(store, clock=Fsync(1.0))
    assert committer.moves()
    await committer.commit(put(QueueRow("first", 0)))
    going, go_on = threading.Event(), threading.Event()

    def hold(moment: str) -> None:
        if moment == BEFORE_COMMIT:
            going.set()
            go_on.wait(60)

    store.hook = hold
    held = asyncio.ensure_future(committer.commit(put(QueueRow("held", 0))))
    await asyncio.to_thread(going.wait, 60)
    assert committer.moves()  # one has ended since
    assert not committer.moves()
    assert not committer.stands
    monkeypatch.setattr("broker.store.commit._STANDS_AFTER", -1.0)
    assert committer.stands
    go_on.set()
    await held
    assert committer.moves()
    assert not committer.stands
    await committer.close()
