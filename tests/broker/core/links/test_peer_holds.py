"""What a neighbour asks to keep: bounded in number and bytes, shown a few at a time."""

from broker.core.links.peer_holds import MOST, MOST_BYTES, PeerHolds


def holds_of(*destinations: str) -> PeerHolds:
    holds = PeerHolds()
    for destination in destinations:
        holds.add(destination)
    return holds


def test_twenty_thousand_are_taken_and_no_more() -> None:
    holds = holds_of(*(f"queue:{number}" for number in range(MOST)))
    assert not holds.too_many
    holds.add("queue:0")
    assert not holds.too_many
    holds.add("queue:one-more")
    assert holds.too_many


def test_their_bytes_count_too_and_are_given_back() -> None:
    holds = holds_of(*(f"topic:{number}{'ü' * 2000}" for number in range(1000)))
    assert not holds.too_many
    long = f"topic:{'x' * (MOST_BYTES // 20)}"
    others = [f"{long}{number}" for number in range(10)]
    for other in others:
        holds.add(other)
    assert holds.too_many
    for other in others:
        holds.discard(other)
        holds.discard(other)
    assert not holds.too_many
    holds.clear()
    assert (len(holds), repr(holds)) == (0, "<PeerHolds 0 of 0 bytes>")


def test_a_few_are_shown_and_each_is_cut() -> None:
    holds = holds_of(*(f"queue:{number:05d}{'n' * 500}" for number in range(20_000)))
    assert len(holds.shown()) == 10
    assert all(len(shown) == 100 for shown in holds.shown())
    assert holds.text.startswith("queue:00000")
    assert holds.text.endswith("and 19997 more")
    assert len(holds.text) < 400
    assert holds_of("").text == "now"
    assert holds_of("queue:b", "queue:a").text == "queue:a, queue:b"
