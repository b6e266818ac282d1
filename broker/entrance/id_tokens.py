"""Tokens that an issuer has signed (JWT): are they its own, for this node, of this time; and who has them.

Law: a token chooses among the issuer's keys and among `ALGORITHMS`, and nothing else: no key, address or
certificate that stands in it is looked at. A key fits its own algorithms only, and no other kind.
Law: nothing of a token that was refused is repeated to anybody.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from broker.entrance.operators import Asker, TokenRefused
from config.oidc import Oidc
from config.operators import ROLES

MAX_TOKEN: Final = 8 * 1024
MOST_KEYS: Final = 32
LEEWAY: Final = 30.0
"""Seconds that the issuer's clock and this one may differ."""
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS: Final = _RSA | frozenset(_CURVES.values())
_LEAST_BITS: Final = 2048
_MOST_BITS: Final = 8192
_LONGEST_SUBJECT: Final = 255
_NO_SUBJECT: Final = f"the token's claim 'sub' has no text of 1 to {_LONGEST_SUBJECT} characters"
_SHOWN: Final = 64
_LISTS_OF_WORDS: Final = ("scope", "scp")
"""Claims whose text is words with spaces between them; of all others a text is one value."""
_NEEDED: Final = ("exp", "iat", "iss", "aud", "sub")
_BROKEN: Final = (ValueError, TypeError, OverflowError, RecursionError)
"""Wrinkle: the library lets some of these through for numbers without end, or lists in lists."""

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class Key(NamedTuple):
    """Of an issuer. `kid`: its name there, '' = none."""

    kid: str
    algorithms: frozenset[str]
    public: PublicKey


class _Jwk(msgspec.Struct):
    """The public half of a key that may sign, as it is published."""

    kty: str
    kid: str = ""
    use: str = "sig"
    alg: str = ""
    n: str = ""
    e: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""


class _Jwks(msgspec.Struct):
    keys: list[msgspec.Raw]


def keys_of(document: bytes) -> tuple[Key, ...]:
    """Those that can be used, at most `MOST_KEYS`. Raises `ValueError` if that is no list of keys."""
    try:
        found = msgspec.json.decode(document, type=_Jwks).keys
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is no set of keys: {str(error)[:200]}") from None
    return tuple(key for each in found[:MOST_KEYS] if (key := _key(each)) is not None)


def _key(published: msgspec.Raw) -> Key | None:
    try:
        read = msgspec.json.decode(published, type=_Jwk)
        if read.use != "sig":
            return None
        numbers = {
            name: value for name in ("kty", "n", "e", "crv", "x", "y") if (value := getattr(read, name))
        }
        made: Any = RSAAlgorithm.from_jwk(numbers) if read.kty == "RSA" else ECAlgorithm.from_jwk(numbers)
    except (jwt.PyJWTError, msgspec.DecodeError, *_BROKEN):
        return None
    if isinstance(made, rsa.RSAPublicKey):
        fits = _RSA if _LEAST_BITS <= made.key_size <= _MOST_BITS else frozenset[str]()
    else:
        fits = frozenset({_CURVES[read.crv]}) if read.crv in _CURVES else frozenset()
    fits = fits & {read.alg} if read.alg else fits
    return Key(read.kid, fits, made) if fits else None


@dataclass(frozen=True, slots=True)
class Heading:
    """The words of a token on the key that signed it."""

    algorithm: str
    kid: str

    def key_of(self, keys: Iterable[Key]) -> Key | None:
        """Without a name only a key that is the only one of its kind."""
        fitting = [key for key in keys if self.algorithm in key.algorithms]
        named = [key for key in fitting if key.kid == self.kid] if self.kid else fitting
        return named[0] if (self.kid and named) or len(named) == 1 else None


def is_one(token: str) -> bool:
    """Does it look like one?"""
    return token.count(".") == 2 and token.startswith("ey")


def heading_of(token: str) -> Heading:
    """Raises `TokenRefused`."""
    if len(token) > MAX_TOKEN:
        raise TokenRefused(f"the token is longer than {MAX_TOKEN} bytes")
    if "." not in token:
        raise TokenRefused("this node does not know the token, and no issuer has signed it")
    try:
        found = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, *_BROKEN):
        raise TokenRefused("the token is damaged: copy it again, all of it") from None
    algorithm = found.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        expected = ", ".join(sorted(ALGORITHMS))
        raise TokenRefused(f"the token is signed by none of the algorithms {expected}")
    if "crit" in found:
        raise TokenRefused("the token asks for extensions that this node does not know")
    return Heading(algorithm, found.get("kid", ""))


def asker_of(token: str, key: Key, site: Oidc) -> Asker:
    """Whoever has the token, for as long as it is good. Raises `TokenRefused`."""
    claims = _claims(token, key, site)
    roles = {each.name: each.role for each in site.roles}
    found = [ROLES.index(roles[value]) for value in _values(claims, site.claim) if value in roles]
    if not found:
        raise TokenRefused(f"no value of the token's claim {site.claim!r} has a role at this node")
    return Asker(f"{_name(claims)} @ {site.issuer}", ROLES[max(found)], claims["exp"] + LEEWAY)


def _claims(token: str, key: Key, site: Oidc) -> dict[str, Any]:
    algorithm = heading_of(token).algorithm
    if algorithm not in key.algorithms:
        raise TokenRefused("the token's key is for other algorithms")
    try:
        claims = jwt.decode(
            token,
            key.public,
            algorithms=[algorithm],
            audience=site.audience,
            issuer=site.issuer,
            leeway=LEEWAY,
            options={"require": list(_NEEDED)},
        )
        claims["exp"] = float(claims["exp"])
    except jwt.PyJWTError as error:
        raise TokenRefused(_why(error)) from None
    except _BROKEN:
        raise TokenRefused("the token is damaged: copy it again, all of it") from None
    if not 0 < len(claims["sub"]) <= _LONGEST_SUBJECT:
        raise TokenRefused(_NO_SUBJECT)
    return claims


def _why(error: jwt.PyJWTError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "the token has ended: get a new one (or this machine's clock is fast)"
        case jwt.ImmatureSignatureError():
            return "the token is of a later time: is this machine's clock slow?"
        case jwt.InvalidAudienceError():
            return "the token is for another audience"
        case jwt.InvalidIssuerError():
            return "the token is of another issuer"
        case jwt.MissingRequiredClaimError():
            return f"the token lacks the claim {error.claim!r}: it needs {', '.join(_NEEDED)}"
        case jwt.exceptions.InvalidSubjectError():
            return _NO_SUBJECT
        case jwt.InvalidSignatureError():
            return "the token's signature is wrong"
    return "the token is damaged: copy it again, all of it"


def _values(claims: dict[str, Any], path: str) -> Iterator[str]:
    """Of the claim with this whole name, or else of the one to which the dots lead."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for word in path.split("."):
            found = found.get(word) if isinstance(found, dict) else None
    if isinstance(found, str):
        found = found.split() if path in _LISTS_OF_WORDS else [found]
    if isinstance(found, list):
        yield from (each for each in found if isinstance(each, str))


def _name(claims: dict[str, Any]) -> str:
    """The subject, which nobody else there has; before it the address, if the issuer has verified it."""
    subject, address = claims["sub"], claims.get("email")
    if claims.get("email_verified") is True and isinstance(address, str) and address:
        return f"{_clean(address)} ({_clean(subject)})"
    return _clean(subject)


def _clean(text: str) -> str:
    """No space, sign or letter by which a name could be taken for another one; ends are not lost silently."""
    shown = "".join(
        each if each.isascii() and (each.isalnum() or each in "-_.+@:|/") else "?" for each in text
    )
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
