"""The log tells of refusals with their address, and is not filled by them."""

import logging

import pytest

from broker.entrance.complaints import Complaints


def test_one_address_and_reason_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    complain = Complaints(lambda: now[0])
    for _ in range(100):
        complain("192.0.2.7", "192.0.2.7:5000", "wrong")
    complain("192.0.2.8", "192.0.2.8:5000", "wrong")
    now[0] += 61
    complain("192.0.2.7", "192.0.2.7:5001", "wrong")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert "192.0.2.7:5000" in lines[0]
    assert "99 further" in lines[1]


def test_ten_thousand_addresses_fill_neither_log_nor_memory(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    complain = Complaints(lambda: 0.0)
    for number in range(10_000):
        complain(f"10.0.{number >> 8}.{number & 255}", "somewhere", "wrong")
    assert len(caplog.records) <= 62
    assert "of 61 kinds" in repr(complain)
