"""Tokens of an issuer: all that makes one good, and each way in which one is not."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from hypothesis import given
from hypothesis import strategies as st
from token_issuer import ISSUER, SITE, Signer, jwks

from broker.entrance.id_tokens import LEEWAY, MAX_TOKEN, MOST_KEYS, asker_of, heading_of, keys_of
from broker.entrance.operators import Asker, TokenRefused, new_token

RSA, EC, OTHER = Signer(), Signer("k2", "ES256"), Signer("k1")
KEYS = keys_of(jwks(RSA.jwk(), EC.jwk()))


def holder(token: str, keys: Any = KEYS, site: Any = SITE) -> Asker:
    key = heading_of(token).key_of(keys)
    if key is None:
        raise TokenRefused("no key")
    return asker_of(token, key, site)


def part(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def unsigned(header: Any, signature: str = "") -> str:
    claims = RSA.token().split(".")[1]
    return f"{part(header)}.{claims}.{signature}"


@pytest.mark.parametrize("signer", [RSA, EC])
def test_a_token_of_the_issuer_is_its_holder_s_with_the_highest_role_until_it_ends(signer: Signer) -> None:
    ends = int(time.time()) + 60
    found = holder(signer.token(groups=["x", "till-staff", "chain-admins", 7], exp=ends))
    assert found == Asker(f"248 @ {ISSUER}", "administrator", ends + LEEWAY)


def with_secret(key: bytes) -> str:
    """The public key taken for a secret that both know."""
    head = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{RSA.token().split('.')[1]}"
    return f"{head}.{part(hmac.digest(key, head.encode(), hashlib.sha256))}"


def altered() -> str:
    head, _, signature = RSA.token().split(".")
    return f"{head}.{RSA.token(groups=['chain-admins']).split('.')[1]}.{signature}"


NOW = time.time()
REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    "none": (lambda: unsigned({"alg": "none", "kid": "k1"}), "algorithms"),
    "None": (lambda: unsigned({"alg": "None", "kid": "k1"}), "algorithms"),
    "no algorithm": (lambda: unsigned({"kid": "k1"}), "algorithms"),
    "a list of algorithms": (lambda: unsigned({"alg": ["RS256"], "kid": "k1"}), "algorithms"),
    "a secret": (lambda: with_secret(json.dumps(RSA.jwk()).encode()), "algorithms"),
    "another algorithm than the key's": (lambda: unsigned({"alg": "ES256", "kid": "k1"}, "AA"), "no key"),
    "extensions": (lambda: unsigned({"alg": "RS256", "kid": "k1", "crit": ["x"], "x": 1}), "damaged"),
    "a payload apart": (lambda: unsigned({"alg": "RS256", "crit": ["b64"], "b64": True}), "extensions"),
    "no signature": (lambda: unsigned({"alg": "RS256", "kid": "k1"}), "signature"),
    "another key of that name": (lambda: OTHER.token(), "signature"),
    "altered claims": (altered, "signature"),
    "an unknown key": (lambda: Signer("k9").token(), "no key"),
    "a key in the token": (lambda: OTHER.token({"kid": "", "jwk": OTHER.jwk()}), "signature"),
    "its end": (lambda: RSA.token(exp=NOW - LEEWAY - 5), "has ended"),
    "no end": (lambda: RSA.token(exp=None), "lacks the claim 'exp'"),
    "an end that is none": (lambda: RSA.token(exp="soon"), "damaged"),
    "an end without end": (lambda: RSA.token(exp=float("inf")), "damaged"),
    "no beginning": (lambda: RSA.token(iat=None), "lacks"),
    "a beginning to come": (lambda: RSA.token(iat=NOW + 1000), "later time"),
    "not before": (lambda: RSA.token(nbf=NOW + 1000), "later time"),
    "another audience": (lambda: RSA.token(aud="sapwoods"), "audience"),
    "no audience": (lambda: RSA.token(aud=None), "lacks"),
    "other audiences": (lambda: RSA.token(aud=["account", "Sapwood"]), "audience"),
    "another issuer": (lambda: RSA.token(iss=ISSUER + "/"), "issuer"),
    "no issuer": (lambda: RSA.token(iss=None), "lacks"),
    "no subject": (lambda: RSA.token(sub=None), "lacks"),
    "a subject that is empty": (lambda: RSA.token(sub=""), "'sub'"),
    "a subject that is a number": (lambda: RSA.token(sub=248), "'sub'"),
    "a subject that is long": (lambda: RSA.token(sub="a" * 256), "'sub'"),
    "no group": (lambda: RSA.token(groups=None), "no value"),
    "groups without a role": (lambda: RSA.token(groups=["chain-operator", "operator", "chain"]), "no value"),
    "part of a group": (lambda: RSA.token(groups="all chain-admins"), "no value"),
    "groups that are an object": (lambda: RSA.token(groups={"chain-admins": True}), "no value"),
    "too long": (lambda: RSA.token(x="x" * MAX_TOKEN), "longer"),
    "lists in lists": (lambda: f"{part(b'[' * 4000)}.{part({})}.AA", "damaged"),
    "a header that is no object": (lambda: f"{part([])}.{part({})}.AA", "damaged"),
    "no JSON": (lambda: "eyJ.x.y", "damaged"),
    "an operator's token that was replaced": (new_token, "does not know the token"),
    "two parts": (lambda: "eyJ.x", "damaged"),
    "five parts": (lambda: "eyJ.x.y.z.a", "damaged"),
    "letters of no alphabet": (lambda: "ey\udcff.é.ÿ", "damaged"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_token_is_refused_for(case: str) -> None:
    make, why = REFUSED[case]
    with pytest.raises(TokenRefused, match=why):
        holder(make())


def test_a_claim_that_lists_never_ends_in_an_error_of_another_kind() -> None:
    token = RSA.token().split(".")
    head = f"{token[0]}.{part(b'[' * 4000)}"
    signed = RSA.private.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256())
    with pytest.raises(TokenRefused, match="damaged"):
        holder(f"{head}.{part(signed)}")


@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda data: f"{part(data)}.{part(data)}.AA"))
def test_whatever_comes_is_refused_in_words(token: str) -> None:
    with pytest.raises(TokenRefused):
        holder(token)


def test_clocks_may_differ_a_little() -> None:
    now = time.time()
    assert holder(RSA.token(exp=now - LEEWAY + 10, iat=now + LEEWAY - 10, nbf=now + LEEWAY - 10))


def test_one_of_several_audiences_is_enough() -> None:
    assert holder(RSA.token(aud=["account", "sapwood"]))


@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["chain-admins"]}}),
        ("https://example.com/roles", {"https://example.com/roles": ["chain-admins"]}),
        ("a.b", {"a.b": "chain-admins", "a": {"b": "till-staff"}}),
        ("scope", {"scope": "openid chain-admins"}),
    ],
)
def test_the_claim_may_lie_deeper_or_be_a_list_of_words(claim: str, claims: dict[str, Any]) -> None:
    assert holder(RSA.token(groups=None, **claims), site=replace(SITE, claim=claim)).role == "administrator"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "ada@example.com", "email_verified": True}, "ada@example.com (248)"),
        ({"email": "ada@example.com"}, "248"),
        ({"email": "ada@example.com", "email_verified": "true"}, "248"),
        ({"email": ["ada"], "email_verified": True}, "248"),
        ({"sub": "a @ https://x\n\u202eb"}, "a?@?https://x??b"),
        ({"sub": "a" * 255}, "a" * 63 + "…"),
    ],
)
def test_names_are_clean_and_an_address_counts_only_where_it_is_verified(
    claims: dict[str, Any], name: str
) -> None:
    assert holder(RSA.token(**claims)).name == f"{name} @ {ISSUER}"


def test_a_token_that_names_no_key_is_proven_by_the_only_one_of_its_kind() -> None:
    nameless = Signer("", "ES256")
    token = nameless.token()
    assert holder(token, keys_of(jwks(RSA.jwk(), nameless.jwk())))
    with pytest.raises(TokenRefused, match="no key"):
        holder(token, keys_of(jwks(EC.jwk(), nameless.jwk())))


@pytest.mark.parametrize(
    "key",
    [
        RSA.jwk(use="enc"),
        RSA.jwk(alg="RSA-OAEP"),
        RSA.jwk(kid=7),
        RSA.jwk(n="?"),
        Signer("weak", bits=1024).jwk(),
        EC.jwk(crv="P-999"),
        EC.jwk(x="AA"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "k1", "alg": "HS256"},
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        "text",
    ],
)
def test_a_key_that_cannot_be_used_is_passed_over_and_the_others_count(key: Any) -> None:
    assert [each.kid for each in keys_of(jwks(key, EC.jwk()))] == ["k2"]


def test_a_key_is_for_its_own_algorithm_where_it_names_one() -> None:
    (key,) = keys_of(jwks(RSA.jwk(alg="PS256")))
    assert key.algorithms == {"PS256"}


def test_keys_are_so_many_and_no_more() -> None:
    assert len(keys_of(jwks(*[EC.jwk(kid=str(each)) for each in range(100)]))) == MOST_KEYS


@pytest.mark.parametrize("document", [b"", b"[]", b'{"keys":{}}', b"[" * 100_000, b'{"keys":[' + b"[" * 9000])
def test_what_is_no_set_of_keys_is_said(document: bytes) -> None:
    with pytest.raises(ValueError, match="no set of keys"):
        keys_of(document)
