import random

from sapwood.protocol.destinations import domain, queue, topic
from treeconnector.offers import DIGEST_BYTES, OfferStanding, Tally, digest_of, standing

OFFERS = [
    (queue("orders"), standing(True)),
    (queue("orders2"), standing(False)),
    (topic("orders"), standing(True)),
    (topic("prices/#"), standing(True)),
    (domain("store-1"), standing(True, 1)),
    (domain("store-2"), standing(False, 2)),
]


def test_nothing_offered_is_zero() -> None:
    assert Tally().digest == digest_of([]) == bytes(DIGEST_BYTES)


def test_the_digest_is_frozen() -> None:
    """Neighbours of different versions compare it."""
    assert digest_of(OFFERS).hex() == "e9752a1760a046bf7c0a7b538f980f7f"


def test_the_digest_depends_on_no_order_and_on_everything_else() -> None:
    shuffled = OFFERS[:]
    random.Random(3).shuffle(shuffled)
    assert digest_of(shuffled) == digest_of(OFFERS)
    changed = [
        [(queue("orders"), standing(False)), *OFFERS[1:]],
        [(topic("orders2"), standing(True)), *OFFERS[1:]],
        [*OFFERS[:4], (domain("store-1"), standing(True, 2)), OFFERS[5]],
        OFFERS[:-1],
    ]
    digests = {digest_of(offers) for offers in [OFFERS, *changed]}
    assert len(digests) == 1 + len(changed)


def test_adding_and_removing_is_as_if_it_had_never_been() -> None:
    tally = Tally()
    for key, offered in OFFERS:
        tally.add(key, offered)
    assert (tally.count, tally.domains) == (6, 2)
    tally.remove(*OFFERS[0])
    tally.remove(*OFFERS[4])
    assert (tally.count, tally.domains) == (4, 1)
    assert tally.digest == digest_of(OFFERS[1:4] + OFFERS[5:])
    assert repr(tally) == f"<Tally count=4 digest={tally.digest.hex()}>"


def test_standings_are_shared() -> None:
    assert standing(True, 1) is standing(True, 1)
    assert standing(False) == OfferStanding(live=False, reads=0)
