"""Work that goes on beside other work: what this process does while Java starts, and several passes at once.

Law: a pass hangs on the log alone, so that several may be asked at once; Spark gives the one that was asked
later what the earlier ones leave of its cores. Tables are written by one thread, in one order.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

AT_ONCE: Final = 2
"""Passes. More would be planned at the same time, and fill Java's memory with their sums."""


def prepare() -> None:
    """Load what a report needs, and draw the chart of it that hangs on no log."""
    from audit import comparison

    comparison.reference()


@contextmanager
def work_beside() -> Iterator[ThreadPoolExecutor]:
    """While it lasts, work can be asked for.

    Wrinkle: after a failure nobody waits for what is under way; it ends with the session.
    """
    pool = ThreadPoolExecutor(AT_ONCE, "pass")
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
