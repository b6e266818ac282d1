"""Work beside other work: threads that do not get into each other's way, nor wait for what failed."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from pyarrow import Table

from audit import beside, charts, comparison, queries


def test_after_a_failure_nobody_waits_for_what_is_under_way() -> None:
    ended, asked = threading.Event(), list[Future[bool]]()

    def fail() -> None:
        with beside.work_beside() as pool:
            asked.extend(pool.submit(ended.wait, 20) for _ in range(beside.AT_ONCE + 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not any(one.done() and not one.cancelled() for one in asked)
    assert asked[-1].cancelled(), "what had not begun does not begin any more"
    ended.set()
    assert all(one.result(20) for one in asked[:-1])


def test_tables_of_several_threads_may_have_one_name() -> None:
    def sums(number: int) -> set[int]:
        table = Table.from_pydict({"n": [number] * 100})
        text = "select sum(n) as n from given"
        return {queries.value(queries.query(text, given=table)) for _ in range(100)}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sums, range(8))) == [{100 * number} for number in range(8)]


def test_the_chart_that_hangs_on_no_log_is_drawn_before_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison._reference_chart.cache_clear()
    beside.prepare()
    monkeypatch.setattr(charts, "reference", lambda _: pytest.fail("drawn again"))
    assert "<svg" in comparison.reference()
