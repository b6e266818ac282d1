"""A token comes back as it was made; every typing error in it is told."""

import string

import msgspec
import pytest

from broker.enrolment.errors import TokenError
from broker.enrolment.tokens import Invitation, new_id, new_secret, read_token, write_token

INVITATION = Invitation(
    tree="acme",
    name="store-0042",
    role="leaf",
    parent="region-uk",
    ways=("wss://uk.example.com:7600/link", "srv://uk.example.com"),
    fingerprint=bytes(range(32)),
    id=new_id(),
    secret=new_secret(),
    ends=1_800_000_000,
)
TOKEN = write_token(INVITATION)


def test_it_comes_back_and_is_url_safe() -> None:
    assert read_token(TOKEN) == INVITATION
    assert set(TOKEN) <= set(string.ascii_letters + string.digits + "-_")
    assert TOKEN.startswith("sapwood1-")
    assert len(TOKEN) < 300


def test_white_space_does_not_count() -> None:
    broken = "\n".join(TOKEN[i : i + 60] for i in range(0, len(TOKEN), 60))
    assert read_token(f"  {broken} \r\n") == INVITATION


@pytest.mark.parametrize("place", range(len("sapwood1-"), len(TOKEN)))
def test_every_wrong_letter_is_told(place: int) -> None:
    for letter in "aB7-_=ß!":
        if letter != TOKEN[place]:
            with pytest.raises(TokenError, match="typing error, or a part of it is missing"):
                read_token(TOKEN[:place] + letter + TOKEN[place + 1 :])


@pytest.mark.parametrize("length", range(len("sapwood1-"), len(TOKEN)))
def test_every_missing_end_is_told(length: int) -> None:
    with pytest.raises(TokenError, match="typing error, or a part of it is missing"):
        read_token(TOKEN[:length])


@pytest.mark.parametrize(
    "text", ["", "sapwood", "sapwood-x", "join", "https://example.com", "sapwood1" + "x" * 9000]
)
def test_what_is_no_token_is_told(text: str) -> None:
    with pytest.raises(TokenError, match="this is no token: expected sapwood1-"):
        read_token(text)


def test_a_later_version_is_named() -> None:
    with pytest.raises(TokenError, match="the token is of version 2, this Sapwood reads version 1"):
        read_token(TOKEN.replace("sapwood1", "sapwood2"))


def test_a_sound_checksum_over_nonsense_is_told() -> None:
    for strange in ({}, [], ["acme"] * 9, 7):
        with pytest.raises(TokenError, match="something else than an invitation"):
            read_token(write_token(strange))  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["tree", "name", "parent"])
@pytest.mark.parametrize("text", ["hq\nbroker: {name: evil}\n#", "hq\x1b[2J", "../hq", "", "h" * 65])
def test_whoever_makes_a_token_writes_no_lines_of_the_configuration(field: str, text: str) -> None:
    with pytest.raises(TokenError, match="something else than an invitation"):
        read_token(write_token(msgspec.structs.replace(INVITATION, **{field: text})))


def test_a_repr_shows_no_secret() -> None:
    assert repr(INVITATION) == f"<Invitation {INVITATION.id.hex()} of store-0042 by region-uk>"
