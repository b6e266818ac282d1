"""Hashed passwords: what fits, what is no hash, and what is never shown."""

import pytest

from broker.entrance.passwords import LONGEST, PasswordError, hashed, of_nobody, read


def test_the_right_password_fits_and_no_other() -> None:
    text = hashed("correct horse")
    found = read(text, "password of account 'till'")
    assert found.is_of("correct horse")
    assert not any(map(found.is_of, ("", "correct horsE", "correct horse ", text, "x" * (LONGEST + 1))))
    assert hashed("correct horse") != text
    assert text.startswith("scrypt$16384$8$1$")
    assert not of_nobody().is_of("correct horse")


@pytest.mark.parametrize(
    "text",
    [
        "correct horse",
        "",
        "scrypt$16384$8$1$c2FsdHNhbHQ",
        "bcrypt$16384$8$1$c2FsdHNhbHQ$" + "A" * 43,
        "scrypt$16383$8$1$c2FsdHNhbHQ$" + "A" * 43,
        "scrypt$1073741824$8$1$c2FsdHNhbHQ$" + "A" * 43,
        "scrypt$16384$99999$1$c2FsdHNhbHQ$" + "A" * 43,
        "scrypt$16384$8$0$c2FsdHNhbHQ$" + "A" * 43,
        "scrypt$16384$8$-1$c2FsdHNhbHQ$" + "A" * 43,
        "scrypt$16384$8$1$!$" + "A" * 43,
        "scrypt$16384$8$1$c2FsdHNhbHQ$",
    ],
)
def test_what_is_no_hash_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(PasswordError) as refused:
        read(text, "password of account 'till'")
    assert "password of account 'till'" in str(refused.value)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize("password", ["", "short", "x" * (LONGEST + 1)])
def test_too_short_or_too_long_a_password_is_not_hashed(password: str) -> None:
    with pytest.raises(PasswordError):
        hashed(password)


def test_a_hash_shows_nothing_of_itself() -> None:
    found = read(hashed("correct horse"), "x")
    assert repr(found) == "<Hashed with scrypt 16384>"
