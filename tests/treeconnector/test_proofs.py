"""Proofs of the link's secret: bound to both hellos and to one side."""

import hashlib
import hmac

import pytest

from treeconnector.proofs import Prover, Transcript, fault, make

TRANSCRIPT = Transcript(b"child's hello", b"parent's hello")
PROOF = make(b"secret", Prover.CHILD, TRANSCRIPT)


def test_a_proof_is_what_the_documentation_says():
    digest = hashlib.sha256((13).to_bytes(8, "big") + b"child's helloparent's hello").digest()
    expected = hmac.new(b"secret", b"sapwood link 1: the child proves\0" + digest, "sha256").digest()
    assert expected == PROOF


def test_the_right_proof_has_no_fault():
    assert fault(b"secret", PROOF, Prover.CHILD, TRANSCRIPT) == ""
    assert fault(None, b"", Prover.CHILD, TRANSCRIPT) == ""


@pytest.mark.parametrize(
    ("secret", "proof", "prover", "transcript"),
    [
        (b"other", PROOF, Prover.CHILD, TRANSCRIPT),
        (b"secret", PROOF, Prover.PARENT, TRANSCRIPT),
        (b"secret", PROOF, Prover.CHILD, Transcript(b"child's hello!", b"parent's hello")),
        (b"secret", PROOF, Prover.CHILD, Transcript(b"child's hello", b"parent's hello!")),
        (b"secret", PROOF, Prover.CHILD, Transcript(b"child's hellop", b"arent's hello")),
        (b"secret", PROOF, Prover.CHILD, Transcript(*reversed(TRANSCRIPT))),
        (b"secret", PROOF[:-1], Prover.CHILD, TRANSCRIPT),
        (b"secret", PROOF + b"\0", Prover.CHILD, TRANSCRIPT),
        (b"secret", b"\0" * 32, Prover.CHILD, TRANSCRIPT),
        (b"secret", b"", Prover.CHILD, TRANSCRIPT),
        (None, PROOF, Prover.CHILD, TRANSCRIPT),
    ],
)
def test_any_other_has(secret, proof, prover, transcript):
    assert fault(secret, proof, prover, transcript)


def test_sessions_differ_with_every_byte():
    others = [
        Transcript(b"child's hellO", b"parent's hello"),
        Transcript(b"child's hello", b"parent's hellO"),
        Transcript(b"child's hellop", b"arent's hello"),
    ]
    assert len({TRANSCRIPT.session, *(each.session for each in others)}) == 4
    assert 0 < TRANSCRIPT.session < 1 << 62
