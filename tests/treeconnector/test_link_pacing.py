"""Keep-alive and throttling, by literal times."""

from treeconnector import frames
from treeconnector.link_events import Throttled
from treeconnector.pacing import KeepAlive, Pace


def test_asks_after_silence_and_gives_up_after_more():
    alive = KeepAlive(10, 5, 100)
    assert (alive.deadline, alive.must_ask(109.9), alive.must_ask(110)) == (110, False, True)
    alive.asked(110)
    assert (alive.deadline, alive.must_ask(110), alive.is_dead(114.9), alive.is_dead(115)) == (
        115,
        False,
        False,
        True,
    )
    alive.asked(114)
    assert alive.deadline == 115
    alive.heard(114.5)
    assert (alive.deadline, alive.is_dead(200)) == (124.5, False)
    assert repr(alive) == "<KeepAlive heard=114.5 asked=None>"


def test_a_second_ahead_is_free():
    pace = Pace(100, 0)
    assert pace.charge(100, 50) is None
    assert pace.charge(10, 50) == 50.1
    assert pace.charge(10, 50.2) is None


def test_a_pause_is_a_second_at_most_and_the_rest_is_forgiven():
    pace = Pace(100.0, 0)
    assert pace.charge(1_000_000, 50) == 51
    assert pace.charge(0, 51) is None
    assert repr(pace) == "<Pace 100.0/s used up until 52.0>"


def test_topics_that_are_asked_for_no_more_cost_as_those_that_are(links):
    pair = links.pair().up()
    for _ in range(50):
        pair.send("parent", frames.AskInterest([], [f"t/{number}" for number in range(500)]))
    assert pair.said("parent", Throttled)
