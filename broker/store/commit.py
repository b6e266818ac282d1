"""Group commit: one fsync for all transactions that have gathered while the last one was under way.

Law: never two commits at once; a transaction is reported as committed only after its commit returned, in
the order in which transactions were handed over. After a failure nothing more is accepted; but a full disk
is no failure: the same is tried again until there is space, and nobody hears of it before.

Commits run on the event loop while the measured fsync stays below `THRESHOLD` (a thread would cost more
than the disk does), else in one worker thread. Rows are always written on the loop.

Wrinkle: a commit in a thread seems slower than it is, as it waits for the interpreter's lock on its way
back (up to the switch interval). So where a thread's commits look fast enough to be in doubt, every
`_PROBE_EVERY`th is made on the loop, to measure the disk alone.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from broker.core.rows import BundleRow, Transaction
from broker.histogram import COMMIT_SECONDS, Histogram
from broker.store.errors import StoreFull
from broker.store.pending import with_body
from broker.store.store import Store
from broker.threads import Threads
from sapwood.protocol.errors import StoreError

THRESHOLD: Final = 0.001
IDLE_AFTER: Final = 1.0
_WEIGHT: Final = 0.1
_TIDY_SHARE: Final = 20
_IN_DOUBT: Final = 0.007
_PROBE_EVERY: Final = 32
_STANDS_AFTER: Final = 10.0
_FULL_PAUSE: Final = 1.0

Done = Callable[[StoreError | None], None]


def merge(transactions: list[Transaction]) -> Transaction:
    """All changes in one; the last word on a key wins, but a new header keeps the body put before it."""
    if len(transactions) == 1:
        return transactions[0]
    merged = Transaction()
    for transaction in transactions:
        for table, changes in transaction.changes.items():
            into = merged.changes[table]
            if table is BundleRow:
                changes = {row: with_body(into.get(row), change) for row, change in changes.items()}
            into.update(changes)
    return merged


class GroupCommit:
    """Commits transactions for one event loop. Call from its thread only; end with `close`.

    `on_failure` is called once, with the error that ended it; `on_full` whenever there is no space.
    `threshold`: seconds of fsync from which commits go to the thread. `idle_after`: seconds without a commit
    after which the store is tidied, 0 = never. `clock`: seconds, monotonic. `lacks_space`: the latest commit
    found no space, whatever the disk says is free, and is tried again.
    """

    def __init__(
        self,
        store: Store,
        *,
        on_failure: Callable[[StoreError], None] | None = None,
        on_full: Callable[[StoreError], None] = lambda error: None,
        threshold: float = THRESHOLD,
        idle_after: float = IDLE_AFTER,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._store = store
        self._on_failure = on_failure
        self._on_full = on_full
        self._threshold = threshold
        self._idle_after = idle_after
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._thread = Threads("sapwood-commit")
        self._gathered: list[tuple[Transaction, Done]] = []
        self._busy = self._scheduled = self._closed = self._probing = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._quiet: list[asyncio.Future[None]] = []
        self._last = 0.0
        self._turns = 0
        self._works = self._worked = 0
        self._began = 0.0
        self.failure: StoreError | None = None
        self.lacks_space = False
        self.seconds = 0.0
        self.commits = self.transactions = 0
        self.durations = Histogram(COMMIT_SECONDS)

    def __repr__(self) -> str:
        where = "thread" if self._slow else "loop"
        return (
            f"<GroupCommit on={where} fsync={self.seconds * 1000:.2f}ms commits={self.commits} "
            f"transactions={self.transactions} gathered={len(self._gathered)}>"
        )

    @property
    def _slow(self) -> bool:
        return self.seconds >= self._threshold

    def moves(self) -> bool:
        """Whether something has ended since this was asked last, or nothing is under way."""
        before, self._worked = self._worked, self._works
        return not self._busy or self._works != before

    @property
    def stands(self) -> bool:
        """Has the disk not answered for so long that nobody can be promised anything?"""
        return self._busy and self.lasts > _STANDS_AFTER

    @property
    def lasts(self) -> float:
        """Seconds that what is under way has taken by now; 0 if nothing is."""
        return self._loop.time() - self._began if self._busy else 0.0

    def submit(self, transaction: Transaction, done: Done, *, at_once: bool = False) -> None:
        """Commit it soon. `done(None)` is called once it is on disk, `done(error)` if it never will be.

        The transaction must not be changed afterwards. Callbacks run on the loop, in order. `at_once`: nobody
        else will submit in this pass of the loop, so do not wait for its end; `done` may be called in here.
        """
        if self.failure is not None or self._closed:
            self._loop.call_soon(done, self.failure or StoreError(f"{self._store.path} is closed"))
            return
        self._gathered.append((transaction, done))
        if at_once:
            self._begin()
        else:
            self._schedule()

    async def commit(self, transaction: Transaction) -> None:
        """Return once the transaction is on disk; raise `StoreError` if it never will be."""
        future = self._loop.create_future()
        self.submit(transaction, lambda error: _settle(future, error))
        await future

    async def flush(self) -> None:
        """Return once everything handed over so far is committed or has failed."""
        while self._busy or self._gathered:
            future = self._loop.create_future()
            self._quiet.append(future)
            await future

    async def close(self) -> None:
        """Commit what was handed over and stop. The store stays open. Idempotent."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        await self.flush()
        self._thread.shutdown()

    def _schedule(self) -> None:
        if not self._busy and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        if self._busy or not self._gathered:
            return
        batch, self._gathered = self._gathered, []
        self._busy, self._began = True, self._loop.time()
        self._attempt(batch)

    def _attempt(self, batch: list[tuple[Transaction, Done]]) -> None:
        try:
            self._store.write(merge([transaction for transaction, _ in batch]))
            if self._use_thread():
                self._thread.call(self._loop, self._timed_commit, lambda _, error: self._end(batch, error))
                return
            self._timed_commit()
        except Exception as error:  # also a want of memory: what is written in part is never committed
            self._end(batch, error)
        else:
            self._end(batch, None)

    def _use_thread(self) -> bool:
        self._probing = False
        if not self._slow:
            return False
        self._turns += 1
        self._probing = self.seconds < self._threshold + _IN_DOUBT and self._turns % _PROBE_EVERY == 0
        return not self._probing

    def _timed_commit(self) -> None:
        began = self._clock()
        self._store.commit()
        self._learn(self._clock() - began)

    def _learn(self, taken: float) -> None:
        """Moving average; but one fast commit on the loop says more than many that waited for the lock."""
        self.durations.observe(taken)
        certain = self._probing and taken < self._threshold
        weight = 1.0 if certain or not self.commits else _WEIGHT
        self.seconds += weight * (taken - self.seconds)
        self.commits += 1

    def _end(self, batch: list[tuple[Transaction, Done]], error: BaseException | None) -> None:
        self._works += 1
        if isinstance(error, StoreFull) and not self._closed:
            self.lacks_space = True
            self._on_full(error)
            self._loop.call_later(0 if self._store.try_again() else _FULL_PAUSE, self._attempt, batch)
            return
        self._busy = self.lacks_space = False
        if error is not None:
            self._fail(batch, error)
            return
        self.transactions += len(batch)
        self._last = self._loop.time()
        self._report(batch, None)
        if self._gathered:
            self._schedule()
        else:
            self._rest()

    def _report(self, batch: list[tuple[Transaction, Done]], error: StoreError | None) -> None:
        """Call everybody; one caller's mistake does not keep the others waiting."""
        for _, done in batch:
            try:
                done(error)
            except Exception as mistake:
                self._loop.call_exception_handler(
                    {"message": "a callback after a commit raised", "exception": mistake}
                )

    def _fail(self, batch: list[tuple[Transaction, Done]], error: BaseException) -> None:
        failure = error if isinstance(error, StoreError) else StoreError(f"{self._store.path}: {error!r}")
        self.failure = failure
        waiting, self._gathered = self._gathered, []
        self._report(batch + waiting, failure)
        self._wake()
        if self._on_failure is not None:
            self._on_failure(failure)

    def _rest(self) -> None:
        self._wake()
        if self._idle_after and self._idle_timer is None and not self._closed:
            self._idle_timer = self._loop.call_later(self._idle_after, self._idle)

    def _wake(self) -> None:
        quiet, self._quiet = self._quiet, []
        for future in quiet:
            _settle(future, None)

    def _idle(self) -> None:
        """Tidy the store, a little at a time, once it has been idle long enough."""
        self._idle_timer = None
        if self._busy or self._gathered or self._closed or self.failure is not None:
            return
        idle = self._loop.time() - self._last
        if idle < self._idle_after:
            self._idle_timer = self._loop.call_later(self._idle_after - idle, self._idle)
            return
        self._busy, self._began = True, self._loop.time()
        try:
            if self._store.untidy():
                self._thread.call(self._loop, self._store.tidy, self._tidied)
                return
        except Exception as error:
            self._tidied(None, error)
        else:
            self._tidied(None, None)

    def _tidied(self, more: bool | None, error: BaseException | None) -> None:
        self._busy = False
        self._works += 1
        pause = self._idle_after / _TIDY_SHARE
        if isinstance(error, StoreFull):
            self._store.try_again()
            more, pause = True, _FULL_PAUSE
        elif error is not None:
            self._fail([], error)
            return
        if self._gathered:
            self._schedule()
        else:
            self._wake()
            if more and not self._closed:
                self._idle_timer = self._loop.call_later(pause, self._idle)


def _settle(future: "asyncio.Future[None]", error: StoreError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
