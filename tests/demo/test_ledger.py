"""Counting: missing, duplicated and given again are three different things."""

import json

from broker.cli.demo.ledger import Account, Ledger
from broker.cli.demo.plan import Parcel


def parcel(identity: str, *receivers: str) -> Parcel:
    payload = json.dumps({"id": identity}).encode()
    return Parcel(identity, "hq", "queue:tills", payload, receivers or ("york",))


ONE, TWO = parcel("one"), parcel("two", "york", "bath")


def ledger() -> tuple[Ledger, Account]:
    made = Ledger({"all": [ONE, TWO]})
    return made, made.accounts[0]


def test_nothing_is_complete_before_it_is_sent() -> None:
    made, account = ledger()
    assert (account.unsent, account.missing, made.complete, made.all_arrived) == (2, 0, False, False)


def test_a_confirmed_message_is_missing_until_each_receiver_has_it() -> None:
    made, account = ledger()
    made.confirm(ONE)
    made.confirm(TWO)
    made.handle("york", "m1", ONE.payload)
    made.handle("york", "m2", TWO.payload)
    assert (account.delivered, account.missing, made.complete) == (2, 1, False)
    made.handle("bath", "m2", TWO.payload)
    assert (account.delivered, account.missing, made.complete) == (3, 0, True)


def test_the_same_message_given_again_is_no_duplicate() -> None:
    made, account = ledger()
    made.handle("york", "m1", ONE.payload)
    made.handle("york", "m1", ONE.payload)
    assert (account.again, account.duplicated) == (1, 0)


def test_the_same_content_under_another_message_id_is_a_duplicate() -> None:
    made, account = ledger()
    made.confirm(ONE)
    made.confirm(TWO)
    for message_id in ("m1", "m3"):
        made.handle("york", message_id, ONE.payload)
    made.handle("york", "m2", TWO.payload)
    made.handle("bath", "m2", TWO.payload)
    assert (account.duplicated, made.all_arrived, made.complete) == (1, True, False)


def test_a_message_at_the_wrong_receiver_does_not_make_up_for_a_lost_one() -> None:
    made, account = ledger()
    made.confirm(ONE)
    made.handle("bath", "m1", ONE.payload)
    assert account.missing == 1


def test_it_moves_with_every_message_that_is_taken_or_arrives() -> None:
    made, _ = ledger()
    seen = [made.moved]
    made.confirm(ONE)
    seen.append(made.moved)
    made.handle("york", "m1", ONE.payload)
    seen.append(made.moved)
    made.handle("york", "m1", ONE.payload)
    seen.append(made.moved)
    made.handle("york", "m1", b"nonsense")
    assert [*seen, made.moved] == [0, 1, 2, 3, 3]


def test_what_nobody_sent_is_strange() -> None:
    made, _ = ledger()
    for payload in (b"nonsense", b"{}", b'{"id": "three"}', b"[1]"):
        made.handle("york", "m9", payload)
    assert made.strange == 4
    assert repr(made) == "<Ledger delivered=0 strange=4>"
