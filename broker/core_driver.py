"""The node's short loop: a pure core, driven with a store, a clock and links.

Whatever comes in is told to the core at once; a *turn* takes what changed, commits it, and tells the core,
which lets go what waited for it. While a commit is under way the next turn gathers.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from broker.core.clients.switch import Switch
from broker.core.commit import CommitBatch
from broker.core.errors import SwitchError
from broker.core.node import NodeCore
from broker.core.rows import QueueRow
from broker.link_driver import LinkDriver
from broker.memory import OUT_OF_MEMORY, Watch
from broker.operator_log import OperatorLog
from broker.room import Room
from broker.shares import Shares
from broker.store import GroupCommit, Store
from sapwood.protocol.errors import SapwoodError, StoreError

_log = logging.getLogger("sapwood.node")
_LONGEST_SLEEP: Final = 1.0
_SHORTEST_SLEEP: Final = 0.002
_DRAIN: Final = 2.0
_HAND_OVER: Final = 5.0
_LAST_WORDS: Final = 0.3
_PATIENCE: Final = 0.02
_LOOK_EVERY: Final = 1.0


def vital(step: Callable[..., None]) -> Callable[..., None]:
    """A mistake of ours in the middle of a step leaves the core half changed: stop, for the disk is sound."""

    @wraps(step)
    def guarded(driver: "CoreDriver", *arguments: Any) -> None:
        try:
            step(driver, *arguments)
        except MemoryError:
            driver.memory.out()
        except StoreError as error:
            driver.fail(error)
        except Exception as mistake:
            _log.exception("! a step of node %s failed", driver.core.identity.name)
            driver.fail(
                SapwoodError(
                    f"a mistake in Sapwood ({mistake!r}): please report it. Nothing that was acknowledged is"
                    " lost: start the node again"
                )
            )

    return guarded


class CoreDriver:
    """Drives one core; a `Host` of all that lives beside it. `failure`: why it cannot go on.

    `now`: running time in seconds. It goes on over restarts, whatever the wall clock says.
    """

    def __init__(
        self, core: NodeCore, store: Store, now: Callable[[], float], room: Room, journal: OperatorLog
    ) -> None:
        self.core = core
        self.store = store
        self.now = now
        self.shares = Shares()
        self.buffers = room.buffers
        self.stopped = asyncio.Event()
        self.failure: SapwoodError | None = None
        self._room = room
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._scheduled = self._committing = False
        self._again = self._later = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._patient: asyncio.TimerHandle | None = None
        self._looked = 0.0
        self.memory = Watch(lambda: self.fail(SapwoodError(OUT_OF_MEMORY)))
        self.memory.listen(self._loop)
        self.committer = GroupCommit(store, on_failure=self.fail, on_full=self._full)
        self.wires = LinkDriver(self)
        self._look_at_room()
        self._commit_start()

    def __repr__(self) -> str:
        return f"<CoreDriver of {self.core.identity.name} links={len(self.wires)}>"

    def _commit_start(self) -> None:
        """What the start itself changes is on disk before anybody is spoken to; transfer ids are reserved."""
        turn = self.core.take()
        if turn is not None:
            self.store.apply(turn.transaction)
            self.core.committed(turn)

    @property
    def ready(self) -> bool:
        """Does it take messages, whichever way they go?"""
        return self.failure is None and not self.refusing

    @property
    def refusing(self) -> str:
        """Why it takes no messages; '' = it does."""
        return self.core.message_admission.closed or self.core.message_admission.refusing

    @property
    def switch(self) -> Switch:
        """The message switch, told what time it is."""
        self.core.advance(self.now())
        return self.core.switch

    # --- its life

    def begin(self) -> None:
        """From now on it runs."""
        self.wake()
        self._tick()

    async def drain(self, is_busy: Callable[[], bool]) -> None:
        """Give acknowledgements that are under way a moment."""
        await self._until(lambda: not (self._busy() or is_busy()), _DRAIN)

    async def hand_over(self, text: str, is_busy: Callable[[], bool]) -> None:
        """In a mesh: the children go to the others, and so does all that waits here for them."""
        if not any(peer.up for peer in self.core.context.peers()):
            return
        self.wires.pause(text, self.core.context.children())
        self.core.handover.leave()
        self.wake()
        await self._until(lambda: self.core.handover.is_done and not (self._busy() or is_busy()), _HAND_OVER)

    async def _until(self, holds: Callable[[], bool], seconds: float) -> None:
        end = self._loop.time() + seconds
        while self._loop.time() < end and not holds():
            await asyncio.sleep(0.01)

    def _busy(self) -> bool:
        unsaid = any(neighbour.will_say for neighbour in self.core.neighbours.values())
        return self._committing or self._scheduled or self.wires.unsent or unsaid

    async def end_tasks(self) -> None:
        """End what was spawned."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """The last commit. Whoever still speaks is not heard any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self.failure is None:
            self.core.admission.end()
            self._turn(True)
        await self.committer.close()

    def fail(self, error: SapwoodError) -> None:
        """It cannot go on, as when the store keeps nothing more: stop. Nothing that was promised is lost."""
        self.failure = error
        _log.error("! node %s stops: %s", self.core.identity.name, error)
        self.stopped.set()

    def _full(self, _error: SapwoodError) -> None:
        """Another program has filled the disk. Clients are refused from now on, not only at the next look."""
        admission = self.core.message_admission
        if not admission.closed:
            _log.warning(
                "! the disk is full: node %s takes nothing before there is space; if the disk has some, its"
                " quota is full",
                self.core.context.name,
            )
        admission.disk_room = 0

    def stop_soon(self) -> None:
        """Stop when what was said last is out."""
        self._loop.call_later(_LAST_WORDS, self.stopped.set)

    def spawn(self, work: Awaitable[Any]) -> "asyncio.Task[Any]":
        """Run this until it ends, or the node does."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            if isinstance(error, MemoryError):
                self.memory.out()
            _log.error("! %r", error, exc_info=error)

    # --- turns

    def wake(self) -> None:
        """Something was told to the core: take a turn soon, or after the commit that is under way."""
        self._again = True
        if not self._scheduled and not self._committing and self.failure is None:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def nudge(self) -> None:
        """The same, of what may wait for somebody whose work goes on: there will be a turn when that ends.

        Else acknowledgements that come between its slices would cut a commit of hundreds into one at each.
        """
        if self._committing:
            self._later = True
        elif not self.shares.under_way:
            self.wake()

    async def committed(self) -> None:
        """Return once everything that was done so far is on disk. Raises `SwitchError`: the node stopped."""
        future: asyncio.Future[None] = self._loop.create_future()
        self.core.switch.when_committed(lambda: None if future.done() else future.set_result(None))
        self.wake()
        stopped = asyncio.ensure_future(self.stopped.wait())
        try:
            await asyncio.wait((future, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if not future.done():
            raise SwitchError("the node stopped before that was on disk: look again when it runs")

    @vital
    def _turn(self, at_once: bool = False, /) -> None:
        """Commit what changed. What nobody waits for is committed with the next that somebody does."""
        self._scheduled = False
        if self._committing or self.failure is not None:
            self._again = True
            return
        self._again = self._later = False
        self.shares.looked_at()
        self.core.advance(self.now())
        if not (at_once or self.core.is_urgent()):
            self._flush()
            if self._patient is None and (self.core.context.touched or self.core.custody.transaction):
                self._patient = self._loop.call_later(_PATIENCE, self._lose_patience)
            return
        if self._patient is not None:
            self._patient.cancel()
            self._patient = None
        turn = self.core.take()
        if turn is None:
            self._flush()
            return
        if not turn.transaction:
            self.core.committed(turn)
            self._flush()
            self.wake()
            return
        self._committing = True
        self._flush()
        self.committer.submit(turn.transaction, lambda error: self._committed(turn, error), at_once=True)

    def _lose_patience(self) -> None:
        self._patient = None
        self._turn(True)

    @vital
    def _committed(self, turn: CommitBatch, error: StoreError | None) -> None:
        self._committing = False
        if error is not None:
            return
        self.core.advance(self.now())
        self.core.committed(turn)
        if queues := turn.transaction.changes[QueueRow]:
            self._journal.queues(queues)
        self._flush()
        if self._again:
            self.wake()
        elif self._later or turn.leads_on:
            self.nudge()

    def _flush(self) -> None:
        """Let everything out that may go, and see when the core wants to be woken next."""
        self.wires.flush()
        soon = self.core.soonest()
        if soon is not None and soon < self._timer_at - _SHORTEST_SLEEP:
            self._sleep_until(soon)

    # --- time

    def look_at(self, deadline: float | None) -> None:
        """Something is due at `deadline`, perhaps before what was known."""
        if deadline is not None and deadline < self._timer_at:
            self._sleep_until(deadline)

    def _sleep_until(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = min(max(at - self.now(), _SHORTEST_SLEEP), _LONGEST_SLEEP)
        self._timer_at = self.now() + delay
        self._timer = self._loop.call_later(delay, self._tick)

    @vital
    def _tick(self) -> None:
        if self.failure is not None:
            return
        now = self.now()
        self.core.advance(now)
        self.core.handle_timer()
        if now - self._looked >= _LOOK_EVERY:
            self._looked = now
            self._look_at_room()
            self._journal.look()
        self.nudge()
        self._sleep_until(self.core.next_deadline())

    def _look_at_room(self) -> None:
        admission = self.core.message_admission
        admission.disk_stands = self.committer.stands
        free = 0 if self.committer.lacks_space else self.store.disk_free()
        admission.disk_room, admission.memory_room = self._room.left(free, time.monotonic())
        if self.committer.lasts > _LOOK_EVERY:
            return  # a disk that does not answer the commit in its thread would hold the loop up, too
        if admission.disk_room > 0 and not self.store.lay_ballast():
            admission.disk_room = 0  # a quota: the disk's free bytes do not tell
