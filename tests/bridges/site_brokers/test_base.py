"""What both bridges say of what they cannot take."""

import pytest

from bridges.site_brokers.base import NotTaken


def test_each_reason_is_said_once_and_a_bounded_number_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    found = NotTaken(2)
    for why in ("too long", "too long", "odd"):
        found.note("queue:a", why)
    assert found.reasons == {"queue:a": "odd"}
    found.is_over("queue:a")
    for name in ("queue:b", "queue:c", "queue:d"):
        found.note(name, "odd")
    assert list(found.reasons) == ["queue:b", "queue:c"]
    assert [record.getMessage().split(" is not")[0] for record in caplog.records] == [
        "! queue:a",
        "! queue:a",
        "! queue:b",
        "! queue:c",
    ]
