"""A proof holds for one secret, one invitation and one request; what the parent keeps makes none."""

from broker.enrolment import proofs

SECRET, INVITATION, REQUEST = bytes(range(16)), b"8 bytes.", b"a request"
STORED = proofs.stored_of(SECRET)
PROOF = proofs.prove(SECRET, INVITATION, REQUEST)


def test_the_secret_proves_a_request() -> None:
    assert proofs.is_proven(PROOF, STORED, INVITATION, REQUEST)


def test_nothing_else_is_proved() -> None:
    assert not proofs.is_proven(PROOF, STORED, INVITATION, b"another request")
    assert not proofs.is_proven(PROOF, STORED, b"another.", REQUEST)
    assert not proofs.is_proven(PROOF, proofs.stored_of(b"another secret.."), INVITATION, REQUEST)
    assert not proofs.is_proven(b"", STORED, INVITATION, REQUEST)
    assert not proofs.is_proven(PROOF + b"x", STORED, INVITATION, REQUEST)


def test_who_reads_the_database_cannot_join() -> None:
    """What is kept, used in place of the secret or of the key made from it, proves nothing."""
    bound = proofs._bound(STORED, INVITATION, REQUEST)
    for forged in (proofs.prove(STORED, INVITATION, REQUEST), bound, proofs._xor(STORED, bound)):
        assert not proofs.is_proven(forged, STORED, INVITATION, REQUEST)


def test_a_renewal_is_signed_for_one_name_in_one_tree() -> None:
    texts = {
        proofs.renewal_text("acme", "york", REQUEST),
        proofs.renewal_text("acme", "bath", REQUEST),
        proofs.renewal_text("other", "york", REQUEST),
        proofs.renewal_text("acme", "york", b"another"),
    }
    assert len(texts) == 4
