"""What the log says of callers that are turned away."""

import pytest

from broker.log_throttle import LogThrottle


async def test_who_tries_again_and_again_is_mentioned_once_with_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complain = LogThrottle()
    for port in range(5000, 5010):
        complain(f"10.0.0.7:{port}", "no WebSocket")
        complain(f"10.0.0.8:{port}", "no secret", "bath")
    complain("10.0.0.9:5000", "garbage", "?")
    assert caplog.messages == [
        "! a child at 10.0.0.7:5000: no WebSocket",
        "! child bath at 10.0.0.8:5000: no secret",
        "! a child at 10.0.0.9:5000: garbage",
    ]
    assert repr(complain) == "<LogThrottle of 3 kinds>"


async def test_however_many_there_are_they_take_no_more_room(caplog: pytest.LogCaptureFixture) -> None:
    complain = LogThrottle()
    for number in range(2500):
        complain("10.0.0.7:1", f"reason {number}")
    assert repr(complain) == "<LogThrottle of 500 kinds>"
    assert len(caplog.messages) == 2500
