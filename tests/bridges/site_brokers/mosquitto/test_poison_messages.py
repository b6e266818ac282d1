"""Which message a broker ends its connections for; and what is our own echo."""

from bridges.site_brokers.mosquitto.loop_detection import OFTEN, LoopDetection, Rounds, digest
from bridges.site_brokers.mosquitto.poison_messages import PoisonMessages


def test_who_is_alone_three_times_is_guilty() -> None:
    suspects = PoisonMessages()
    suspects.lost([1, 2, 3])
    assert suspects.any
    suspects.cleared(1)
    for _ in range(3):
        assert not suspects.guilty(2)
        suspects.lost([2])
    assert suspects.guilty(2)
    assert not suspects.guilty(2)
    suspects.cleared(3)
    assert not suspects.any


def test_an_echo_is_known_once_and_what_is_retained_as_long_as_it_is() -> None:
    echoes = LoopDetection({})
    echoes.said("t", b"1")
    assert echoes.is_one("t", b"1", False)
    assert not echoes.is_one("t", b"1", False)
    echoes.retained("r", digest("r", b"9"))
    assert echoes.is_one("r", b"9", True)
    assert not echoes.is_one("r", b"9", False)
    assert not echoes.is_one("r", b"8", True)
    assert not echoes.is_one("r", b"9", True)
    assert echoes.count == 2


def test_memory_of_echoes_is_bounded() -> None:
    echoes = LoopDetection({})
    for number in range(20_000):
        echoes.said("t", str(number).encode())
    assert not echoes.is_one("t", b"1", False)
    assert echoes.is_one("t", b"19999", False)


def test_memory_of_what_the_broker_retains_is_bounded() -> None:
    echoes = LoopDetection({})
    for number in range(100_100):
        echoes.retained(f"t/{number}", digest(f"t/{number}", b"9"))
    assert echoes.is_one("t/100099", b"9", True)
    assert not echoes.is_one("t/0", b"9", True)


def test_the_same_message_again_and_again_is_told_once_a_minute() -> None:
    rounds = Rounds()
    once = [[rounds.given("t", b"1", at), rounds.given("t", b"%d" % at, at)] for at in range(OFTEN // 2)]
    assert not any(any(each) for each in once)
    assert sum(rounds.given("u", b"1", 61.0) for _ in range(3 * OFTEN)) == 1
    assert not any(rounds.given("u", b"1", 122.0) for _ in range(OFTEN - 1))
