"""A session's token as it may be shown."""

from collections.abc import Iterator

import pytest

from broker.core.messages.queue_names import SITE
from broker.core.sessions import masking
from broker.core.sessions.masking import hide_with, masked


@pytest.fixture
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that was given no key yet."""
    monkeypatch.setattr(masking, "_keys", [])
    masked.cache_clear()
    yield
    masked.cache_clear()


@pytest.mark.usefixtures("_fresh")
def test_the_hash_of_a_token_needs_the_first_key_that_the_process_was_given() -> None:
    open_to_trials = masked("till-17-secret")
    hide_with(b"a key")
    hidden = masked("till-17-secret")
    hide_with(b"another")
    assert masked("till-17-secret") == hidden != open_to_trials
    assert hidden.startswith("till…")
    assert "secret" not in hidden
    assert masked("till-18-secret") != hidden


def test_the_site_brokers_session_has_no_token_to_hide() -> None:
    assert masked(SITE) == SITE[1:]
